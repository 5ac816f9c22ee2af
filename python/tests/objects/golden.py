"""The golden vectors: values, and their descriptions in JSON (spec/objects/README.md)."""

from __future__ import annotations

import collections
import datetime as dt
import decimal
import enum
import pathlib
import types
import uuid
import zoneinfo
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from plasmon import SerializationContext, _native

from . import classes

_EPOCH = dt.datetime(1970, 1, 1)
_MICROSECOND = dt.timedelta(microseconds=1)
_PATHS = (type(pathlib.Path()), pathlib.PurePosixPath, pathlib.PureWindowsPath)


class Vector(NamedTuple):
    """One value, described by ``NAME.json``, in both forms."""

    name: str
    make: Callable[[], Any]
    #: Rows are only written when the bytes may depend on references elsewhere.
    canonical: bool = True


def context(vector: Vector) -> SerializationContext:
    """How a vector is written and read."""
    made = SerializationContext("std", canonical=vector.canonical)
    made.register(classes.Point, "test.Point", version=3)
    made.register(classes.Color, "test.Color")
    return made


# Descriptions


class Describer:
    """Describes a value. What is met more than once gets an id at its first place."""

    def __init__(self, value: Any) -> None:
        self._counts: collections.Counter[int] = collections.Counter()
        self._ids: dict[int, int] = {}
        self._kept: list[Any] = []
        self._count(value)

    def _count(self, value: Any) -> None:
        waiting = [value]
        while waiting:
            one = waiting.pop()
            if isinstance(one, list | tuple | dict | set | frozenset | np.ndarray):
                self._counts[id(one)] += 1
                if self._counts[id(one)] == 1:
                    waiting.extend(_parts(one))

    def describe(self, value: Any) -> Any:
        if value is None or isinstance(value, bool):
            return value
        if type(value) is str:
            if any("\ud800" <= letter <= "\udfff" for letter in value):
                return {"surrogates": value.encode("utf-8", "surrogatepass").hex()}
            return value
        if id(value) in self._ids:
            return {"ref": self._ids[id(value)]}
        described: dict[str, Any] = {}
        if self._counts[id(value)] > 1:
            described["id"] = self._ids[id(value)] = len(self._ids)
        described.update(self._tagged(value))
        return described

    def _all(self, values: Any) -> list[Any]:
        return [self.describe(value) for value in values]

    def _tagged(self, value: Any) -> dict[str, Any]:
        kind = type(value)
        if kind in {list, tuple}:
            return {kind.__name__: self._all(value)}
        if kind in {set, frozenset}:
            return {kind.__name__: self._all(sorted(value))}
        if kind is dict:
            keys = self._all(value)
            return {
                "dict": [list(pair) for pair in zip(keys, self._all(value.values()), strict=True)]
            }
        if kind is np.ndarray and value.dtype == object:
            return {"array": {"shape": list(value.shape), "items": self._all(value.ravel())}}
        leaf = _LEAVES.get(kind)
        if leaf is not None:
            return leaf(value)
        if isinstance(value, np.generic):
            return {"scalar": {"dtype": value.dtype.str, "data": value.tobytes().hex()}}
        if isinstance(value, np.dtype):
            return {"dtype": value.str}
        if kind.__module__.partition(".")[0] == "pyarrow":
            return {"arrow": _arrow(value)}
        if isinstance(value, type):
            return {"type": value.__name__}
        if isinstance(value, types.FunctionType):
            return {"global": f"{value.__module__}:{value.__qualname__}"}
        return {"object": self._object(value)}

    def _object(self, value: Any) -> dict[str, Any]:
        if isinstance(value, classes.Point):
            parts = self._all([value.x, value.y, value.name])
            return {
                "class": "test.Point", "source": 1, "make": 0, "version": 3,
                "fields": ["x", "y", "name"], "parts": parts,
            }  # fmt: skip
        if isinstance(value, enum.Enum):
            return {
                "class": "test.Color", "source": 1, "make": 1, "version": 1, "parts": [value.name],
            }  # fmt: skip
        if isinstance(value, classes.Plain):
            name = f"{classes.__name__}:Plain"
            parts = self._all([value.value])
            return {"class": name, "source": 2, "make": 0, "fields": ["value"], "parts": parts}
        if isinstance(value, tuple):
            name = f"{classes.__name__}:{type(value).__qualname__}"
            parts = [{"tuple": self._all(value)}]
            return {"class": name, "source": 2, "make": 3, "parts": parts}
        name, parts = _specified(value)
        return {"class": name, "source": 0, "make": 2, "parts": self._all(parts)}


def _parts(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [*value, *value.values()]
    if isinstance(value, np.ndarray):
        return list(value.ravel()) if value.dtype == object else []
    return list(value)


def _specified(value: Any) -> tuple[str, list[Any]]:
    if isinstance(value, collections.deque):
        arguments = ((), value.maxlen) if value.maxlen is not None else ()
        return "collections:deque", [arguments, None, list(value)]
    if isinstance(value, collections.OrderedDict):
        return "collections:OrderedDict", [(), None, None, dict(value)]
    if isinstance(value, range):
        return "builtins:range", [(value.start, value.stop, value.step)]
    if isinstance(value, slice):
        return "builtins:slice", [(value.start, value.stop, value.step)]
    if isinstance(value, Exception):
        return f"builtins:{type(value).__name__}", [value.args]
    raise TypeError(type(value))


def _zone(zone: dt.tzinfo | None) -> Any:
    if zone is None:
        return None
    if zone is dt.UTC:
        return "UTC"
    if isinstance(zone, zoneinfo.ZoneInfo):
        return {"key": zone.key}
    offset, *name = zone.__getinitargs__()  # type: ignore[attr-defined]
    return {"offset": offset // _MICROSECOND, "name": name[0] if name else ""}


def _clock(value: Any) -> list[Any]:
    moment = value if isinstance(value, dt.datetime) else dt.datetime.combine(_EPOCH, value)
    return [(moment.replace(tzinfo=None) - _EPOCH) // _MICROSECOND, value.fold, _zone(value.tzinfo)]


def _tensor(value: Any) -> dict[str, Any]:
    if isinstance(value, memoryview):
        dtype, data = value.format, value.tobytes()
        return {"kind": 1, "dtype": dtype, "shape": list(value.shape or ()), "data": data.hex()}
    described = {"dtype": value.dtype.str, "shape": list(value.shape)}
    if value.size and not value.flags.c_contiguous:
        described["strides"] = list(value.strides)
    return {**described, "data": value.tobytes().hex()}


def _arrow(value: Any) -> dict[str, Any]:
    stream = _native._ArrowStream(value)
    whole = SerializationContext().dumps([value])
    found = whole.find(b"\xff\xff\xff\xff")
    return {"kind": 0, "text": "", "stream": whole[found : found + stream.nbytes].hex()}


_LEAVES: dict[type, Callable[[Any], dict[str, Any]]] = {
    int: lambda v: {"int": str(v)},
    float: lambda v: {"float": repr(v)},
    bytes: lambda v: {"bytes": v.hex()},
    bytearray: lambda v: {"bytearray": v.hex()},
    complex: lambda v: {"complex": [repr(v.real), repr(v.imag)]},
    dt.date: lambda v: {"date": (v - _EPOCH.date()).days},
    dt.datetime: lambda v: {"datetime": _clock(v)},
    dt.time: lambda v: {"time": _clock(v)},
    dt.timedelta: lambda v: {"timedelta": [v.days, v.seconds, v.microseconds]},
    dt.timezone: lambda v: {"tzinfo": _zone(v)},
    zoneinfo.ZoneInfo: lambda v: {"tzinfo": _zone(v)},
    decimal.Decimal: lambda v: {"decimal": str(v)},
    uuid.UUID: lambda v: {"uuid": str(v)},
    type(...): lambda v: {"singleton": "Ellipsis"},
    type(NotImplemented): lambda v: {"singleton": "NotImplemented"},
    np.ndarray: lambda v: {"tensor": _tensor(v)},
    memoryview: lambda v: {"tensor": _tensor(v)},
    **{
        kind: lambda v, at=at: {"path": [at, str(v)]}  # type: ignore[misc]
        for at, kind in enumerate(_PATHS)
    },
}


# Values


def _shared() -> list[Any]:
    inner, key = [1, 2], (1, ("a",))
    array = np.arange(3.0)
    return [inner, {"again": inner}, [key], {key: inner}, {key}, array, [array]]


def _cycles() -> dict[str, Any]:
    value: dict[str, Any] = {}
    inner: list[Any] = []
    shared: list[Any] = [5]
    whole: tuple[Any, ...] = ([],)
    whole[0].append(whole)
    value["t"] = (value, shared, inner)
    inner.extend([shared, value["t"]])
    value["whole"] = whole
    return value


def _deep() -> list[Any]:
    value: list[Any] = []
    for _ in range(200):
        value = [value]
    return value


def _tensors() -> dict[str, Any]:
    grid = np.arange(12.0).reshape(3, 4)
    base = np.arange(10, dtype="<i2")
    return {
        "c": grid,
        "fortran": np.asfortranarray(grid),
        "backwards": np.arange(4, dtype="<i8")[::-1],
        "broadcast": np.broadcast_to(np.arange(2, dtype="<u4"), (3, 2)),
        "0-d": np.array(3.5, "<f4"),
        "empty": np.zeros((0, 3)),
        "views": [base, base[2:], base[::2]],
        "bools": np.array([True, False]),
        "big-endian": np.array([1, 2], ">i4"),
        "halves": np.array([1.5], "<f2"),
        "complex": np.array([1 + 2j]),
        "times": np.array(["2020-01-01", "NaT"], "<M8[ns]"),
        "texts": np.array(["ab", "é"], "<U2"),
        "byte strings": np.array([b"ab", b"c"], "|S2"),
    }


def _table() -> Any:
    import pyarrow as pa

    return {"table": pa.table({"a": pa.array([1, None], pa.int64()), "s": ["x", "y"]})}


def _rows() -> dict[str, Any]:
    return {
        "tuples": [(at, f"name {at}", at * 0.5) for at in range(10)],
        "dicts": [{"id": at, "on": at % 3 == 0, "none": None} for at in range(9)],
        "nested": [{"a": {"b": at}, "c": (at, str(at + 100))} for at in range(8)],
        "objects": [classes.Point(at, at / 4, f"point {at}") for at in range(8)],
    }


def _ints() -> list[Any]:
    powers = [31, 32, 62, 63, 64, 100]
    return [0, 1, -1, *(sign * 2**power for power in powers for sign in (1, -1)), 2**63 - 1]


VECTORS = [
    Vector("none", lambda: None),
    Vector("bool", lambda: True),
    Vector("int", lambda: -5),
    Vector("float", lambda: 1.5),
    Vector("str", lambda: "é☯😀"),
    Vector("bytes", lambda: b"\x00\xff"),
    Vector("ints", _ints),
    Vector("floats", lambda: [0.0, -0.0, 1e300, float("inf"), float("-inf"), float("nan")]),
    Vector("strs", lambda: ["", "a", "text", "é", "☯😀", "a", "\0", "\ud800x"]),
    Vector("long_str", lambda: ["é" + "x" * 65_534, "x" * 65_535, "x" * 65_536]),
    Vector("bytes_of_all_kinds", lambda: [b"", b"ab", bytes(4095), bytes(4096), bytearray(b"q")]),
    Vector("long_bytearray", lambda: bytearray(range(256)) * 20),
    Vector("mixed", lambda: [1, "a", None, True, 2.5, b"q", (1,), [2], {3}, {"k": 4}, 1 + 2j, ...]),
    Vector(
        "runs",
        lambda: [
            [],
            [None, None, None],
            [True, False, True],
            [1, -2, 3],
            [1, 2**40],
            [0.5, 1.5],
            ["a", "bc"],
            ["a", "a", "bc"],
            [b"x", b"yz"],
            [[1], [2]],
            (),
            ("t", 1),
            [2**70, -(2**70)],
        ],
    ),
    Vector("dicts", lambda: [{}, {"a": 1, "b": [1]}, {1: 2.5, None: "n", (1, 2): b"t", "x": 0}]),
    Vector("sets", lambda: [set(), {1, 2, 3}, {"a", "b"}, frozenset({1.5}), {frozenset({7})}]),
    Vector("rows", _rows, canonical=False),
    Vector("shared", _shared),
    Vector("cycles", _cycles),
    Vector("deep", _deep),
    Vector(
        "times",
        lambda: [
            dt.date(1066, 10, 14),
            dt.datetime(2020, 1, 2, 3, 4, 5, 6),
            dt.datetime(1066, 10, 14, 9, tzinfo=dt.UTC),
            dt.datetime(2020, 1, 2, tzinfo=dt.timezone(dt.timedelta(hours=2), "X")),
            dt.datetime(2020, 10, 25, 2, tzinfo=zoneinfo.ZoneInfo("Europe/Paris"), fold=1),
            dt.time(1, 2, 3, 4),
            dt.time(1, tzinfo=dt.timezone(dt.timedelta(hours=-3))),
            dt.timedelta(-1, 2, 3),
            dt.UTC,
            zoneinfo.ZoneInfo("Europe/Paris"),
        ],
    ),
    Vector(
        "small_values",
        lambda: [
            1 + 2j,
            decimal.Decimal("-1.10"),
            decimal.Decimal("NaN"),
            uuid.UUID(int=2**127 + 1),
            pathlib.Path("/a/b"),
            pathlib.PurePosixPath("é"),
            pathlib.PureWindowsPath("C:/a"),
            ...,
            NotImplemented,
            int,
            type(None),
        ],
    ),
    Vector("tensors", _tensors),
    Vector(
        "memoryviews",
        lambda: [
            memoryview(b"abc"),
            memoryview(bytes(48)).cast("d", shape=[2, 3]),
            memoryview(b""),
        ],
    ),
    Vector(
        "numpy_values",
        lambda: [np.float64(1.5), np.int32(3), np.uint64(2**64 - 1), np.True_, np.dtype(">f4")],
    ),
    Vector(
        "array_of_objects",
        lambda: [np.array([[1, "a"], [None, [2]]], object), np.array([], object)],
    ),
    Vector("arrow", _table),
    Vector(
        "registered", lambda: [classes.Point(1, 2.0, "x"), classes.Color.RED, classes.Color.RED]
    ),
    Vector(
        "specified",
        lambda: [
            collections.deque([1, "a"], maxlen=5),
            collections.OrderedDict(b=1, a=2),
            range(0, 9, 3),
            slice(None, 5),
            ValueError("wrong", 3),
        ],
    ),
    Vector("importable", lambda: [classes.Plain([1]), classes.Pair(1, "b"), classes.function]),
]
