"""pyarrow's memory pool in the store."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

import plasmon
from plasmon import _memory_pool

from .conftest import MIB, settles
from .test_arrow import buffers

pytestmark = pytest.mark.usefixtures("built_pool")


@pytest.fixture
def pool(store):
    pool = store.memory_pool()
    assert pool.backend_name == "plasmon"
    return pool


def table_of(rows):
    numbers = pa.array(np.arange(rows))
    strings = pa.array([None if n % 7 == 0 else f"text {n % 1000}" for n in range(rows)])
    words = pa.array([f"word {n % 10}" for n in range(rows)]).dictionary_encode()
    return pa.table({"n": numbers, "f": pc.divide(numbers, 3.0), "t": strings, "w": words})


@pytest.fixture(scope="module")
def parquet(tmp_path_factory):
    path = tmp_path_factory.mktemp("pool") / "table.parquet"
    pq.write_table(table_of(300_000), path, row_group_size=100_000)
    return path


def taken_bytes(store):
    """Bytes of objects and of what is leased to allocators."""
    status = store.status()
    return status.used_bytes + status.leased_bytes


def assert_shared(store, pool, thing, other):
    """Puts it without a copy, and it comes back in another client."""
    before = pool.stats()
    id = store.put(thing)
    after = pool.stats()
    assert after["copied_bytes"] == before["copied_bytes"]
    assert after["shared_bytes"] > before["shared_bytes"]
    found = other.get(id)
    assert found.equals(thing)
    found.validate(full=True)
    return id


def test_parquet_is_read_into_the_store_and_put_without_a_copy(store, other, pool, parquet):
    with store.pooled() as active:
        assert active is pool
        table = pq.read_table(parquet)
    assert all(pool.holds(buffer) for buffer in buffers(table))
    taken = taken_bytes(store)
    id = assert_shared(store, pool, table, other)
    assert taken_bytes(store) - taken < MIB, "there is no second copy"
    found = other.get(id)
    assert found.schema == table.schema
    assert found.equals(pq.read_table(parquet))


def test_dataset_csv_ipc_and_compute(store, other, pool, parquet, tmp_path):
    table = pyarrow.dataset.dataset(parquet).to_table(memory_pool=pool)
    assert_shared(store, pool, table, other)
    path = tmp_path / "table.csv"
    pyarrow.csv.write_csv(table.select(["n", "f", "t"]), path)
    assert_shared(store, pool, pyarrow.csv.read_csv(path, memory_pool=pool), other)
    total = pc.add(table["n"], 1, memory_pool=pool)
    assert_shared(store, pool, total, other)
    assert_shared(store, pool, pc.add(pa.array(np.arange(10_000)), 1, memory_pool=pool), other)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(
        sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")
    ) as to:
        to.write_table(table)
    with store.pooled():
        again = pa.ipc.open_stream(sink.getvalue()).read_all()
    assert_shared(store, pool, again, other)


def test_slices_and_parts_share_what_they_have(store, other, pool):
    with store.pooled():
        # Concatenating makes the buffers again.
        table = pa.concat_tables([table_of(100_000)] * 2).combine_chunks()
    assert_shared(store, pool, table.slice(8, 150_000), other)
    assert_shared(store, pool, table.select(["n", "t"]), other)
    few = store.put(table.slice(5, 10))
    assert other.get(few).equals(table.slice(5, 10))
    assert other.get_buffer(few).tag == plasmon._native.TAG_ARROW_STREAM, "better copied"


def test_the_same_buffers_put_twice_are_there_once(own):
    store = own(128 * MIB)
    other = plasmon.connect(store.socket)
    pool = store.memory_pool()
    numbers = pc.add(pa.array(np.arange(1_000_000)), 1, memory_pool=pool)
    first = store.put(numbers)
    used = store.status().used_bytes
    second = store.put(numbers)
    assert store.status().used_bytes - used < MIB
    store.delete(first)
    assert other.get(second).equals(numbers)
    store.delete(second)
    # Deleted, and still in use here.
    assert pc.sum(numbers).as_py() == 1_000_000 * 1_000_001 // 2
    big = [store.put(np.full(1_000_000, 7)) for _ in range(8)]
    assert numbers[999_999].as_py() == 1_000_000, "its memory was not reused"
    del numbers, big
    gc.collect()
    settles(lambda: store.status().used_bytes < 70_000_000)
    other.disconnect()


def test_freed_buffers_are_used_again(own):
    store = own(256 * MIB)
    pool = store.memory_pool()
    first = pa.allocate_buffer(20 * MIB, memory_pool=pool)
    address = first.address
    del first
    settles(lambda: store.status().warm_bytes >= 20 * MIB)
    assert pa.allocate_buffer(20 * MIB, memory_pool=pool).address == address
    small = pa.allocate_buffer(1000, memory_pool=pool)
    address = small.address
    del small
    assert pa.allocate_buffer(1000, memory_pool=pool).address == address
    assert pool.bytes_allocated() == 0


def test_growing_buffers_stay_where_they_are(own):
    store = own(512 * MIB)
    pool = store.memory_pool()
    stream = pa.BufferOutputStream(memory_pool=pool)
    part = bytes(range(256)) * 4096
    for _ in range(100):
        stream.write(part)
    moved = pool.stats()["moved"]
    for _ in range(100):
        stream.write(part)
    buffer = stream.getvalue()
    assert pool.holds(buffer)
    assert pool.stats()["moved"] == moved, "a large buffer never moves"
    assert pool.stats()["grown_in_place"] > 0
    assert buffer.size == 200 * MIB
    assert bytes(buffer[-256:]) == bytes(range(256))


def test_a_full_store_is_an_arrow_error(own):
    store = own(16 * MIB)
    pool = store.memory_pool()
    with pytest.raises(pa.ArrowMemoryError, match="Plasmon"):
        pa.allocate_buffer(17 * MIB, memory_pool=pool)
    held = []
    with pytest.raises(pa.ArrowMemoryError, match="Plasmon"):
        while True:
            held.append(pa.allocate_buffer(MIB, memory_pool=pool))
    assert len(held) >= 12
    held.clear()
    settles(lambda: pool.bytes_allocated() == 0)
    held.append(pa.allocate_buffer(8 * MIB, memory_pool=pool))


def test_a_table_outlives_its_pool(own):
    store = own(64 * MIB)
    pool = store.memory_pool()
    numbers = pc.add(pa.array(np.arange(1_000_000)), 1, memory_pool=pool)
    id = store.put(numbers)
    more = pc.add(pa.array(np.arange(1000)), 1, memory_pool=pool)
    socket = store.socket
    store.__dict__.clear()
    store.disconnect()
    del store, pool
    gc.collect()
    assert numbers[-1].as_py() == 1_000_000
    assert more[-1].as_py() == 1000
    with plasmon.connect(socket) as other:
        assert other.get(id).equals(numbers)
    del numbers, more
    gc.collect()


def test_pandas_and_polars_frames_of_the_pool(store, other, pool, parquet):
    import polars as pl

    with store.pooled():
        table = pq.read_table(parquet, columns=["n", "f"])
    frame = pl.from_arrow(table)
    assert other.get(store.put(frame)).equals(frame)


def test_threads_share_a_pool(own):
    store = own(256 * MIB)
    pool = store.memory_pool()
    failures = []

    def work(number):
        try:
            for size in (10, 1000, 100_000, 1_000_000):
                array = pc.add(pa.array(np.full(size, number)), 1, memory_pool=pool)
                found = store.get(store.put(array))
                if not found.equals(array):
                    failures.append((number, size))
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=[number]) for number in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert failures == []
    settles(lambda: pool.bytes_allocated() == 0)


def test_a_forked_child_can_put_but_not_allocate_nor_read(own):
    store = own(64 * MIB)
    pool = store.memory_pool()
    numbers = pc.add(pa.array(np.arange(100_000)), 1, memory_pool=pool)
    pid = os.fork()
    if pid == 0:
        try:
            mine = pa.array(np.arange(100_000))
            assert store.get(store.put(mine)).equals(mine)
            try:
                pa.allocate_buffer(1000, memory_pool=pool)
            except pa.ArrowException:
                # What it inherited is not there: to touch it ends the child.
                numbers[-1].as_py()
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGSEGV
    assert pc.sum(numbers).as_py() == 100_000 * 100_001 // 2
    assert store.get(store.put(numbers)).equals(numbers)


def test_a_strict_store_has_no_pool_and_says_so(own):
    store = own(64 * MIB, level="strict")
    with pytest.raises(plasmon.Unsupported, match="strict"):
        store.memory_pool()
    with pytest.warns(RuntimeWarning, match="strict"), store.pooled():
        array = pc.add(pa.array([1, 2]), 1)
    assert store.get(store.put(array)).equals(array)


def test_without_the_extension_everything_works_with_a_copy(store, monkeypatch, tmp_path):
    """`memory_pool()` gave pyarrow's own pool after a warning, and the guide's next line, which
    asks the pool for its figures, ended in an AttributeError."""
    name = _memory_pool.module_name(_memory_pool.arrow_major(pa.cpp_version))
    monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(_memory_pool, "folders", lambda: [tmp_path])
    monkeypatch.setitem(store.__dict__, "_pools", {})
    with pytest.raises(ImportError, match=r"build it with: .* -m plasmon.build_memory_pool$"):
        store.memory_pool()
    monkeypatch.setattr(_memory_pool.importlib.util, "find_spec", lambda name: None)
    both = r"build it with: .* -m pip install cython && .* -m plasmon.build_memory_pool$"
    with pytest.raises(ImportError, match=both):
        store.memory_pool()
    (tmp_path / f"{name}{_memory_pool._SUFFIX}").write_bytes(b"no extension")
    with pytest.warns(RuntimeWarning, match="does not fit"), store.pooled():
        table = table_of(1000)
    assert store.get(store.put(table)).equals(table)


def test_an_extension_for_another_arrow_is_not_used(store, monkeypatch):
    module = _memory_pool.find()
    monkeypatch.setattr(module, "ARROW_VERSION", "1.0.0")
    monkeypatch.delitem(sys.modules, module.__name__)
    monkeypatch.setattr(_memory_pool, "_load", lambda path, name: module)
    with pytest.raises(ImportError, match="built for Arrow"):
        _memory_pool.find()


def test_leased_stores_share_too(own, parquet):
    store = own(256 * MIB, level="leased")
    pool = store.memory_pool()
    with store.pooled():
        table = pq.read_table(parquet)
    id = store.put(table)
    assert pool.stats()["copied_bytes"] == 0
    with plasmon.connect(store.socket) as other:
        found = other.get(id)
        assert found.equals(table)
        found.validate(full=True)


def test_building_says_what_is_missing(tmp_path):
    found = subprocess.run(
        [sys.executable, "-m", "plasmon.build_memory_pool"],
        env={**os.environ, "CXX": str(tmp_path / "nothing")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode != 0
    assert "the compiler cannot be run" in found.stderr


EXITS = {
    "tables that are left, in any order": """
table = pc.add(pa.array(range(100_000)), 1, memory_pool=pool)
id = store.put(table)
more = pc.add(pa.array(range(100)), 1, memory_pool=pool)
""",
    "the pool is still the default one": """
pa.set_memory_pool(pool)
table = pc.add(pa.array(range(100_000)), 1)
""",
    "a block that was never left": """
block = store.pooled()
block.__enter__()
table = pa.concat_tables([pa.table({"x": range(100_000)})] * 2).combine_chunks()
""",
    "the store went first": """
table = pc.add(pa.array(range(100_000)), 1, memory_pool=pool)
store.disconnect()
daemon.stop()
""",
    "builders that were not finished": """
builder = store.builder("int64")
builder.extend(range(100_000))
builder.append(1)
table = store.table_builder({"x": "string"})
table.extend({"x": ["a"] * 1000})
""",
    "a thread that still reads": """
import threading
table = pc.add(pa.array(range(100_000)), 1, memory_pool=pool)
begun = threading.Event()
def read():
    begun.set()
    while True:
        pc.sum(table)
threading.Thread(target=read, daemon=True).start()
begun.wait()
""",
}


@pytest.mark.parametrize("what", EXITS)
def test_the_interpreter_ends_quietly_whatever_is_left(tmp_path, what):
    begin = f"""
import plasmon, pyarrow as pa, pyarrow.compute as pc
daemon = plasmon.start(capacity="64m", socket={str(tmp_path / "s.sock")!r})
store = daemon.connect()
pool = store.memory_pool()
assert pool.backend_name == "plasmon"
"""
    found = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", begin + EXITS[what]],
        env={**os.environ, "PYTHONPATH": str(Path(plasmon.__file__).parent.parent)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (found.returncode, found.stderr) == (0, "")
