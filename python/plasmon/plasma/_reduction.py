"""How values are pickled that would not pickle well by themselves: tensors, times, slices."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa


def _restore_tensor(values: Any, dim_names: list[str]) -> Any:
    return pa.Tensor.from_numpy(values, dim_names or None)


def _restore_sparse(kind: str, parts: tuple[Any, ...], shape: Any, dim_names: list[str]) -> Any:
    sparse = getattr(pa, kind)
    if kind == "SparseCOOTensor":
        return sparse.from_numpy(*parts, shape, dim_names or None)
    return sparse.from_numpy(*parts, shape=shape, dim_names=dim_names or None)


def _restore_time_array(values: Any, dtype: Any) -> Any:
    return values.view(dtype)


def _restore_ipc(kind: str, stream: Any) -> Any:
    with pa.ipc.open_stream(stream) as reader:
        table = reader.read_all()
    if kind == "Table":
        return table
    if kind == "RecordBatch":
        (batch,) = table.to_batches() or [pa.RecordBatch.from_pylist([], schema=table.schema)]
        return batch
    column = table.column(0)
    return column if kind == "ChunkedArray" else pa.concat_arrays(column.chunks)


def _ipc(kind: str, table: Any) -> tuple[Any, tuple[str, Any]]:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return _restore_ipc, (kind, sink.getvalue())


def _reduce_arrow(value: Any) -> Any:
    """A small part of large buffers is stored by itself; what uses its buffers goes as it is."""
    # Padding and validity bitmaps make a little difference that does not count.
    if value.get_total_buffer_size() <= 2 * value.nbytes + 4096:
        return NotImplemented
    if isinstance(value, pa.Table):
        return _ipc("Table", value)
    if isinstance(value, pa.RecordBatch):
        return _ipc("RecordBatch", pa.Table.from_batches([value]))
    if isinstance(value, pa.ChunkedArray):
        return _ipc("ChunkedArray", pa.table({"": value}))
    return _ipc("Array", pa.table({"": pa.chunked_array([value])}))


def _reduce_tensor(value: Any) -> Any:
    return _restore_tensor, (value.to_numpy(), value.dim_names)


def _reduce_sparse(value: Any) -> Any:
    return _restore_sparse, (
        type(value).__name__,
        value.to_numpy(),
        value.shape,
        value.dim_names,
    )


def _reduce_numpy(value: Any) -> Any:
    # Times have no buffer of their own in Python, the numbers that they are have.
    if value.dtype.kind in "mM" and value.ndim and type(value).__name__ == "ndarray":
        return _restore_time_array, (value.view("i8"), value.dtype)
    return NotImplemented


def _reducers() -> Iterator[tuple[type, Callable[[Any], Any]]]:
    yield pa.Tensor, _reduce_tensor
    for name in ("SparseCOOTensor", "SparseCSRMatrix", "SparseCSCMatrix"):
        yield getattr(pa, name), _reduce_sparse
    for kind in (pa.Table, pa.RecordBatch, pa.ChunkedArray, pa.Array):
        yield kind, _reduce_arrow
    try:
        import numpy
    except ImportError:
        return
    yield numpy.ndarray, _reduce_numpy


_REDUCERS = tuple(_reducers())


def reduce_value(value: Any) -> Any:
    """What stands for a value in a pickle; NotImplemented for one that pickles well by itself."""
    for kind, reduce in _REDUCERS:
        if isinstance(value, kind):
            return reduce(value)
    return NotImplemented
