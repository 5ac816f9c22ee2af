"""Columns and tables that are built in the store."""

from __future__ import annotations

import datetime
import decimal
import os

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import plasmon

from .conftest import MIB, child, settles

VALUES = {
    "int8": [1, None, -1],
    "uint64": [1, None, 2**64 - 1],
    "float32": [1.5, None, -0.0],
    "bool": [True, None, False],
    "string": ["a", None, ""],
    "large_string": ["a", None, "ünï"],
    "binary": [b"a", None, b"\xff\0"],
    "large_binary": [b"a", None, b""],
    "date32[day]": [datetime.date(2026, 1, 2), None, datetime.date(1969, 1, 1)],
    "timestamp[us, tz=UTC]": [datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC), None, None],
    "decimal": [decimal.Decimal("1.25"), None, decimal.Decimal("-3.50")],
    "fixed": [b"abc", None, b"def"],
    "list": [[1, None], None, []],
    "large_list": [["x"], None, ["y", "z"]],
    "fixed_list": [[1.0, 2.0], None, [3.0, None]],
    "struct": [{"a": 1, "b": "x"}, None, {"a": None, "b": "y"}],
    "dictionary": ["x", None, "x"],
    "map": [[("k", 1)], None, []],
}
TYPES = {
    "decimal": pa.decimal128(10, 2),
    "fixed": pa.binary(3),
    "list": pa.list_(pa.int64()),
    "large_list": pa.large_list(pa.string()),
    "fixed_list": pa.list_(pa.float32(), 2),
    "struct": pa.struct({"a": pa.int64(), "b": pa.string()}),
    "dictionary": pa.dictionary(pa.int8(), pa.string()),
    "map": pa.map_(pa.string(), pa.int64()),
    "timestamp[us, tz=UTC]": pa.timestamp("us", "UTC"),
}


def type_of(name):
    return TYPES.get(name) or pa.type_for_alias(name)


@pytest.mark.parametrize("name", VALUES)
def test_values_of_every_type_one_by_one_and_as_arrays(store, other, name):
    kind, values = type_of(name), VALUES[name]
    array = pa.array(values, kind)
    builder = store.builder(kind)
    for value in values:
        builder.append(value)
    builder.extend(values)
    builder.extend(array)
    builder.extend(pa.chunked_array([array, array[1:]]))
    expected = values * 4 + values[1:]
    assert len(builder) == len(expected)
    assert builder.null_count == expected.count(None)
    assert builder.snapshot().to_pylist() == expected
    found = other.get(builder.finish())
    assert found.type == kind
    found.validate(full=True)
    assert found.to_pylist() == expected


@pytest.mark.parametrize("name", VALUES)
def test_empty_columns(store, other, name):
    found = other.get(store.builder(type_of(name)).finish())
    assert (len(found), found.type) == (0, type_of(name))
    found.validate(full=True)


@pytest.mark.parametrize("dtype", ["i1", "u2", "i4", "u8", "f4", "f8", "?", "M8[us]", "m8[s]"])
def test_numpy_arrays(store, other, dtype):
    array = np.arange(1000).astype(dtype)
    builder = store.builder(pa.from_numpy_dtype(array.dtype))
    builder.extend(array)
    builder.extend(array[::3])
    builder.extend(array[:0])
    builder.extend(np.ma.masked_array(array[:4], [0, 1, 0, 1]))
    found = other.get(builder.finish())
    masked = found[-4:].to_pylist()
    assert [value is None for value in masked] == [False, True, False, True]
    plain = found[:-4].to_numpy(zero_copy_only=False)
    assert np.array_equal(plain, np.concatenate([array, array[::3]]))


def test_nan_stays_nan_and_nat_is_null(store, other):
    builder = store.builder("float64")
    builder.extend(np.array([1.0, np.nan]))
    assert np.isnan(other.get(builder.finish())[1].as_py())
    builder = store.builder("timestamp[us]")
    builder.extend(np.array(["NaT", "2026-01-01"], "M8[us]"))
    assert other.get(builder.finish()).null_count == 1


def test_types_are_given_by_common_names(store):
    for kind in ("int64", pa.int64(), np.int64, "i8", np.dtype("i8")):
        assert store.builder(kind).type == pa.int64()
    with pytest.raises(TypeError):
        store.builder("no such type")
    with pytest.raises(NotImplementedError, match="View"):
        store.builder(pa.string_view())


def test_values_that_do_not_fit_are_refused_at_once(store):
    builder = store.builder("int8")
    builder.append(1)
    for wrong in ("x", 1000, [1]):
        with pytest.raises((pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, TypeError)):
            builder.append(wrong)
    with pytest.raises(ValueError, match="one dimension"):
        builder.extend(np.zeros((2, 2), np.int8))
    with pytest.raises(pa.ArrowInvalid):
        builder.extend(pa.array([1000]))
    builder.extend(pa.array([2, 3]))
    assert builder.snapshot().to_pylist() == [1, 2, 3]


def test_other_libraries_give_columns(store, other):
    for values in (pl.Series(["a", None]), pd.Series(["a", None], dtype="string")):
        builder = store.builder(pa.string())
        builder.extend(values)
        assert other.get(builder.finish()).to_pylist() == ["a", None]


def test_what_is_read_lies_in_shared_memory_and_is_one_place(store, other):
    builder = store.builder("int64")
    for start in range(0, 1_000_000, 1000):
        builder.extend(np.arange(start, start + 1000))
    id = builder.finish()
    one, two = other.get(id), other.get(id)
    address = one.buffers()[1].address
    assert address == two.buffers()[1].address
    assert address % 64 == 0
    series = other.get(id, as_="pandas")
    assert series.to_numpy().__array_interface__["data"][0] == address
    polars = other.get(id, as_="polars")
    assert polars.to_numpy().__array_interface__["data"][0] == address
    with open("/proc/self/maps") as maps:
        for line in maps:
            low, high = (int(part, 16) for part in line.split()[0].split("-"))
            if low <= address < high:
                assert "plasmon-extent" in line
                break
        else:
            pytest.fail("the array lies nowhere")


def test_duckdb_reads_it_in_place(store, other):
    import duckdb

    builder = store.table_builder({"x": "int64"})
    builder.extend({"x": np.arange(1000)})
    table = other.get(builder.finish())
    with duckdb.connect() as connection:
        connection.register("built", table)
        assert connection.sql("SELECT sum(x), count(*) FROM built").fetchall() == [(499500, 1000)]


def test_a_table_by_rows_batches_and_columns(store, other):
    schema = pa.schema({"n": pa.int64(), "s": pa.string()}, metadata={"made": "here"})
    builder = store.table_builder(schema)
    builder.append({"n": 1, "s": "one"})
    builder.append({"s": "no number"})
    builder.extend(pa.table({"n": [3], "s": ["three"]}))
    builder.extend({"s": ["four"], "n": np.array([4])})
    builder.extend(pl.DataFrame({"s": ["five"], "n": [5]}))
    builder.extend(pd.DataFrame({"n": [6], "s": ["six"]}))
    builder.column("n").extend([7])
    assert len(builder) == 6
    with pytest.raises(ValueError, match="different lengths"):
        builder.finish()
    builder.column("s").append("seven")
    assert builder.snapshot().num_rows == 7
    id = builder.finish(name="built", namespace="test_columns", metadata=b"mine")
    table = other.get("built", namespace="test_columns")
    assert table.schema == schema
    assert table.schema.metadata == {b"made": b"here"}
    assert table["n"].to_pylist() == [1, None, 3, 4, 5, 6, 7]
    assert table["s"].to_pylist()[-2:] == ["six", "seven"]
    buffer = other.get_buffer(id)
    assert bytes(buffer.metadata) == b"mine"
    assert other.get(id, as_="pandas")["s"][0] == "one"
    assert other.get(id, as_="polars")["s"][0] == "one"
    for wrong in (lambda: builder.append({"x": 1}), lambda: builder.column("x")):
        with pytest.raises(KeyError):
            wrong()


def test_a_wrong_column_is_named_beside_those_that_there_are(store):
    """A missing column was a KeyError with its name alone, an unknown one was dropped silently."""
    columns = r"the table has \['n', 's'\]"
    with store.table_builder({"n": "int64", "s": "string"}) as builder:
        for rows, what in [
            ({"n": [1], "t": ["a"]}, "unknown column 't'"),
            (pa.table({"n": [1], "s": ["a"], "t": [1], "u": [2]}), "unknown columns 't', 'u'"),
            ({"n": [1]}, "missing column 's'"),
            (pl.DataFrame({"s": ["a"]}), "missing column 'n'"),
            (pa.table([[1], [2], ["a"]], names=["n", "n", "s"]), "doubled column 'n'"),
        ]:
            with pytest.raises(KeyError, match=f"{what}; {columns}"):
                builder.extend(rows)
        with pytest.raises(KeyError, match=r"no column 't'; there are \['n', 's'\]"):
            builder.column("t")
        assert len(builder) == 0
        # The index of a pandas frame is no column of its own.
        frame = pd.DataFrame({"n": [1, 2, 3], "s": ["a", "b", "c"]})
        builder.extend(frame[frame["n"] != 2])
        assert store.get(builder.finish()).to_pydict() == {"n": [1, 3], "s": ["a", "c"]}


def test_a_table_without_rows_and_one_without_columns(store, other):
    table = other.get(store.table_builder({"a": "int64", "b": "string"}).finish())
    assert (table.num_rows, table.num_columns) == (0, 2)
    assert other.get(store.table_builder({}).finish()).num_columns == 0


def test_growth_past_every_step(own):
    store = own(256 * MIB)
    builder = store.builder("int64")
    part = np.arange(50_000)
    for _ in range(200):
        builder.extend(part)
    id = builder.finish()
    found = store.get(id).to_numpy()
    assert len(found) == 10_000_000
    assert np.array_equal(found[-50_000:], part)
    # Nothing but the column and its description is there.
    assert store.status().used_bytes - store.status().leased_bytes < 80_000_000 + MIB


def test_a_full_store_loses_nothing(own):
    store = own(16 * MIB)
    builder = store.builder("int64")
    part = np.arange(100_000)
    with pytest.raises((plasmon.StoreFull, plasmon.TooLarge)):
        for _ in range(1000):
            builder.extend(part)
    rows = len(builder)
    assert rows % 100_000 == 0
    assert np.array_equal(builder.snapshot()[-100_000:].to_numpy(), part)
    with pytest.raises(plasmon.StoreFull):
        store.put(np.zeros(1_000_000))
    id = builder.finish()
    assert len(store.get(id)) == rows


def test_a_patient_builder_waits(own):
    store = own(16 * MIB)
    blocker = store.put(np.zeros(1_500_000, np.uint8))
    builder = store.builder("uint8", timeout=0.05)
    with pytest.raises((plasmon.StoreFull, plasmon.TooLarge)):
        builder.extend(np.zeros(15_500_000, np.uint8))
    store.delete(blocker)
    builder.extend(np.zeros(15_500_000, np.uint8))


def test_what_is_not_finished_is_given_up(own):
    store = own()
    with store.builder("int64") as builder:
        builder.extend(np.arange(500_000))
        assert store.status().used_bytes >= 4_000_000
    with pytest.raises(ValueError, match="aborted"):
        builder.extend(np.arange(10))
    settles(lambda: store.status().used_bytes == store.status().leased_bytes)
    with pytest.raises(RuntimeError), store.table_builder({"a": "int64"}) as table:
        table.extend({"a": np.arange(500_000)})
        raise RuntimeError
    settles(lambda: store.status().used_bytes == store.status().leased_bytes)


def test_deleting_a_column_deletes_its_members(own):
    store = own()
    builder = store.table_builder({"a": "int64", "b": "string"})
    builder.extend({"a": [1, 2], "b": ["x", None]})
    id = builder.finish()
    assert len(store.list()) > 1
    table = store.get(id)
    assert store.delete(id) == 1
    assert table["b"].to_pylist() == ["x", None]
    del table
    settles(lambda: store.list() == [])


def test_a_name_that_is_taken(store):
    store.put(b"x", name="taken by bytes")
    builder = store.builder("int64")
    builder.append(1)
    with pytest.raises(plasmon.Exists):
        builder.finish(name="taken by bytes")
    assert len(builder) == 1
    builder.finish()


def test_a_process_that_dies_in_mid_build_leaves_nothing(own):
    store = own(64 * MIB)
    code = """
        import os, signal, sys
        import numpy as np, plasmon
        store = plasmon.connect(sys.argv[1])
        builder = store.table_builder({"a": "int64", "b": "float64"})
        builder.extend({"a": np.arange(1_000_000), "b": np.zeros(1_000_000)})
        assert store.status().used_bytes >= 16_000_000
        os.kill(os.getpid(), signal.SIGKILL)
    """
    assert child(code, str(store.socket)).returncode == -9
    settles(lambda: store.status().used_bytes == store.status().leased_bytes == 0)
    assert store.list() == []


def test_a_forked_child_cannot_use_its_parents_builder(store):
    builder = store.builder("int64")
    builder.append(1)
    builder.flush()
    pid = os.fork()
    if pid == 0:
        try:
            for use in (builder.finish, lambda: builder.extend(np.arange(3))):
                with pytest.raises(plasmon.Forked):
                    use()
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert store.get(builder.finish()).to_pylist() == [1]


def test_bytes_that_describe_no_composite(store):
    import struct

    good = store.get_buffer(store.builder("int64").finish())
    broken = [b"", b"later", bytes(good)[:100], b"\0" * len(good)]
    broken.append(bytes(good)[:16] + struct.pack("<Q", 1) + bytes(good)[24:])
    for data in broken:
        id = store.put(data, tag=plasmon._native.TAG_COMPOSITE)
        with pytest.raises(plasmon.Corrupt):
            store.get(id)
        assert store.get(id, as_="bytes") == data


def test_a_table_may_take_most_of_a_small_store(own):
    """The first column had taken so much ahead that there was no room for the second one."""
    store = own(32 * MIB)
    half = np.ones(3 << 19)
    with store.table_builder({"a": "float64", "b": "float64"}) as table:
        for part in np.split(half, 16):
            table.extend({"a": part, "b": part})
        assert store.get(table.finish()).num_rows == len(half)


def test_views_are_named_with_what_to_use_and_converted(store, other):
    for kind, instead in ((pa.string_view(), "utf8"), (pa.binary_view(), "binary")):
        with pytest.raises(NotImplementedError, match=f"use {instead}"):
            store.builder(kind)
    with store.builder("string") as column:
        column.extend(
            pa.array(["short", None, "longer than a view holds itself"], pa.string_view())
        )
        found = other.get(column.finish())
    assert found.to_pylist() == ["short", None, "longer than a view holds itself"]
