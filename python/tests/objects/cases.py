"""The correctness table: values, and whether what comes back is what went in.

A case passes when the value and its type survive. The benchmark runs the same table over every
rival, so nothing here knows what is tested. ``make()`` gives the value again and ``holds(value,
back)`` says whether the other one is it; ``needs`` names libraries that must be there.
"""

from __future__ import annotations

import array
import collections
import datetime as dt
import decimal
import fractions
import pathlib
import types
import uuid
import zoneinfo
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from . import classes


class Case(NamedTuple):
    """One value and how to tell whether it survived."""

    name: str
    make: Callable[[], Any]
    holds: Callable[[Any, Any], bool]
    #: Libraries without which there is no such value.
    needs: tuple[str, ...] = ()
    #: What the value needs beyond plain data: "", "pickle" or "cloudpickle".
    level: str = ""


def _equal(value: Any, back: Any) -> bool:
    return type(back) is type(value) and bool(back == value)


def _by_text(value: Any, back: Any) -> bool:
    return type(back) is type(value) and repr(back) == repr(value)


def _same_array(value: Any, back: Any) -> bool:
    same = type(back) is type(value) and back.dtype == value.dtype and back.shape == value.shape
    return bool(same and repr(back.tolist()) == repr(value.tolist()))


def _same_frame(value: Any, back: Any) -> bool:
    import pandas as pd

    if type(back) is not type(value):
        return False
    check = pd.testing.assert_series_equal if value.ndim == 1 else pd.testing.assert_frame_equal
    try:
        check(value, back, check_freq=True)
    except AssertionError:
        return False
    return bool(back.attrs == value.attrs)


def _nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def _depth(value: Any) -> int:
    depth = 0
    while value:
        value = value[0]
        depth += 1
    return depth


_ZONE = dt.timezone(dt.timedelta(hours=2), "X")


def _plain() -> Iterator[Case]:
    """Numbers, strings, containers."""
    values: dict[str, Any] = {
        "none": None,
        "bool": True,
        "int": 5,
        "int, negative": -5,
        "int, 2**31": 2**31,
        "int, 2**63 - 1": 2**63 - 1,
        "int, -2**63": -(2**63),
        "int, 2**63": 2**63,
        "int, 2**999": 1 << 999,
        "int, -2**70": -(1 << 70),
        "ints, of all sizes": [0, 1, -1, 255, 256, 2**31, -(2**31) - 1, 2**62, 2**64, -(2**127)],
        "float": 1.5,
        "float, infinite": float("-inf"),
        "complex": 1 + 2j,
        "str": "text",
        "str, empty": "",
        "str, not ASCII": "é☯😀",
        "str, one Latin letter": "é",
        "str, with zeros": "a\0b",
        "str, lone surrogate": "\ud800",
        "str, long": "long é" * 20_000,
        "strs, of all kinds": ["a", "é", "☯", "😀", "\udfff", "", "x" * 70_000],
        "bytes": b"abc",
        "bytes, long": bytes(range(256)) * 40,
        "bytearray": bytearray(b"abc"),
        "bytearray, long": bytearray(10_000),
        "list, empty": [],
        "list, mixed": [1, "a", None, True, 2.5, b"q", (1,), [2], {3}, {"k": 4}],
        "list, of None": [None] * 5,
        "list, of bools": [True, False, True] * 7,
        "list, None last": [1, 2, None],
        "list, of bools and ints": [True, 1, False, 0],
        "list, of ints and floats": [1, 1.0, 2, 2.0],
        "tuple": (1, (2,)),
        "tuple, empty": (),
        "list in tuple": ([1],),
        "tuples, of one shape": [(at, f"n{at}", at * 0.5) for at in range(20)],
        "tuples, nested": [((at, (at, str(at))), None) for at in range(20)],
        "tuples, of bools": [(at % 2 == 0, None) for at in range(20)],
        "dict": {"a": 1, "b": [1, 2]},
        "dict, keys of all kinds": {1: 2, "a": 3, (1, 2): 4, None: 5, 2.5: 6, b"k": 7},
        "dicts, of one shape": [{"id": at, "tag": None, "on": at > 3} for at in range(20)],
        "dicts, of other shapes": [{"a": 1}] * 2 + [{"b": at} for at in range(9)],
        "dicts, rows in rows": [{"a": {"b": at}, "c": (at, {"d": "x"})} for at in range(12)],
        "dicts, rows of nothing": [{"a": None, "b": True} for _ in range(12)],
        "dicts, many keys": [{f"k{key}": at for key in range(40)} for at in range(10)],
        "set": {1, "a"},
        "set, empty": set(),
        "frozenset": frozenset({1, 2}),
        "sets in sets": {frozenset({1}), frozenset({2, 3})},
        "dict of sets": {at: {f"a{at}", f"b{at}"} for at in range(30)},
        "range": range(3),
        "range, large": range(0, 10**30, 7),
        "slice": slice(1, None, "step"),
        "ellipsis": ...,
        "types": [int, dict, type(None)],
    }
    for name, value in values.items():
        yield Case(name, lambda value=value: value, _equal)
    yield Case("float, not a number", lambda: float("nan"), _by_text)
    yield Case("float, -0.0", lambda: -0.0, _by_text)
    yield Case("dict, order", lambda: {"b": 1, "a": 2}, lambda v, b: [*b] == ["b", "a"])
    yield Case("memoryview", lambda: memoryview(b"abc"), _equal)
    shaped: Any = memoryview(array.array("d", range(6))).cast("B").cast("d", (2, 3))
    yield Case("memoryview, shaped", lambda: shaped, lambda v, b: b.tolist() == v.tolist())
    yield Case("not implemented", lambda: NotImplemented, lambda v, b: b is NotImplemented)


def _library() -> Iterator[Case]:
    """The standard library's types."""
    paris = zoneinfo.ZoneInfo("Europe/Paris")
    values: dict[str, Any] = {
        "OrderedDict": collections.OrderedDict(b=1, a=2),
        "Counter": collections.Counter("aab"),
        "datetime": dt.datetime(2020, 1, 2, 3, 4, 5, 6),
        "datetime, before 1970": dt.datetime(1066, 10, 14, 9),
        "date": dt.date(2020, 1, 2),
        "time": dt.time(1, 2, 3, 4),
        "time, with a zone": dt.time(1, 2, tzinfo=_ZONE),
        "timedelta": dt.timedelta(-1, 2, 3),
        "timezone": _ZONE,
        "Fraction": fractions.Fraction(-1, 3),
        "UUID": uuid.UUID(int=7),
        "Path": pathlib.Path("/a/b"),
        "PurePosixPath": pathlib.PurePosixPath("a/b"),
        "PureWindowsPath": pathlib.PureWindowsPath("C:/a"),
        "namespace": types.SimpleNamespace(a=1, b=[2]),
        "array.array": array.array("d", [1.0, 2.0]),
        "datetimes": [dt.datetime(2020, 1, 1 + at) for at in range(9)],
    }
    for name, value in values.items():
        yield Case(name, lambda value=value: value, _equal)
    zoned = dt.datetime(2020, 1, 2, tzinfo=_ZONE)
    yield Case(
        "datetime, with an offset",
        lambda: zoned,
        lambda v, b: b == v and b.utcoffset() == v.utcoffset() and b.tzname() == "X",
    )
    yield Case(
        "datetime, UTC",
        lambda: dt.datetime(2020, 1, 2, tzinfo=dt.UTC),
        lambda v, b: b == v and b.tzinfo is dt.UTC,
    )
    folded = dt.datetime(2020, 10, 25, 2, 30, tzinfo=paris, fold=1)
    yield Case(
        "datetime, with a zone and fold",
        lambda: folded,
        lambda v, b: b.tzinfo.key == "Europe/Paris" and b.fold == 1 and b == v,
    )
    yield Case("Decimal", lambda: decimal.Decimal("1.10"), _by_text)
    yield Case("Decimal, signalling", lambda: decimal.Decimal("sNaN7"), _by_text)
    yield Case(
        "defaultdict",
        lambda: collections.defaultdict(list, a=[1]),
        lambda v, b: _equal(v, b) and b.default_factory is list,
    )
    yield Case(
        "deque",
        lambda: collections.deque([1], maxlen=3),
        lambda v, b: _equal(v, b) and b.maxlen == 3,
    )
    yield Case(
        "exception",
        lambda: ValueError("x", 2),
        lambda v, b: type(b) is ValueError and b.args == ("x", 2),
    )
    yield Case(
        "exception, of the system",
        lambda: FileNotFoundError(2, "gone", "name"),
        lambda v, b: type(b) is FileNotFoundError and b.filename == "name",
    )


def _objects() -> Iterator[Case]:
    """Classes of the user's."""
    c = classes
    values: dict[str, Any] = {
        "enum": c.Color.RED,
        "flags": c.Flags.READ | c.Flags.WRITE,
        "namedtuple": c.Pair(1, [2]),
        "namedtuples": [c.Pair(at, str(at)) for at in range(20)],
        "dataclass": c.Point(1, 2.0, "x"),
        "dataclasses": [c.Point(at, at * 0.5, f"n{at}") for at in range(20)],
        "dataclasses, some with more": _extended(),
        "dataclass, slots": c.SlottedPoint(1, 2.0, "x"),
        "dataclass, frozen": c.FrozenPoint(1, 2.0),
        "frozen dataclasses as keys": {c.FrozenPoint(1, 2.0): "a"},
        "object": c.Plain([1, "a"]),
        "objects, mixed": [c.Plain(1), c.Point(1, 2.0, "x"), c.Plain("a"), None],
        "__reduce__": c.Reduced("x"),
        "__reduce__, many": [c.Reduced(f"n{at}") for at in range(20)],
        "__getstate__": c.Stateful([1, 2, 3]),
        "__getnewargs_ex__": c.Keyword(size=3),
    }
    for name, value in values.items():
        yield Case(name, lambda value=value: value, _equal, level="pickle")
    yield Case(
        "list, subclass",
        lambda: c.NotedList("a", "b"),
        lambda v, b: _equal(v, b) and b.note == "kept",
        level="pickle",
    )
    yield Case("class", lambda: c.Plain, lambda v, b: b is v, level="pickle")
    yield Case("function", lambda: c.function, lambda v, b: b is v, level="pickle")
    yield Case("function, built in", lambda: len, lambda v, b: b is len, level="pickle")
    yield Case("method", lambda: [1, 2].count, lambda v, b: b(2) == 1, level="pickle")
    yield Case("lambda", lambda: lambda x: x + 1, lambda v, b: b(1) == 2, level="cloudpickle")
    yield Case("closure", lambda: _adder(3), lambda v, b: b(1) == 4, level="cloudpickle")
    yield Case(
        "local class",
        _local,
        lambda v, b: type(b).__name__ == "Local" and b.value == 5,
        level="cloudpickle",
    )


def _extended() -> list[Any]:
    points: list[Any] = [classes.Point(at, 0.5, "x") for at in range(12)]
    points[7].more = [1]
    return points


def _adder(first: int) -> Callable[[int], int]:
    return lambda second: first + second


def _local() -> Any:
    class Local:
        value = 0

    made = Local()
    made.value = 5
    return made


def _identities() -> Iterator[Case]:
    """What is one thing stays one; cycles; depth."""
    shared, text, key = [1, 2], "".join(["not", "interned"]), (1, ("a",))
    frozen, held = frozenset("ab"), {1}
    yield Case("shared list", lambda: [shared, shared], lambda v, b: b == v and b[0] is b[1])
    yield Case("shared str", lambda: [text, 1, text], lambda v, b: b == v and b[0] is b[2])
    yield Case(
        "shared strs in dicts",
        lambda: [{"k": text}, {"k": text}],
        lambda v, b: b == v and b[0]["k"] is b[1]["k"],
    )
    yield Case(
        "shared tuple as a key",
        lambda: [{key: 1}, [key], {key}, frozenset([key])],
        lambda v, b: b == v and next(iter(b[0])) is b[1][0] and next(iter(b[2])) is b[1][0],
    )
    yield Case(
        "shared frozenset",
        lambda: [{frozen: 1}, [frozen, {frozen}]],
        lambda v, b: b == v and next(iter(b[0])) is b[1][0],
    )
    yield Case(
        "shared set in a later tuple",
        lambda: [[[held]], (held, (held,))],
        lambda v, b: b == v and b[0][0][0] is b[1][1][0],
    )
    yield Case("cycle of a list", _list_cycle, lambda v, b: b[0] == 1 and b[1] is b)
    yield Case("cycle of a dict", _dict_cycle, lambda v, b: b["me"] is b)
    yield Case("cycle of a tuple", _tuple_cycle, lambda v, b: type(b) is tuple and b[0][0] is b)
    yield Case("cycle of a deque", _deque_cycle, lambda v, b: b[0] is b and b.maxlen is None)
    yield Case("cycle of an object", _object_cycle, lambda v, b: b.value is b, level="pickle")
    yield Case(
        "cycle through a tuple and a dict",
        _tangle,
        lambda v, b: b["t"][0] is b and b["t"][1] is b["t"][2][0] and b["t"][2][1] is b["t"],
    )
    yield Case(
        "cycle through a set",
        lambda: classes.Group(classes.Member("a"), classes.Member("b")),
        lambda v, b: (
            len(b.members) == 2
            and all(member.group is b and member in b.members for member in b.members)
        ),
        level="pickle",
    )
    yield Case("depth of 99", lambda: _nested(99), lambda v, b: _depth(b) == 99)
    yield Case("depth of 500", lambda: _nested(500), lambda v, b: _depth(b) == 500)
    yield Case("depth of 5000", lambda: _nested(5000), lambda v, b: _depth(b) == 5000)


def _list_cycle() -> list[Any]:
    value: list[Any] = [1]
    value.append(value)
    return value


def _dict_cycle() -> dict[str, Any]:
    value: dict[str, Any] = {}
    value["me"] = value
    return value


def _tuple_cycle() -> tuple[Any, ...]:
    value: tuple[Any, ...] = ([],)
    value[0].append(value)
    return value


def _deque_cycle() -> Any:
    value: Any = collections.deque()
    value.append(value)
    return value


def _object_cycle() -> Any:
    value = classes.Plain(1)
    value.value = value
    return value


def _tangle() -> dict[str, Any]:
    value: dict[str, Any] = {}
    inner: list[Any] = []
    shared: list[Any] = [5]
    value["t"] = (value, shared, inner)
    inner.extend([shared, value["t"]])
    return value


def _numpy() -> Iterator[Case]:
    """Arrays and scalars of NumPy."""
    import numpy as np

    grid = np.arange(12.0).reshape(3, 4)
    structured = np.array([(1, 2.5, b"ab")], dtype=[("a", "i4"), ("b", "f8"), ("c", "S3")])
    arrays: dict[str, Any] = {
        "array": grid,
        "array, with gaps": grid[:, ::2],
        "array, backwards": grid[::-1, ::-1],
        "array, 0-d": np.array(3.5),
        "array, empty": np.zeros((0, 3)),
        "array, of bools": np.array([True, False]),
        "array, of halves": np.array([1.5], "f2"),
        "array, of long doubles": np.array([1.5], "g"),
        "array, of complex": np.array([1 + 2j]),
        "array, big-endian": np.array([1, 2], ">i4"),
        "array, structured": structured,
        "array, of objects": np.array([1, "a", None, [2]], object),
        "array, of objects, 2-d": np.array([[1, "a"], [None, 2]], object),
        "array, of objects, Fortran": np.asfortranarray(np.array([[1, "a"], [None, 2]], object)),
        "array, of datetimes": np.array(["2020-01-01", "NaT"], "M8[ns]"),
        "array, of timedeltas": np.array([1, 2], "m8[s]"),
        "array, of texts": np.array(["ab", "é"]),
        "array, of byte strings": np.array([b"ab", b"c"]),
        "array, unaligned": np.frombuffer(b"x" + bytes(16), "f8", 2, 1),
    }
    for name, value in arrays.items():
        yield Case(name, lambda value=value: value, _same_array, ("numpy",))
    fortran = np.asfortranarray(grid)
    yield Case(
        "array, Fortran",
        lambda: fortran,
        lambda v, b: _same_array(v, b) and b.flags.f_contiguous and not b.flags.c_contiguous,
        ("numpy",),
    )
    yield Case(
        "array, broadcast",
        lambda: np.broadcast_to(np.arange(3.0), (4, 3)),
        _same_array,
        ("numpy",),
    )
    scalars: dict[str, Any] = {
        "float64": np.float64(1.5),
        "int32": np.int32(3),
        "uint64": np.uint64(2**64 - 1),
        "bool": np.True_,
        "str": np.str_("é"),
        "bytes": np.bytes_(b"a"),
        "datetime64": np.datetime64("2020-01-02T03", "ns"),
        "complex64": np.complex64(1j),
    }
    for name, value in scalars.items():
        yield Case(f"scalar, {name}", lambda value=value: value, _equal, ("numpy",))
    yield Case("scalar, structured", lambda: structured[0], _by_text, ("numpy",))
    yield Case("dtype", lambda: np.dtype(">f4"), lambda v, b: b == v, ("numpy",))
    yield from _numpy_kinds()


def _numpy_kinds() -> Iterator[Case]:
    """What is nearly an array; arrays that share memory."""
    import numpy as np

    masked = np.ma.array([1, 2], mask=[0, 1], fill_value=7)
    yield Case(
        "masked array",
        lambda: masked,
        lambda v, b: (
            type(b) is type(v)
            and b.mask.tolist() == [False, True]
            and b.fill_value == 7
            and b.data.tolist() == [1, 2]
        ),
        ("numpy",),
    )
    yield Case(
        "matrix", lambda: np.arange(4).reshape(2, 2).view(np.matrix), _same_array, ("numpy",)
    )
    own, base = np.arange(5.0), np.arange(10.0)
    yield Case("shared array", lambda: [own, own], lambda v, b: b[0] is b[1], ("numpy",))
    yield Case(
        "views of one array",
        lambda: [base, base[2:], base[::-2]],
        lambda v, b: (
            all(map(_same_array, v, b))
            and np.shares_memory(b[0], b[1])
            and np.shares_memory(b[0], b[2])
        ),
        ("numpy",),
    )
    yield Case(
        "cycle of an array",
        _array_cycle,
        lambda v, b: b.dtype == object and b[0] is b,
        ("numpy",),
    )
    if hasattr(np.dtypes, "StringDType"):
        texts = np.array([["a", "é"], ["", "long" * 9]], np.dtypes.StringDType())
        yield Case("array, of StringDType", lambda: texts, _same_array, ("numpy",))
    yield Case(
        "array, structured with objects",
        lambda: np.array([(1, "a")], dtype=[("n", "i4"), ("o", "O")]),
        _same_array,
        ("numpy",),
        "pickle",
    )


def _array_cycle() -> Any:
    import numpy as np

    value = np.array([None, 1], object)
    value[0] = value
    return value


def _frame() -> Any:
    import pandas as pd

    return pd.DataFrame(
        {
            "a": [1, 2],
            "s": ["x", None],
            "c": pd.Categorical(["u", "v"]),
            "t": pd.to_datetime(["2020-01-01", None]).tz_localize("UTC"),
        },
        index=pd.Index([5, 6], name="ix"),
    )


def _noted() -> Any:
    frame = _frame()
    frame.attrs["k"] = (1, "x")
    return frame


def _wide() -> Any:
    """A frame with a column of nearly every type."""
    import numpy as np
    import pandas as pd

    return pd.DataFrame(
        {
            "i8": np.array([1, -1], "i1"),
            "u": np.array([1, 2**64 - 1], "u8"),
            "f4": np.array([0.5, np.nan], "f4"),
            "c": np.array([1j, 2]),
            "b": [True, False],
            "o": np.array([(1, "a"), None], object),
            "s": ["x", "y"],
            "Int": pd.array([1, None], dtype="Int64"),
            "Bool": pd.array([True, None], dtype="boolean"),
            "Float": pd.array([1.5, None], dtype="Float32"),
            "string": pd.array(["a", None], dtype="string"),
            "python": pd.array(["a", None], dtype="string[python]"),
            "arrow": pd.array([[1], None], dtype=pd.ArrowDtype(_arrow().list_(_arrow().int64()))),
            "when": pd.to_datetime(["2020-01-01", None]),
            "zoned": pd.to_datetime(["2020-01-01", None]).tz_localize("Europe/Paris"),
            "span": pd.to_timedelta([1, None]),
            ("mixed", 1): pd.Categorical([3, 1], categories=[3, 2, 1], ordered=True),
        }
    )


def _frames() -> dict[str, Callable[[], Any]]:
    import numpy as np

    return {
        "frame": _frame,
        "frame, MultiIndex": lambda: _frame().set_index(["a", "s"]),
        "frame, of Arrow types": lambda: _frame().convert_dtypes(dtype_backend="pyarrow"),
        "frame, of numbers": lambda: _pandas().DataFrame(np.arange(6.0).reshape(3, 2)),
        "frame, with NaN": lambda: _pandas().DataFrame({"f": [1.0, float("nan")]}),
        "frame, with attrs": _noted,
        "frame, of all types": _wide,
        "frame, empty": lambda: _pandas().DataFrame(),
        "frame, without rows": lambda: _wide().iloc[:0],
        "frame, of one name twice": lambda: _pandas().DataFrame([[1, 2.5]], columns=["a", "a"]),
        "frame, sliced": lambda: _wide().iloc[::-1, 3:],
        "series": lambda: _pandas().Series([1, 2], name="q"),
        "series, of objects": lambda: _pandas().Series([1, "a", None], dtype=object),
        "series, of categories": lambda: _wide()[("mixed", 1)],
        "series, zoned": lambda: _wide()["zoned"],
    }


def _libraries() -> Iterator[Case]:
    """Arrow, pandas, polars, scipy."""

    pandas = ("numpy", "pandas", "pyarrow")
    for name, make in _frames().items():
        yield Case(f"pandas {name}", make, _same_frame, pandas)
    moments: dict[str, Callable[[], Any]] = {
        "Timestamp": lambda: _pandas().Timestamp("2020-01-01 01:02:03.000000004"),
        "Timestamp, zoned": lambda: _pandas().Timestamp("2020-07-25 02:30", tz="Europe/Paris"),
        "Timedelta": lambda: _pandas().Timedelta(-5, "s"),
    }
    for name, make in moments.items():
        yield Case(f"pandas {name}", make, _by_text, pandas)
    for name in ("NA", "NaT"):
        make = lambda name=name: getattr(_pandas(), name)  # noqa: E731
        yield Case(f"pandas {name}", make, lambda v, b: b is v, pandas)
    periods: dict[str, Callable[[], Any]] = {
        "series, of periods": lambda: _pandas().Series(_pandas().period_range("2020", periods=3)),
        "series, of intervals": lambda: _pandas().Series(_pandas().interval_range(0, 3)),
        "series, sparse": lambda: _pandas().Series([0, 0, 1], dtype="Sparse[int]"),
    }
    for name, make in periods.items():
        yield Case(f"pandas {name}", make, _same_frame, pandas)
    yield Case(
        "pandas index, with a frequency",
        lambda: _pandas().date_range("2020-01-01", periods=3, freq="D", tz="Europe/Paris"),
        lambda v, b: type(b) is type(v) and b.equals(v) and b.freq == v.freq and b.dtype == v.dtype,
        pandas,
    )
    arrow: dict[str, Callable[[], Any]] = {
        "table": lambda: _arrow().table({"a": [1, 2], "s": ["x", None]}),
        "table, sliced": lambda: _arrow().table({"a": [1, 2], "s": ["x", None]}).slice(1, 1),
        "record batch": lambda: _arrow().RecordBatch.from_pydict({"a": [1, 2]}),
        "array": lambda: _arrow().array([[1], None, [2, 3]]),
        "chunked array": lambda: _arrow().chunked_array([[1], [2, 3]]),
    }
    for name, make in arrow.items():
        yield Case(
            f"pyarrow {name}",
            make,
            lambda v, b: type(b) is type(v) and b.equals(v),
            ("pyarrow",),
        )
    yield Case(
        "polars frame",
        lambda: __import__("polars").DataFrame({"a": [1, 2], "s": ["x", None]}),
        lambda v, b: type(b) is type(v) and b.equals(v),
        ("polars",),
    )
    yield Case(
        "polars series",
        lambda: __import__("polars").Series("n", [1, None, 3]),
        lambda v, b: type(b) is type(v) and b.equals(v) and b.name == "n",
        ("polars",),
    )
    sparse = ("numpy", "scipy")
    yield Case(
        "scipy csr",
        lambda: _sparse().random(20, 20, 0.2, "csr", random_state=0),
        lambda v, b: type(b) is type(v) and (b != v).nnz == 0,
        sparse,
        "pickle",
    )
    yield Case(
        "scipy lil",
        lambda: _sparse().random(20, 20, 0.2, "csr", random_state=0).tolil(),
        lambda v, b: type(b) is type(v) and (b.tocsr() != v.tocsr()).nnz == 0,
        sparse,
        "pickle",
    )


def _pandas() -> Any:
    import pandas

    return pandas


def _arrow() -> Any:
    import pyarrow

    return pyarrow


def _sparse() -> Any:
    import scipy.sparse

    return scipy.sparse


def every_case() -> list[Case]:
    """The whole table."""
    groups = (_plain, _library, _objects, _identities, _numpy, _libraries)
    return [case for group in groups for case in group()]
