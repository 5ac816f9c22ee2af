"""Classes whose objects the tests and the benchmark serialize. They must be importable."""

from __future__ import annotations

import collections
import dataclasses
import enum
from typing import Any


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Flags(enum.IntFlag):
    READ = 1
    WRITE = 2


Pair = collections.namedtuple("Pair", "a b")


@dataclasses.dataclass
class Point:
    x: int
    y: float
    name: str


@dataclasses.dataclass(slots=True)
class SlottedPoint:
    x: int
    y: float
    name: str


@dataclasses.dataclass(frozen=True)
class FrozenPoint:
    x: int
    y: float


class Reduced:
    """Takes itself apart into the arguments of its constructor."""

    def __init__(self, value: str) -> None:
        self.value = value
        self.length = len(value)

    def __reduce__(self) -> tuple[Any, ...]:
        return Reduced, (self.value,)

    def __eq__(self, other: object) -> bool:
        return type(other) is Reduced and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]


class Plain:
    """An object that is its attributes."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(self) == vars(other)

    __hash__ = object.__hash__


class Stateful:
    """Has a state of its own making, and no constructor without arguments."""

    def __init__(self, numbers: list[int]) -> None:
        self.numbers = numbers
        self.total = sum(numbers)

    def __getstate__(self) -> dict[str, Any]:
        return {"numbers": self.numbers}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["numbers"])  # type: ignore[misc]

    def __eq__(self, other: object) -> bool:
        return type(other) is Stateful and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]


class NotedList(list[str]):
    """A list that is more than one."""

    def __init__(self, *texts: str) -> None:
        super().__init__(texts)
        self.note = "kept"


class Keyword:
    """Made with keyword arguments."""

    def __new__(cls, *, size: int) -> Keyword:
        made = super().__new__(cls)
        made.size = size
        return made

    size: int

    def __getnewargs_ex__(self) -> tuple[tuple[()], dict[str, int]]:
        return (), {"size": self.size}

    def __eq__(self, other: object) -> bool:
        return type(other) is Keyword and self.size == other.size

    __hash__ = None  # type: ignore[assignment]


class Member:
    """Part of a set, with a hash of its own, that refers back to whose part it is."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.group: Any = None

    def __hash__(self) -> int:
        return hash(self.name)

    def __eq__(self, other: object) -> bool:
        return type(other) is Member and self.name == other.name


class Group:
    def __init__(self, *members: Member) -> None:
        self.members = set(members)
        for member in members:
            member.group = self


def function(number: int) -> int:
    return number + 1
