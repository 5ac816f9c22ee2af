"""From values to objects and back: which encoding a value has.

Bytes and plain NumPy arrays never come here on their hot paths; see ``python/src/put.rs``. The
layouts are in ``docs/formats/values.md``. No library is imported that the value, or the caller, did
not bring along.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from plasmon import _native
from plasmon._errors import Corrupt, Unsupported
from plasmon._pandas_tables import frame_of_table, table_of_frame

if TYPE_CHECKING:
    from plasmon._native import Buffer, ObjectId, _Put


def encode(value: Any, sink: _Put) -> ObjectId:
    """Puts a value that is neither bytes nor a plain array."""
    for base in type(value).__mro__:
        library = base.__module__.partition(".")[0]
        encoder = _ENCODERS.get((library, base.__name__))
        if encoder is not None:
            return encoder(value, sink)
    if hasattr(value, "__arrow_c_stream__"):
        return sink.arrow(value, _native.TABLE_TABLE)
    if hasattr(value, "__arrow_c_array__") and not isinstance(value, _native.Buffer):
        return sink.arrow(value, _native.TABLE_ARRAY, column=True)
    if isinstance(value, bytes | _native.Buffer):
        return sink.raw(value)
    if isinstance(value, bytearray):
        # Raw bytes come back as bytes.
        return sink.python(value)
    return _encode_other(value, sink)


def _encode_other(value: Any, sink: _Put) -> ObjectId:
    """Memory that is lent stays memory; whatever is left is a Python object."""
    if type(value).__module__ != "array":
        try:
            view = memoryview(value)
        except TypeError:
            pass
        else:
            return _encode_view(view, sink)
    return sink.python(value)


def _name(value: Any) -> str:
    kind = type(value)
    return f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")


def _encode_view(view: memoryview, sink: _Put) -> ObjectId:
    text = view.format.removeprefix("@")
    if len(text) != 1 or text not in "bBhHiIlLqQnNefd?c":
        raise TypeError(
            f"cannot put a buffer with the format {view.format!r}, which would not come back as it "
            "is: put an array or its bytes"
        )
    data = view if view.c_contiguous else view.tobytes()
    shape = list(view.shape or ())
    return sink.array(data, _native.ARRAY_MEMORYVIEW, "C", shape, text)


def _encode_python(value: Any, sink: _Put) -> ObjectId:
    return sink.python(value)


# NumPy


def describe_dtype(dtype: Any) -> str:
    """The text of an element type; see ``docs/formats/values.md``."""
    import numpy as np

    if dtype.hasobject or dtype.kind == "T":
        hint = 'convert strings with astype("U"), or put a pyarrow or pandas object'
        raise TypeError(f"cannot describe elements of {dtype}: {hint}")
    descr = np.lib.format.dtype_to_descr(dtype) if dtype.names is not None else dtype.str
    text = descr if isinstance(descr, str) else json.dumps(descr)
    if dtype_of(text) != dtype:
        raise TypeError(f"cannot put an array of {dtype}: view it as a type that NumPy itself has")
    return text


def dtype_of(text: str) -> Any:
    """The element type of a text, which may be anybody's."""
    import numpy as np

    descr: Any = _descr(json.loads(text)) if text[:1] == "[" else text
    dtype = np.lib.format.descr_to_dtype(descr)
    if dtype.hasobject:
        raise ValueError(f"an array of {dtype} cannot be stored")
    return dtype


def _descr(found: Any) -> Any:
    """What JSON made of a ``descr``, with tuples again where NumPy wants them."""
    if isinstance(found, str):
        return found
    if len(found) == 2 and isinstance(found[1], list) and all(type(n) is int for n in found[1]):
        return _descr(found[0]), tuple(found[1])
    fields = []
    for name, kind, *shape in found:
        title = tuple(name) if isinstance(name, list) else name
        fields.append((title, _descr(kind), *(tuple(extents) for extents in shape)))
    return fields


def _encode_numpy(value: Any, sink: _Put) -> ObjectId:
    import numpy as np

    if type(value) not in {np.ndarray, np.memmap} or value.dtype.hasobject:
        return sink.python(value)
    if value.dtype.kind == "T" or _is_foreign(value.dtype):
        return sink.python(value)
    text = describe_dtype(value.dtype)
    shape = list(value.shape)
    plain = value.view(np.ndarray)
    for order in ("C", "F"):
        if plain.flags[f"{order}_CONTIGUOUS"]:
            flat = plain.reshape(-1, order="A").view(np.uint8) if value.nbytes else b""
            return sink.array(flat, _native.ARRAY_NUMPY, order, shape, text)
    with sink.array_writer(value.nbytes, _native.ARRAY_NUMPY, shape, text) as writer:
        np.ndarray(value.shape, value.dtype, writer.data)[...] = plain
    return writer.id


def _is_foreign(dtype: Any) -> bool:
    """Whether an element type has no text."""
    try:
        describe_dtype(dtype)
    except TypeError:
        return True
    return False


# Arrow, pandas, polars


def _arrow(kind: int, *, column: bool = False) -> Callable[[Any, _Put], ObjectId]:
    def encoder(value: Any, sink: _Put) -> ObjectId:
        return sink.arrow(value, kind, column=column)

    return encoder


def _encode_arrow_buffer(value: Any, sink: _Put) -> ObjectId:
    return sink.array(value, _native.ARRAY_ARROW_BUFFER, "C", [value.size], "|u1")


def _encode_arrow_tensor(value: Any, sink: _Put) -> ObjectId:
    import numpy as np

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
        text = f"putting a {_name(value)} needs pyarrow: pip install 'plasmon[pandas]'"
        raise TypeError(text) from missing


def _encode_frame(value: Any, sink: _Put) -> ObjectId:
    if value.attrs:
        # Arrow's table would lose them.
        return sink.python(value)
    _needs_pyarrow(value)
    try:
        table = table_of_frame(value)
    except (TypeError, ValueError):
        # Arrow has no place for it: a column of mixed objects, complex numbers.
        return sink.python(value)
    return sink.arrow(table, _native.TABLE_PANDAS_FRAME)


def _encode_series(value: Any, sink: _Put) -> ObjectId:
    if value.attrs:
        return sink.python(value)
    _needs_pyarrow(value)
    # A frame's columns may have any name, None too; the text keeps that apart from "None".
    text = "unnamed" if value.name is None else "named"
    frame = value.to_frame("values" if value.name is None else value.name)
    try:
        table = table_of_frame(frame)
    except (TypeError, ValueError):
        return sink.python(value)
    return sink.arrow(table, _native.TABLE_PANDAS_SERIES, text=text)


def _holds_objects(dtype: Any) -> bool:
    """Whether a polars type holds Python objects, which polars would export as bare addresses."""
    import polars as pl

    if dtype == pl.Object:
        return True
    if dtype == pl.Struct:
        return any(_holds_objects(field.dtype) for field in dtype.fields)
    inner = getattr(dtype, "inner", None)
    return inner is not None and _holds_objects(inner)


def _encode_polars(value: Any, sink: _Put) -> ObjectId:
    frame = hasattr(value, "columns")
    if any(_holds_objects(dtype) for dtype in (value.dtypes if frame else [value.dtype])):
        return sink.python(value)
    kind = _native.TABLE_POLARS_FRAME if frame else _native.TABLE_POLARS_SERIES
    return sink.arrow(value, kind, column=not frame)


_ENCODERS: dict[tuple[str, str], Callable[[Any, _Put], ObjectId]] = {
    ("numpy", "ndarray"): _encode_numpy,
    ("numpy", "generic"): _encode_python,
    ("pyarrow", "Table"): _arrow(_native.TABLE_TABLE),
    ("pyarrow", "RecordBatch"): _arrow(_native.TABLE_RECORD_BATCH),
    ("pyarrow", "Array"): _arrow(_native.TABLE_ARRAY, column=True),
    ("pyarrow", "ChunkedArray"): _arrow(_native.TABLE_CHUNKED_ARRAY, column=True),
    ("pyarrow", "Buffer"): _encode_arrow_buffer,
    ("pyarrow", "Tensor"): _encode_arrow_tensor,
    ("pandas", "DataFrame"): _encode_frame,
    ("pandas", "Series"): _encode_series,
    ("polars", "DataFrame"): _encode_polars,
    ("polars", "Series"): _encode_polars,
}


# Back


def decode(buffer: Buffer, wanted: str | None) -> Any:
    """The value in an object, as it went in or as ``wanted`` says."""
    if wanted is not None and wanted not in _CONVERSIONS:
        names = ", ".join(f'"{name}"' for name in _CONVERSIONS)
        raise ValueError(f'a value can be had as {names}, not as "{wanted}"')
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
        raise _corrupt(buffer, "it is said to hold an array and has no value header")
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
    """What a table was before it was stored."""
    if kind in {_native.TABLE_PANDAS_FRAME, _native.TABLE_PANDAS_SERIES}:
        return _pandas_of_table(table, kind, text)
    if kind in {_native.TABLE_POLARS_FRAME, _native.TABLE_POLARS_SERIES}:
        import polars as pl

        frame: Any = pl.from_arrow(table, rechunk=False)
        return frame.to_series(0) if kind == _native.TABLE_POLARS_SERIES else frame
    if not _native.TABLE_TABLE <= kind <= _native.TABLE_CHUNKED_ARRAY:
        raise ValueError(f"there is no table of kind {kind}")
    return _arrow_of_table(table, kind)


def _as_arrow(buffer: Buffer, kind: int, _text: str) -> Any:
    return _arrow_of_table(_table(buffer), kind)


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
        return found.to_pandas()
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


def _as_polars(buffer: Buffer, kind: int, _text: str) -> Any:
    try:
        import polars as pl
    except ImportError as missing:
        raise ImportError(f"reading object {buffer.id} needs polars") from missing
    frame = pl.DataFrame(buffer)
    return frame.to_series(0) if _columnar(kind) else frame


def _as_numpy(buffer: Buffer, kind: int, text: str) -> Any:
    found = _as_arrow(buffer, kind, text)
    if _columnar(kind):
        combined = found.combine_chunks() if hasattr(found, "combine_chunks") else found
        return combined.to_numpy(zero_copy_only=False)
    if kind == _native.TABLE_PANDAS_SERIES:
        return _as_pandas(buffer, kind, text).to_numpy()
    return {name: found.column(name).to_numpy() for name in found.column_names}


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
