"""pandas and polars."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import polars as pl
import polars.testing
import pyarrow as pa
import pytest

from plasmon import _pandas_tables

from .conftest import child


def in_place(store, id, address, nbytes):
    held = store.get_buffer(id)
    return held.address <= address and address + nbytes <= held.address + len(held)


PANDAS = {
    "numbers": pd.DataFrame({"i": range(5), "f": [1.5, np.nan, 3, np.inf, -0.0], "b": [True] * 5}),
    "small numbers": pd.DataFrame({"i": np.arange(5, dtype="i2"), "f": np.zeros(5, "f4")}),
    "texts": pd.DataFrame({"s": ["a", None, "c"], "o": pd.Series(["x", "y", None], dtype="str")}),
    "nullable": pd.DataFrame(
        {"i": pd.array([1, None, 3], "Int64"), "b": pd.array([True, None, False], "boolean")}
    ),
    "arrow": pd.DataFrame(
        {"l": pd.Series([[1], None, [2, 3]], dtype=pd.ArrowDtype(pa.list_(pa.int64())))}
    ),
    "times": pd.DataFrame(
        {
            "t": pd.to_datetime(["2026-01-01", None, "2026-03-01"]),
            "z": pd.date_range("2026-01-01", periods=3, tz="Europe/Berlin"),
            "d": pd.to_timedelta([1, None, 3], "s"),
        }
    ),
    "categories": pd.DataFrame(
        {"c": pd.Categorical(["a", "b", None], categories=["b", "a"], ordered=True)}
    ),
    "index": pd.DataFrame({"x": [1.0, 2.0]}, index=pd.Index(["p", "q"], name="key")),
    "index of times": pd.DataFrame({"x": [1, 2]}, index=pd.date_range("2026", periods=2, freq="D")),
    "levels": pd.DataFrame(
        {"x": range(4)}, index=pd.MultiIndex.from_product([["a", "b"], [1, 2]], names=["k", "n"])
    ),
    "columns with levels": pd.DataFrame(
        np.eye(2), columns=pd.MultiIndex.from_tuples([("a", 1), ("b", 2)])
    ),
    "numbered columns": pd.DataFrame(np.eye(3)),
    "no rows": pd.DataFrame({"x": np.zeros(0), "s": pd.Series([], dtype="str")}),
    "no columns": pd.DataFrame(index=range(4)),
    "periods": pd.DataFrame({"p": pd.period_range("2026-01", periods=3, freq="M")}),
}


@pytest.mark.parametrize("name", PANDAS)
def test_pandas_frames_come_back(store, other, name):
    frame = PANDAS[name]
    id = store.put(frame)
    back = other.get(id)
    assert type(back) is pd.DataFrame
    pd.testing.assert_frame_equal(back, frame, check_freq=False)


def test_pandas_columns_are_read_in_place(store, other):
    frame = pd.DataFrame(
        {
            "i": np.arange(1000),
            "f": np.where(np.arange(1000) % 7 == 0, np.nan, 1.5),
            "u": np.arange(1000, dtype="u1"),
            "s": [str(n) for n in range(1000)],
        }
    )
    id = store.put(frame)
    back = other.get(id)
    for name in ("i", "f", "u"):
        values = back[name].to_numpy()
        assert in_place(other, id, values.ctypes.data, values.nbytes), name
        assert values.ctypes.data % 64 == 0
        assert not values.flags.writeable
    chunks = back["s"].array._pa_array.chunks
    assert all(in_place(other, id, b.address, b.size) for c in chunks for b in c.buffers() if b)
    with pytest.raises(ValueError, match="read-only"):
        back.loc[0, "i"] = 7
    changed = back.copy()
    changed.loc[0, "i"] = 7
    assert other.get(id).loc[0, "i"] == 0


@pytest.mark.parametrize(
    "series",
    [
        pd.Series([1, 2, 3], name="x"),
        pd.Series([1.5, np.nan]),
        pd.Series(["a", None], index=["p", "q"], name="None"),
        pd.Series([1], name=("a", 1)),
        pd.Series([], dtype="f8"),
        pd.Series([{"a": 1}, None], dtype=pd.ArrowDtype(pa.struct([("a", pa.int64())]))),
    ],
)
def test_pandas_series_come_back(store, series):
    back = store.get(store.put(series))
    assert type(back) is pd.Series
    pd.testing.assert_series_equal(back, series)


def test_pandas_read_by_others(store):
    id = store.put(pd.DataFrame({"x": [1.0, np.nan], "s": ["a", None]}))
    assert store.get(id, as_="polars")["s"].to_list() == ["a", None]
    assert np.isnan(store.get(id, as_="arrow")["x"][1].as_py())
    assert store.get(id, as_="numpy")["x"][0] == 1


POLARS = {
    "numbers": pl.DataFrame(
        {"i": [1, None, 3], "f": [1.5, None, float("nan")], "b": [True, None, False]}
    ),
    "small": pl.DataFrame(
        {"a": pl.Series([1, 2], dtype=pl.Int8), "b": pl.Series([1, 2], dtype=pl.UInt16)}
    ),
    "texts": pl.DataFrame(
        {"s": ["a", None, "a text that is longer than twelve bytes"], "e": ["", "é", None]}
    ),
    "binary": pl.DataFrame({"b": [b"x", None, b"y" * 100]}),
    "times": pl.DataFrame(
        {
            "d": [datetime.date(2026, 1, 1), None],
            "t": [datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC), None],
            "h": [datetime.time(1, 2), None],
            "l": [datetime.timedelta(1), None],
        }
    ),
    "lists": pl.DataFrame({"l": [[1, 2], None, []], "n": [["a"], [None], None]}),
    "arrays": pl.DataFrame({"a": pl.Series([[1, 2], [3, 4]], dtype=pl.Array(pl.Int64, 2))}),
    "structures": pl.DataFrame({"s": [{"a": 1, "b": "x"}, {"a": None, "b": "y"}]}),
    "categories": pl.DataFrame({"c": pl.Series(["a", "b", None, "a"], dtype=pl.Categorical)}),
    "enumerations": pl.DataFrame({"e": pl.Series(["p", None, "q"], dtype=pl.Enum(["q", "p"]))}),
    "decimals": pl.DataFrame(
        {"d": pl.Series(["1.50", None], dtype=pl.String).cast(pl.Decimal(10, 2))}
    ),
    "no rows": pl.DataFrame(
        {"x": pl.Series([], dtype=pl.Float64), "s": pl.Series([], dtype=pl.String)}
    ),
    "no columns": pl.DataFrame(),
    "nothing": pl.DataFrame({"n": [None, None]}),
}


@pytest.mark.parametrize("name", POLARS)
def test_polars_frames_come_back(store, other, name):
    frame = POLARS[name]
    id = store.put(frame)
    back = other.get(id)
    assert type(back) is pl.DataFrame
    pl.testing.assert_frame_equal(back, frame)


def test_polars_columns_are_read_in_place(store, other):
    frame = pl.DataFrame(
        {"i": range(1000), "s": ["a text longer than twelve " + str(n) for n in range(1000)]}
    )
    id = store.put(frame)
    back = other.get(id)
    for column in (back["i"], back["s"]):
        chunks = column.to_arrow(compat_level=pl.CompatLevel.newest()).buffers()
        assert all(in_place(other, id, b.address, b.size) for b in chunks if b is not None)


def test_polars_slices_and_chunks(store):
    frame = pl.concat(
        [pl.DataFrame({"x": [n], "s": [str(n) * 20]}) for n in range(5)], rechunk=False
    )
    assert frame.n_chunks() == 5
    assert store.get(store.put(frame)).equals(frame)
    assert store.get(store.put(frame[1:3])).equals(frame[1:3])
    rows = pl.DataFrame({"x": range(100), "s": [str(n) * 20 for n in range(100)]})[30:40]
    assert store.get(store.put(rows)).equals(rows)


@pytest.mark.parametrize(
    "series",
    [
        pl.Series("x", [1, None, 3]),
        pl.Series(["a", "a longer text than twelve"]),
        pl.Series("s", [{"a": 1}, {"a": 2}]),
        pl.Series("l", [[1], None]),
        pl.Series("empty", [], dtype=pl.Int8),
    ],
)
def test_polars_series_come_back(store, series):
    back = store.get(store.put(series))
    assert type(back) is pl.Series
    pl.testing.assert_series_equal(back, series)


def test_polars_without_pyarrow(store):
    frame = pl.DataFrame({"x": [1, 2], "s": ["a", None]})
    id = store.put(frame)
    store.flush()
    found = child(
        """
        import sys
        sys.modules["pyarrow"] = None
        import plasmon, polars as pl
        store = plasmon.connect(sys.argv[1])
        frame = store.get(plasmon.ObjectId.from_hex(sys.argv[2]))
        again = store.get(store.put(frame.with_columns(y=pl.col("x") * 2)))
        print(again.to_dict(as_series=False))
        try:
            store.get(plasmon.ObjectId.from_hex(sys.argv[2]), as_="arrow")
        except ImportError as missing:
            print("pyarrow" in str(missing))
        """,
        str(store.socket),
        id.hex(),
    )
    assert found.stdout.splitlines() == [
        str({"x": [1, 2], "s": ["a", None], "y": [2, 4]}),
        "True",
    ], found.stderr


def test_python_objects_in_frames(store):
    """pandas frames of them are Python objects; polars cannot take its own apart."""
    frame = pd.DataFrame({"x": [(1, "a"), {"k": 2}]})
    pd.testing.assert_frame_equal(store.get(store.put(frame)), frame)
    objects = pl.Series("x", [object()], dtype=pl.Object)
    for value in (objects, pl.DataFrame(objects)):
        with pytest.raises(TypeError, match=r"(type|polars) Object"):
            store.put(value)
        with pytest.raises(TypeError, match=r"(type|polars) Object"):
            store.put([value])


def test_what_is_noted_on_a_pandas_object_is_kept(store):
    frame = pd.DataFrame({"x": [1.0, 2.0]})
    frame.attrs["unit"] = "m"
    column = frame["x"]
    for value in (frame, column):
        back = store.get(store.put(value))
        assert type(back) is type(value)
        assert back.attrs == {"unit": "m"}
        assert back.equals(value)


def _frames():
    """Frames with columns of floats among others, and labels of every kind."""
    one, two = [1.0, np.nan], [1, 2]
    plain = pd.DataFrame({"i": two, "a": one, "s": ["x", None], "b": one})
    return {
        "plain": plain,
        "floats alone": pd.DataFrame({"a": one, "b": one}),
        "no floats": pd.DataFrame({"a": two}),
        "sizes": pd.DataFrame({"f": np.array(one, "f4"), "h": np.array(one, "f2"), "i": two}),
        "nothing": plain.iloc[:0],
        "labelled": plain.set_index(pd.Index(["p", "q"], name="n")),
        "labelled by floats": plain.set_index(pd.Index([0.5, 1.5])),
        "labelled twice": plain.set_index([pd.Index(two, name="x"), pd.Index(["a", "b"])]),
        "a range": plain.set_index(pd.RangeIndex(5, 9, 2)),
        "named columns": plain.rename_axis(columns="columns"),
        "numbered columns": pd.DataFrame({0: one, 1: two}),
        "texts as objects": pd.DataFrame([[1.0, 2]], columns=pd.Index(["a", "b"], dtype=object)),
        "masked": pd.DataFrame({"x": pd.array([1, None], "Int64"), "a": one}),
        "blocks": pd.DataFrame(np.asfortranarray(np.ones((5, 4))), columns=list("abcd")),
        "times": pd.DataFrame({"t": pd.to_datetime(["2020-01-01", None]), "a": one}),
    }


@pytest.mark.parametrize("name", _frames())
def test_tables_of_frames_are_those_of_pyarrow_but_for_nan(name):
    """Columns of floats go around pyarrow's conversion, and nothing else may show that."""
    frame = _frames()[name]
    wanted, found = pa.Table.from_pandas(frame), _pandas_tables.table_of_frame(frame)
    assert found.schema.equals(wanted.schema)
    assert found.schema.metadata == wanted.schema.metadata
    for label, kind in zip(found.column_names, found.schema.types, strict=True):
        if not pa.types.is_floating(kind):
            assert found.column(label).equals(wanted.column(label))
        elif not label.startswith("__index"):
            assert found.column(label).null_count == 0
    pd.testing.assert_frame_equal(found.to_pandas(), wanted.to_pandas())
