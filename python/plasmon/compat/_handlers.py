"""The types of `pyarrow.serialize` beyond Python's own, and how each kind of object is stored.

Two sorts. *Arrow's own* objects that the PLO format has no place for (buffers, tensors, sparse
tensors) are known to every context. Other libraries' objects are known to contexts that they were
*registered* with, as it always was; the default context has them all but PyTorch's.

Each handler is a pair: an object becomes a value that can be stored, mostly a tuple with arrays,
and the value becomes the object again, on the memory of those arrays.
"""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from plasmon.compat._context import SerializationContext


class Handler(NamedTuple):
    """How objects of a class are stored and made again."""

    take: Callable[[Any], Any]
    make: Callable[[Any], Any]


def the_same(value: Any) -> Any:
    """A handler for what stands for itself."""
    return value


# Arrow's own


def _take_buffer(buffer: pa.Buffer) -> Any:
    return np.frombuffer(buffer, np.uint8) if buffer.size else np.empty(0, np.uint8)


def _take_tensor(tensor: pa.Tensor) -> Any:
    return tensor.to_numpy(), list(tensor.dim_names)


def _make_tensor(state: Any) -> pa.Tensor:
    array, names = state
    return pa.Tensor.from_numpy(array, names or None)


def _take_sparse(tensor: Any) -> Any:
    return tensor.to_numpy(), tuple(tensor.shape), list(tensor.dim_names)


def _sparse_maker(kind: Any) -> Callable[[Any], Any]:
    def make(state: Any) -> Any:
        arrays, shape, names = state
        return kind.from_numpy(*arrays, shape=shape, dim_names=names or None)

    return make


def _axis_order(tensor: pa.SparseCSFTensor, arrays: Any) -> tuple[int, ...]:
    """The order of a tensor's axes, which Arrow keeps and compares, but does not expose."""
    shape = tuple(tensor.shape)
    names = list(tensor.dim_names) or None
    for order in itertools.permutations(range(len(shape))):
        if tensor.equals(pa.SparseCSFTensor.from_numpy(*arrays, shape, order, names)):
            return order
    raise pa.ArrowInvalid("cannot serialize a sparse tensor with NaN values")


def _take_csf(tensor: pa.SparseCSFTensor) -> Any:
    arrays = tensor.to_numpy()
    return arrays, tuple(tensor.shape), _axis_order(tensor, arrays), list(tensor.dim_names)


def _make_csf(state: Any) -> pa.SparseCSFTensor:
    arrays, shape, order, names = state
    return pa.SparseCSFTensor.from_numpy(*arrays, shape, order, names or None)


def _take_stream(table: Any) -> Any:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write(table)
    return _take_buffer(sink.getvalue())


def _make_table(state: Any) -> pa.Table:
    return pa.ipc.open_stream(pa.py_buffer(state)).read_all()


def _make_batch(state: Any) -> pa.RecordBatch:
    return pa.ipc.open_stream(pa.py_buffer(state)).read_next_batch()


#: By the names that bytes hold.
ARROW: dict[str, tuple[type, Handler]] = {
    "pyarrow.Buffer": (pa.Buffer, Handler(_take_buffer, pa.py_buffer)),
    "pyarrow.Tensor": (pa.Tensor, Handler(_take_tensor, _make_tensor)),
    "pyarrow.SparseCSFTensor": (pa.SparseCSFTensor, Handler(_take_csf, _make_csf)),
    **{
        f"pyarrow.{kind.__name__}": (kind, Handler(_take_sparse, _sparse_maker(kind)))
        for kind in (pa.SparseCOOTensor, pa.SparseCSRMatrix, pa.SparseCSCMatrix)
    },
    "pyarrow.Table": (pa.Table, Handler(_take_stream, _make_table)),
    "pyarrow.RecordBatch": (pa.RecordBatch, Handler(_take_stream, _make_batch)),
    "pyarrow.Array": (
        pa.Array,
        Handler(
            lambda array: _take_stream(pa.record_batch([array], [""])),
            lambda state: _make_batch(state).column(0),
        ),
    ),
    "pyarrow.ChunkedArray": (
        pa.ChunkedArray,
        Handler(
            lambda array: _take_stream(pa.table({"": array})),
            lambda state: _make_table(state).column(0),
        ),
    ),
}

# From version 14 on Arrow's tables are written by the core, straight to where they go.
_BY_THE_CORE = (pa.Table, pa.RecordBatch, pa.Array, pa.ChunkedArray)
_HAS_CAPSULES = hasattr(pa.Table, "__arrow_c_stream__")


def arrow_name(kind: type) -> str | None:
    """Under which name of :data:`ARROW` objects of a class are stored."""
    for name, (base, _) in ARROW.items():
        if issubclass(kind, base) and not (_HAS_CAPSULES and base in _BY_THE_CORE):
            return name
    return None


# Other libraries'


def _take_pickle(value: Any) -> Any:
    """A pickle with the arrays beside it."""
    buffers: list[pickle.PickleBuffer] = []
    data = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    return data, [np.frombuffer(buffer.raw(), np.uint8) for buffer in buffers]


def _make_pickle(state: Any) -> Any:
    data, buffers = state
    return pickle.loads(data, buffers=buffers)


def _take_coo(matrix: Any) -> Any:
    return matrix.data, matrix.row, matrix.col, tuple(matrix.shape)


def _take_compressed(matrix: Any) -> Any:
    return matrix.data, matrix.indices, matrix.indptr, tuple(matrix.shape)


def _register(context: SerializationContext, kind: Any, type_id: str, handler: Handler) -> None:
    context.register_type(
        kind, type_id, custom_serializer=handler.take, custom_deserializer=handler.make
    )


def register_pandas(context: SerializationContext) -> None:
    """Frames, series, indexes and arrays of pandas, as pickles with the data beside them."""
    try:
        import pandas as pd
    except ImportError:
        return
    pickled = Handler(_take_pickle, _make_pickle)
    for kind in (pd.DataFrame, pd.Series, pd.Index):
        _register(context, kind, f"pd.{kind.__name__}", pickled)
    _register(context, pd.api.extensions.ExtensionArray, "pd.core.arrays.ExtensionArray", pickled)


def register_scipy(context: SerializationContext) -> None:
    """Sparse matrices of SciPy in the formats coo, csr and csc."""
    try:
        from scipy import sparse
    except ImportError:
        return

    def compressed(kind: Any) -> Handler:
        def make(state: Any) -> Any:
            *arrays, shape = state
            return kind(tuple(arrays), shape=shape)

        return Handler(_take_compressed, make)

    def make_coo(state: Any) -> Any:
        data, row, column, shape = state
        return sparse.coo_matrix((data, (row, column)), shape=shape)

    _register(
        context, sparse.coo_matrix, "scipy.sparse.coo.coo_matrix", Handler(_take_coo, make_coo)
    )
    for name in ("csr", "csc"):
        kind = getattr(sparse, f"{name}_matrix")
        _register(context, kind, f"scipy.sparse.{name}.{name}_matrix", compressed(kind))


def register_pydata_sparse(context: SerializationContext) -> None:
    """Sparse arrays of the package sparse, in the format COO."""
    try:
        import sparse
    except ImportError:
        return

    def take(array: Any) -> Any:
        return array.data, array.coords, tuple(array.shape), array.fill_value

    def make(state: Any) -> Any:
        data, coords, shape, fill_value = state
        return sparse.COO(coords, data, shape=shape, fill_value=fill_value)

    _register(context, sparse.COO, "sparse.COO", Handler(take, make))


def register_torch(context: SerializationContext) -> None:
    """Tensors of PyTorch in the processor's memory, dense and sparse (COO)."""
    try:
        import torch
    except ImportError:
        return
    from plasmon.torch import make_tensor, take_tensor

    def take(tensor: Any) -> Any:
        make, parts = take_tensor(tensor)[:2]
        if make is not make_tensor:
            raise NotImplementedError(f"Serialization of a tensor like {tensor!r:.80}")
        return parts

    handler = Handler(take, lambda parts: make_tensor(*parts))
    _register(context, torch.Tensor, "torch.Tensor", handler)
