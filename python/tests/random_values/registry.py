"""Generators of values, by name, and what they draw from."""

from __future__ import annotations

import contextlib
import importlib
import random
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

#: The modules of this package that register generators, in an order that never changes: a seed
#: gives the same value as long as they are the same. New ones come last.
MODULES = ("standard", "numpy_values", "class_values", "frame_values")

#: How many parts a value has at most, and how deep they are nested.
PARTS = 60
DEPTH = 5


class Generator(NamedTuple):
    """Something that makes values of a kind."""

    name: str
    make: Callable[[Make], Any]
    #: How often it is chosen, against others.
    weight: int
    #: Whether its values can be keys.
    hashable: bool
    #: Whether its values hold others.
    holds: bool


GENERATORS: dict[str, Generator] = {}

_Made = TypeVar("_Made", bound=Callable[..., Any])


def generator(
    name: str, *, weight: int = 2, hashable: bool = False, holds: bool = False
) -> Callable[[_Made], _Made]:
    """Registers a generator: a function of a :class:`Make`."""

    def register(make: _Made) -> _Made:
        assert name not in GENERATORS, f"{name} is there already"
        GENERATORS[name] = Generator(name, make, weight, hashable, holds)
        return make

    return register


def load() -> list[str]:
    """Imports the modules; those that are left out for want of a library."""
    missing = []
    for name in MODULES:
        try:
            importlib.import_module(f"{__package__}.{name}")
        except ModuleNotFoundError as error:
            if error.name is None or error.name.startswith(str(__package__)):
                raise
            missing.append(name)
    return missing


class Make:
    """Draws from a seed: everything random in a value comes from here."""

    def __init__(self, seed: int, parts: int = PARTS) -> None:
        self.random = random.Random(seed)
        self.parts = parts
        self.depth = 0
        #: Objects that were made before and may be referred to again.
        self.made: list[Any] = []
        #: Containers that are being filled: referring to one makes a cycle.
        self.open: list[Any] = []

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def choice(self, among: Any) -> Any:
        return self.random.choice(among)

    def integer(self) -> int:
        bits = self.choice([1, 4, 8, 31, 32, 33, 62, 63, 64, 65, 200])
        return self.random.randint(-(1 << bits), 1 << bits)

    def length(self, most: int = 6) -> int:
        """How many items something has: mostly few, at times as many as make rows."""
        return self.choice([0, 1, 2, 3, self.random.randint(0, most), 8 if self.chance(0.3) else 4])

    def text(self) -> str:
        alphabet = self.choice(["abc", "äöß", "\u4e00\U0001f600x", "\x00\n ", "\ud800a"])
        length = self.choice([0, 1, 3, 17, 300])
        if self.chance(0.01):
            length = self.choice([65_535, 65_536, 70_000])
        return "".join(self.random.choices(alphabet, k=length))

    def data(self) -> bytes:
        length = self.choice([0, 1, 7, 100])
        if self.chance(0.02):
            length = self.choice([4_095, 4_096, 10_000])
        return self.random.randbytes(length)

    def items(self, make: Callable[[], Any] | None = None, most: int = 6) -> list[Any]:
        """Some values: of any kind, or as ``make`` makes them."""
        return [(make or self.value)() for _ in range(self.length(most))]

    def alike(self) -> list[Any]:
        """Some values of one kind, often enough for typed runs and rows."""
        chosen = self._chosen(hashable=False)
        count = self.choice([1, 3, 8, 9, 12])
        return [self._of(chosen) for _ in range(count)]

    def key(self) -> Any:
        """A value that can be a key."""
        return self._of(self._chosen(hashable=True))

    def value(self) -> Any:
        """A value of any kind, or one that was made before, or one that is being made."""
        if self.open and self.chance(0.04):
            return self.choice(self.open)
        if self.made and self.chance(0.12):
            return self.choice(self.made)
        return self._of(self._chosen(hashable=False))

    @contextlib.contextmanager
    def filling(self, holder: Any) -> Any:
        """Within it, parts may refer to the holder."""
        self.open.append(holder)
        yield
        self.open.pop()

    def _chosen(self, *, hashable: bool) -> Generator:
        small = self.parts <= 0 or self.depth >= DEPTH
        fits = [
            one
            for one in GENERATORS.values()
            if (one.hashable or not hashable) and not (small and one.holds)
        ]
        (chosen,) = self.random.choices(fits, [one.weight for one in fits])
        return chosen

    def _of(self, chosen: Generator) -> Any:
        self.parts -= 1
        self.depth += 1
        made = chosen.make(self)
        self.depth -= 1
        if len(self.made) < 100:
            self.made.append(made)
        return made
