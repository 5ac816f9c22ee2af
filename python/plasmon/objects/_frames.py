"""Arrow and polars data inside of a value: complete Arrow streams in the heap."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable
from typing import Any

from plasmon import _native, _values
from plasmon.objects._errors import broken

ARROW = 22

_Encoded = tuple[Any, ...] | None


def _arrow(kind: int, *, column: bool = False) -> Callable[[Any], _Encoded]:
    def encode(value: Any) -> _Encoded:
        return _stream(value, kind, column=column)

    return encode


def _stream(value: Any, kind: int, *, column: bool = False, text: str = "") -> _Encoded:
    stream = _native._ArrowStream(value, column=column)
    return ARROW, struct.pack("<B", kind) + text.encode(), [stream]


def _encode_polars(value: Any) -> _Encoded:
    frame = hasattr(value, "columns")
    if any(_values._holds_objects(dtype) for dtype in (value.dtypes if frame else [value.dtype])):
        return None
    kind = _native.TABLE_POLARS_FRAME if frame else _native.TABLE_POLARS_SERIES
    return _stream(value, kind, column=not frame)


_ENCODERS: dict[tuple[str, str], Callable[[Any], _Encoded]] = {
    ("pyarrow", "Table"): _arrow(_native.TABLE_TABLE),
    ("pyarrow", "RecordBatch"): _arrow(_native.TABLE_RECORD_BATCH),
    ("pyarrow", "Array"): _arrow(_native.TABLE_ARRAY, column=True),
    ("pyarrow", "ChunkedArray"): _arrow(_native.TABLE_CHUNKED_ARRAY, column=True),
    ("polars", "DataFrame"): _encode_polars,
    ("polars", "Series"): _encode_polars,
}


def encoder(kind: type) -> Callable[[Any], _Encoded] | None:
    """What makes an extension of Arrow data of this type. Subclasses of frames are not frames."""
    library = kind.__module__.partition(".")[0]
    if library == "pyarrow":
        for base in kind.__mro__:
            found = _ENCODERS.get((library, base.__name__))
            if found is not None:
                return found
        return None
    return _ENCODERS.get((library, kind.__name__))


def decode(kind: int, text: str, memory: memoryview, *, check: bool) -> Any:
    """The data of a stream, on its memory.

    With ``check`` its writer is not trusted and may still write to the memory: the headers, offsets
    and texts in it are copied, checked and used, see ``plasmon_columns::Checks``.
    """
    polars = kind in {_native.TABLE_POLARS_FRAME, _native.TABLE_POLARS_SERIES}
    try:
        import pyarrow as pa
    except ImportError:
        if not polars:
            raise
        import polars as pl

        frame = pl.read_ipc_stream(io.BytesIO(memory))
        return frame.to_series(0) if kind == _native.TABLE_POLARS_SERIES else frame
    try:
        if check:
            capsule = _native.read_arrow(memory)
            table = pa.RecordBatchReader._import_from_c_capsule(capsule).read_all()
        else:
            table = pa.ipc.open_stream(pa.py_buffer(memory)).read_all()
        return _values.from_table(table, kind, text)
    except (pa.ArrowException, LookupError, OSError, TypeError, ValueError) as error:
        raise broken(f"Arrow data: {error}") from error
