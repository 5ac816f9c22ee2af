"""Sorting into the store."""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import plasmon

from .conftest import MIB, child

ROWS = 50_000


def frame(rows: int = ROWS, seed: int = 1) -> pa.Table:
    """Rows of several types, with values missing, repeated, and not a number."""
    random = np.random.default_rng(seed)
    numbers = random.random(rows)
    numbers[random.integers(0, max(rows, 1), rows // 50)] = np.nan
    words = random.integers(0, 1000, rows)
    return pa.table(
        {
            "number": pa.array(numbers, from_pandas=False),
            "word": pa.array([None if word % 50 == 0 else f"word {word}" for word in words]),
            "group": pa.array(words % 7, pa.int8()),
            "row": pa.array(np.arange(rows)),
        }
    )


def polars_sorted(table: pa.Table, by: list[str], descending: list[bool]) -> pl.DataFrame:
    """What polars makes of it; its order is the one that is promised."""
    return pl.DataFrame(table).sort(by, descending=descending, nulls_last=True, maintain_order=True)


def same(found: pa.Table, wanted: pl.DataFrame) -> bool:
    """Whether the rows are the same, NaN equal to itself."""
    return pl.DataFrame(found).equals(wanted)


def objects(store: plasmon.Store) -> set[plasmon.ObjectId]:
    """The ids of everything in the store."""
    return {info.id for info in store.list()}


@pytest.fixture
def sorting(own):
    """A store of the test's own, so that what is left in it can be told."""
    return own(256 * MIB)


@pytest.mark.parametrize(
    ("by", "columns", "descending"),
    [
        ("number", ["number"], [False]),
        (("number", "descending"), ["number"], [True]),
        (["group", ("word", "descending")], ["group", "word"], [False, True]),
        ([("word", "ascending"), "number"], ["word", "number"], [False, False]),
    ],
)
def test_rows_are_in_order(sorting, by, columns, descending):
    table = frame()
    with plasmon.sort(table, by, partitions=3, store=sorting) as result:
        assert len(result.ids) == 3
        assert result.num_rows == len(result) == ROWS
        assert sum(part.num_rows for part in result) == ROWS
        assert same(result.to_arrow(), polars_sorted(table, columns, descending))
    assert not objects(sorting)


def test_each_kind_of_table_comes_back_as_it_came(sorting):
    table = frame(1000)
    for given in (table, table.to_pandas(), pl.DataFrame(table)):
        result = plasmon.sort(given, "row", store=sorting)
        assert isinstance(sorting.get(result.ids[0]), type(given))
        assert same(result.to_arrow().select(table.column_names), pl.DataFrame(table))
        assert result.to_pandas()["row"].tolist() == list(range(1000))
        assert result.to_polars()["row"].to_list() == list(range(1000))
        assert pa.table(result).num_rows == 1000


def test_a_pandas_frame_in_partitions_is_one_frame_again(sorting):
    given = pd.DataFrame({"a": [3.0, 1.0, 2.0, 5.0]}, index=["x", "y", "z", "w"])
    result = plasmon.sort(given, "a", partitions=2, store=sorting).to_pandas()
    assert result.index.tolist() == ["y", "z", "x", "w"]
    assert result["a"].tolist() == [1.0, 2.0, 3.0, 5.0]


def test_the_result_lies_in_the_store(sorting):
    result = plasmon.sort(frame(10_000), "number", store=sorting)
    buffer = sorting.get_buffer(result.ids[0])
    address = result.to_arrow()["number"].chunk(0).buffers()[1].address
    assert buffer.address <= address < buffer.address + buffer.nbytes


def test_tables_in_the_store_are_sorted_as_one(sorting):
    parts = [frame(5000, seed) for seed in range(4)]
    ids = [sorting.put(part, name=f"part {at}") for at, part in enumerate(parts)]
    before = objects(sorting)
    wanted = polars_sorted(pa.concat_tables(parts), ["number"], [False])
    for data in (ids, [f"part {at}" for at in range(4)]):
        with sorting.sort(data, "number") as result:
            assert same(result.to_arrow(), wanted)
        assert objects(sorting) == before


def test_parts_are_those_of_the_whole(sorting):
    table = frame(5000)
    whole = plasmon.sort(table, ["group", "number"], partitions=3, store=sorting)
    for part, id in enumerate(whole.ids):
        own = plasmon.sort_partition(
            table, ["group", "number"], part=part, partitions=3, store=sorting
        )
        assert pl.DataFrame(sorting.get(own)).equals(pl.DataFrame(sorting.get(id)))
    with pytest.raises(ValueError, match="part is 0 to 2, found 3"):
        plasmon.sort_partition(table, "row", part=3, partitions=3, store=sorting)


def test_names_are_given_to_the_partitions(sorting):
    plasmon.sort(frame(100), "number", name="one", store=sorting)
    plasmon.sort(frame(100), "number", name="many", partitions=2, store=sorting)
    rows = [sorting.get(f"many/000{at}").num_rows for at in range(2)]
    assert sum(rows) == 100
    with pytest.raises(plasmon.Exists):
        plasmon.sort(frame(100), "number", name="many", partitions=2, store=sorting)
    assert sorting.contains("many/0000"), "a refused sort takes nothing away"
    assert sorting.get("one").num_rows == 100


@pytest.mark.parametrize("ending", ["parquet", "csv", "arrow"])
def test_files_are_read_and_written(sorting, tmp_path, ending):
    table = frame(2000).select(["row", "group"])
    source, target = tmp_path / f"in.{ending}", tmp_path / f"out.{ending}"
    plasmon.sort(table, ("row", "descending"), store=sorting).write(source)
    plasmon.sort(source, "row", partitions=3, store=sorting).write(target)
    read = plasmon.sort(str(target), "row", store=sorting).to_arrow()
    assert read["row"].to_pylist() == list(range(2000))
    assert not list(tmp_path.glob(".*.part")), "nothing unfinished is left"
    with pytest.raises(ValueError, match="ending must be one of"):
        plasmon.sort(tmp_path / "in.txt", "row", store=sorting)


def test_what_makes_no_sense_is_refused_with_a_name(sorting):
    table = frame(10)
    for by, text in [
        ([], "name at least one"),
        ("prize", '"prize"; it has "number", "word"'),
        (["row", "row"], "named twice"),
    ]:
        with pytest.raises(ValueError, match=text):
            plasmon.sort(table, by, store=sorting)
    with pytest.raises(TypeError, match="column's name"):
        plasmon.sort(table, [3], store=sorting)
    with pytest.raises(ValueError, match="partitions must be 1 or more"):
        plasmon.sort(table, "row", partitions=0, store=sorting)
    with pytest.raises(ValueError, match='"first" or "last"'):
        plasmon.sort(table, "row", nulls="middle", store=sorting)
    with pytest.raises(ValueError, match="different columns from table 0"):
        plasmon.sort([table, table.select(["row"])], "row", store=sorting)
    with pytest.raises(ValueError, match="list of tables is empty"):
        plasmon.sort([], "row", store=sorting)
    with pytest.raises(TypeError, match=r"cannot sort a builtins\.int"):
        plasmon.sort(3, "row", store=sorting)
    with pytest.raises(TypeError, match="holds no table"):
        plasmon.sort(sorting.put(b"bytes", name="b"), "row", store=sorting)
    sorting.delete("b")
    assert not objects(sorting)


def test_nulls_come_where_they_are_wanted(sorting):
    table = pa.table({"a": [2, None, 1]})
    for direction, nulls, wanted in [
        ("ascending", "last", [1, 2, None]),
        ("descending", "last", [2, 1, None]),
        ("ascending", "first", [None, 1, 2]),
        ("descending", "first", [None, 2, 1]),
    ]:
        found = plasmon.sort(table, ("a", direction), nulls=nulls, store=sorting)
        assert found.to_arrow()["a"].to_pylist() == wanted


def test_no_rows_and_one_row(sorting):
    for rows in (0, 1):
        result = plasmon.sort(frame(rows), "number", store=sorting)
        assert result.to_arrow().num_rows == rows
        assert result.to_arrow().schema.names == frame(0).schema.names


def test_progress_reaches_its_end(sorting, capfd):
    told: list[tuple[int, int]] = []
    plasmon.sort(
        frame(),
        "number",
        progress=lambda done, total: told.append((done, total)),
        store=sorting,
    )
    done, total = told[-1]
    assert done >= total > 0
    plasmon.sort(frame(), "number", progress=True, store=sorting)
    assert "sorting [" in capfd.readouterr().err


def test_an_exception_of_the_caller_stops_the_sort_and_leaves_nothing(sorting):
    class Stop(Exception):
        pass

    def stop(done: int, total: int) -> None:
        raise Stop

    with pytest.raises(Stop):
        plasmon.sort(frame(), "number", progress=stop, store=sorting)
    assert not objects(sorting)


def test_a_store_that_is_too_small_says_so_and_keeps_nothing(own):
    store = own(4 * MIB)
    with pytest.raises(plasmon.NoRoom):
        plasmon.sort(frame(400_000), "number", store=store)
    assert not objects(store)


@pytest.mark.parametrize("spill", ["never", "always"])
def test_ctrl_c_at_the_very_end_leaves_nothing(sorting, tmp_path, spill):
    """Ctrl-C in the last 50 ms of a sort left its whole result in the store: all was sealed, and
    the exception came before the caller had the ids."""
    given = sorting.put(frame(30_000))
    code = """
        import os, signal, sys
        import plasmon
        from plasmon import _sort

        store = plasmon.connect(sys.argv[1])

        class Interrupted(_sort.Sorted):
            def __init__(self, store, ids, rows):
                super().__init__(store, ids, rows)
                assert set(store.states(ids)) == {"sealed"}
                print("sealed", flush=True)
                os.kill(os.getpid(), signal.SIGINT)

        _sort.Sorted = Interrupted
        from plasmon import _sort_spilling
        _sort_spilling.Sorted = Interrupted
        store.sort(
            plasmon.ObjectId.from_hex(sys.argv[2]), "number", partitions=2,
            spill=sys.argv[3], spill_dir=sys.argv[4],
        )
    """
    done = child(code, str(sorting.socket), given.hex(), spill, str(tmp_path))
    assert "KeyboardInterrupt" in done.stderr
    assert done.stdout == "sealed\n"
    assert objects(sorting) == {given}


def test_the_module_is_light():
    code = "import sys, plasmon; print(*sorted(sys.modules))"
    loaded = child(code).stdout.split()
    assert not {"pyarrow", "numpy", "pandas", "polars"} & set(loaded)
    assert sys.version_info >= (3, 11)
