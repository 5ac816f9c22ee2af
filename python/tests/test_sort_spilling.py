"""Sorting what the memory or the store does not hold."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest

import plasmon

from .conftest import MIB, child
from .test_sort import frame, objects, polars_sorted, same

#: With so little memory a table of a few megabytes is sorted in several runs.
MEMORY_BYTES = MIB


@pytest.fixture
def small(own, tmp_path: Path):
    """A store that holds a part of what is sorted and spills the rest."""
    (tmp_path / "spilled").mkdir()
    return own(4 * MIB, spill_dir=str(tmp_path / "spilled"))


def read(store: plasmon.Store, result: plasmon.Sorted) -> pa.Table:
    """All rows, copied partition by partition: they are more than the store holds at once."""
    return pa.concat_tables([_copied(store.get(id, as_="arrow")) for id in result.ids])


def _copied(table: pa.Table) -> pa.Table:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return pa.ipc.open_stream(sink.getvalue()).read_all()


def test_more_than_the_store_holds_is_sorted_and_spilled(small, tmp_path):
    parts = [frame(30_000, seed) for seed in range(8)]
    table = pa.concat_tables(parts)
    assert table.nbytes > 1.5 * 4 * MIB
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    ids = [small.put(part) for part in parts]
    told: list[tuple[int, int]] = []
    result = small.sort(
        ids,
        ["group", ("number", "descending")],
        memory_bytes=MEMORY_BYTES,
        spill_dir=scratch,
        progress=lambda done, total: told.append((done, total)),
    )
    assert len(result.ids) > 4
    assert result.num_rows == table.num_rows
    wanted = polars_sorted(table, ["group", "number"], [False, True])
    assert same(read(small, result), wanted)
    assert told[-1][0] >= told[-1][1] > 0
    assert not list(scratch.iterdir()), "the scratch file has no name"
    assert objects(small) == {*ids, *result.ids}
    result.delete()
    assert objects(small) == set(ids)


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow", "parquet", "csv", "arrow file"])
def test_every_kind_of_input_spills(own, tmp_path, kind):
    store = own(64 * MIB)
    table = frame(40_000).select(["row", "group", "word"])
    table = table.sort_by([("word", "ascending")])
    given = {"pandas": table.to_pandas, "polars": lambda: pl.DataFrame(table)}.get(kind)
    data = table if given is None else given()
    if kind in {"parquet", "csv", "arrow file"}:
        data = tmp_path / {"parquet": "in.parquet", "csv": "in.csv", "arrow file": "in.arrow"}[kind]
        plasmon.sort(table, "word", store=store).write(data)
    options = {"spill": "always", "memory_bytes": MEMORY_BYTES, "spill_dir": tmp_path}
    with plasmon.sort(data, ("row", "descending"), store=store, **options) as result:
        found = result.to_arrow()
        assert found["row"].to_pylist() == list(range(39_999, -1, -1))
        assert len(result.ids) > 1
        if kind in {"pandas", "polars"}:
            assert isinstance(store.get(result.ids[0]), type(data))
        result.write(tmp_path / "out.parquet")
    assert plasmon.sort(tmp_path / "out.parquet", "row", store=store).num_rows == 40_000


def test_the_index_of_a_pandas_frame_moves_along(own, tmp_path):
    store = own(64 * MIB)
    given = pd.DataFrame({"a": np.arange(50_000)[::-1]}, index=[f"r{at}" for at in range(50_000)])
    options = {"spill": "always", "memory_bytes": MEMORY_BYTES, "spill_dir": tmp_path}
    found = plasmon.sort(given, "a", store=store, **options).to_pandas()
    assert found.equals(given.sort_values("a"))


def test_names_and_numbers_of_partitions_are_kept(own, tmp_path):
    store = own(64 * MIB)
    options = {"spill": "always", "memory_bytes": MEMORY_BYTES, "spill_dir": tmp_path}
    result = store.sort(frame(20_000), "row", partitions=9, name="parts", **options)
    assert len(result.ids) == 9
    assert store.get("parts/0003").num_rows == result.rows[3]
    with pytest.raises(plasmon.Exists):
        store.sort(frame(20_000), "row", partitions=9, name="parts", **options)
    assert store.contains("parts/0008"), "a refused sort takes nothing away"
    with pytest.raises(ValueError, match=r"ask for \d+ partitions or more"):
        store.sort(frame(200_000), "row", partitions=1, **options)


def test_what_does_not_fit_is_said_beforehand_with_both_numbers(own, tmp_path):
    store = own(4 * MIB)
    table = frame(400_000)
    with pytest.raises(plasmon.NoRoom, match="start it with more capacity or a spill_dir") as no:
        plasmon.sort(table, "row", store=store)
    assert (no.value.wanted, no.value.found) == (table.nbytes, store.status().capacity_bytes)
    assert f"{table.nbytes:,}" in str(no.value)
    with pytest.raises(plasmon.NoRoom, match=r'this process can use .* allow spill="auto"') as no:
        plasmon.sort(frame(20_000), "row", spill="never", memory_bytes=MIB // 4, store=store)
    assert no.value.wanted > no.value.found > 0
    with pytest.raises(ValueError, match='"auto", "always" or "never"'):
        plasmon.sort(table, "row", spill="sometimes", store=store)
    with pytest.raises(ValueError, match="memory_bytes must be 1 or more"):
        plasmon.sort(table, "row", memory_bytes=0, store=store)
    with pytest.raises(FileNotFoundError, match="missing"):
        missing = tmp_path / "missing"
        plasmon.sort(frame(10), "row", spill="always", spill_dir=missing, store=store)
    with pytest.raises(ValueError, match="different columns from table 0"):
        parts = [frame(10), frame(10).select(["row"])]
        plasmon.sort(parts, "row", spill="always", spill_dir=tmp_path, store=store)
    assert not objects(store)


def test_what_others_hold_makes_a_sort_spill(own, tmp_path):
    # The rows fit the store, but not beside an object that is held.
    store = own(16 * MIB, spill_dir=str(tmp_path))
    held = store.get(store.put(np.zeros(10 * MIB // 8), name="held"))
    table = frame(300_000)
    options = {"memory_bytes": 32 * MIB, "spill_dir": tmp_path}
    with pytest.raises(plasmon.NoRoom):
        store.sort(table, "row", spill="never", **options)
    result = store.sort(table, ("row", "descending"), **options)
    assert len(result.ids) > 1
    assert read(store, result)["row"].to_pylist() == list(range(299_999, -1, -1))
    assert held[0] == 0


def test_an_exception_in_the_middle_leaves_nothing(own, tmp_path):
    """Partitions are sealed one by one here, so an end in the middle finds some that are done."""
    store = own(64 * MIB)

    class Stop(Exception):
        pass

    def stop(done: int, total: int) -> None:
        if any(info.state == "sealed" for info in store.list()):
            raise Stop

    options = {"spill": "always", "memory_bytes": MEMORY_BYTES, "spill_dir": tmp_path}
    with pytest.raises(Stop):
        plasmon.sort(frame(300_000), "number", progress=stop, store=store, **options)
    assert not objects(store)
    assert plasmon.sort(frame(1000), "number", store=store, **options).num_rows == 1000


def test_a_killed_process_leaves_nothing(own, tmp_path):
    """The sort is killed after the first partitions are sealed: nothing else knows their ids, so
    they would stay in the store forever if they were not in a scope of the sort."""
    store = own(64 * MIB)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    code = """
        import os, signal, sys
        import numpy as np, pyarrow as pa
        import plasmon

        store = plasmon.connect(sys.argv[1])

        def die(done, total):
            if any(info.state == "sealed" for info in store.list()):
                print("sealed", flush=True)
                os.kill(os.getpid(), signal.SIGKILL)

        table = pa.table({"a": np.random.default_rng(1).random(1_000_000)})
        store.sort(table, "a", spill="always", memory_bytes=1 << 20, spill_dir=sys.argv[2],
                   progress=die)
    """
    gone = store.subscribe()
    killed = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), str(store.socket), str(scratch)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert killed.returncode == -9, killed.stderr
    assert killed.stdout == "sealed\n"
    while objects(store):
        assert gone.next(timeout=60) is not None, "the store deletes what was sealed"
    assert not list(scratch.iterdir())


def test_a_sort_killed_between_two_seals_leaves_all_or_nothing(own):
    """Partitions that are made in memory are sealed one after the other, within milliseconds. A
    kill between two seals left the first partitions forever: nothing else knew their ids."""
    store = own(64 * MIB)
    code = """
        import sys
        import numpy as np, pyarrow as pa
        import plasmon

        store = plasmon.connect(sys.argv[1])
        table = pa.table({"a": np.random.default_rng(1).random(200_000)})
        store.sort(table, "a", spill="never", partitions=4096)
    """
    notices = store.subscribe()
    command = [sys.executable, "-c", textwrap.dedent(code), str(store.socket)]
    with subprocess.Popen(command) as sorting:
        assert notices.next(timeout=120) is not None, "a partition is sealed"
        sorting.kill()
    # Whether the kill came in time is up to the machine; what there is then is the whole result.
    end = time.monotonic() + 60
    while len(objects(store)) not in {0, 4096}:
        assert time.monotonic() < end, "the store deletes what was sealed"
        # There is no notice of those that were not sealed.
        notices.next(timeout=0.1)


def test_a_small_store_gets_partitions_that_fit_it(small, tmp_path):
    """With the memory of a large machine the rows were one partition, larger than the store: the
    sort failed unless the caller gave less memory."""
    table = frame(200_000)
    assert table.nbytes > small.status().capacity_bytes
    result = small.sort(table, ("row", "descending"), spill_dir=tmp_path)
    assert len(result.ids) > 1
    assert read(small, result)["row"].to_pylist() == list(range(199_999, -1, -1))


def test_a_sort_whose_store_has_died_ends_with_that_error(tmp_path):
    """It neither waits for a daemon to delete partitions nor hides why it failed."""
    daemon = plasmon.start(capacity=64 * MIB, socket=tmp_path / "s")
    with plasmon.connect(daemon.socket, reconnect_timeout=0.1) as store:

        def stop(done: int, total: int) -> None:
            if any(info.state == "sealed" for info in store.list()):
                daemon.stop()
                store.list()

        options = {"spill": "always", "memory_bytes": MEMORY_BYTES, "spill_dir": tmp_path}
        with pytest.raises(plasmon.Disconnected):
            store.sort(frame(300_000), "number", progress=stop, **options)


def coded(rows: int, values: int) -> pa.Table:
    """Long strings in a dictionary, and numbers to sort by."""
    random = np.random.default_rng(3)
    dictionary = pa.array([f"{at:0200}" for at in range(values)])
    codes = pa.array(random.integers(0, values, rows), pa.int32())
    text = pa.DictionaryArray.from_arrays(codes, dictionary)
    return pa.table({"number": random.random(rows), "text": text})


def test_a_dictionary_is_not_written_into_every_block(own, tmp_path):
    """A table of 14 MB took 4.8 GB of scratch, and one of 18.6 MB filled the disk: each block had
    the whole dictionary."""
    store = own(256 * MIB)
    table = coded(100_000, 5000)
    options = {"spill": "always", "memory_bytes": 2 * MIB, "spill_dir": tmp_path}
    most = table.nbytes
    plain = table.set_column(1, "text", table["text"].cast(pa.string()))
    for by in ("number", "text"):
        with store.sort(table, by, spill_bytes_max=most, **options) as result:
            assert len(result.ids) > 1
            found = result.to_arrow()
            assert found.schema.equals(table.schema)
            found = found.set_column(1, "text", found["text"].cast(pa.string()))
            assert same(found, polars_sorted(plain, [by], [False]))
    assert not objects(store)


def test_a_scratch_file_that_is_too_large_is_refused_and_leaves_nothing(own, tmp_path):
    """What is known beforehand is refused before the work, the rest at the block that is too
    much: of a file only the compressed size is known."""
    store = own(64 * MIB)
    options = {"spill": "always", "memory_bytes": MEMORY_BYTES, "spill_dir": tmp_path}
    with pytest.raises(plasmon.NoRoom, match="limit that was given is 1000000: raise it"):
        store.sort(frame(100_000), "row", spill_bytes_max=1_000_000, **options)
    squeezed = tmp_path / "ones.parquet"
    pa.parquet.write_table(pa.table({"a": np.ones(400_000)}), squeezed)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    options["spill_dir"] = scratch
    with pytest.raises(plasmon.NoRoom, match="the limit that was given is 1000000") as no:
        plasmon.sort(squeezed, "a", spill_bytes_max=1_000_000, store=store, **options)
    assert str(scratch) in str(no.value)
    assert no.value.wanted > no.value.found == 1_000_000
    assert not list(scratch.iterdir())
    assert not objects(store)


def test_a_full_disk_is_an_error_that_says_what_to_do(own, tmp_path):
    """The limit of a process on its files stands for the disk: the write fails in the middle."""
    store = own(64 * MIB)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    code = """
        import resource, sys
        import numpy as np, pyarrow as pa
        import plasmon

        store = plasmon.connect(sys.argv[1])
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))
        table = pa.table({"a": np.random.default_rng(1).random(400_000)})
        try:
            store.sort(table, "a", spill="always", memory_bytes=1 << 20, spill_dir=sys.argv[2])
        except OSError as error:
            print(error.errno, error.strerror)
    """
    found = child(code, str(store.socket), str(scratch)).stdout
    assert found.startswith(f"{errno.ENOSPC} the scratch file in {scratch} needs "), found
    assert "name a folder of another file system" in found
    assert not list(scratch.iterdir())
    assert not objects(store)
