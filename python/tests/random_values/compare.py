"""In what two values differ: value, type, flags, attributes, and which parts are one object."""

from __future__ import annotations

import struct
import types
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

_Same = TypeVar("_Same", bound=Callable[..., None])

#: By type; that of the closest base is used.
COMPARISONS: dict[type, Callable[[Any, Any, Compare], None]] = {}

#: No one can tell whether two of these are one object, and interpreters differ.
ATOMS = (int, float, complex, str, bytes, bool, type(None))

DIFFERENCES_MAX = 10_000


def comparison(*kinds: type) -> Callable[[_Same], _Same]:
    """Registers how values of a type are compared: a function of both and a :class:`Compare`."""

    def register(same: _Same) -> _Same:
        for kind in kinds:
            COMPARISONS[kind] = same
        return same

    return register


class Compare:
    """Goes through two values side by side; ``differences`` name the places."""

    def __init__(self) -> None:
        self.differences: list[str] = []
        self._path = ""
        self._forth: dict[int, Any] = {}
        self._back: dict[int, Any] = {}
        self._alive: list[Any] = []

    def note(self, what: str) -> None:
        """Notes a difference at the place that is compared."""
        if len(self.differences) < DIFFERENCES_MAX:
            self.differences.append(f"{self._path or 'the value'}: {what}")

    def equal(self, a: Any, b: Any, what: str) -> bool:
        """Compares plain facts; they are noted when they differ."""
        if a == b:
            return True
        self.note(f"{what} {a!r:.120} became {b!r:.120}")
        return False

    def parts(self, a: Iterable[Any], b: Iterable[Any], place: str = "") -> None:
        """Compares parts in their order."""
        a, b = list(a), list(b)
        if self.equal(len(a), len(b), "a length of"):
            for at, (one, other) in enumerate(zip(a, b, strict=True)):
                self.part(one, other, f"{place}[{at}]")

    def part(self, a: Any, b: Any, place: str) -> None:
        """Compares a part of each, at a place."""
        before = self._path
        self._path += place
        self.values(a, b)
        self._path = before

    def values(self, a: Any, b: Any) -> None:
        """Compares two values, each pair once."""
        if type(a) is not type(b):
            self.note(f"a {type(a)!r} became a {type(b)!r}")
            return
        if type(a) in ATOMS:
            self.equal(_exact(a), _exact(b), "the value")
            return
        known = self._forth.get(id(a))
        if known is not None or id(b) in self._back:
            if known is not b and not _is_constant(a):
                self.note(f"what is one {type(a).__name__} is not one, or the other way round")
            return
        self._forth[id(a)], self._back[id(b)] = b, a
        self._alive += (a, b)
        for base in type(a).__mro__:
            if base in COMPARISONS:
                COMPARISONS[base](a, b, self)
                break
        else:
            self.equal(repr(a), repr(b), "the value")


#: Types of which a library may have one object for equal values, or many.
CONSTANTS: list[type] = []


def _is_constant(value: Any) -> bool:
    """Whether there may be one object for equal values of a type."""
    empty = type(value) in {tuple, frozenset} and not value
    return empty or isinstance(value, tuple(CONSTANTS))


def _exact(value: Any) -> Any:
    if type(value) is float:
        return struct.pack("<d", value)
    if type(value) is complex:
        return struct.pack("<dd", value.real, value.imag)
    return value


def differences(a: Any, b: Any) -> list[str]:
    """What is not the same in two values."""
    compare = Compare()
    compare.values(a, b)
    return compare.differences


def attributes(a: Any, b: Any, compare: Compare) -> None:
    """Compares what two objects of one class have in their dicts and slots."""
    for name in _slots(type(a)):
        missing = object()
        one, other = getattr(a, name, missing), getattr(b, name, missing)
        if (one is missing) != (other is missing):
            compare.note(f"the slot {name} is set in one")
        elif one is not missing:
            compare.part(one, other, f".{name}")
    if type(a).__dictoffset__:
        one, other = _dict(a), _dict(b)
        if compare.equal(list(one), list(other), "the attributes"):
            for name in one:
                compare.part(one[name], other[name], f".{name}")


def _dict(value: Any) -> dict[Any, Any]:
    found = object.__getattribute__(value, "__dict__")
    return found if type(found) is dict else {}


def _slots(kind: type) -> list[str]:
    made = [base for base in kind.__mro__ if base.__flags__ & _HEAP_TYPE]
    return [
        name
        for base in made
        for name, member in vars(base).items()
        if type(member) is types.MemberDescriptorType
    ]


#: The flag of classes that were not compiled.
_HEAP_TYPE = 1 << 9
