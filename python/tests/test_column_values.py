"""What a builder takes: a value as it is when it is appended, and none that would change.

A builder kept a reference to each appended value for up to 1,024 rows: what the caller changed
afterwards changed in the column, and a value that had become unfit failed at every later call.
``extend`` made 1 of 1.5, infinity of 1e300, True of 5 and UTC of a time without a zone. A column of
an ordered dictionary came back without its order, one of an extension type as its storage, and
``null_count`` failed after an array was appended to a column of lists.
"""

from __future__ import annotations

import datetime as dt
import decimal
import itertools

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

NAIVE = dt.datetime(2026, 1, 2, 3, 4, 5, 678_901)
ZONED = NAIVE.replace(tzinfo=dt.UTC)
MISFITS = (pa.ArrowInvalid, pa.ArrowTypeError)

#: Types, with values that they hold and values that they do not hold without a loss.
CASES = {
    "int8": (pa.int8(), [1, None, -128, np.int64(3)], [1.5, 128, "x", [1], float("nan")]),
    "int64": (
        pa.int64(),
        [2**63 - 1, 7.0, decimal.Decimal(5)],
        [2**63, 1.5, decimal.Decimal("1.5"), np.float64(0.5)],
    ),
    "uint64": (pa.uint64(), [2**64 - 1, 0], [-1, 2**64]),
    "float16": (pa.float16(), [0.5, float("inf")], [1e300, 70_000.0]),
    "float32": (pa.float32(), [0.1, float("-inf"), None, 3], [1e300, 2**24 + 1, np.float64(1e39)]),
    "float64": (pa.float64(), [1e300, 3], [2**53 + 1, 2**70, "x"]),
    "bool": (pa.bool_(), [True, np.bool_(False), None], [5, 1.0, "x"]),
    "string": (pa.string(), ["a", "ünï", b"a", "long" * 5000], [b"\xff", "\ud800", 5]),
    "binary": (pa.binary(), [b"a", bytearray(b"b"), b"long" * 5000], [5]),
    "fixed": (pa.binary(3), [b"abc"], [b"abcd", b""]),
    "decimal": (pa.decimal128(5, 1), [decimal.Decimal("1.2"), 5], [decimal.Decimal("1.25"), 10**6]),
    "date": (pa.date32(), [NAIVE.date(), dt.datetime(2026, 1, 2)], [NAIVE, ZONED]),
    "timestamp": (pa.timestamp("us"), [NAIVE, 5], [ZONED, pd.Timestamp(1, unit="ns")]),
    "seconds": (pa.timestamp("s"), [NAIVE.replace(microsecond=0)], [NAIVE, ZONED]),
    "nanoseconds": (pa.timestamp("ns"), [NAIVE], [dt.datetime(1, 1, 1)]),
    "zoned": (pa.timestamp("us", "Europe/Berlin"), [ZONED], [NAIVE]),
    "time": (pa.time32("ms"), [dt.time(1, 2, 3)], [NAIVE.time(), dt.time(1, tzinfo=dt.UTC), 10**9]),
    "duration": (pa.duration("s"), [dt.timedelta(days=1)], [dt.timedelta(microseconds=1)]),
    "list": (
        pa.list_(pa.int64()),
        [[1, None], (2,), np.array([3]), [], list(range(100))],
        [[1.5], "12", {1: 2}, iter([1]), np.array([1.5]), [1.0] * 99 + [0.5]],
    ),
    "floats": (
        pa.list_(pa.float32()),
        [[0.1], np.array([0.5], "f4")],
        [[1e300], np.array([1e300])],
    ),
    "fixed_list": (pa.list_(pa.int8(), 2), [[1, 2]], [[1], [1, 2, 3], np.array([1], "i1")]),
    "struct": (
        pa.struct({"a": pa.int64(), "b": pa.string()}),
        [{"a": 1}, {"b": "x", "a": None}, {}, (1, "x"), [("a", 1), ("b", "x")]],
        [{"a": 1, "z": 2}, {"a": 1.5}, {"b": 5}],
    ),
    "map": (
        pa.map_(pa.string(), pa.int64()),
        [{"a": 1}, [("a", 1), ("a", 2)], []],
        [{"a": 1.5}, [("a", 1, 2)]],
    ),
    "dictionary": (pa.dictionary(pa.int8(), pa.int64()), [1, None, 1], [1.5, "x"]),
    "uuid": (pa.uuid(), [b"0123456789abcdef", None], [b"short"]),
}


@pytest.mark.parametrize("name", CASES)
def test_each_value_is_taken_as_it_is_or_refused_with_its_place(store, other, name):
    kind, good, bad = CASES[name]
    with store.table_builder({"x": kind}) as table:
        column = table.column("x")
        for _ in range(2):
            for value in good:
                column.append(value)
            for value in bad:
                with pytest.raises(MISFITS, match=rf"column 'x', row {len(column)}: "):
                    column.append(value)
        row = 2 * len(good)
        assert len(column) == row
        for value in bad:
            if not hasattr(value, "__next__"):
                with pytest.raises(MISFITS, match=rf"column 'x', row {row + len(good)}: "):
                    column.extend([*good, value])
        column.extend(good)
        assert column.null_count == 3 * good.count(None)
        found = other.get(table.finish())["x"].combine_chunks()
    found.validate(full=True)
    assert found.type == kind
    values = found.to_pylist()
    assert values[: len(good)] * 3 == values


#: Types, with arrays that are not of them, and what is wrong.
ARRAYS = {
    "number to truth": (pa.bool_(), pa.array([1, 5]), "row 1: 5"),
    "large": (pa.int8(), np.array([1, 1000]), "row 1: 1000"),
    "fraction": (pa.int64(), np.array([1.0, 2.5]), "row 1: 2.5"),
    "infinity": (pa.float32(), np.array([1.0, 1e300]), "row 1: 1e[+]300"),
    "exact only": (pa.float64(), pa.array([1, 2**53 + 1]), "row 1: 9007199254740993"),
    "zone appears": (pa.timestamp("us", "UTC"), pa.array([NAIVE]), "no zone"),
    "zone is lost": (pa.timestamp("us"), pa.array([ZONED]), "have the zone UTC"),
    "zone in a list": (pa.list_(pa.timestamp("us")), pa.array([[ZONED]]), "have the zone UTC"),
    "time of day": (pa.date32(), pa.array([NAIVE]), "row 0: "),
    "day": (pa.time64("us"), pa.array([NAIVE]), "row 0: "),
    "unit": (pa.timestamp("s"), pa.array([NAIVE]), "row 0: "),
    "decimal to float": (
        pa.float64(),
        pa.array([decimal.Decimal("0.12345678901234567")]),
        "row 0: ",
    ),
    "float to decimal": (pa.decimal128(5, 2), pa.array([0.5, 0.125]), "row 1: 0.125"),
    "not UTF-8": (pa.string(), pa.array([b"a", b"\xff"]), "row 1: "),
    "a field": (pa.struct({"a": pa.int8()}), pa.array([{"a": 1, "b": 2}]), "'b'"),
    "text": (pa.int64(), pl.Series(["1", "x"]), "row 1: 'x'"),
    "in a dictionary": (pa.int8(), pa.array([1, 1000]).dictionary_encode(), "row 1: 1000"),
    "other extension": (pa.uuid(), pa.array(["{}"], pa.json_()), "extension"),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_are_not_converted_with_a_loss(store, name):
    kind, array, what = ARRAYS[name]
    with store.table_builder({"x": kind}) as table:
        for rows in (array, pa.chunked_array([[]], pa.array(array).type)):
            with pytest.raises(MISFITS, match=f"column 'x'.*{what}") if len(rows) else _nothing():
                table.extend({"x": rows})
        assert len(table) == 0


def _nothing():
    import contextlib

    return contextlib.suppress(*MISFITS)


def test_arrays_are_converted_where_nothing_is_lost(store, other):
    for kind, array, expected in [
        (pa.int8(), np.array([1.0, 2.0]), [1, 2]),
        (pa.float64(), np.arange(3), [0.0, 1.0, 2.0]),
        (pa.float32(), np.array([0.1]), [float(np.float32(0.1))]),
        (pa.bool_(), pa.array([0, 1, None]), [False, True, None]),
        (pa.decimal128(5, 2), np.array([0.25]), [decimal.Decimal("0.25")]),
        (pa.date32(), pa.array([dt.datetime(2026, 1, 2)]), [dt.date(2026, 1, 2)]),
        (pa.string(), pl.Series(["a", None], dtype=pl.Categorical), ["a", None]),
        (pa.string(), np.array(["a", None], object), ["a", None]),
        (pa.dictionary(pa.int8(), pa.string()), pa.array(["a", "b"]), ["a", "b"]),
        (pa.binary(16), pa.array([b"0123456789abcdef"], pa.uuid()), [b"0123456789abcdef"]),
        (pa.struct({"a": pa.int8(), "b": pa.int8()}), pa.array([{"a": 1}]), [{"a": 1, "b": None}]),
        (pa.int64(), pa.RunEndEncodedArray.from_arrays([2, 3], [5, None]), [5, 5, None]),
    ]:
        with store.builder(kind) as column:
            column.extend(array)
            assert other.get(column.finish()).to_pylist() == expected


def test_what_the_caller_changes_later_does_not_change_the_column(store, other):
    items, inner, array, data = [1, 2], {"a": [1]}, np.array([1, 2]), bytearray(b"ab")
    with store.table_builder(
        {
            "list": pa.list_(pa.int64()),
            "struct": pa.struct({"a": pa.list_(pa.int64())}),
            "array": pa.list_(pa.int64()),
            "data": pa.binary(),
        }
    ) as table:
        table.append({"list": items, "struct": inner, "array": array, "data": data})
        items[0], array[0], data[0] = "not a number any more", 9, 0
        inner["a"].append(2)
        inner["b"] = 1
        assert table.column("list").null_count == 0
        found = other.get(table.finish()).to_pylist()
    assert found == [{"list": [1, 2], "struct": {"a": [1]}, "array": [1, 2], "data": b"ab"}]


def test_a_row_is_taken_as_a_whole(store, other):
    schema = pa.schema([pa.field("n", pa.int64(), nullable=False), pa.field("s", pa.string())])
    with store.table_builder(schema) as table:
        table.append({"n": 1, "s": "a"})
        for row in ({"n": 2, "s": 5}, {"n": 1.5, "s": "b"}, {"s": "no number"}):
            with pytest.raises(MISFITS, match="row 1: "):
                table.append(row)
        with pytest.raises(pa.ArrowInvalid, match=r"column 'n', row 2: None .*no nulls"):
            table.extend({"n": [1, None], "s": ["a", "b"]})
        table.append({"n": 2})
        assert other.get(table.finish()).to_pylist() == [{"n": 1, "s": "a"}, {"n": 2, "s": None}]


def test_a_dictionary_without_a_key_left_refuses_the_value_at_its_append(store, other):
    with store.builder(pa.dictionary(pa.int8(), pa.int64())) as column:
        for value in range(128):
            column.append(value)
        with pytest.raises(OverflowError, match="keys"):
            column.append(128)
        column.append(5)
        assert other.get(column.finish()).to_pylist() == [*range(128), 5]
    # A table begins another record batch.
    with store.table_builder({"d": pa.dictionary(pa.int8(), pa.int64()), "n": "int64"}) as table:
        for at, _ in zip(range(3000), itertools.cycle([0]), strict=False):
            table.append({"d": at // 10, "n": at})
        assert len(table) == 3000
        assert table.column("n").null_count == 0
        found = other.get(table.finish())
    assert found.to_pydict() == {"d": [at // 10 for at in range(3000)], "n": [*range(3000)]}


def test_an_ordered_dictionary_keeps_its_order(store, other):
    kind = pa.dictionary(pa.int8(), pa.string(), ordered=True)
    sizes = pd.CategoricalDtype(["S", "M", "L"], ordered=True)
    with store.builder(kind) as column:
        column.extend(pd.Series(["L", "S", None], dtype=sizes))
        column.extend(pd.Series(["L"], dtype=pd.CategoricalDtype(["S", "L"], ordered=True)))
        column.extend(pa.array([], kind))
        with pytest.raises(ValueError, match="another order"):
            column.extend(pd.Series(["S"], dtype=pd.CategoricalDtype(["L", "S"], ordered=True)))
        # Values without an order of their own come after the others.
        column.append("XL")
        snapshot = column.snapshot()
        found = other.get(column.finish())
    for array in (snapshot, found):
        assert array.type == kind
        assert array.dictionary.to_pylist() == ["S", "M", "L", "XL"]
        assert array.to_pylist() == ["L", "S", None, "L", "XL"]
    frame = pd.DataFrame({"size": pd.Series(["M", "S"], dtype=sizes)})
    with store.table_builder(pa.schema({"size": kind})) as table:
        table.extend(frame)
        back = other.get(table.finish(), as_="pandas")
    assert back["size"].cat.ordered
    assert back["size"].min() == "S"


def test_numpy_gets_no_rounded_integers(store, other):
    """Integers with nulls became floats, and 2**53 + 1 became 2**53."""
    exact = 2**53 + 1
    for value in (
        pa.array([exact, None]),
        pa.chunked_array([[1], [-exact, None]]),
        pa.array([[exact, None]]),
        pa.array([exact, None]).dictionary_encode(),
        pa.table({"n": pa.array([2**64 - 1, None], pa.uint64())}),
    ):
        with pytest.raises(TypeError, match=r"integers beyond 2\*\*53.*as_=\"arrow\""):
            other.get(store.put(value), as_="numpy")
    assert other.get(store.put(pa.array([exact, 1])), as_="numpy").tolist() == [exact, 1]
    small = other.get(store.put(pa.array([2**53, None])), as_="numpy")
    assert small[0] == 2**53
    assert np.isnan(small[1])


def test_pandas_gets_no_rounded_integers(store, other):
    """They became floats there, too. pandas has integers that may be missing."""
    exact = 2**53 + 1
    for kind, name in ((pa.int64(), "Int64"), (pa.uint64(), "UInt64")):
        array = pa.array([exact, None], kind)
        series = other.get(store.put(array), as_="pandas")
        frame = other.get(store.put(pa.table({"n": array, "s": ["a", "b"]})), as_="pandas")
        assert list(frame.columns) == ["n", "s"]
        for found in (series, frame["n"]):
            assert (found.dtype.name, found[0], found.isna()[1]) == (name, exact, True)
    assert other.get(store.put(pa.array([1, None])), as_="pandas").dtype == "float64"
    with pytest.raises(TypeError, match=r"integers beyond 2\*\*53"):
        other.get(store.put(pa.array([[exact, None]])), as_="pandas")


@pytest.mark.parametrize("kind", [pa.decimal32(5, 2), pa.decimal64(10, 2), pa.decimal128(10, 2)])
def test_polars_gets_decimals_that_it_reads(store, other, kind):
    """polars 2.1 reads narrow decimals in lists, or through the C interface, as other numbers."""
    price = decimal.Decimal("-1.25")
    rows = {"a": [price, None], "b": [[price], None], "c": [{"d": price}, {"d": None}]}
    types = {"a": kind, "b": pa.list_(kind), "c": pa.struct({"d": kind})}
    id = store.put(pa.table(rows, pa.schema(types)))
    assert other.get(id, as_="polars").to_dict(as_series=False) == rows


def test_polars_does_not_get_decimals_that_it_panics_at(store, other):
    id = store.put(pa.table({"wide": pa.array([decimal.Decimal(1)], pa.decimal256(40, 2))}))
    with pytest.raises(TypeError, match=r"'wide' .*decimal256"):
        other.get(id, as_="polars")
