"""The ids of objects, and what stands for an object that is not there."""

from __future__ import annotations

import random
import warnings

ID_BYTES = 20

DEPRECATED = (
    "Plasma is deprecated since Arrow 10.0.0 and was removed in 12.0.0. "
    "plasmon.plasma runs old code; new code should use plasmon itself."
)


class ObjectID:
    """The 20 bytes that name an object: hashable, comparable, picklable."""

    __slots__ = ("__weakref__", "_binary")

    _binary: bytes

    def __init__(self, object_id: bytes) -> None:
        if not isinstance(object_id, bytes) or len(object_id) != ID_BYTES:
            raise ValueError(f"Object ID must be 20 bytes, is {object_id!r}")
        self._binary = object_id
        warnings.warn(DEPRECATED, DeprecationWarning, stacklevel=2)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectID) and self._binary == other._binary

    def __hash__(self) -> int:
        return hash(self._binary)

    def __repr__(self) -> str:
        return f"ObjectID({self._binary.hex()})"

    def __reduce__(self) -> tuple[object, tuple[bytes]]:
        return make_object_id, (self._binary,)

    def binary(self) -> bytes:
        """The 20 bytes."""
        return self._binary

    @staticmethod
    def from_random() -> ObjectID:
        """A new id of random bytes."""
        warnings.warn(DEPRECATED, DeprecationWarning, stacklevel=2)
        # From the generator that a program may have seeded, as Plasma does.
        return quiet_id(random.randbytes(ID_BYTES))


def quiet_id(binary: bytes) -> ObjectID:
    """An id that the module makes itself, without the warning that callers get."""
    made = ObjectID.__new__(ObjectID)
    made._binary = binary
    return made


def make_object_id(object_id: bytes) -> ObjectID:
    """The id with these bytes; what a pickled id is made with."""
    if not isinstance(object_id, bytes) or len(object_id) != ID_BYTES:
        raise ValueError(f"Object ID must be 20 bytes, is {object_id!r}")
    return quiet_id(object_id)


def binary_of(object_id: object) -> bytes:
    """The bytes of an argument that must be an ObjectID."""
    if isinstance(object_id, ObjectID):
        return object_id._binary
    found = type(object_id).__name__
    raise TypeError(f"Argument 'object_id' has incorrect type (expected ObjectID, got {found})")


class ObjectNotAvailable:
    """Stands in the answer of `get` for an object that did not come in time."""
