"""Buffers that lie on objects, and a capsule for native code."""

from __future__ import annotations

import ctypes
import weakref
from typing import Any, ClassVar, NoReturn

import pyarrow as pa

from plasmon._native import Lending


class _BufferKind(type):
    """Recognizes the buffers that `create` gave out, which are plain Arrow buffers."""

    # By address: Arrow's buffers have no hash.
    created: ClassVar[weakref.WeakValueDictionary[int, Any]] = weakref.WeakValueDictionary()

    def __instancecheck__(cls, instance: object) -> bool:
        return cls.created.get(id(instance)) is instance


class PlasmaBuffer(pa.Buffer, metaclass=_BufferKind):  # type: ignore[misc]
    """The type of the buffers that :meth:`PlasmaClient.create` gives out.

    Arrow's buffers cannot be made by Python classes of our own, so this one is only asked about:
    `isinstance(buffer, PlasmaBuffer)`.
    """

    def __new__(cls, *_arguments: object) -> NoReturn:
        """Refuses: buffers come from a client."""
        raise TypeError(
            "Do not call PlasmaBuffer's constructor directly, use `PlasmaClient.create` instead."
        )


def writable(lending: Lending[bytes]) -> pa.Buffer:
    """A buffer to write an object through."""
    buffer = pa.py_buffer(lending)
    _BufferKind.created[id(buffer)] = buffer
    return buffer


def read_only(lending: Lending[bytes]) -> pa.Buffer:
    """A buffer to read an object in place."""
    return pa.py_buffer(memoryview(lending).toreadonly())


# The name must outlive every capsule, so it belongs to the module.
_CAPSULE_NAME = ctypes.create_string_buffer(b"plasmon.socket")
_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


def socket_capsule(path: ctypes.Array[ctypes.c_char]) -> Any:
    """A capsule around a path, which must outlive it."""
    return _new_capsule(ctypes.addressof(path), _CAPSULE_NAME, None)
