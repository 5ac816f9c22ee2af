"""From values to objects and back: how each kind of ``_value_kinds`` is written and read.

Bytes and plain NumPy arrays never come here on their hot paths; see ``python/src/put.rs``. The
layouts are in ``docs/formats/values.md``. No library is imported that the value, or the caller, did
not bring along.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from plasmon import _arrow_notes, _native
from plasmon._arrow_forms import for_polars, numpy_of, pandas_of
from plasmon._dtypes import describe_dtype, dtype_of
from plasmon._errors import Corrupt, PlasmonError, Unsupported
from plasmon._pandas_tables import checked_table, frame_of_table, table_of_frame
from plasmon._value_kinds import Kind, is_arrow, is_pandas, kind_of

if TYPE_CHECKING:
    from plasmon._native import Buffer, ObjectId, _Put


def encode(value: Any, sink: _Put, form: Any = None) -> ObjectId:
    """Puts a value as what it is, or as ``form`` if that is given."""
    if form is not None:
        return _encode_form(value, sink, form)
    return _ENCODERS[kind_of(value)](value, sink)


def _encode_form(value: Any, sink: _Put, form: Any) -> ObjectId:
    """Puts a value as Arrow data, also where it will be another one when it is read."""
    if form != "arrow":
        raise ValueError(f'as_ is "arrow" or left out, found {form!r}')
    if is_pandas(value):
        _needs_pyarrow(value)
        return _put_pandas(value, _table_of(value, checked_table), sink)
    kind = kind_of(value)
    if not is_arrow(value, kind):
        raise TypeError(f'only frames and Arrow data can be put as_="arrow", not a {_name(value)}')
    return _ENCODERS[kind](value, sink)


def _encode_raw(value: Any, sink: _Put) -> ObjectId:
    return sink.raw(value)


def _encode_memory(value: Any, sink: _Put) -> ObjectId:
    return sink.memory(memoryview(value))


def _encode_object(value: Any, sink: _Put) -> ObjectId:
    return sink.python(value)


def _encode_object_or_memory(value: Any, sink: _Put) -> ObjectId:
    from plasmon.objects._errors import NotSerializable

    try:
        return sink.python(value)
    except NotSerializable:
        # A value that cannot come back as what it is, such as a mapped file, but lends its memory.
        try:
            view = memoryview(value)
        except TypeError:
            view = None
        if view is None:
            raise
        return sink.memory(view)


def _name(value: Any) -> str:
    kind = type(value)
    return f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")


# NumPy


def _encode_numpy(value: Any, sink: _Put) -> ObjectId:
    import numpy as np

    text = describe_dtype(value.dtype)
    shape = list(value.shape)
    plain = value.view(np.ndarray)
    for order in ("C", "F"):
        if plain.flags[f"{order}_CONTIGUOUS"]:
            flat = plain.reshape(-1, order="A").view(np.uint8) if value.nbytes else b""
            return sink.array(flat, _native.ARRAY_NUMPY, order, shape, text)
    with sink.array_writer(value.nbytes, _native.ARRAY_NUMPY, shape, text) as writer:
        # As bytes: what lies between the fields of records belongs to them.
        whole = plain.view(f"V{value.itemsize}") if value.dtype.names else plain
        np.ndarray(value.shape, whole.dtype, writer.data)[...] = whole
    return writer.id


# Arrow, pandas, polars


def _arrow(kind: int, *, column: bool = False) -> Callable[[Any, _Put], ObjectId]:
    def encoder(value: Any, sink: _Put) -> ObjectId:
        _arrow_notes.check_arrow_names(value)
        try:
            return sink.arrow(value, kind, column=column)
        except (PlasmonError, ValueError):
            noted = _arrow_notes.take_metadata(value)
            if noted is None:
                raise
            return sink.arrow(noted[0], kind, column=column, text=noted[1])

    return encoder


def _encode_arrow_buffer(value: Any, sink: _Put) -> ObjectId:
    return sink.array(value, _native.ARRAY_ARROW_BUFFER, "C", [value.size], "|u1")


def _encode_arrow_tensor(value: Any, sink: _Put) -> ObjectId:
    import numpy as np

    if any(value.dim_names):
        raise TypeError("cannot keep the names of a tensor's dimensions: put it without them")
    array = value.to_numpy()
    order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
    if not (array.flags.c_contiguous or array.flags.f_contiguous):
        array = np.ascontiguousarray(array)
    flat = array.reshape(-1, order="A").view(np.uint8) if array.nbytes else b""
    kind = _native.ARRAY_ARROW_TENSOR
    return sink.array(flat, kind, order, list(array.shape), describe_dtype(array.dtype))


def _needs_pyarrow(value: Any) -> None:
    try:
        import pyarrow  # noqa: F401
    except ImportError as missing:
        text = f"putting a {_name(value)} as Arrow data needs pyarrow"
        raise TypeError(f"{text}: pip install 'plasmon[pandas]'") from missing


def _encode_pandas(value: Any, sink: _Put) -> ObjectId:
    """A frame or a series as a table, or as a Python object if there is no such table."""
    import pyarrow as pa

    try:
        table = _table_of(value, table_of_frame)
    except (pa.ArrowException, TypeError, ValueError):
        # Arrow has no place for it, such as strings with surrogates.
        return sink.python(value)
    return _put_pandas(value, table, sink)


def _table_of(value: Any, table_of: Callable[[Any], Any]) -> Any:
    if hasattr(value, "columns"):
        return table_of(value)
    return table_of(value.to_frame("values" if value.name is None else value.name))


def _put_pandas(value: Any, table: Any, sink: _Put) -> ObjectId:
    if hasattr(value, "columns"):
        return sink.arrow(table, _native.TABLE_PANDAS_FRAME)
    # A frame's columns may have any name, None too; the text keeps that apart from "None".
    text = "unnamed" if value.name is None else "named"
    return sink.arrow(table, _native.TABLE_PANDAS_SERIES, text=text)


def _encode_polars(value: Any, sink: _Put) -> ObjectId:
    frame = hasattr(value, "columns")
    value, text = _arrow_notes.take_polars(value)
    kind = _native.TABLE_POLARS_FRAME if frame else _native.TABLE_POLARS_SERIES
    return sink.arrow(value, kind, column=not frame, text=text)


def _refuse_lazy(value: Any, _sink: _Put) -> ObjectId:
    raise _arrow_notes.refuse_lazy(value)


_ENCODERS: dict[Kind, Callable[[Any, _Put], ObjectId]] = {
    Kind.RAW: _encode_raw,
    Kind.MEMORY: _encode_memory,
    Kind.ARRAY: _encode_numpy,
    Kind.ARROW_BUFFER: _encode_arrow_buffer,
    Kind.ARROW_TENSOR: _encode_arrow_tensor,
    Kind.TABLE: _arrow(_native.TABLE_TABLE),
    Kind.RECORD_BATCH: _arrow(_native.TABLE_RECORD_BATCH),
    Kind.ARROW_ARRAY: _arrow(_native.TABLE_ARRAY, column=True),
    Kind.CHUNKED_ARRAY: _arrow(_native.TABLE_CHUNKED_ARRAY, column=True),
    Kind.PANDAS: _encode_pandas,
    Kind.POLARS: _encode_polars,
    Kind.LAZY: _refuse_lazy,
    Kind.STREAM: lambda value, sink: sink.arrow(value, _native.TABLE_TABLE),
    Kind.COLUMN: lambda value, sink: sink.arrow(value, _native.TABLE_ARRAY, column=True),
    Kind.OBJECT: _encode_object,
    Kind.OBJECT_OR_MEMORY: _encode_object_or_memory,
}


# Back


def decode(buffer: Buffer, wanted: str | None) -> Any:
    """The value in an object, as it was put or in the form ``wanted``."""
    if wanted is not None and wanted not in _CONVERSIONS:
        names = ", ".join(f'"{name}"' for name in _CONVERSIONS)
        raise ValueError(f'as_ is one of {names}, not "{wanted}"')
    if wanted == "bytes":
        return bytes(buffer)
    if wanted == "memoryview":
        return buffer.data
    if buffer.tag == _native.TAG_NDARRAY:
        return _decode_array(buffer, wanted)
    if buffer.tag in {_native.TAG_ARROW_STREAM, _native.TAG_COMPOSITE}:
        return _decode_table(buffer, wanted)
    if buffer.tag == _native.TAG_RAW:
        return _decode_raw(buffer, wanted)
    text = f"object {buffer.id} holds {_KINDS.get(buffer.tag, 'a value of an unknown kind')}"
    raise Unsupported(f"{text}, which this version cannot read: use get_buffer()", buffer.id)


_KINDS = {_native.TAG_PYTHON: "a Python object"}


def _corrupt(buffer: Buffer, detail: str) -> Corrupt:
    return Corrupt(f"reading object {buffer.id}: {detail}", buffer.id)


def _unfit(buffer: Buffer, what: str, wanted: str) -> TypeError:
    return TypeError(f'object {buffer.id} holds {what}, which cannot be read as "{wanted}"')


def _decode_raw(buffer: Buffer, wanted: str | None) -> Any:
    if wanted == "numpy":
        import numpy as np

        return np.frombuffer(buffer.data, np.uint8)
    if wanted == "arrow":
        import pyarrow as pa

        return pa.py_buffer(buffer)
    raise _unfit(buffer, "bytes", wanted or "")


def _decode_array(buffer: Buffer, wanted: str | None) -> Any:
    header = buffer.header
    if header is None:
        raise _corrupt(buffer, "its tag says that it is an array, and it has no value header")
    kind, order, shape, text = header
    if kind == _native.ARRAY_MEMORYVIEW and wanted is None:
        return _decode_view(buffer, shape, text)
    if kind == _native.ARRAY_ARROW_BUFFER and wanted is None:
        import pyarrow as pa

        return pa.py_buffer(buffer)
    array = _array(buffer, kind, order, shape, text)
    if wanted in {None, "numpy"}:
        return _tensor(array) if kind == _native.ARRAY_ARROW_TENSOR and wanted is None else array
    if wanted == "arrow":
        import pyarrow as pa

        return pa.array(array, from_pandas=False) if array.ndim == 1 else _tensor(array)
    if wanted == "pandas" and array.ndim in {1, 2}:
        import pandas as pd

        return pd.Series(array, copy=False) if array.ndim == 1 else pd.DataFrame(array, copy=False)
    if wanted == "polars" and array.ndim in {1, 2}:
        import polars as pl

        return pl.Series(array) if array.ndim == 1 else pl.DataFrame(array)
    raise _unfit(buffer, f"an array of {array.ndim} dimensions", wanted or "")


def _array(buffer: Buffer, kind: int, order: str, shape: list[int], text: str) -> Any:
    """An array whose memory is counted in the buffer."""
    import numpy as np

    try:
        # A memoryview has the buffer protocol's format, a letter of its own.
        dtype = np.dtype(text) if kind == _native.ARRAY_MEMORYVIEW else dtype_of(text)
    except (TypeError, ValueError) as bad:
        raise _corrupt(buffer, f"its element type is broken: {bad}") from bad
    if math.prod(shape) * dtype.itemsize != len(buffer):
        raise _corrupt(buffer, "its size does not fit its shape")
    fortran = order == "F"
    if not len(buffer):
        return np.zeros(shape, dtype, "F" if fortran else "C")
    flat: Any = np.frombuffer(buffer.data, np.uint8)
    return flat.view(dtype).reshape(shape, order="F" if fortran else "C")


def _tensor(array: Any) -> Any:
    import pyarrow as pa

    return pa.Tensor.from_numpy(array)


# The types of memoryview.cast know only a format that is written down in the source.
_cast: Any = memoryview.cast


def _decode_view(buffer: Buffer, shape: list[int], text: str) -> memoryview:
    try:
        # Without elements a view can only have one dimension.
        view: memoryview = _cast(buffer.data, text, *((shape,) if len(buffer) else ()))
        return view
    except (TypeError, ValueError) as bad:
        raise _corrupt(buffer, f"its format or its shape is broken: {bad}") from bad


def _decode_table(buffer: Buffer, wanted: str | None) -> Any:
    header = buffer.header
    kind, text = (header[0], header[3]) if header else (_native.TABLE_TABLE, "")
    decoder = _CONVERSIONS[wanted] if wanted is not None else _DECODERS.get(kind)
    if decoder is None:
        raise Unsupported(f"object {buffer.id} holds a table of an unknown kind {kind}", buffer.id)
    return decoder(buffer, kind, text)


def _table(buffer: Buffer) -> Any:
    """A pyarrow table on the object's memory."""
    try:
        import pyarrow as pa
    except ImportError as missing:
        text = f'reading object {buffer.id} needs pyarrow, or get(..., as_="polars") with polars'
        raise ImportError(text) from missing
    if not buffer.trusted or buffer.tag == _native.TAG_COMPOSITE:
        # A stream in parts; or one of others, of which every offset is checked first.
        return pa.table(buffer)
    try:
        return pa.ipc.open_stream(pa.py_buffer(buffer)).read_all()
    except (pa.ArrowInvalid, OSError) as bad:
        raise _corrupt(buffer, f"its Arrow stream is broken: {bad}") from bad


def _columnar(kind: int) -> bool:
    return kind in {
        _native.TABLE_ARRAY,
        _native.TABLE_CHUNKED_ARRAY,
        _native.TABLE_POLARS_SERIES,
    }


def from_table(table: Any, kind: int, text: str) -> Any:
    """The original type of a table."""
    if kind in {_native.TABLE_PANDAS_FRAME, _native.TABLE_PANDAS_SERIES}:
        return _pandas_of_table(table, kind, text)
    if kind in {_native.TABLE_POLARS_FRAME, _native.TABLE_POLARS_SERIES}:
        import polars as pl

        frame: Any = pl.from_arrow(table, rechunk=False)
        # polars has its own names for columns without one.
        frame.columns = table.column_names
        made = frame.to_series(0) if kind == _native.TABLE_POLARS_SERIES else frame
        return _arrow_notes.give_polars(made, text)
    if not _native.TABLE_TABLE <= kind <= _native.TABLE_CHUNKED_ARRAY:
        raise ValueError(f"there is no table of kind {kind}")
    return _arrow_of_table(_arrow_notes.give_metadata(table, text), kind)


def _as_arrow(buffer: Buffer, kind: int, text: str) -> Any:
    table = _table(buffer)
    if text and kind in {_native.TABLE_TABLE, _native.TABLE_RECORD_BATCH}:
        try:
            table = _arrow_notes.give_metadata(table, text)
        except (AttributeError, LookupError, TypeError, ValueError) as bad:
            raise _corrupt(buffer, f"its notes are broken: {bad}") from bad
    return _arrow_of_table(table, kind)


def _arrow_of_table(table: Any, kind: int) -> Any:
    if kind == _native.TABLE_RECORD_BATCH:
        batches = table.to_batches()
        if not batches:
            import pyarrow as pa

            return pa.RecordBatch.from_pylist([], schema=table.schema)
        return batches[0]
    if kind == _native.TABLE_ARRAY:
        return table.column(0).chunk(0)
    return table.column(0) if _columnar(kind) else table


def _as_pandas(buffer: Buffer, kind: int, text: str) -> Any:
    found = _as_arrow(buffer, kind, text)
    if _columnar(kind):
        return pandas_of(found, f"object {buffer.id}")
    if kind == _native.TABLE_RECORD_BATCH:
        import pyarrow as pa

        found = pa.Table.from_batches([found])
    return _pandas_of_table(found, kind, text)


def _pandas_of_table(table: Any, kind: int, text: str) -> Any:
    frame = frame_of_table(table)
    if kind != _native.TABLE_PANDAS_SERIES:
        return frame
    series = frame.iloc[:, 0]
    return series.rename(None) if text == "unnamed" else series


def _as_polars(buffer: Buffer, kind: int, text: str) -> Any:
    try:
        import polars as pl
    except ImportError as missing:
        raise ImportError(f"reading object {buffer.id} needs polars") from missing
    frame = pl.DataFrame(for_polars(buffer))
    found = frame.to_series(0) if _columnar(kind) else frame
    if not text or kind not in {_native.TABLE_POLARS_FRAME, _native.TABLE_POLARS_SERIES}:
        return found
    try:
        return _arrow_notes.give_polars(found, text)
    except Exception as bad:
        raise _corrupt(buffer, f"its notes are broken: {bad}") from bad


def _as_numpy(buffer: Buffer, kind: int, text: str) -> Any:
    found = _as_arrow(buffer, kind, text)
    if _columnar(kind):
        combined = found.combine_chunks() if hasattr(found, "combine_chunks") else found
        return numpy_of(combined, f"object {buffer.id}")
    if kind == _native.TABLE_PANDAS_SERIES:
        return _as_pandas(buffer, kind, text).to_numpy()
    named = zip(found.column_names, found.columns, strict=True)
    return {
        name: numpy_of(column, f"the column {name!r} of object {buffer.id}")
        for name, column in named
    }


def convert(buffer: Buffer, value: Any, wanted: str) -> Any:
    """A Python object as another form, such as a frame as an Arrow table: a new one, converted."""
    name = _name(value)
    if wanted == "numpy" and hasattr(value, "__array__"):
        return value.__array__()
    if name.startswith("pandas.") and wanted in {"pandas", "arrow", "polars"}:
        if wanted == "pandas":
            return value
        if hasattr(value, "index"):
            return _converted(buffer, value, wanted)
    raise _unfit(buffer, f"a {name}", wanted)


def _converted(buffer: Buffer, value: Any, wanted: str) -> Any:
    frame = value if hasattr(value, "columns") else value.to_frame("values")
    table = checked_table(frame)
    if wanted == "arrow":
        return table if frame is value else table.column(0)
    try:
        import polars as pl
    except ImportError as missing:
        raise ImportError(f"reading object {buffer.id} needs polars") from missing
    found: Any = pl.from_arrow(table)
    return found if frame is value else found.to_series(0)


_Decoder = Callable[["Buffer", int, str], Any]
_CONVERSIONS: dict[str, _Decoder] = {
    "arrow": _as_arrow,
    "pandas": _as_pandas,
    "polars": _as_polars,
    "numpy": _as_numpy,
    "bytes": _as_arrow,
    "memoryview": _as_arrow,
}
_DECODERS: dict[int, _Decoder] = {
    _native.TABLE_TABLE: _as_arrow,
    _native.TABLE_RECORD_BATCH: _as_arrow,
    _native.TABLE_ARRAY: _as_arrow,
    _native.TABLE_CHUNKED_ARRAY: _as_arrow,
    _native.TABLE_PANDAS_FRAME: _as_pandas,
    _native.TABLE_PANDAS_SERIES: _as_pandas,
    _native.TABLE_POLARS_FRAME: _as_polars,
    _native.TABLE_POLARS_SERIES: _as_polars,
}
