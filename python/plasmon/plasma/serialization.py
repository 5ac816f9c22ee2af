"""Python values as the bytes of an object, for :meth:`PlasmaClient.put` and `get`.

Arrow removed `pyarrow.serialize` together with Plasma. What is here takes its place and has its
names. A value is pickled (protocol 5), its large parts lie beside the pickle, each at a multiple of
64 bytes, and are read in place: NumPy arrays, Arrow arrays and tables, the columns of data frames::

    8 bytes "PLPICKL1" | u64 count | count x (u64 offset, u64 bytes) | pickle | part | part ...

The offsets are from the start of the object, which itself is at a multiple of 64 bytes in memory.

Reading a value runs what its writer wrote, as with any pickle: a store is for processes that
trust each other. Bytes that are no such value raise an error.
"""

from __future__ import annotations

import importlib
import io
import pickle
import struct
import warnings
from collections.abc import Callable, Iterable
from typing import Any, BinaryIO

import pyarrow as pa

from plasmon.compat._errors import (
    ArrowSerializationError,
    DeserializationCallbackError,
    SerializationCallbackError,
)

from ._reduction import reduce_value

_MAGIC = b"PLPICKL1"
_HEAD = struct.Struct("<8sQ")
_PART = struct.Struct("<QQ")
_ALIGN = 64

#: Parts in one value.
PARTS_MAX = 1 << 20


class _Registered:
    """How values of one type are stored."""

    def __init__(
        self,
        type_: Any,
        pickles: bool,
        serializer: Callable[[Any], Any] | None,
        deserializer: Callable[[Any], Any] | None,
    ) -> None:
        self.type = type_
        self.pickles = pickles
        self.serializer = serializer
        self.deserializer = deserializer


def restore_registered(type_id: str, payload: Any) -> Any:
    """What a pickle calls for a value of a registered type; a context takes its place."""
    raise DeserializationCallbackError(
        f"Type ID {type_id} not registered in deserialization callback", type_id
    )


class SerializationContext:
    """Types that a program registered, each with a way to store its values."""

    def __init__(self) -> None:
        self._types: dict[type, str] = {}
        self._registered: dict[str, _Registered] = {}
        self.set_pickle(_plain_dumps, pickle.loads)

    def set_pickle(
        self, serializer: Callable[[Any], bytes], deserializer: Callable[[bytes], Any]
    ) -> None:
        """Sets the functions for types registered with `pickle=True`."""
        self._dumps = serializer
        self._loads = deserializer

    def clone(self) -> SerializationContext:
        """A context with the same types, to register more with."""
        other = SerializationContext()
        other._types = dict(self._types)
        other._registered = dict(self._registered)
        other.set_pickle(self._dumps, self._loads)
        return other

    def register_type(
        self,
        type_: type,
        type_id: str,
        pickle: bool = False,
        custom_serializer: Callable[[Any], Any] | None = None,
        custom_deserializer: Callable[[Any], Any] | None = None,
    ) -> None:
        """Says how values of a type and of its subclasses are stored.

        By the two functions, which turn a value into one that can be stored and back; else by the
        pickle functions, if so said; else by the value's attributes.
        """
        if not isinstance(type_id, str):
            raise TypeError(
                "The type_id argument must be a string. The value passed in has type "
                f"{type(type_id)}."
            )
        self._types[type_] = type_id
        self._registered[type_id] = _Registered(
            type_, pickle, custom_serializer, custom_deserializer
        )

    def reduce(self, value: Any) -> Any:
        """What stands for a value of a registered type in a pickle."""
        for kind in type(value).__mro__:
            type_id = self._types.get(kind)
            if type_id is not None:
                return restore_registered, (type_id, self._payload(type_id, value))
        return NotImplemented

    def _payload(self, type_id: str, value: Any) -> Any:
        how = self._registered[type_id]
        if how.pickles:
            return self._dumps(value)
        if how.serializer is not None:
            return how.serializer(value)
        return dict(vars(value))

    def restore(self, type_id: str, payload: Any) -> Any:
        """The value that stands in a pickle as a registered one."""
        how = self._registered.get(type_id)
        if how is None:
            return restore_registered(type_id, payload)
        if how.pickles:
            return self._loads(payload)
        if how.deserializer is not None:
            return how.deserializer(payload)
        value = how.type.__new__(how.type)
        vars(value).update(payload)
        return value

    def serialize(self, obj: Any) -> SerializedPyObject:
        """A value ready to be written."""
        return serialize(obj, self)

    def serialize_to(self, value: Any, sink: Any) -> None:
        """Writes a value to a file or a stream."""
        serialize_to(value, sink, self)

    def deserialize(self, what: Any) -> Any:
        """The value that bytes hold."""
        return deserialize(what, self)

    def deserialize_components(self, what: dict[str, Any]) -> Any:
        """The value of :meth:`SerializedPyObject.to_components`."""
        return deserialize_components(what, self)


def _plain_dumps(value: Any) -> bytes:
    try:
        return pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    except (pickle.PicklingError, AttributeError, TypeError):
        cloud = _cloudpickle()
        if cloud is None:
            raise
        dumped: bytes = cloud.dumps(value)
        return dumped


def _cloudpickle() -> Any:
    try:
        return importlib.import_module("cloudpickle")
    except ImportError:
        return None


def _reduce(value: Any, context: SerializationContext | None) -> Any:
    if context is not None:
        reduced = context.reduce(value)
        if reduced is not NotImplemented:
            return reduced
    return reduce_value(value)


class _Pickler(pickle.Pickler):
    """A pickler that asks a context about every value."""

    def __init__(self, sink: BinaryIO, parts: list[Any], context: Any) -> None:
        super().__init__(sink, protocol=5, buffer_callback=parts.append)
        self._context = context

    def reducer_override(self, obj: Any) -> Any:
        return _reduce(obj, self._context)


class _Unpickler(pickle.Unpickler):
    """An unpickler that lets a context restore its values."""

    def __init__(self, source: Any, parts: Iterable[Any], context: Any) -> None:
        super().__init__(source, buffers=parts)
        self._context = context

    def find_class(self, module_name: str, name: str, /) -> Any:
        found = super().find_class(module_name, name)
        if found is restore_registered and self._context is not None:
            return self._context.restore
        return found


def _dump(value: Any, context: SerializationContext | None) -> tuple[bytes, list[Any]]:
    sink, parts = io.BytesIO(), list[Any]()
    try:
        _Pickler(sink, parts, context).dump(value)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        cloud = _cloudpickle()
        if cloud is None:
            raise SerializationCallbackError(
                f"cannot store objects of type {type(value)}: {error}. Register the "
                "type with a SerializationContext, or install cloudpickle",
                value,
            ) from error
        return _dump_with(cloud, value, context)
    return sink.getvalue(), parts


def _dump_with(
    cloud: Any, value: Any, context: SerializationContext | None
) -> tuple[bytes, list[Any]]:
    """Pickles functions and classes by their content, with cloudpickle."""

    class Pickler(cloud.Pickler):  # type: ignore[misc]
        def reducer_override(self, obj: Any) -> Any:
            reduced = _reduce(obj, context)
            return super().reducer_override(obj) if reduced is NotImplemented else reduced

    sink, parts = io.BytesIO(), list[Any]()
    try:
        Pickler(sink, protocol=5, buffer_callback=parts.append).dump(value)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise SerializationCallbackError(
            f"cannot store objects of type {type(value)}: {error}", value
        ) from error
    return sink.getvalue(), parts


class SerializedPyObject:
    """A value that is ready to be written: a pickle and the parts beside it."""

    def __init__(self, pickled: Any, parts: list[Any]) -> None:
        self._blocks = [memoryview(pickled).cast("B"), *parts]
        self._places: list[tuple[int, int]] = []
        end = _HEAD.size + _PART.size * len(self._blocks)
        for index, block in enumerate(self._blocks):
            # The pickle needs no alignment, the parts do: they are read in place.
            start = end if index == 0 else -(-end // _ALIGN) * _ALIGN
            self._places.append((start, len(block)))
            end = start + len(block)
        self._end = end

    @property
    def total_bytes(self) -> int:
        """How many bytes are written."""
        return self._end

    def segments(self) -> list[Any]:
        """The bytes, in pieces."""
        head = _HEAD.pack(_MAGIC, len(self._blocks))
        pieces: list[Any] = [head + b"".join(_PART.pack(*place) for place in self._places)]
        at = len(pieces[0])
        for block, (start, size) in zip(self._blocks, self._places, strict=True):
            if start > at:
                pieces.append(bytes(start - at))
            if size:
                pieces.append(block)
            at = start + size
        return pieces

    def write_to(self, sink: Any) -> None:
        """Writes the bytes to a file or a stream."""
        for piece in self.segments():
            sink.write(piece)

    def to_buffer(self, nthreads: int = 1) -> Any:
        """The bytes as one Arrow buffer. The number of threads is not used."""
        sink = pa.BufferOutputStream()
        self.write_to(sink)
        return sink.getvalue()

    def deserialize(self, context: SerializationContext | None = None) -> Any:
        """The value again."""
        return deserialize_quietly(self.to_buffer(), context)

    def to_components(self, memory_pool: Any = None) -> dict[str, Any]:
        """The pickle and the parts, each by itself."""
        return {"data": [pa.py_buffer(block) for block in self._blocks]}

    @staticmethod
    def from_components(components: dict[str, Any]) -> SerializedPyObject:
        """What :meth:`to_components` took apart."""
        pickled, *parts = components["data"]
        return SerializedPyObject(pickled, [memoryview(part).cast("B") for part in parts])


def serialize_quietly(
    value: Any, context: SerializationContext | None = None
) -> SerializedPyObject:
    """Like :func:`serialize`, without its warning."""
    pickled, parts = _dump(value, context)
    return SerializedPyObject(pickled, [part.raw() for part in parts])


def _not_a_value(why: str) -> ArrowSerializationError:
    return ArrowSerializationError(f"the bytes are not a serialized Python value: {why}")


def _parts(buffer: Any) -> list[Any]:
    """The pickle and the parts in a buffer, without copying them."""
    if buffer.size < _HEAD.size:
        raise _not_a_value(f"there are only {buffer.size} bytes")
    view = memoryview(buffer).cast("B")
    magic, count = _HEAD.unpack_from(view)
    if magic != _MAGIC:
        raise _not_a_value("they do not start with the expected magic bytes")
    table_end = _HEAD.size + count * _PART.size
    if not 1 <= count <= PARTS_MAX or table_end > buffer.size:
        raise _not_a_value(f"{count} parts")
    places = [*_PART.iter_unpack(view[_HEAD.size : table_end])]
    for start, size in places:
        if start < table_end or start + size > buffer.size:
            raise _not_a_value("a part lies outside of them")
    return [buffer.slice(start, size) for start, size in places]


def deserialize_quietly(buffer: Any, context: SerializationContext | None = None) -> Any:
    """Like :func:`deserialize`, without its warning."""
    buffer = buffer if isinstance(buffer, pa.Buffer) else pa.py_buffer(buffer)
    pickled, *parts = _parts(buffer)
    source = io.BytesIO(memoryview(pickled).cast("B"))
    try:
        return _Unpickler(source, parts, context).load()
    except (pickle.UnpicklingError, EOFError) as error:
        raise _not_a_value(str(error)) from error


# The functions that pyarrow had


def _deprecated(name: str) -> None:
    warnings.warn(
        f"'{name}' is deprecated: put values with plasmon itself, or use pickle or Arrow IPC.",
        FutureWarning,
        stacklevel=3,
    )


def serialize(value: Any, context: SerializationContext | None = None) -> SerializedPyObject:
    """A value ready to be written."""
    _deprecated("serialize")
    return serialize_quietly(value, context)


def serialize_to(value: Any, sink: Any, context: SerializationContext | None = None) -> None:
    """Writes a value to a file or a stream."""
    _deprecated("serialize_to")
    serialize_quietly(value, context).write_to(sink)


def deserialize(obj: Any, context: SerializationContext | None = None) -> Any:
    """The value that bytes hold; its arrays lie on them."""
    _deprecated("deserialize")
    return deserialize_quietly(obj, context)


def read_serialized(source: Any, base: Any = None) -> SerializedPyObject:
    """Reads a value from a file or a buffer, still serialized."""
    _deprecated("read_serialized")
    return _read(source)


def deserialize_from(source: Any, base: Any, context: SerializationContext | None = None) -> Any:
    """Reads a value from a file or a buffer."""
    _deprecated("deserialize_from")
    return _read(source).deserialize(context)


def _read(source: Any) -> SerializedPyObject:
    content = source if isinstance(source, pa.Buffer) else pa.py_buffer(source.read())
    pickled, *parts = _parts(content)
    return SerializedPyObject(pickled, [memoryview(part).cast("B") for part in parts])


def deserialize_components(
    components: dict[str, Any], context: SerializationContext | None = None
) -> Any:
    """The value of :meth:`SerializedPyObject.to_components`."""
    return SerializedPyObject.from_components(components).deserialize(context)


def register_default_serialization_handlers(serialization_context: SerializationContext) -> None:
    """Does nothing: every value that pickles is stored without being registered."""


def register_torch_serialization_handlers(serialization_context: SerializationContext) -> None:
    """Does nothing: tensors pickle by themselves."""


def default_serialization_context() -> SerializationContext:
    """A new context without types of its own."""
    return SerializationContext()
