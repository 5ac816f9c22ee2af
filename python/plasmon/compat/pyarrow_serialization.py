"""`pyarrow.serialize` and everything around it, which pyarrow had until version 11.

Old programs run by changing one import::

    import plasmon.compat.pyarrow_serialization as pa_serialization   # was: import pyarrow

    context = pa_serialization.default_serialization_context()
    context.register_type(Point, "Point")
    buffer = pa_serialization.serialize(value, context=context).to_buffer()
    value = pa_serialization.deserialize(buffer, context=context)

The names, arguments, errors and warnings are the old ones. The bytes are objects in the PLO format
(``spec/objects.md``), padded to a multiple of 64; bytes that pyarrow itself wrote cannot be read.
What is registered, and how, decides what can be stored; a value that contains itself is refused.
As ever, reading runs what a writer put into a pickle: read only bytes of programs that you trust,
or use :func:`plasmon.loads`, which runs nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, Self

import numpy as np
import pyarrow as pa

from plasmon import _native
from plasmon.compat import _handlers
from plasmon.compat._context import SerializationContext, is_named_tuple
from plasmon.compat._errors import (
    ArrowSerializationError,
    DeserializationCallbackError,
    SerializationCallbackError,
    deprecated,
)
from plasmon.objects import object_nbytes

__all__ = [
    "ArrowSerializationError",
    "DeserializationCallbackError",
    "SerializationCallbackError",
    "SerializationContext",
    "SerializedPyObject",
    "default_serialization_context",
    "deserialize",
    "deserialize_components",
    "deserialize_from",
    "is_named_tuple",
    "read_serialized",
    "register_default_serialization_handlers",
    "register_torch_serialization_handlers",
    "serialize",
    "serialize_to",
]

_ALIGN = 64

#: More than the constant front of any object, which has the object's length.
_FRONT_BYTES = 8192

_default: SerializationContext | None = None


def _default_context() -> SerializationContext:
    """The context of calls without one."""
    global _default  # noqa: PLW0603 - made when it is first needed, as importing pandas takes long
    if _default is None:
        context = SerializationContext._new()
        _register_default(context)
        _default = context
    return _default


def _padding(nbytes: int) -> int:
    return -nbytes % _ALIGN


class SerializedPyObject:
    """A serialized value: ready to be written, or as it was read."""

    def __init__(self) -> None:
        deprecated("SerializedPyObject")
        self._set_up(None, None)

    def _set_up(self, plan: _native.Serialized | None, buffer: pa.Buffer | None) -> None:
        self._plan = plan
        self._buffer = buffer
        #: What the arrays' memory belongs to, if the reader gave it.
        self.base: Any = None

    @staticmethod
    def _context() -> SerializationContext:
        """The default context."""
        return _default_context()

    @classmethod
    def _of_value(cls, value: Any, context: SerializationContext | None) -> Self:
        plan = (cls._context() if context is None else context)._plan(value)
        made = cls.__new__(cls)
        made._set_up(plan, None)
        return made

    @classmethod
    def _of_buffer(cls, buffer: pa.Buffer, base: Any = None) -> Self:
        made = cls.__new__(cls)
        made._set_up(None, buffer)
        made.base = base
        return made

    def _pieces(self) -> Iterable[Any]:
        """The bytes in pieces, which share memory with the value's arrays."""
        if self._plan is None:
            yield self._written()
            return
        components = self._plan.to_components()
        front, *pieces = components["data"]
        nbytes = self._plan.nbytes
        yield front
        for piece in pieces:
            yield piece
            yield bytes(_padding(len(memoryview(piece))))
        yield components["tail"]
        yield bytes(_padding(nbytes))

    def _written(self) -> pa.Buffer:
        """The bytes as one buffer."""
        if self._buffer is None:
            if self._plan is None:
                raise pa.ArrowInvalid("this SerializedPyObject is empty: get one from serialize()")
            nbytes = self._plan.nbytes
            buffer = pa.allocate_buffer(nbytes + _padding(nbytes))
            view = memoryview(buffer).cast("B")
            self._plan.write_into(view)
            view[nbytes:] = bytes(_padding(nbytes))
            self._buffer = buffer
        return self._buffer

    @property
    def total_bytes(self) -> int:
        """How many bytes are written: a multiple of 64."""
        if self._buffer is None and self._plan is not None:
            return self._plan.nbytes + _padding(self._plan.nbytes)
        return int(self._written().size)

    def write_to(self, sink: Any) -> None:
        """Writes the bytes to an Arrow or Python file, or to the file of this path."""
        if isinstance(sink, str | os.PathLike):
            with pa.OSFile(os.fspath(sink), "wb") as file:
                self.write_to(file)
            return
        for piece in self._pieces():
            if memoryview(piece).nbytes:
                sink.write(piece)

    def to_buffer(self, nthreads: int = 1) -> pa.Buffer:
        """The bytes as one buffer. The number of threads is not used."""
        return self._written()

    def deserialize(self, context: SerializationContext | None = None) -> Any:
        """The value again; its arrays lie on this object's bytes, read-only."""
        return (self._context() if context is None else context)._value(self._written())

    def to_components(self, memory_pool: Any = None) -> dict[str, Any]:
        """The bytes as buffers in a dict, to be sent one by one; see :meth:`from_components`.

        The first buffer has the structure and all that is small, the others have the arrays, where
        they are. The counts of tensors are there for their names: everything is a buffer.
        """
        if self._plan is None:
            data, tail = [self._written()], b""
        else:
            components = self._plan.to_components()
            data, tail = [pa.py_buffer(piece) for piece in components["data"]], components["tail"]
        kinds = dict.fromkeys(("coo", "csr", "csc", "csf", "ndim_csf"), 0)
        return {
            "num_tensors": 0,
            "num_sparse_tensors": kinds,
            "ndim_csf": kinds,
            "num_ndarrays": 0,
            "num_buffers": len(data) - 1,
            "data": data,
            "tail": tail,
        }

    @classmethod
    def from_components(cls, components: dict[str, Any]) -> Self:
        """The object of :meth:`to_components`, its buffers gathered into one: a copy.

        Raises ArrowInvalid for what :meth:`to_components` doesn't give.
        """
        data = components["data"]
        counts = [components["num_tensors"], components["num_ndarrays"]]
        counts += components["num_sparse_tensors"].values()
        if any(counts):
            raise pa.ArrowInvalid("components with tensors come from pyarrow, not from this module")
        if len(data) != 1 + components["num_buffers"]:
            raise pa.ArrowInvalid(
                f"Invalid number of buffers in data: {len(data)}, not "
                f"{1 + components['num_buffers']}"
            )
        front, *pieces = (memoryview(buffer).cast("B") for buffer in data)
        parts = [front]
        for piece in pieces:
            parts += [piece, memoryview(bytes(_padding(len(piece))))]
        parts.append(memoryview(components.get("tail", b"")))
        whole = pa.allocate_buffer(sum(map(len, parts)))
        room, at = memoryview(whole).cast("B"), 0
        for part in parts:
            room[at : at + len(part)] = part
            at += len(part)
        return cls._of_buffer(whole)

    @classmethod
    def _read(cls, source: Any, base: Any = None) -> Self:
        if isinstance(source, str | os.PathLike):
            with pa.OSFile(os.fspath(source), "rb") as file:
                return cls._read(file, base)
        if isinstance(source, pa.NativeFile):
            return cls._read_from(source, base)
        if hasattr(source, "read"):
            start = source.tell()
            made = cls._read_from(pa.PythonFile(source, "r"), base)
            source.seek(start + made.total_bytes)
            return made
        return cls._read_from(pa.BufferReader(source), base)

    @classmethod
    def _read_from(cls, file: pa.NativeFile, base: Any) -> Self:
        """The value at the file's position, which moves past it."""
        start = file.tell()
        nbytes = _record_nbytes(file.read(_FRONT_BYTES))
        file.seek(start)
        buffer = file.read_buffer(nbytes + _padding(nbytes))
        if buffer.size < nbytes:
            raise pa.ArrowInvalid(f"the value has {nbytes} bytes, and {buffer.size} are there")
        return cls._of_buffer(buffer, base)


def _record_nbytes(front: Any) -> int:
    """How many bytes the object at the start of these has."""
    try:
        return int(object_nbytes(front))
    except ValueError as error:
        raise pa.ArrowInvalid(f"these bytes are not a serialized value: {error}") from error


def serialize(value: Any, context: SerializationContext | None = None) -> SerializedPyObject:
    """A value ready to be written.

    Raises SerializationCallbackError for an object that the context doesn't know.
    """
    deprecated("serialize")
    return SerializedPyObject._of_value(value, context)


def serialize_to(value: Any, sink: Any, context: SerializationContext | None = None) -> None:
    """Writes a value to an Arrow or Python file, or to the file of a path."""
    deprecated("serialize_to")
    SerializedPyObject._of_value(value, context).write_to(sink)


def read_serialized(source: Any, base: Any = None) -> SerializedPyObject:
    """The next value of an Arrow or Python file, or the first of a buffer, still serialized.

    ``base`` is not needed: the arrays of a value keep the memory on which they lie.
    """
    deprecated("read_serialized")
    return SerializedPyObject._read(source, base)


def deserialize_from(source: Any, base: Any, context: SerializationContext | None = None) -> Any:
    """The next value of an Arrow or Python file, or the first of a buffer."""
    deprecated("deserialize_from")
    return SerializedPyObject._read(source, base).deserialize(context)


def deserialize_components(
    components: dict[str, Any], context: SerializationContext | None = None
) -> Any:
    """The value of :meth:`SerializedPyObject.to_components`."""
    deprecated("deserialize_components")
    return SerializedPyObject.from_components(components).deserialize(context)


def deserialize(obj: Any, context: SerializationContext | None = None) -> Any:
    """The value in a buffer; its arrays lie there, read-only.

    Raises DeserializationCallbackError for an object that the context doesn't know, and
    ArrowInvalid for bytes that are no such value.
    """
    deprecated("deserialize")
    return SerializedPyObject._read(pa.py_buffer(obj), obj).deserialize(context)


# Registration with contexts


def _register_default(context: SerializationContext) -> None:
    # Classes, functions and what is in them are found by name, or taken along by cloudpickle.
    context.register_type(type(_register_default), "function", pickle=True)
    context.register_type(type, "type", pickle=True)
    context.register_type(
        np.ndarray,
        "np.array",
        custom_serializer=lambda array: array.view(np.ndarray),
        custom_deserializer=_handlers.the_same,
    )
    _handlers.register_pandas(context)
    _handlers.register_scipy(context)
    _handlers.register_pydata_sparse(context)


def register_default_serialization_handlers(serialization_context: SerializationContext) -> None:
    """Registers functions, classes, and the types of pandas, SciPy and sparse."""
    deprecated("register_default_serialization_handlers")
    _register_default(serialization_context)


def register_torch_serialization_handlers(serialization_context: SerializationContext) -> None:
    """Registers the tensors of PyTorch, if it is installed. They are read as copies."""
    deprecated("register_torch_serialization_handlers")
    _handlers.register_torch(serialization_context)


def default_serialization_context() -> SerializationContext:
    """A new context with the types of the default context."""
    deprecated("default_serialization_context")
    context = SerializationContext._new()
    _register_default(context)
    return context
