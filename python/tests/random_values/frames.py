"""Random objects of pandas, polars and pyarrow, from a seed.

Everything that these libraries let a program make and pickle keeps: labels of any type, each once
or twice, missing values of every kind, element types of every family, flags and attributes.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import decimal
import random
import zoneinfo
from collections.abc import Callable
from typing import Any

import dateutil.tz
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

ZONES: list[Any] = [
    "Europe/Berlin",
    "UTC",
    dt.UTC,
    zoneinfo.ZoneInfo("UTC"),
    zoneinfo.ZoneInfo("America/New_York"),
    dt.timezone(dt.timedelta(hours=2)),
    dt.timezone(dt.timedelta(seconds=3661), "odd"),
    dateutil.tz.gettz("Europe/Berlin"),
    dateutil.tz.tzutc(),
    dateutil.tz.tzoffset("X", 3600),
]
OFFSETS: list[Any] = [
    pd.offsets.Day(2),
    pd.offsets.Hour(3),
    pd.offsets.MonthEnd(2),
    pd.offsets.BusinessDay(),
    pd.offsets.QuarterEnd(startingMonth=2),
    pd.offsets.Week(weekday=3),
    pd.offsets.YearBegin(month=4),
    pd.offsets.CustomBusinessDay(holidays=["2020-01-01"], weekmask="Mon Tue Wed"),
    pd.offsets.DateOffset(months=1, days=2),
    pd.offsets.DateOffset(hour=3),
    pd.offsets.BusinessHour(start="10:00", end="12:00"),
    pd.offsets.FY5253Quarter(weekday=2),
    pd.offsets.Easter(2),
    pd.offsets.SemiMonthEnd(day_of_month=10),
    pd.offsets.MonthBegin(normalize=True),
]
STRINGS = ["", "a", "b", "é", "a string that is longer than twelve bytes", "nan", "None", "\x00"]


class _Frame(pd.DataFrame):
    """A frame that is more than one."""

    @property
    def _constructor(self) -> type:
        return _Frame


class _Series(pd.Series):
    """A series that is more than one."""


def scalar(rng: random.Random) -> Any:
    """A value that an object column may hold, or a label be."""
    moment = pd.Timestamp(rng.randrange(2**50), unit="us")
    return rng.choice(
        [
            None, True, False, 0, 1, rng.randrange(-(2**70), 2**70), 1.0, 0.5, float("nan"), -0.0,
            *STRINGS,
            b"b", pd.NA, pd.NaT, np.int8(3), np.float32(1.5), np.bool_(True), np.str_("n"),
            decimal.Decimal("1.50"), decimal.Decimal("NaN"), (1, "a"), (), frozenset({1, "x"}),
            dt.date(2020, 1, 2), dt.datetime(2020, 1, 2, tzinfo=dt.UTC), dt.timedelta(1, 2, 3),
            dt.time(1, 2), moment, moment.tz_localize(rng.choice(ZONES[:6])), pd.Timedelta(5, "ns"),
            pd.Period("2020-01", "M"), pd.Interval(0, 1.5, "both"), 1j, rng.choice(OFFSETS),
            np.datetime64("2020-01-01", "D"), 2**63, range(3),
        ]
    )  # fmt: skip


def _element(rng: random.Random) -> Any:
    """A value that no label can be, or one."""
    if rng.random() < 0.3:
        return rng.choice(
            [[1, None], {"a": 1}, {1: "x", (2,): None}, {1, 2}, np.arange(3), bytearray(b"x")]
        )
    return scalar(rng)


def objects(rng: random.Random, count: int, make: Callable[[random.Random], Any]) -> Any:
    """An array of objects."""
    made = np.empty(count, object)
    for at in range(count):
        made[at] = make(rng)
    return made


def _alike(rng: random.Random, count: int) -> Any:
    """Objects of one type, which libraries take for a column of that type, with missing values."""
    kinds: list[Callable[[], Any]] = [
        lambda: rng.choice(STRINGS),
        lambda: decimal.Decimal(rng.randrange(1000)) / rng.choice([1, 10, 8]),
        lambda: dt.date.fromordinal(rng.randrange(1, 10**6)),
        lambda: rng.random() < 0.5,
        lambda: rng.randrange(10),
        lambda: rng.choice(STRINGS).encode(),
        lambda: [rng.randrange(3)],
        lambda: pd.Timestamp(rng.randrange(10**9), unit="s"),
    ]
    kind = rng.choice(kinds)
    missing = rng.choice([(), (None,), (float("nan"),), (pd.NA,), (None, float("nan"))])
    return objects(
        rng, count, lambda _: rng.choice(missing) if missing and rng.random() < 0.3 else kind()
    )


def numbers(rng: random.Random, count: int) -> Any:
    """An array of any of NumPy's types that pandas keeps."""
    text = rng.choice(
        ["?", "i1", "u1", "i2", "u4", "i8", "u8", "f2", "f4", "f8", ">i4", ">f8", "c8", "c16", "g"]
    )
    made = np.frombuffer(rng.randbytes(count * 16), "u1").astype("f8").astype(text)
    if made.dtype.kind in "fc" and count:
        made[rng.randrange(count)] = np.nan
    layout = rng.randrange(6)
    if layout == 0:
        return np.repeat(made, 2)[:count][::-1]
    if layout == 1 and count:
        return np.broadcast_to(made[:1], count)
    return made[:count]


def _mask(rng: random.Random, count: int) -> Any:
    return np.array([rng.random() < 0.3 for _ in range(count)], bool)


def _dates(rng: random.Random, count: int, kind: str = "M8") -> Any:
    unit = rng.choice(["s", "ms", "us", "ns"])
    made = np.array([rng.randrange(-(10**9), 10**9) for _ in range(count)], "i8")
    made = made.view(f"{kind}[{unit}]")
    if count and rng.random() < 0.5:
        made[rng.randrange(count)] = "NaT"
    return made


def _texts(rng: random.Random, count: int) -> Any:
    dtype = rng.choice(
        [
            "str", "string", "string[python]", "string[pyarrow]",
            pd.StringDtype("python", na_value=np.nan), pd.ArrowDtype(pa.string()),
            pd.ArrowDtype(pa.large_string()),
        ]
    )  # fmt: skip
    missing = rng.random() < 0.5
    found = [None if missing and rng.random() < 0.3 else rng.choice(STRINGS) for _ in range(count)]
    return pd.array(found, dtype=dtype)


def _categories(rng: random.Random, count: int) -> Any:
    labels = _unique_index(rng, rng.randrange(4))
    codes = np.array([rng.randrange(-1, len(labels)) for _ in range(count)], "i8")
    return pd.Categorical.from_codes(codes, labels, ordered=rng.random() < 0.5)


def _unique_index(rng: random.Random, count: int) -> Any:
    kinds = [
        pd.Index(rng.sample(STRINGS, count)),
        pd.Index(rng.sample(STRINGS, count), dtype=object),
        pd.Index(rng.sample(range(99), count), dtype="i2"),
        pd.Index([float(n) for n in range(count)], name="labels"),
        pd.date_range("2020-01-01", periods=count, freq="D"),
        pd.RangeIndex(count),
        pd.period_range("2020-01", periods=count, freq="M"),
        pd.interval_range(0, count),
        pd.Index([(1, "a"), None, True, "x"][:count], dtype=object, tupleize_cols=False),
    ]
    return rng.choice(kinds)


def _sparse(rng: random.Random, count: int) -> Any:
    values = np.array([rng.choice([0, 0, 0, 1, 2]) for _ in range(count)], rng.choice(["i8", "f4"]))
    kind = rng.choice(["integer", "block"])
    return pd.arrays.SparseArray(values, fill_value=rng.choice([0, 1]), kind=kind)


def _arrow_column(rng: random.Random, count: int) -> Any:
    return pd.arrays.ArrowExtensionArray(arrow_array(rng, count, plain=True))


def _intervals(rng: random.Random, count: int) -> Any:
    left = rng.choice([np.arange(count), np.arange(count) * 0.5, _dates(rng, count)])
    closed = rng.choice(["left", "right", "both", "neither"])
    index = pd.Index(left)
    later = index + (pd.Timedelta(1, "h") if index.dtype.kind == "M" else 1)
    return pd.arrays.IntervalArray.from_arrays(index, later, closed=closed)


def _periods(count: int) -> Any:
    found = [pd.NaT, *pd.period_range("2020", periods=count, freq="2M")]
    return pd.array(found[:count], dtype="period[2M]")


def array(rng: random.Random, count: int) -> Any:
    """Values of a column."""
    makers: list[Callable[[], Any]] = [
        lambda: numbers(rng, count),
        lambda: objects(rng, count, _element),
        lambda: _alike(rng, count),
        lambda: _dates(rng, count),
        lambda: _dates(rng, count, "m8"),
        lambda: pd.DatetimeIndex(_dates(rng, count), tz="UTC").tz_convert(rng.choice(ZONES)).array,
        lambda: _texts(rng, count),
        lambda: _categories(rng, count),
        lambda: pd.arrays.IntegerArray(
            rng.choice([np.arange(count), np.arange(count, dtype="u1")]), _mask(rng, count)
        ),
        lambda: pd.arrays.FloatingArray(np.array([np.nan, 1.5] * count)[:count], _mask(rng, count)),
        lambda: pd.arrays.BooleanArray(_mask(rng, count), _mask(rng, count)),
        lambda: _sparse(rng, count),
        lambda: _periods(count),
        lambda: _intervals(rng, count),
        lambda: _arrow_column(rng, count),
    ]
    return rng.choice(makers)()


def _name(rng: random.Random) -> Any:
    return rng.choice([None, None, "x", "", "é", 3, True, ("a", 1), None, 1.5, pd.Timestamp(0)])


def index(rng: random.Random, count: int) -> Any:
    """Labels of rows or columns."""
    makers: list[Callable[[], Any]] = [
        lambda: pd.RangeIndex(count),
        lambda: pd.RangeIndex(5, 5 + 3 * count, 3),
        lambda: pd.RangeIndex(-count, 0)[::-1],
        lambda: pd.Index([f"c{n}" for n in range(count)]),
        lambda: pd.Index([f"c{n}" for n in range(count)]),
        lambda: pd.Index([rng.choice(STRINGS) for _ in range(count)], dtype=object),
        lambda: pd.Index(objects(rng, count, scalar), dtype=object, tupleize_cols=False),
        lambda: pd.Index([rng.choice([True, False]) for _ in range(count)]),
        lambda: pd.Index(np.arange(count) * rng.choice([1, 0.5])),
        lambda: pd.date_range("2020-01-01", periods=count, freq=rng.choice(OFFSETS[:14])),
        lambda: pd.date_range("2020-01-01", periods=count, freq="D", tz=rng.choice(ZONES)),
        lambda: pd.timedelta_range("1h", periods=count, freq="3h"),
        lambda: pd.period_range("2020-01", periods=count, freq=rng.choice(["M", "2D", "Q-FEB"])),
        lambda: pd.MultiIndex.from_arrays(
            [[rng.choice("ab") for _ in range(count)], np.arange(count)],
            names=rng.choice([None, ["k", "n"], ["k", None], [3, ("a",)]]),
        ),
        lambda: pd.MultiIndex.from_product([["a", "b", "c"], [1, 2, 3]])[:count],
        lambda: pd.Index(array(rng, count)),
    ]
    made = rng.choice(makers)()
    if len(made) != count:
        made = pd.RangeIndex(count)
    return made if isinstance(made, pd.MultiIndex) else made.rename(_name(rng))


def series(rng: random.Random, count: int) -> Any:
    """A series."""
    made = pd.Series(array(rng, count), index=index(rng, count), copy=False)
    made.name = _name(rng)
    return _noted(rng, made)


def _noted(rng: random.Random, made: Any) -> Any:
    if rng.random() < 0.1:
        made.attrs = {"unit": "m", 3: [1, (2,)]}
    if rng.random() < 0.1 and made.index.is_unique:
        with contextlib.suppress(ValueError):
            made.flags.allows_duplicate_labels = False
    return made


def frame(rng: random.Random, count: int) -> Any:
    """A frame."""
    width = rng.randrange(5)
    if rng.random() < 0.1:
        made = pd.DataFrame(np.arange(count * width).reshape(count, width))
    else:
        columns = {at: pd.Series(array(rng, count), copy=False) for at in range(width)}
        made = pd.DataFrame(columns, index=pd.RangeIndex(count), copy=False)
    made.index, made.columns = index(rng, count), index(rng, made.shape[1])
    if rng.random() < 0.5 and made.shape[1]:
        names = [f"c{n}" for n in range(made.shape[1])]
        made.columns = pd.Index(names, name=rng.choice([None, "x"]))
    if rng.random() < 0.3:
        days = pd.date_range("2020", periods=count, freq="D")
        made.index = rng.choice([pd.RangeIndex(count), days, pd.DatetimeIndex(days, freq=None)])
    if rng.random() < 0.05:
        return _Frame(made)
    return _noted(rng, made)


# pyarrow


def arrow_type(rng: random.Random, depth: int = 0) -> Any:
    """A type of Arrow."""
    inner = (lambda: arrow_type(rng, depth + 1)) if depth < 2 else (lambda: pa.int8())
    kinds: list[Callable[[], Any]] = [
        pa.null, pa.bool_, pa.int8, pa.uint64, pa.float16, pa.float32, pa.float64, pa.string,
        pa.large_string, pa.string_view, pa.binary, pa.binary_view, pa.date32, pa.date64,
        lambda: pa.binary(3), lambda: pa.decimal32(5, 2), lambda: pa.decimal128(20, 3),
        lambda: pa.decimal256(50, 5), lambda: pa.time32("ms"), lambda: pa.time64("ns"),
        lambda: pa.timestamp("us", rng.choice([None, "UTC", "Europe/Berlin", "+02:00"])),
        lambda: pa.duration("ms"), pa.month_day_nano_interval,
        lambda: pa.list_(inner()), lambda: pa.large_list(inner()), lambda: pa.list_(inner(), 2),
        lambda: pa.list_view(pa.int8()),
        lambda: pa.list_(pa.field("e", inner(), metadata={"k": "v"})),
        lambda: pa.struct([pa.field("a", inner()), pa.field("b", pa.int8(), metadata={"x": ""})]),
        lambda: pa.map_(pa.string(), inner()),
        lambda: pa.dictionary(pa.int8(), rng.choice([pa.string(), pa.int64()]), rng.random() < 0.5),
    ]  # fmt: skip
    return rng.choice(kinds)()


def _arrow_value(rng: random.Random, kind: Any) -> Any:
    """A Python value that an array of a type takes; None where one cannot be had cheaply."""
    if pa.types.is_dictionary(kind):
        return _arrow_value(rng, kind.value_type)
    if pa.types.is_boolean(kind):
        return rng.random() < 0.5
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return rng.randrange(100)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or kind == pa.string_view():
        return rng.choice(STRINGS)
    if pa.types.is_fixed_size_binary(kind):
        return rng.randbytes(kind.byte_width)
    if pa.types.is_binary(kind) or kind == pa.binary_view():
        return rng.randbytes(rng.randrange(20))
    if pa.types.is_decimal(kind):
        return decimal.Decimal(rng.randrange(99)).scaleb(-2)
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return dt.datetime(2020, 1, rng.randrange(1, 28))
    if pa.types.is_fixed_size_list(kind):
        return [_arrow_value(rng, kind.value_type) for _ in range(kind.list_size)]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [_arrow_value(rng, kind.value_type) for _ in range(rng.randrange(3))]
    if pa.types.is_struct(kind):
        return {field.name: _arrow_value(rng, field.type) for field in kind}
    if pa.types.is_map(kind):
        return [(key, _arrow_value(rng, kind.item_type)) for key in rng.sample(STRINGS, 2)]
    return None


def arrow_array(rng: random.Random, count: int, *, plain: bool = False) -> Any:
    """An array of Arrow."""
    kind = arrow_type(rng)
    missing = rng.random() < 0.5
    found = [
        None if missing and rng.random() < 0.3 else _arrow_value(rng, kind) for _ in range(count)
    ]
    try:
        made = pa.array(found, kind)
        # Of structures that are all missing pyarrow makes keys that their dictionary lacks.
        made.validate(full=True)
    except (pa.ArrowException, TypeError):
        made = pa.nulls(count, kind)
    if not plain and count and rng.random() < 0.3:
        made = made.slice(rng.randrange(count))
    return made


def _metadata(rng: random.Random) -> Any:
    return rng.choice([None, None, {b"k": b"v"}, {b"\xff": b"\xfe"}, {b"a": b"\xff", b"b": b""}])


def arrow(rng: random.Random, count: int) -> Any:
    """An array, a chunked array, a batch or a table of Arrow."""
    what = rng.randrange(4)
    if what == 0:
        return arrow_array(rng, count)
    if what == 1:
        made = arrow_array(rng, count)
        return pa.chunked_array([made] * rng.randrange(4), made.type)
    arrays = [arrow_array(rng, count, plain=True) for _ in range(rng.randrange(4))]
    fields = [
        pa.field(rng.choice(["x", "", f"c{at}"]), made.type, metadata=_metadata(rng))
        for at, made in enumerate(arrays)
    ]
    kind = pa.RecordBatch if what == 2 else pa.Table
    return kind.from_arrays(arrays, schema=pa.schema(fields, _metadata(rng)))


# polars


def polars_type(rng: random.Random, depth: int = 0) -> Any:
    """A type of polars."""
    inner = (lambda: polars_type(rng, depth + 1)) if depth < 2 else (lambda: pl.Int8)
    kinds: list[Callable[[], Any]] = [
        *(lambda kind=kind: kind for kind in (
            pl.Boolean, pl.Int8, pl.UInt16, pl.Int64, pl.UInt64, pl.Int128, pl.UInt128, pl.Float32,
            pl.Float64, pl.String, pl.Binary, pl.Date, pl.Time, pl.Categorical, pl.Null,
        )),
        lambda: pl.Decimal(20, 3), lambda: pl.Datetime("ms", "Europe/Berlin"),
        lambda: pl.Datetime("ns"), lambda: pl.Duration("us"), lambda: pl.Enum(["a", "b"]),
        lambda: pl.List(inner()), lambda: pl.Array(inner(), 2),
        lambda: pl.Struct({"a": inner(), "b": pl.Int8}),
    ]  # fmt: skip
    return rng.choice(kinds)()


def _polars_value(rng: random.Random, kind: Any) -> Any:
    if kind == pl.Struct:
        return {field.name: _polars_value(rng, field.dtype) for field in kind.fields}
    if kind == pl.Array:
        return [_polars_value(rng, kind.inner) for _ in range(kind.size)]
    if kind == pl.List:
        return [_polars_value(rng, kind.inner) for _ in range(rng.randrange(3))]
    if kind.is_integer():
        return rng.randrange(100)
    if kind.is_float():
        return rng.choice([1.5, float("nan"), -0.0])
    if kind == pl.Boolean:
        return rng.random() < 0.5
    if kind in {pl.String, pl.Categorical}:
        return rng.choice(STRINGS)
    if kind == pl.Enum:
        return rng.choice("ab")
    if kind == pl.Binary:
        return rng.randbytes(rng.randrange(20))
    if kind == pl.Date:
        return dt.date(2020, 1, rng.randrange(1, 28))
    if kind == pl.Datetime:
        return dt.datetime(2020, 1, 1, 2, tzinfo=dt.UTC if kind.time_zone else None)
    return None


def polars_series(rng: random.Random, count: int, name: str = "") -> Any:
    """A series of polars."""
    kind = polars_type(rng)
    missing = rng.random() < 0.5
    found = [
        None if missing and rng.random() < 0.3 else _polars_value(rng, kind) for _ in range(count)
    ]
    made = pl.Series(name, found, kind)
    if rng.random() < 0.2 and not made.dtype.is_nested():
        made = made.sort(descending=rng.random() < 0.5)
    return made.slice(1) if rng.random() < 0.2 and count > 1 and name == "" else made


def polars(rng: random.Random, count: int) -> Any:
    """A frame or a series of polars."""
    if rng.random() < 0.4:
        return polars_series(rng, count, rng.choice(["", "é", "x"]))
    names = [f"c{at}" for at in range(1, rng.randrange(1, 5))]
    return pl.DataFrame([polars_series(rng, count, name) for name in names])


def _dtype(found: Any) -> Any:
    """A type; that of objects is not pandas' own."""
    return pd.CategoricalDtype() if isinstance(found, np.dtype) else found


def value(rng: random.Random) -> Any:
    """An object of one of the three libraries."""
    while True:
        # Not everything that is tried here can be made.
        with contextlib.suppress(
            ArithmeticError, LookupError, NotImplementedError, TypeError, ValueError
        ):
            return _value(rng)


def _value(rng: random.Random) -> Any:
    count = rng.choice([0, 1, 2, 3, 5, 9])
    makers: list[Callable[[], Any]] = [
        lambda: frame(rng, count),
        lambda: frame(rng, count),
        lambda: series(rng, count),
        lambda: index(rng, count),
        lambda: series(rng, count).array,
        lambda: _dtype(series(rng, count).dtype),
        lambda: scalar(rng),
        lambda: arrow(rng, count),
        lambda: polars(rng, count),
    ]
    return rng.choice(makers)()
