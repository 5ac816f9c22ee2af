"""Python values as the bytes of an object, for :meth:`PlasmaClient.put` and `get`.

Arrow removed `pyarrow.serialize` together with Plasma. What is here takes its place and has its
names: it is :mod:`plasmon.compat.pyarrow_serialization` with contexts that take every value that
pickles, registered or not::

    put ──► registered? ──► as it was registered
        └─► what can be imported is named, as pickle does it
        └─► what cannot, if there is such, is taken along, as cloudpickle does it

Arrays, Arrow data and the columns of data frames are read in place. Reading a value runs what its
writer wrote, as with any pickle: a store is for processes that trust each other. Bytes that are no
such value raise an error.
"""

from __future__ import annotations

import importlib
import pickle
import sys
from collections.abc import Callable
from typing import Any, Self

import pyarrow as pa

from plasmon import _native
from plasmon.compat import _context as compat
from plasmon.compat import pyarrow_serialization
from plasmon.compat._errors import (
    ArrowSerializationError,
    SerializationCallbackError,
    deprecated,
)
from plasmon.objects import BrokenObject
from plasmon.objects import SerializationContext as _CoreContext

#: The errors of pickle for an unsupported value, and of programs' own functions.
_REFUSALS = (pickle.PicklingError, AttributeError, TypeError)


class _Core(compat._Core):
    """A core that has a way for objects of every class."""

    _last_resorts = ()

    def _known(self, kind: type) -> _native._Strategy:
        return self._arrow(kind) or _CoreContext._decide(self, kind)

    def _unpickler(self, name: str) -> Callable[[Any], Any]:
        self._registration(name)
        return super()._unpickler(name)


class SerializationContext(compat.SerializationContext):
    """Types that a program registered, each with a way to store its values."""

    def __init__(self) -> None:
        self._set_up()

    def _set_up(self) -> None:
        super()._set_up()
        self.set_pickle(_plain_dumps, pickle.loads)
        #: For values with parts that cannot be imported.
        self._cloud_core = _Core(self, "cloudpickle")

    def _new_core(self) -> _Core:
        return _Core(self)

    def _forget(self) -> None:
        super()._forget()
        self._cloud_core._forget()

    def _functions(self) -> Any:
        return sys.modules[__name__]

    def _plan(self, value: Any) -> _native.Serialized:
        try:
            return self._core.serialize(value)
        except _REFUSALS:
            return self._cloud_plan(value)

    def _cloud_plan(self, value: Any) -> _native.Serialized:
        try:
            return self._cloud_core.serialize(value)
        except _REFUSALS as error:
            text = f"cannot store objects of type {type(value)}: {error}"
            if _cloudpickle() is None:
                text += ". Register the type with a SerializationContext, or install cloudpickle"
            raise SerializationCallbackError(text, value) from error

    def _value(self, buffer: pa.Buffer) -> Any:
        try:
            return self._cloud_core.loads(buffer)
        except BrokenObject as error:
            raise _not_a_value(error) from error


def _plain_dumps(value: Any) -> bytes:
    try:
        return pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    except _REFUSALS:
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


def _not_a_value(error: Exception) -> ArrowSerializationError:
    return ArrowSerializationError(f"the bytes are not a serialized Python value: {error}")


#: The default context.
_NONE_REGISTERED = SerializationContext()


class SerializedPyObject(pyarrow_serialization.SerializedPyObject):
    """A value that is ready to be written, or as it was read."""

    @staticmethod
    def _context() -> SerializationContext:
        return _NONE_REGISTERED

    @classmethod
    def _read(cls, source: Any, base: Any = None) -> Self:
        try:
            return super()._read(source, base)
        except pa.ArrowInvalid as error:
            raise _not_a_value(error) from error

    def segments(self) -> list[Any]:
        """The bytes, in pieces."""
        return [*self._pieces()]


def serialize_quietly(
    value: Any, context: SerializationContext | None = None
) -> SerializedPyObject:
    """Like :func:`serialize`, without its warning."""
    return SerializedPyObject._of_value(value, context)


def deserialize_quietly(buffer: Any, context: SerializationContext | None = None) -> Any:
    """Like :func:`deserialize`, without its warning."""
    return SerializedPyObject._of_buffer(pa.py_buffer(buffer)).deserialize(context)


# The functions that pyarrow had


def serialize(value: Any, context: SerializationContext | None = None) -> SerializedPyObject:
    """A value ready to be written."""
    deprecated("serialize")
    return serialize_quietly(value, context)


def serialize_to(value: Any, sink: Any, context: SerializationContext | None = None) -> None:
    """Writes a value to a file or a stream."""
    deprecated("serialize_to")
    serialize_quietly(value, context).write_to(sink)


def deserialize(obj: Any, context: SerializationContext | None = None) -> Any:
    """The value that bytes hold; its arrays lie on them."""
    deprecated("deserialize")
    return deserialize_quietly(obj, context)


def read_serialized(source: Any, base: Any = None) -> SerializedPyObject:
    """Reads a value from a file or a buffer, still serialized."""
    deprecated("read_serialized")
    return SerializedPyObject._read(source, base)


def deserialize_from(source: Any, base: Any, context: SerializationContext | None = None) -> Any:
    """Reads a value from a file or a buffer."""
    deprecated("deserialize_from")
    return SerializedPyObject._read(source, base).deserialize(context)


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
