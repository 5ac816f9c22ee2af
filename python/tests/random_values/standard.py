"""Values of the standard library."""

from __future__ import annotations

import array
import collections
import datetime as dt
import decimal
import enum
import fractions
import functools
import io
import operator
import pathlib
import re
import types
import uuid
import zoneinfo
from typing import Any

from .compare import Compare, attributes, comparison
from .registry import Make, generator

# Small values


@generator("none", hashable=True)
def _none(make: Make) -> Any:
    return make.choice([None, True, False, ..., NotImplemented])


@generator("int", weight=6, hashable=True)
def _int(make: Make) -> int:
    return make.integer()


@generator("float", weight=6, hashable=True)
def _float(make: Make) -> float:
    return make.choice(
        [0.0, -0.0, float("inf"), float("nan"), 1e-320, make.random.random(), make.random.gauss()]
    )


@generator("complex", hashable=True)
def _complex(make: Make) -> complex:
    return complex(_float(make), _float(make))


@generator("str", weight=6, hashable=True)
def _str(make: Make) -> str:
    return make.text()


@generator("bytes", weight=3, hashable=True)
def _bytes(make: Make) -> bytes:
    return make.data()


@generator("bytearray")
def _bytearray(make: Make) -> bytearray:
    return bytearray(make.data())


@generator("memoryview", weight=1)
def _memoryview(make: Make) -> memoryview:
    return memoryview(make.data())


@generator("range", hashable=True)
def _range(make: Make) -> range:
    return range(make.integer(), make.integer(), make.choice([1, -1, 7, 2**70]))


@generator("slice")
def _slice(make: Make) -> slice:
    return slice(make.choice([None, 1, "a"]), make.choice([None, 5]), make.choice([None, -1]))


@generator("number", hashable=True)
def _number(make: Make) -> Any:
    strings = ["0", "-0", "1.10", "NaN", "sNaN", "-Infinity", "1E+999", "123.456000"]
    exact = fractions.Fraction(make.integer(), make.choice([1, 3, 2**80]))
    number = decimal.Decimal(make.choice(strings))
    return exact if make.chance(0.5) or number.is_snan() else number


@generator("uuid", hashable=True)
def _uuid(make: Make) -> uuid.UUID:
    return uuid.UUID(int=make.random.getrandbits(128))


@generator("path", hashable=True)
def _path(make: Make) -> pathlib.PurePath:
    kind = make.choice([pathlib.Path, pathlib.PurePosixPath, pathlib.PureWindowsPath])
    return kind(make.choice(["", "/", "a/b", "ä\udcff", "..", "C:\\x", "//h/s/x"]))


def _zone(make: Make) -> dt.tzinfo | None:
    minutes = dt.timedelta(minutes=make.random.randint(-1439, 1439))
    fine = dt.timedelta(seconds=make.random.randint(-86399, 86399), microseconds=1)
    zones = [None, dt.UTC, dt.timezone(minutes), dt.timezone(fine), dt.timezone(minutes, "")]
    zones += [dt.timezone(minutes, "named"), zoneinfo.ZoneInfo("Europe/Berlin")]
    return make.choice(zones)


@generator("time", weight=4, hashable=True)
def _time(make: Make) -> Any:
    day = dt.date.fromordinal(make.random.randint(1, dt.date.max.toordinal()))
    clock = dt.time(
        make.random.randint(0, 23),
        make.random.randint(0, 59),
        59,
        make.random.randint(0, 999_999),
        fold=make.choice([0, 1]),
        tzinfo=_zone(make),
    )
    step = dt.timedelta(make.random.randint(-999_999, 999_999), 5, make.random.randint(0, 99))
    return make.choice([day, clock, dt.datetime.combine(day, clock), step, _zone(make)])


class Colour(enum.Enum):
    RED = 1
    DARK = "d"


class Bits(enum.IntFlag):
    A = 1
    B = 2


def a_function(*values: Any, **named: Any) -> Any:
    """Something to be found by name."""
    return values, named


@generator("named", weight=3, hashable=True)
def _named(make: Make) -> Any:
    """What is found by a name: types, functions, members of enums."""
    return make.choice(
        [
            *(int, type, type(None), type(...), type(NotImplemented), collections.deque, Colour),
            *(types.FunctionType, types.MappingProxyType, len, a_function, operator.add),
            *(dict.fromkeys, str.join, Colour.RED, Bits.A | Bits.B, Bits(0), re.I | re.M),
            *(list[int], int | str, collections.abc.Iterable, Make.integer, bytes.fromhex),
        ]
    )


@generator("pattern", weight=1, hashable=True)
def _pattern(make: Make) -> Any:
    return re.compile(make.choice(["a+", "(?P<x>é)", b"\x00"]), make.choice([0, 2]))


# What holds others


@generator("list", weight=8, holds=True)
def _list(make: Make) -> list[Any]:
    made: list[Any] = []
    with make.filling(made):
        made += make.alike() if make.chance(0.4) else make.items()
    return made


@generator("tuple", weight=6, holds=True)
def _tuple(make: Make) -> tuple[Any, ...]:
    return tuple(make.alike() if make.chance(0.4) else make.items())


@generator("tuple of keys", hashable=True, holds=True)
def _keys(make: Make) -> tuple[Any, ...]:
    return tuple(make.items(make.key, most=3))


@generator("dict", weight=8, holds=True)
def _dict(make: Make) -> Any:
    return _filled(make, {})


def _filled(make: Make, made: Any) -> Any:
    with make.filling(made):
        for key in make.items(make.key):
            made[key] = make.value()
    return made


@generator("rows", weight=3, holds=True)
def _rows(make: Make) -> list[Any]:
    names = [make.text() for _ in range(make.random.randint(1, 4))]
    columns = [make.alike() for _ in names]
    rows = zip(*columns, strict=False)
    if make.chance(0.5):
        return [dict(zip(names, row, strict=False)) for row in rows]
    return list(rows)


@generator("mapping", weight=4, holds=True)
def _mapping(make: Make) -> Any:
    kinds = [collections.OrderedDict, collections.Counter, types.SimpleNamespace]
    kind = make.choice([*kinds, lambda: collections.defaultdict(make.choice([int, None, list]))])
    made = kind()
    if isinstance(made, types.SimpleNamespace):
        with make.filling(made):
            vars(made).update(zip(["a", "b", "é"], make.items(most=3), strict=False))
        return made
    return _filled(make, made)


@generator("set", weight=3, holds=True)
def _set(make: Make) -> set[Any]:
    return set(make.items(make.key))


@generator("frozenset", weight=2, hashable=True, holds=True)
def _frozenset(make: Make) -> frozenset[Any]:
    return frozenset(make.items(make.key))


@generator("deque", holds=True)
def _deque(make: Make) -> Any:
    made: Any = collections.deque(maxlen=make.choice([None, 2, 50]))
    with make.filling(made):
        made.extend(make.items())
    return made


@generator("array", weight=2)
def _array(make: Make) -> Any:
    return array.array(make.choice("bBhHiIlLqQfd"), range(make.length()))


@generator("exception", holds=True)
def _exception(make: Make) -> BaseException:
    made = make.choice([ValueError, KeyError, StopIteration, OSError])(*make.items(most=3))
    if make.chance(0.3):
        with make.filling(made):
            made.note = make.value()
    return made


@generator("partial", weight=1, holds=True)
def _partial(make: Make) -> Any:
    made = functools.partial(a_function, *make.items(most=2))
    if make.chance(0.3):
        made.note = make.value()
    return made


@generator("bound", weight=1, holds=True)
def _bound(make: Make) -> Any:
    held = make.items(most=3)
    return make.choice([held.append, held.__len__, "text".join, {}.get, io.BytesIO(b"x")])


# How they are compared


@comparison(list, collections.deque)
def _same_items(a: Any, b: Any, compare: Compare) -> None:
    if isinstance(a, collections.deque):
        compare.equal(a.maxlen, b.maxlen, "the greatest length")
    compare.parts(type(a).__iter__(a), type(b).__iter__(b))
    attributes(a, b, compare)


@comparison(tuple)
def _same_tuple(a: Any, b: Any, compare: Compare) -> None:
    compare.parts(tuple.__iter__(a), tuple.__iter__(b))
    attributes(a, b, compare)


@comparison(dict)
def _same_dict(a: Any, b: Any, compare: Compare) -> None:
    if isinstance(a, collections.defaultdict):
        compare.equal(a.default_factory, b.default_factory, "the factory")
    one, other = list(dict.items(a)), list(dict.items(b))
    compare.parts([key for key, _ in one], [key for key, _ in other], ".keys()")
    compare.parts([held for _, held in one], [held for _, held in other], ".values()")
    found = [key for key in dict.keys(b) if _is_itself(key) and not dict.__contains__(b, key)]
    compare.equal(found, [], "keys that are not found")
    attributes(a, b, compare)


@comparison(set, frozenset)
def _same_set(a: Any, b: Any, compare: Compare) -> None:
    compare.parts(sorted(a, key=_token), sorted(b, key=_token), "{}")
    found = [item for item in b if _is_itself(item) and item not in b]
    compare.equal(found, [], "items that are not found")
    attributes(a, b, compare)


def _is_itself(value: Any) -> bool:
    """Whether a value is found where it is: all but NaN."""
    return bool(value == value)  # noqa: PLR0124


def _token(value: Any, depth: int = 3) -> str:
    """A text that sorts values the same on both sides: without addresses."""
    name = type(value).__qualname__
    if isinstance(value, tuple | frozenset) and depth:
        items = [_token(item, depth - 1) for item in value]
        return f"{name}{items if isinstance(value, tuple) else sorted(items)}"
    tag = getattr(value, "tag", None)
    if isinstance(tag, int):
        return f"{name} {tag}"
    # Values of NumPy may have one text and other bytes, as two kinds of NaN have.
    text = value.tobytes().hex() if hasattr(value, "tobytes") else repr(value)
    return f"{name} {text if ' at 0x' not in text else ''}"


@comparison(memoryview)
def _same_memory(a: Any, b: Any, compare: Compare) -> None:
    compare.equal((a.format, a.shape), (b.format, b.shape), "the form")
    compare.equal(bytes(a), bytes(b), "the bytes")


@comparison(int, float, complex, str, bytes, bytearray)
def _same_text(a: Any, b: Any, compare: Compare) -> None:
    """Subclasses of these."""
    base = next(base for base in type(a).__mro__ if base in _TEXTS)
    compare.equal(base.__repr__(a), base.__repr__(b), "the value")
    if not isinstance(a, enum.Enum):
        attributes(a, b, compare)


_TEXTS = (int, float, complex, str, bytes, bytearray)


@comparison(slice)
def _same_slice(a: slice, b: slice, compare: Compare) -> None:
    compare.parts((a.start, a.stop, a.step), (b.start, b.stop, b.step))


@comparison(dt.tzinfo)
def _same_zone(a: Any, b: Any, compare: Compare) -> None:
    compare.equal(repr(a), repr(b), "the zone")


@comparison(BaseException)
def _same_exception(a: BaseException, b: BaseException, compare: Compare) -> None:
    compare.part(a.args, b.args, ".args")
    attributes(a, b, compare)


@comparison(functools.partial)
def _same_partial(a: Any, b: Any, compare: Compare) -> None:
    compare.equal(a.func, b.func, "the function")
    compare.part(a.args, b.args, ".args")
    attributes(a, b, compare)


@comparison(types.BuiltinMethodType, types.MethodType, types.MethodWrapperType)
def _same_bound(a: Any, b: Any, compare: Compare) -> None:
    compare.equal(a.__name__, b.__name__, "the name")
    if not isinstance(a.__self__, types.ModuleType):
        compare.part(a.__self__, b.__self__, ".__self__")


@comparison(io.BytesIO)
def _same_file(a: Any, b: Any, compare: Compare) -> None:
    compare.equal((a.getvalue(), a.tell()), (b.getvalue(), b.tell()), "the file")


@comparison(object)
def _same_object(a: Any, b: Any, compare: Compare) -> None:
    own = type(a).__dictoffset__ or type(a).__module__.startswith(str(__package__))
    if not own and " at 0x" not in (text := repr(a)):
        compare.equal(text, repr(b), "the value")
    attributes(a, b, compare)
