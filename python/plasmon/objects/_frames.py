"""Arrow and polars data inside of a value: complete Arrow streams in the heap."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable
from typing import Any

from plasmon import _arrow_notes, _codecs, _native
from plasmon._library import library_of
from plasmon._value_kinds import Kind, kind_of_base, kind_of_class
from plasmon.objects._errors import broken, is_the_machines

ARROW = 22

_Encoded = tuple[Any, ...] | None


def _arrow(kind: int, *, column: bool = False) -> Callable[[Any], _Encoded]:
    def encode(value: Any) -> _Encoded:
        _arrow_notes.check_arrow_names(value)
        try:
            return _stream(value, kind, column=column)
        except ValueError:
            noted = _arrow_notes.take_metadata(value)
            if noted is None:
                raise
            return _stream(noted[0], kind, column=column, text=noted[1])

    return encode


def _stream(value: Any, kind: int, *, column: bool = False, text: str = "") -> _Encoded:
    stream = _native._ArrowStream(value, column=column)
    return ARROW, struct.pack("<B", kind) + text.encode(), [stream]


def _encode_polars(value: Any) -> _Encoded:
    frame = hasattr(value, "columns")
    value, text = _arrow_notes.take_polars(value)
    kind = _native.TABLE_POLARS_FRAME if frame else _native.TABLE_POLARS_SERIES
    return _stream(value, kind, column=not frame, text=text)


def _refuse_lazy(value: Any) -> _Encoded:
    raise _arrow_notes.refuse_lazy(value)


_ENCODERS: dict[Kind | None, Callable[[Any], _Encoded]] = {
    Kind.TABLE: _arrow(_native.TABLE_TABLE),
    Kind.RECORD_BATCH: _arrow(_native.TABLE_RECORD_BATCH),
    Kind.ARROW_ARRAY: _arrow(_native.TABLE_ARRAY, column=True),
    Kind.CHUNKED_ARRAY: _arrow(_native.TABLE_CHUNKED_ARRAY, column=True),
    Kind.POLARS: _encode_polars,
    Kind.LAZY: _refuse_lazy,
}


def encoder(kind: type) -> Callable[[Any], _Encoded] | None:
    """The maker of an extension of Arrow data of this type. Subclasses are not frames."""
    find = kind_of_base if library_of(kind) == "pyarrow" else kind_of_class
    return _ENCODERS.get(find(kind))


def decode(kind: int, text: str, memory: memoryview, *, check: bool) -> Any:
    """The data of a stream, on its memory.

    With ``check`` its writer is not trusted and may still write to the memory: the headers, offsets
    and strings in it are copied, checked and used, see ``plasmon_columns::Checks``.
    """
    try:
        return _decode(kind, text, memory, check=check)
    except BaseException as error:
        # polars panics with something that is not an Exception.
        if not isinstance(error, Exception) and not _arrow_notes.is_panic(error):
            raise
        if is_the_machines(error):
            raise
        raise broken(f"Arrow data: {error}") from error


def _decode(kind: int, text: str, memory: memoryview, *, check: bool) -> Any:
    polars = kind in {_native.TABLE_POLARS_FRAME, _native.TABLE_POLARS_SERIES}
    try:
        import pyarrow as pa
    except ImportError:
        if not polars:
            raise
        import polars as pl

        frame = pl.read_ipc_stream(io.BytesIO(memory))
        made = frame.to_series(0) if kind == _native.TABLE_POLARS_SERIES else frame
        return _arrow_notes.give_polars(made, text)
    if check:
        capsule = _native.read_arrow(memory)
        table = pa.RecordBatchReader._import_from_c_capsule(capsule).read_all()
    else:
        table = pa.ipc.open_stream(pa.py_buffer(memory)).read_all()
    return _codecs.from_table(table, kind, text)
