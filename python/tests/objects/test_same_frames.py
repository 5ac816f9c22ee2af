"""A frame by itself comes back as a frame in a list does, and as pickle gives it back.

``put(frame)`` once made an Arrow table of every frame that Arrow could hold. Columns named True and
False came back as True and True, a series named 3 was named "3", a column of sets became lists, an
empty categorical lost its categories. A table is used now only where it gives the frame back.
"""

from __future__ import annotations

import decimal
import pickle
import warnings
import zoneinfo

import dateutil.tz
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import plasmon

from ..random_values.same_frames import difference

NEVER = plasmon.SerializationContext("never")


def _flagged():
    frame = pd.DataFrame({"a": [1, 2]})
    frame.flags.allows_duplicate_labels = False
    return frame


def _column(*values, dtype=object):
    return pd.DataFrame({"a": pd.Series(values, dtype=dtype)})


class Table(pd.DataFrame):
    """A frame of another class."""

    @property
    def _constructor(self):
        return Table


FRAMES = {
    "columns named by truth": pd.DataFrame([[1, 2]], columns=[True, False]),
    "columns named by anything": pd.DataFrame([[1, 2, 3]], columns=["1", 1, (1, "a")]),
    "columns that are a range": pd.DataFrame(np.eye(2)),
    "columns of levels": pd.DataFrame(np.eye(2), columns=[["a", "b"], [1, 2]]),
    "a series named 3": pd.Series([1], name=3),
    "a series named by a tuple": pd.Series([1], name=("a", 1)),
    "sets": _column({1, 2}, {3}),
    "tuples": _column((1, 2), (3,)),
    "dicts with numbers as keys": _column({1: "a"}, {2: "b"}),
    "decimals of several scales": _column(decimal.Decimal("1.50"), decimal.Decimal("1.5")),
    "None and NaN": _column(None, float("nan"), "a"),
    "NA and NaT": _column(pd.NA, pd.NaT, None),
    "no categories": pd.Series(pd.Categorical([None], categories=pd.Index([], dtype="i8"))),
    "string[python]": _column("a", None, dtype="string[python]"),
    "a subclass": Table({"a": [1, 2]}),
    "flags": _flagged(),
    "a frequency": pd.DataFrame({"a": [1, 2]}, index=pd.date_range("2020", periods=2, freq="D")),
    "a zone of dateutil": pd.Series(
        pd.date_range("2020", periods=2, tz=dateutil.tz.gettz("Europe/Berlin"))
    ),
    "UTC": pd.Series(pd.date_range("2020", periods=2, tz="UTC")),
    "UTC as a ZoneInfo": pd.Series(pd.date_range("2020", periods=2, tz=zoneinfo.ZoneInfo("UTC"))),
    "complex": pd.DataFrame({"a": [1j]}),
    "big-endian": pd.DataFrame({"a": np.array([1, 2], ">i4")}),
    "longdouble": pd.DataFrame({"a": np.array([1, 2], "g")}),
    "one row again and again": pd.Series(np.broadcast_to(np.float64(1), 5), copy=False),
    "periods": pd.Series(pd.period_range("2020", periods=2, freq="2M")),
    "intervals": pd.Series([1, 2], index=pd.interval_range(0, 2, closed="left")),
    "sparse": pd.Series(pd.arrays.SparseArray([0, 0, 1])),
    "polars, wide integers": pl.DataFrame({"a": [1, None, 2**100]}, schema={"a": pl.Int128}),
    "polars, nested wide integers": pl.Series("a", [[1], [2**127]], pl.List(pl.UInt128)),
    "polars, without a name": pl.Series([1, 2]),
    "polars, sorted": pl.Series("a", [3, 1, 2]).sort(descending=True),
    "metadata that is not UTF-8": pa.table({"a": [1]}).replace_schema_metadata({b"\xff": b"\xfe"}),
    "a field with such": pa.table(
        [pa.array([1])], schema=pa.schema([pa.field("a", pa.int64(), metadata={"k": b"\xff"})])
    ),
}


@pytest.mark.parametrize("name", FRAMES)
def test_by_itself_as_in_a_list(store, name):
    value = FRAMES[name]
    if name != "big-endian":
        # pickle turns the bytes of this one around.
        assert difference(value, pickle.loads(pickle.dumps(value))) is None
    assert difference(value, store.get(store.put(value))) is None
    assert difference(value, store.get(store.put([value]))[0]) is None
    trusting = plasmon.objects.trusting_context
    assert difference(value, trusting.loads(trusting.dumps(value))) is None


@pytest.mark.parametrize("name", [name for name in FRAMES if name != "a subclass"])
def test_no_pickle_is_needed(name):
    value = FRAMES[name]
    assert difference(value, NEVER.loads(NEVER.dumps(value))) is None


@pytest.mark.parametrize(
    "value",
    [
        pd.offsets.CustomBusinessDay(holidays=["2020-01-01"]),
        pd.offsets.DateOffset(months=1, hour=2),
        pd.Period("2020-01", "M"),
        pd.Interval(pd.Timestamp(0), pd.Timestamp(1), "both"),
        pd.CategoricalDtype(["a", "b"], ordered=True),
        pd.PeriodDtype("2M"),
        pd.IntervalDtype("datetime64[ns, UTC]", "left"),
        pd.SparseDtype("f4", 1.0),
        pd.DatetimeTZDtype("us", zoneinfo.ZoneInfo("UTC")),
        pd.StringDtype("python"),
        pd.ArrowDtype(pa.list_(pa.int8())),
        pd.Int8Dtype(),
        pd.MultiIndex.from_arrays([["b", "a"], [1, 2]], names=["k", None]),
        pd.timedelta_range("1h", periods=3),
        dateutil.tz.gettz("Asia/Tokyo"),
        dateutil.tz.tzoffset("X", 60),
    ],
    ids=lambda value: type(value).__name__,
)
def test_no_pandas_object_needs_pickle(value):
    assert difference(value, NEVER.loads(NEVER.dumps(value))) is None


def test_plain_frames_are_tables(store):
    """Other languages read these: the rule takes nothing from frames that a table gives back."""
    frame = pd.DataFrame(
        {
            "i": [1, 2], "f": [1.5, np.nan], "s": ["a", None], "c": pd.Categorical(["x", None]),
            "t": pd.to_datetime(["2020", None]), "z": pd.date_range("2020", periods=2, tz="UTC"),
            "n": pd.array([1, None], "Int8"),
        }
    )  # fmt: skip
    for value in (frame, frame["s"], frame.set_index("i"), frame.set_index("t").iloc[:1]):
        id = store.put(value)
        assert store.get_buffer(id).tag == 1
        assert difference(value, store.get(id)) is None


def test_a_table_can_be_asked_for(store):
    frame = pd.DataFrame({"a": [decimal.Decimal("1.50"), None]}, index=[[1, 2], ["x", "y"]])
    assert store.get_buffer(store.put(frame)).tag == 3
    id = store.put(frame, as_="arrow")
    assert store.get_buffer(id).tag == 1
    assert store.get(id, as_="polars")["a"].to_list() == [decimal.Decimal("1.50"), None]
    assert store.get(store.put(pl.DataFrame({"a": [1]}), as_="arrow")).to_dicts() == [{"a": 1}]
    assert store.get(store.put(pa.table({"a": [1]}), as_="arrow")).to_pylist() == [{"a": 1}]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (pd.DataFrame([[1, 2]], columns=[True, False]), "column True"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "two columns are named 'a'"),
        (pd.DataFrame({"mixed": [1, "a"]}), "mixed"),
        ([1, 2], "list"),
    ],
)
def test_what_no_table_can_be_is_named(store, value, text):
    with pytest.raises(TypeError, match=text):
        store.put(value, as_="arrow")


def test_forms_are_known(store):
    with pytest.raises(ValueError, match="arrow"):
        store.put([1], as_="parquet")
    with pytest.raises(TypeError, match="as_"):
        store.create(8, as_="arrow")


def test_objects_are_read_as_other_forms(store):
    """A frame that is stored as an object is converted for a reader that asks."""
    frame = pd.DataFrame({0: [1, 2], 1: ["a", "b"]})
    id = store.put(frame)
    assert store.get_buffer(id).tag == 3
    assert store.get(id, as_="arrow").column_names == ["0", "1"]
    assert store.get(id, as_="polars").shape == (2, 2)
    assert difference(frame, store.get(id, as_="pandas")) is None
    assert store.get(id, as_="numpy").shape == (2, 2)
    assert store.get(id, as_="bytes")[:4] == b"PLO1"
    with pytest.raises(TypeError, match="list"):
        store.get(store.put([1]), as_="arrow")


@pytest.mark.parametrize("wrap", [lambda value: value, lambda value: [value]])
def test_what_polars_cannot_write_is_refused_with_advice(store, wrap):
    query = pl.DataFrame({"a": [1]}).lazy()
    with pytest.raises(TypeError, match="collect"):
        store.put(wrap(query))
    objects = pl.DataFrame({"o": pl.Series([object()], dtype=pl.Object)})
    with pytest.raises(TypeError, match="column 'o' of type Object"):
        store.put(wrap(objects))


# Bytes that lie


@pytest.mark.parametrize("what", ["columns", "levels", "places"])
def test_a_range_is_no_bomb(what):
    """704 bytes, a frame whose columns are said to be a range of 150 million, took 1.1 GB."""
    long = pd.RangeIndex(150_000_000)
    from plasmon.objects import _pandas_makers as makers

    calls = {
        "columns": (makers.make_frame, (long, pd.RangeIndex(1), [], {}, True)),
        "levels": (makers.make_levels, ([long], [np.broadcast_to(np.int8(0), 10**9)], ["a"], None)),
        "places": (
            makers.make_frame,
            (
                pd.RangeIndex(10**9),
                pd.RangeIndex(0),
                [(np.zeros((10**9, 0)), np.broadcast_to(np.int64(0), 10**9))],
                {},
                True,
            ),
        ),
    }
    import tracemalloc

    class Bomb:
        def __reduce__(self):
            return calls[what]

    data = NEVER.dumps(Bomb())
    assert len(data) < 2000
    tracemalloc.start()
    try:
        with pytest.raises(plasmon.BrokenObject, match="pandas"):
            NEVER.loads(data)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "name", ["periods", "intervals", "sparse", "UTC", "polars, sorted", "sets"]
)
def test_damaged_bytes_break_the_object(name):
    """Whatever pandas, polars or pyarrow raise of damaged parts, the reader gets one error."""
    whole = bytearray(NEVER.dumps([FRAMES[name]], form="small"))
    for at in range(16, len(whole)):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << at % 8
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # A zone or a class that is not there is no damage.
            allowed = (plasmon.BrokenObject, plasmon.PickleRefused, LookupError)
            try:
                NEVER.loads(bytes(damaged))
            except allowed:
                continue
            except ValueError as error:
                unknown = "no class is registered" in str(error)
                if not unknown:
                    raise


def test_a_tensors_dimensions_have_no_names(store):
    """The names were lost without a word."""
    array = np.eye(2)
    assert np.array_equal(store.get(store.put(pa.Tensor.from_numpy(array))).to_numpy(), array)
    with pytest.raises(TypeError, match="dimensions"):
        store.put(pa.Tensor.from_numpy(array, dim_names=["a", "b"]))


@pytest.mark.parametrize(
    "value",
    [
        pa.table({"a\0b": [1]}),
        pa.array([{"a\0b": 1}]),
        pl.DataFrame({"a\0b": [1]}),
        pl.Series("a", [{"a\0b": 1}]),
    ],
    ids=["table", "array", "polars frame", "polars series"],
)
def test_names_do_not_end_at_a_zero_byte(store, value):
    """The column "a\\0b" came back as "a": libraries pass each other names that end there."""
    for wrap in (value, [value]):
        with pytest.raises(TypeError, match="zero byte"):
            store.put(wrap)
    frame = pd.DataFrame({"a\0b": [1]})
    assert difference(frame, store.get(store.put(frame))) is None
