"""Extensions: small values without a column of their own, section 6 of ``spec/objects.md``."""

from __future__ import annotations

import datetime as dt
import decimal
import pathlib
import pickle
import struct
import types
import uuid
import zoneinfo
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from plasmon._dtypes import is_described
from plasmon._library import library_of
from plasmon.objects import _cloudpickle, _format_types, _frames
from plasmon.objects._errors import broken, is_the_machines, refused
from plasmon.objects._names import find

if TYPE_CHECKING:
    from plasmon.objects._context import SerializationContext

COMPLEX, BYTEARRAY, LONG_BYTEARRAY = 1, 5, 6
DATE, DATETIME, TIME, TIMEDELTA, TZINFO, DECIMAL, UUID, PATH, SINGLETON = range(7, 16)
SCALAR, DTYPE, TYPE, GLOBAL, PICKLE, CLOUDPICKLE, ARROW = range(16, 23)

#: Longer bytearrays lie in the heap.
LONG_BYTES = 4096

#: The modes of the native context.
NEVER, STD, CLOUD = 0, 1, 2

_Encoded = tuple[Any, ...] | None
_EPOCH = dt.datetime(1970, 1, 1)
_MICROSECOND = dt.timedelta(microseconds=1)
_ORDINAL = dt.date(1970, 1, 1).toordinal()
_SINGLETONS = (Ellipsis, NotImplemented)
_PATHS = (type(pathlib.Path()), pathlib.PurePosixPath, pathlib.PureWindowsPath)


# Times


def _zone(zone: dt.tzinfo | None) -> bytes | None:
    """A zone's bytes; None for one of a class that is not known."""
    if zone is None:
        return b"\x00"
    if zone is dt.UTC:
        return b"\x01"
    if type(zone) is dt.timezone:
        offset, *name = zone.__getinitargs__()  # type: ignore[attr-defined]
        if name == [""]:
            # The format takes an empty name for none.
            return None
        return struct.pack("<Bq", 2, offset // _MICROSECOND) + (name[0].encode() if name else b"")
    if type(zone) is zoneinfo.ZoneInfo and zone.key is not None:
        return b"\x03" + zone.key.encode()
    return None


def _zone_of(data: bytes) -> dt.tzinfo | None:
    kind = data[0]
    if kind == 0:
        return None
    if kind == 1:
        return dt.UTC
    if kind == 2:
        offset = dt.timedelta(microseconds=struct.unpack_from("<q", data, 1)[0])
        name = data[9:].decode()
        return dt.timezone(offset, name) if name else dt.timezone(offset)
    if kind == 3:
        return zoneinfo.ZoneInfo(data[1:].decode())
    raise broken(f"a time zone of kind {kind}")


def _encode_date(value: dt.date) -> _Encoded:
    return DATE, struct.pack("<i", value.toordinal() - _ORDINAL)


def _encode_datetime(value: dt.datetime) -> _Encoded:
    zone = _zone(value.tzinfo)
    if zone is None:
        return None
    clock = (value.replace(tzinfo=None) - _EPOCH) // _MICROSECOND
    return DATETIME, struct.pack("<qB", clock, value.fold) + zone


def _encode_time(value: dt.time) -> _Encoded:
    zone = _zone(value.tzinfo)
    if zone is None:
        return None
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return TIME, struct.pack("<qB", seconds * 1_000_000 + value.microsecond, value.fold) + zone


def _decode_time(data: bytes) -> dt.time:
    clock, fold = struct.unpack_from("<qB", data)
    seconds, microsecond = divmod(clock, 1_000_000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    zone = _zone_of(data[9:])
    return dt.time(hour, minute, second, microsecond, tzinfo=zone, fold=fold)


def _decode_datetime(data: bytes) -> dt.datetime:
    clock, fold = struct.unpack_from("<qB", data)
    value = _EPOCH + dt.timedelta(microseconds=clock)
    return value.replace(tzinfo=_zone_of(data[9:]), fold=fold)


def _encode_timedelta(value: dt.timedelta) -> _Encoded:
    return TIMEDELTA, struct.pack("<iii", value.days, value.seconds, value.microseconds)


def _encode_tzinfo(value: dt.tzinfo) -> _Encoded:
    zone = _zone(value)
    return None if zone is None else (TZINFO, zone)


# Other small values


def _encode_bytearray(value: bytearray) -> _Encoded:
    if len(value) < LONG_BYTES:
        return BYTEARRAY, bytes(value)
    return LONG_BYTEARRAY, b"", [bytes(value)]


def _encode_complex(value: complex) -> _Encoded:
    return COMPLEX, struct.pack("<dd", value.real, value.imag)


def _encode_decimal(value: decimal.Decimal) -> _Encoded:
    return DECIMAL, str(value).encode()


def _encode_uuid(value: uuid.UUID) -> _Encoded:
    return (UUID, value.bytes) if value.is_safe is uuid.SafeUUID.unknown else None


def _encode_path(value: pathlib.PurePath) -> _Encoded:
    text = str(value).encode("utf-8", "surrogateescape")
    return PATH, bytes([_PATHS.index(type(value))]) + text


def _encode_singleton(value: Any) -> _Encoded:
    return SINGLETON, bytes([_SINGLETONS.index(value)])


def _encode_scalar(value: Any) -> _Encoded:
    if value.dtype.kind == "V" and not is_described(value.dtype):
        return None
    # NumPy gives four zeros for an empty str.
    return SCALAR, (value.dtype, value.tobytes()[: value.dtype.itemsize])


def _encode_dtype(value: Any) -> _Encoded:
    return (DTYPE, (value, b"")) if is_described(value) else None


# Types and functions


def _global_encoder(context: SerializationContext) -> Callable[[Any], _Encoded]:
    def encode(value: Any) -> _Encoded:
        if isinstance(value, _BOUND) and context.pickle != "never":
            owner = value.__self__
            if owner is not None and not isinstance(owner, types.ModuleType):
                # A method of an object, which is a part of the value like others.
                return None
        if context.pickle == "cloudpickle" and _cloudpickle.is_taken_apart(value):
            # What it refers to is a part of the value as well.
            return None
        if isinstance(value, type) and _format_types.DATA_TYPES.get(value.__name__) is value:
            return TYPE, value.__name__.encode()
        source, name, _, kind, pickled = context._named(value)
        if source == 2:
            return GLOBAL, name.encode()
        return kind, pickled

    return encode


#: By exact type.
_ENCODERS: dict[type, Callable[[Any], _Encoded]] = {
    bytearray: _encode_bytearray,
    complex: _encode_complex,
    dt.date: _encode_date,
    dt.datetime: _encode_datetime,
    dt.time: _encode_time,
    dt.timedelta: _encode_timedelta,
    dt.timezone: _encode_tzinfo,
    zoneinfo.ZoneInfo: _encode_tzinfo,
    decimal.Decimal: _encode_decimal,
    uuid.UUID: _encode_uuid,
    type(Ellipsis): _encode_singleton,
    type(NotImplemented): _encode_singleton,
    **dict.fromkeys(_PATHS, _encode_path),
}

_FUNCTIONS = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.ModuleType,
    types.CodeType,
    types.MethodWrapperType,
)
_BOUND = (types.BuiltinFunctionType, types.MethodWrapperType)


def encoder(kind: type, context: SerializationContext) -> Callable[[Any], _Encoded] | None:
    """The function that makes an extension of objects of this type, if there is one."""
    found = _ENCODERS.get(kind) or _frames.encoder(kind)
    if found is not None:
        return found
    if issubclass(kind, type) or kind in _FUNCTIONS:
        return _global_encoder(context)
    if library_of(kind) == "numpy":
        import numpy as np

        if issubclass(kind, np.dtype):
            return _encode_dtype
        if issubclass(kind, np.generic):
            return _encode_scalar
    return None


# Back


def _decode_scalar(dtype: Any, data: bytes) -> Any:
    import numpy as np

    # A record lies in its own memory, with what is between its fields.
    memory = bytearray(data) if dtype.kind == "V" else data
    return np.ndarray((), dtype, memory)[()] if dtype.itemsize else np.zeros((), dtype)[()]


def _decode_path(data: bytes) -> pathlib.PurePath:
    text = data[1:].decode("utf-8", "surrogateescape")
    # A Path of another platform cannot be made here; a pure one can.
    return _PATHS[data[0]](text)


def _decode_type(data: bytes) -> type:
    found = _format_types.DATA_TYPES.get(data.decode())
    if found is None:
        raise broken(f"there is no data type {data!r}")
    return found


_DECODERS: dict[int, Callable[..., Any]] = {
    DATE: lambda data: dt.date.fromordinal(struct.unpack("<i", data)[0] + _ORDINAL),
    DATETIME: _decode_datetime,
    TIME: _decode_time,
    TIMEDELTA: lambda data: dt.timedelta(*struct.unpack("<iii", data)),
    TZINFO: _zone_of,
    DECIMAL: lambda data: decimal.Decimal(data.decode()),
    UUID: lambda data: uuid.UUID(bytes=data),
    PATH: _decode_path,
    SINGLETON: lambda data: _SINGLETONS[data[0]],
    SCALAR: _decode_scalar,
    TYPE: _decode_type,
}


def decode(kind: int, parts: tuple[Any, ...], context: SerializationContext, mode: int) -> Any:
    """The value of an extension. ``mode`` selects the pickles that may be read.

    What CPython's own types refuse, such as a decimal number of no digits, breaks the object.
    """
    decoder = _DECODERS.get(kind)
    if decoder is not None:
        try:
            return decoder(*parts)
        except Exception as error:
            if is_the_machines(error):
                raise
            raise broken(f"an extension of kind {kind}: {error}") from error
    if kind == ARROW:
        return _frames.decode(*parts, check=mode == NEVER)
    if kind == GLOBAL:
        name = parts[0].decode()
        if mode < STD:
            raise refused(name, "an unknown place")
        return find(name)
    if kind in {PICKLE, CLOUDPICKLE}:
        if mode < (STD if kind == PICKLE else CLOUD):
            raise refused("a pickle", "an unknown place")
        return pickle.loads(parts[0], buffers=parts[1])
    raise broken(f"an extension of the unknown kind {kind}")
