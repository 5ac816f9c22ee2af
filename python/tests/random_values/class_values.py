"""Objects of classes of every protocol: by attributes, slots, reduction, state, arguments."""

from __future__ import annotations

import collections
import copyreg
import dataclasses
import enum
import types
from collections.abc import Callable
from typing import Any, NamedTuple

from .registry import Make, generator

# Bases, each a way to hold content, and protocols, each a way to be taken apart. Every base is
# joined with every protocol.

#: A base, and how an object of a subclass gets its content.
BASES: dict[str, tuple[type, Callable[[Make, Any], None]]] = {}


def _filled_list(make: Make, made: Any) -> None:
    made.extend(make.items(most=3))


def _filled_dict(make: Make, made: Any) -> None:
    for key in make.items(make.key, most=3):
        made[key] = make.value()


def _filled_set(make: Make, made: Any) -> None:
    made.update(make.items(make.key, most=3))


def _as_made(make: Make, made: Any) -> None:
    """It has its content from its constructor."""


BASES.update(
    object=(object, _as_made),
    list=(list, _filled_list),
    deque=(collections.deque, _filled_list),
    dict=(dict, _filled_dict),
    ordered=(collections.OrderedDict, _filled_dict),
    counter=(collections.Counter, _filled_dict),
    set=(set, _filled_set),
    tuple=(tuple, _as_made),
    frozenset=(frozenset, _as_made),
    int=(int, _as_made),
    float=(float, _as_made),
    str=(str, _as_made),
    bytes=(bytes, _as_made),
    bytearray=(bytearray, _as_made),
    error=(ValueError, _as_made),
)

#: What the constructor of an immutable base gets.
_CONTENTS: dict[type, Callable[[Make], Any]] = {
    tuple: lambda make: tuple(make.items(most=3)),
    frozenset: lambda make: frozenset(make.items(make.key, most=3)),
    int: lambda make: make.integer(),
    float: lambda make: make.random.random(),
    str: lambda make: make.text(),
    bytes: lambda make: make.data(),
    bytearray: lambda make: make.data(),
}


class _State:
    """Says what its state is, and takes it."""

    def __getstate__(self) -> Any:
        return "state", dict(vars(self))

    def __setstate__(self, state: Any) -> None:
        assert state[0] == "state"
        vars(self).update(state[1])


class _TupleState:
    """A state that looks like that of a class with slots."""

    def __getstate__(self) -> Any:
        return dict(vars(self)), {}


class _Falsy:
    """A state that is false, and is not set."""

    def __getstate__(self) -> Any:
        return {} if not vars(self) else vars(self)

    def __setstate__(self, state: Any) -> None:
        vars(self).update(state)


class _Hidden:
    """Its attributes have the names of descriptors of the class."""

    @property
    def note(self) -> Any:
        return vars(self).get("note")

    def __setattr__(self, name: str, value: Any) -> None:
        vars(self)[name] = value


class _Slots:
    __slots__ = ()


class _Default:
    note: Any = "default"


PROTOCOLS = {
    "plain": None,
    "state": _State,
    "pair": _TupleState,
    "falsy": _Falsy,
    "hidden": _Hidden,
    "default": _Default,
}

CLASSES: list[type] = []


def _define(name: str, bases: tuple[type, ...], body: dict[str, Any], kind: Any = type) -> type:
    body = {"__module__": __name__, "__qualname__": name, **body}
    made: type = types.new_class(name, bases, {"metaclass": kind}, lambda room: room.update(body))
    globals()[name] = made
    CLASSES.append(made)
    return made


class Meta(type):
    """A metaclass, which is no type of Python's."""


for _base_name, (_base, _) in BASES.items():
    for _name, _mixin in PROTOCOLS.items():
        _bases = (_base,) if _mixin is None else (_mixin, _base)
        _define(f"{_base_name}_{_name}", _bases, {})
    _define(f"{_base_name}_meta", (_base,), {}, Meta)
    if _base not in {tuple, int, bytes}:
        # Those have no room for slots.
        _define(f"{_base_name}_slots", (_base,), {"__slots__": ("note", "other")})
        _slotted = globals()[f"{_base_name}_slots"]
        _define(f"{_base_name}_slots_and_dict", (_slotted,), {})


class Reduced:
    """Is made by a call of its class."""

    def __init__(self, first: Any = None, second: Any = None) -> None:
        self.note, self.other = first, second

    def __reduce__(self) -> Any:
        return Reduced, (self.note, self.other)


class ReducedLate(Reduced):
    """Gets its parts as state, which may lead back."""

    def __reduce__(self) -> Any:
        return ReducedLate, (), dict(vars(self))


class ReducedEx(Reduced):
    def __reduce_ex__(self, protocol: Any) -> Any:
        return copyreg.__newobj__, (ReducedEx,), dict(vars(self))


def _set(made: Any, state: Any) -> None:
    made.note, made.other = state


class ReducedBySetter(Reduced):
    def __reduce__(self) -> Any:
        return ReducedBySetter, (), (self.note, self.other), None, None, _set


class ReducedFromFresh(Reduced):
    """Its arguments are containers that are made for that."""

    def __init__(self, parts: Any = (None, None)) -> None:
        super().__init__(*parts)

    def __reduce__(self) -> Any:
        return ReducedFromFresh, ([self.note, self.other],)


class NewArguments:
    def __new__(cls, *values: Any) -> Any:
        made = super().__new__(cls)
        made.values = values
        return made

    def __getnewargs__(self) -> Any:
        return self.values


class NewNamed:
    def __new__(cls, *values: Any, named: Any = None) -> Any:
        made = super().__new__(cls)
        made.values, made.named = values, named
        return made

    def __getnewargs_ex__(self) -> Any:
        return self.values, {"named": self.named}


class NewInt(int):
    def __new__(cls, value: int, unit: Any) -> Any:
        made = super().__new__(cls, value)
        made.unit = unit
        return made

    def __getnewargs__(self) -> Any:
        return int(self), self.unit


class Registered:
    """Known to copyreg."""

    def __init__(self, note: Any = None) -> None:
        self.note = note


copyreg.pickle(Registered, lambda value: (Registered, (value.note,)))


class Tagged:
    """A key by its tag, which it has from the start."""

    def __new__(cls, tag: int = 0) -> Any:
        made = super().__new__(cls)
        made.tag = tag
        return made

    def __getnewargs__(self) -> Any:
        return (self.tag,)

    def __hash__(self) -> int:
        return hash(self.tag)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tagged) and self.tag == other.tag


class Anything:
    """Answers to every name."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return name


@dataclasses.dataclass
class Data:
    note: Any
    other: Any = None


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    note: Any
    other: Any = None


class Pair(NamedTuple):
    note: Any
    other: Any = 0


Loose = collections.namedtuple("Loose", "a b", defaults=[1])


class Named(str, enum.Enum):  # noqa: UP042
    X = "x"
    Y = "y"


class Singleton:
    """Found by a name."""

    def __reduce__(self) -> str:
        return "SINGLETON"


SINGLETON = Singleton()


def _annotate(make: Make, made: Any) -> None:
    """Gives an object attributes, which may lead back to it."""
    for name in ("note", "other", "new"):
        if not make.chance(0.5):
            continue
        try:
            setattr(made, name, make.value())
        except AttributeError:
            continue


@generator("objects of classes", weight=14, holds=True)
def _object(make: Make) -> Any:
    kind = make.choice(CLASSES)
    base = next(base for base in kind.__mro__ if base.__module__ != __name__)
    content = _CONTENTS.get(base)
    if content is not None:
        made = kind(content(make))
    elif base is ValueError:
        made = kind(*make.items(most=2))
    else:
        made = kind()
    with make.filling(made):
        fill = next((fill for known, fill in BASES.values() if known is base), _as_made)
        fill(make, made)
        _annotate(make, made)
    return made


@generator("reduced", weight=6, holds=True)
def _reduced(make: Make) -> Any:
    kinds = [Reduced, ReducedLate, ReducedEx, ReducedBySetter, ReducedFromFresh, Registered]
    made = make.choice([*kinds, Anything, NewArguments, NewNamed])()
    if isinstance(made, NewArguments | NewNamed):
        made = type(made)(*make.items(most=3))
    # Through its arguments an object can only be reached from what gets its state later.
    late = type(made) in {ReducedLate, ReducedEx, ReducedBySetter, Anything}
    with make.filling(made if late else Tagged(1)):
        _annotate(make, made)
    return made


@generator("a cycle through arguments", weight=2, holds=True)
def _cyclic(make: Make) -> Any:
    made = make.choice([Reduced, ReducedFromFresh, Registered])()
    held = make.choice([Data, ReducedLate, globals()["object_plain"]])
    link = held(1) if held is Data else held()
    link.back = [made, made]
    made.note = link
    return make.choice([made, [made, link], [link, made], {"a": link}])


@generator("records", weight=4, holds=True)
def _records(make: Make) -> Any:
    kind = make.choice([Data, Frozen, Pair, Loose, NewInt])
    count = make.choice([1, 1, 8, 10])
    if kind is NewInt:
        return [NewInt(make.integer(), make.value()) for _ in range(count)]
    made = [kind(*parts) for parts in zip(make.alike(), make.alike(), strict=False)]
    return made if len(made) != 1 else made[0]


@generator("keys", weight=3, hashable=True)
def _key(make: Make) -> Any:
    return make.choice([Tagged(make.random.randint(0, 5)), Named.X, SINGLETON, Named.Y, CLASSES[0]])


@generator("a dict with a key that refers to it", weight=2, holds=True)
def _keyed(make: Make) -> Any:
    kinds = [dict, collections.OrderedDict, collections.Counter, globals()["dict_state"]]
    made = make.choice([*kinds, globals()["dict_plain"], globals()["ordered_plain"]])()
    key = make.choice([Tagged, globals()["object_plain"]])()
    key.back = make.choice([made, [made], (1, made)])
    key.tag = make.random.randint(0, 99)
    made[key] = make.value()
    if make.chance(0.5):
        made[make.key()] = make.choice([key, made, 1])
    return made
