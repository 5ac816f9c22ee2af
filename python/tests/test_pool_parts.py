"""Parts of objects of a pool: between two whole nodes, and where there is no pool."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import plasmon

from .conftest import DEADLINE_S, MIB, settles

pa = pytest.importorskip("pyarrow")

from .random_tables import made  # noqa: E402
from .random_tables.failure import same  # noqa: E402

COMMAND = Path(os.environ.get("PLASMON_COMMAND", Path(sys.executable).parent / "plasmon"))
STREAM_PIECE = 4 * MIB


class Nodes:
    """Two nodes of a pool: what ``one`` puts, ``two`` reads from it."""

    def __init__(self, sockets: list[str]) -> None:
        self.one, self.two = (plasmon.connect(socket, start=False) for socket in sockets)
        self.count = 0
        self.names: list[str] = []

    def put(self, value: object, **options: object) -> str:
        """Puts a value with one copy; its name."""
        self.count += 1
        name = f"@parts:{self.count}"
        self.one.put(value, name=name, copies=1, **options)
        self.names.append(name)
        return name

    def clear(self) -> None:
        """Deletes what was put, so that the next test has the whole store."""
        self.one.delete(self.names)
        self.names.clear()

    def is_copied(self, name: str) -> bool:
        """Whether the second node has, or had, a copy."""
        place = self.one.pool.where(name)
        return len(place.holders + place.caches) > 1


@pytest.fixture(scope="module")
def pool_of_two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    if shutil.which("etcd") is None:
        pytest.skip("etcd is not installed")
    if not COMMAND.exists():
        pytest.skip("the command is not installed")
    told = tmp_path_factory.mktemp("pool") / "told.jsonl"
    command = [COMMAND, "pool", "dev", "--nodes", "2", "--capacity", "96m", "--json"]
    with told.open("wb") as out:
        pool = subprocess.Popen(command, stdout=out)
    try:
        settles(lambda: b'"ready"' in told.read_bytes() or pool.poll() is not None)
        assert pool.poll() is None, "the pool did not start"
        steps = [json.loads(line) for line in told.read_text().splitlines()]
        nodes = Nodes([step["socket"] for step in steps if step["event"] == "node"])
        yield nodes
        for store in (nodes.one, nodes.two):
            store.disconnect()
    finally:
        pool.send_signal(signal.SIGINT)
        assert pool.wait(DEADLINE_S) in {0, 130, -signal.SIGINT}


def test_contents_of_copies_are_compared(pool_of_two: Nodes):
    before = pool_of_two.two.pool.compare()
    pool_of_two.put(b"x" * MIB)
    for at in range(3):
        name = f"@parts:twice{at}"
        pool_of_two.one.put(bytes([at]) * 1000, name=name, copies=2, copies_min=2)
        pool_of_two.names.append(name)
    found = pool_of_two.two.pool.compare(timeout=DEADLINE_S)
    assert found.right
    assert found.same - before.same == 3
    assert found.single - before.single == 1
    assert found.copies - before.copies == 7
    assert found.bytes - before.bytes == MIB + 6000
    assert (found.differing, found.unreadable) == (0, 0)
    assert (found.differences, found.unanswered) == ([], [])
    with pytest.raises(plasmon.TimedOut):
        pool_of_two.two.pool.compare(timeout=0)
    pool_of_two.clear()


@pytest.fixture
def nodes(pool_of_two: Nodes) -> Iterator[Nodes]:
    yield pool_of_two
    pool_of_two.clear()


def local(store: plasmon.Store) -> list[plasmon.ObjectInfo]:
    """Objects of a store that are not of a pool."""
    return [info for info in store.list() if info.namespace[:1] != "@"]


@pytest.mark.parametrize("length", [1, 1000, 70_000, 5 * MIB + 7])
def test_any_ranges_are_those_of_the_bytes(nodes, length):
    dice = random.Random(length)
    data = dice.randbytes(length)
    name = nodes.put(data)
    for count in (0, 1, 3, 100):
        ranges = []
        for _ in range(count):
            offset = dice.randint(0, length)
            longest = dice.choice([1, 100, 70_000, length])
            ranges.append((offset, dice.randint(0, min(length - offset, longest))))
        found = nodes.two.pool.read(name, ranges)
        wanted = [data[offset : offset + nbytes] for offset, nbytes in ranges]
        assert [bytes(view) for view in found] == wanted
        assert all(view.readonly and view.format == "B" for view in found)
    assert not nodes.is_copied(name), "no copy came to be"
    # Where the object is, it is read in place.
    (here,) = nodes.one.pool.read(name, [(0, length)])
    assert here == data
    del found, here
    settles(lambda: not local(nodes.two))


def test_views_keep_what_they_show_and_nothing_else_stays(nodes):
    name = nodes.put(bytes(8 * MIB))
    views = nodes.two.pool.read(name, [(0, MIB), (4 * MIB, MIB)])
    nodes.one.delete(name)
    assert all(bytes(view) == bytes(MIB) for view in views)
    with pytest.raises((plasmon.Deleted, plasmon.Absent)):
        nodes.two.pool.read(name, [(0, 1)])
    before = nodes.two.status().used_bytes
    assert before >= 2 * MIB
    del views
    settles(lambda: nodes.two.status().used_bytes < MIB)


def test_a_pool_with_too_few_nodes_says_how_many_there_are(nodes):
    def create(**options):
        with nodes.one.create(1, **options) as buffer:
            buffer.seal()

    for options in ({"name": "@parts:few"}, {"pool": True}):
        for put in (lambda **options: nodes.one.put(b"0", **options), create):
            with pytest.raises(plasmon.NotEnoughNodes, match=r"needs 3 nodes.* has 2 nodes for"):
                put(**options, copies=4, copies_min=3)


def test_what_cannot_be_read_says_so_at_once(nodes):
    name, begin = nodes.put(b"0123456789"), time.monotonic()
    for store in (nodes.one, nodes.two):
        for wrong in ([(0, 11)], [(11, 0)], [(3, 1), (2**63, 1)], [(0, 1), (2**64 - 1, 9)]):
            with pytest.raises(plasmon.BadRequest, match="not within"):
                store.pool.read(name, wrong)
        with pytest.raises(plasmon.BadRequest, match="more ranges"):
            store.pool.read(name, [(0, 1)] * 65_537)
        with pytest.raises(plasmon.Absent, match="nothing"):
            store.pool.read("@parts:nothing", [(0, 1)])
        with pytest.raises(plasmon.Absent):
            store.pool.read_columns("@parts:nothing", ["a"])
        with pytest.raises(plasmon.Absent):
            next(store.pool.stream("@parts:nothing"))
        with pytest.raises(plasmon.BadRequest, match=f'"{name}" .*holds bytes, not a table'):
            store.pool.read_columns(name, ["a"])
        with pytest.raises(plasmon.BadRequest):
            store.pool.stream(name, window=0)
        for wrong in ((-1, 1), (1, -1)):
            with pytest.raises(ValueError, match="neither of them negative, found"):
                store.pool.read(name, [wrong])
        with pytest.raises(plasmon.BadRequest, match="the store of one node"):
            store.pool.where("parts")
        with pytest.raises(plasmon.Exists, match=f'putting object "{name}"'):
            store.put(b"again", name=name)
    assert time.monotonic() - begin < DEADLINE_S
    with pytest.raises(plasmon.TimedOut):
        nodes.two.pool.read("@parts:nothing", [(0, 1)], timeout=0.3)


def test_many_ranges_in_one_call(nodes):
    data = bytes(range(256)) * 40_000
    name = nodes.put(data)
    ranges = [(at * 153, 3) for at in range(65_536)]
    found = nodes.two.pool.read(name, ranges)
    assert b"".join(found) == b"".join(data[at : at + nbytes] for at, nbytes in ranges)
    far = [(at * 1700, 3) for at in range(6000)]
    found = nodes.two.pool.read(name, far)
    assert b"".join(found) == b"".join(data[at : at + nbytes] for at, nbytes in far)


def test_a_read_waits_for_an_object_as_long_as_it_was_told(nodes):
    later = threading.Timer(0.5, lambda: nodes.one.put(b"later", name="@parts:later", copies=1))
    later.start()
    (found,) = nodes.two.pool.read("@parts:later", [(1, 3)], timeout=DEADLINE_S)
    assert found == b"ate"
    later.join()


def test_parts_of_many_objects_are_those_of_the_bytes(nodes):
    first = int(os.environ.get("SEED", "1"))
    for seed in range(first, first + 4):
        dice = random.Random(seed)
        lengths = [dice.choice([0, 1, 100, 5000, 70_000, 3 * MIB]) for _ in range(30)]
        contents = [dice.randbytes(length) for length in lengths]
        names = [nodes.put(data) for data in contents]
        locals_ = [nodes.two.put(data) for data in contents[:5]]
        reads, wanted = [], []
        for _ in range(dice.choice([1, 40, 1500])):
            at = dice.randrange(len(names))
            here = at < len(locals_) and dice.random() < 0.2
            ranges = []
            for _ in range(dice.choice([0, 1, 1, 3, 20])):
                offset = dice.randint(0, lengths[at])
                longest = dice.choice([1, 100, 4096, 2 * MIB if len(reads) < 20 else 9])
                ranges.append((offset, dice.randint(0, min(lengths[at] - offset, longest))))
            reads.append((locals_[at] if here else names[at], ranges))
            wanted.append([contents[at][offset : offset + nbytes] for offset, nbytes in ranges])
        for store in (nodes.two, nodes.one):
            asked = [read for read in reads if store is nodes.two or read[0] not in locals_]
            found = store.pool.gather(asked)
            kept = [each for read, each in zip(reads, wanted, strict=True) if read in asked]
            assert [[bytes(view) for view in views] for views in found] == kept, f"SEED={seed}"
            del found
        assert not any(nodes.is_copied(name) for name in names)
        nodes.one.delete(names)
        nodes.two.delete(locals_)
    settles(lambda: not local(nodes.two))


def test_each_object_of_a_gather_has_its_own_error(nodes):
    name, gone = nodes.put(b"0123456789"), nodes.put(b"gone")
    nodes.one.delete(gone)
    reads = [
        (name, [(2, 3), (0, 0)]),
        ("@parts:nothing", [(0, 1)]),
        (name, [(0, 11)]),
        (gone, [(0, 1)]),
        (name, [(0, 1)] * 3000),
        (name, [(0, 1)] * 65_537),
        (nodes.two.new_id(), [(0, 1)]),
        (name, [(9, 1)]),
    ]
    for store in (nodes.two, nodes.one):
        found = store.pool.gather(reads, errors="return")
        assert found[0] == [b"234", b""]
        assert isinstance(found[1], plasmon.Absent)
        assert "nothing" in str(found[1])
        assert isinstance(found[2], plasmon.BadRequest)
        assert isinstance(found[3], (plasmon.Absent, plasmon.Deleted))
        assert found[4] == [b"0"] * 3000
        assert isinstance(found[5], plasmon.BadRequest)
        assert isinstance(found[6], plasmon.Absent)
        assert found[7] == [b"9"]
        with pytest.raises(plasmon.Absent):
            store.pool.gather(reads)
    assert nodes.two.pool.gather([]) == []
    with pytest.raises(OverflowError):
        nodes.two.pool.gather([(name, [(-1, 1)])])
    with pytest.raises(TypeError):
        nodes.two.pool.gather([(7, [(0, 1)])])
    with pytest.raises(plasmon.TimedOut):
        nodes.two.pool.gather([(name, [(0, 1)]), ("@parts:nothing", [(0, 1)])], timeout=0.3)


def test_a_gather_waits_for_objects_as_long_as_it_was_told(nodes):
    there = nodes.put(b"there")

    def put():
        for at in range(3):
            nodes.one.put(b"%d" % at, name=f"@parts:late{at}", copies=1)

    later = threading.Timer(0.5, put)
    later.start()
    reads = [(f"@parts:late{at}", [(0, 1)]) for at in range(3)]
    found = nodes.two.pool.gather([*reads, (there, [(0, 5)])], timeout=DEADLINE_S)
    assert found == [[b"0"], [b"1"], [b"2"], [b"there"]]
    later.join()


def test_views_of_several_objects_share_memory_that_is_free_after_the_last(nodes):
    names = [nodes.put(bytes([at]) * MIB) for at in range(16)]
    settles(lambda: not local(nodes.two))
    before = nodes.two.status().used_bytes
    found = nodes.two.pool.gather([(name, [(0, 300_000)]) for name in names])
    nodes.one.delete(names)
    for at, (view,) in enumerate(found):
        assert view == bytes([at]) * 300_000
    assert nodes.two.status().used_bytes >= before + 16 * 300_000
    last = found.pop()
    del found, view
    settles(lambda: nodes.two.status().used_bytes < before + 2 * MIB)
    assert last == [bytes([15]) * 300_000]


def test_a_gather_that_is_larger_than_its_window_is_read_whole(nodes):
    # Two requests of 32 MiB are under way at most, and the store has room for 96 MiB.
    name = nodes.put(random.Random(5).randbytes(16 * MIB))
    whole = nodes.one.get(name)
    reads = [(name, [(at * MIB, MIB)]) for at in (*range(16), *range(16), *range(16))]
    found = nodes.two.pool.gather(reads)
    assert all(
        view == whole[offset : offset + MIB]
        for (view,), (_, [(offset, _)]) in zip(found, reads, strict=True)
    )
    del found
    settles(lambda: not local(nodes.two))
    # What the store has no room for fails, object by object, and nothing stays.
    found = nodes.two.pool.gather(reads * 3, errors="return")
    assert {type(one) for one in found} == {list, plasmon.StoreFull}
    del found
    settles(lambda: nodes.two.status().used_bytes < MIB)


@pytest.mark.parametrize("length", [0, 1, STREAM_PIECE, 3 * STREAM_PIECE + 5, 40 * MIB])
def test_a_stream_has_all_bytes_in_pieces_and_only_a_window_of_them(nodes, length):
    data = random.Random(length).randbytes(length)
    name = nodes.put(data)
    for store in (nodes.two, nodes.one):
        at, most = 0, 0
        for piece in store.pool.stream(name, window=2):
            assert piece == data[at : at + STREAM_PIECE]
            at += len(piece)
            if store is nodes.two:
                most = max(most, store.status().used_bytes)
        assert at == length
        assert most <= 5 * STREAM_PIECE
    with nodes.two.pool.stream(name) as given_up:
        next(given_up, None)
    assert next(given_up, None) is None
    settles(lambda: not local(nodes.two))
    assert not nodes.is_copied(name)
    nodes.one.delete(name)


def test_random_columns_of_random_tables_are_those_of_the_whole(nodes):
    first = int(os.environ.get("SEED", "1"))
    for seed in range(first, first + 40):
        try:
            columns_of_a_table(nodes, made.Make(seed))
        except Exception as error:
            raise AssertionError(f"SEED={seed} shows it") from error


def same_schema(wanted: pa.Schema, found: pa.Schema) -> None:
    assert found.equals(wanted)
    assert (found.metadata or {}) == (wanted.metadata or {})
    for one, other in zip(wanted, found, strict=True):
        # Where a type is an extension, pyarrow gives no metadata or an empty one.
        assert dict(one.metadata or {}) == dict(other.metadata or {})
        assert one.nullable == other.nullable


def columns_of_a_table(nodes: Nodes, make: made.Make) -> None:
    table = make.table()
    name = nodes.put(table)
    whole = nodes.one.get(name)
    for store in (nodes.two, nodes.one):
        count = make.random.randint(0, 3) if table.num_columns else 0
        columns = [make.random.randrange(table.num_columns) for _ in range(count)]
        wanted = whole.select(columns)
        found = store.pool.read_columns(name, columns)
        same_schema(wanted.schema, found.schema)
        same("columns", wanted, found)
        if len(set(columns)) == len(columns):
            names = [table.column_names[at] for at in columns]
            same("names", wanted, store.pool.read_columns(name, names))
        start = make.random.randint(0, table.num_rows)
        # Beyond the end pyarrow cuts nothing off a table without columns.
        end = make.random.randint(start, table.num_rows + (2 if columns else 0))
        rows = store.pool.read_columns(name, columns, rows=(start, end))
        same("rows", wanted.slice(start, end - start), rows)
    assert not nodes.is_copied(name)
    nodes.one.delete(name)


def test_other_metadata_and_frames(nodes):
    pd = pytest.importorskip("pandas")
    schema = pa.schema(
        [pa.field("a", pa.int8(), metadata={b"\xff": b"1"}), pa.field("b", pa.int8())],
        metadata={b"whole": b"\xfe"},
    )
    table = pa.table({"a": [1, 2], "b": [3, 4]}, schema=schema)
    name = nodes.put(table)
    for columns in (["b"], ["a"], ["b", "a"], []):
        found = nodes.two.pool.read_columns(name, columns)
        assert found.schema.equals(table.select(columns).schema, check_metadata=True)
        assert found.equals(table.select(columns))
    name = nodes.put(pd.DataFrame({"x": [1.5, 2.5], "y": ["a", None]}))
    found = nodes.two.pool.read_columns(name, ["y"])
    assert found.equals(nodes.one.get(name, as_="arrow").select(["y"]))
    for column, error in (("z", KeyError), (7, IndexError), (1.5, TypeError)):
        with pytest.raises(error):
            nodes.two.pool.read_columns(name, [column])
    with pytest.raises(TypeError, match="list of names"):
        nodes.two.pool.read_columns(name, "x")
    with pytest.raises(ValueError, match="rows"):
        nodes.two.pool.read_columns(name, ["x"], rows=(2, 1))


def others(store: plasmon.Store, id: plasmon.ObjectId) -> list[plasmon.ObjectInfo]:
    """Objects without a name of the pool, but for this one."""
    return [info for info in local(store) if info.id != id]


@pytest.mark.parametrize("options", [{"name": "@parts:built", "copies": 1}, {"pool": True}])
def test_a_table_that_is_built_for_the_pool_is_one_object_on_all_nodes(nodes, options):
    table = pa.table({"a": [1, 2, None], "b": ["x", None, "z" * 100], "c": [[1], [], None]})
    with nodes.one.table_builder(table.schema) as builder:
        for _ in range(1000):
            builder.extend(table)
        id = builder.finish(**options)
    if "pool" in options:
        nodes.one.settle(id, timeout=DEADLINE_S)
    # Its memory was the builder's, and is given back: no members are left.
    settles(lambda: not others(nodes.one, id))
    wanted = pa.concat_tables([table] * 1000)
    found = nodes.two.pool.read_columns(id, ["c", "a"])
    assert found.equals(wanted.select(["c", "a"]))
    assert nodes.two.get(id, as_="arrow").equals(wanted)
    assert not others(nodes.two, id)
    nodes.two.delete(id, wait=True)
    for store in (nodes.one, nodes.two):
        with pytest.raises((plasmon.Absent, plasmon.Deleted)):
            store.get(id)


def test_a_table_in_parts_goes_to_the_pool_in_one_piece(nodes):
    with nodes.one.table_builder(pa.schema({"a": pa.int64()})) as builder:
        builder.extend(pa.table({"a": range(5000)}))
        id = builder.finish()
    whole = nodes.one.get(id, as_="arrow")
    name = nodes.put(whole)
    nodes.one.delete(id)
    assert nodes.two.get(name, as_="arrow").equals(whole)
    nodes.two.delete(name)


def test_composites_that_the_pool_cannot_have_are_refused_with_what_to_do_instead(nodes):
    member, pooled = nodes.one.put(b"a part"), nodes.one.put(b"of the pool", pool=True)
    refused = [
        ({"name": "@parts:composite", "members": [member]}, "put it with pool"),
        ({"pool": True, "members": [pooled, member]}, "put it with pool"),
        ({"name": "@parts:composite", "members": ["@parts:nothing"]}, "has a name"),
        ({"name": "@parts:composite", "owned": True}, "does not say that it is owned"),
        ({"name": "composite", "members": [member, pooled]}, "other nodes may delete"),
        ({"members": ["@parts:nothing"]}, "other nodes may delete"),
    ]
    for options, advice in refused:
        with pytest.raises(plasmon.Unsupported, match=advice):
            nodes.one.create(10, **options)
        with pytest.raises(plasmon.Unsupported, match=advice):
            nodes.one.put(b"data", **options)
    nodes.one.delete([member, pooled])
    settles(lambda: not local(nodes.one))


def test_one_column_of_many_moves_little(nodes):
    columns = {f"c{at}": pa.array(range(at, at + 100_000)) for at in range(50)}
    batches = pa.table(columns).to_batches(max_chunksize=10_000)
    table = pa.Table.from_batches(batches)
    name = nodes.put(table)
    found = nodes.two.pool.read_columns(name, ["c17"])
    assert found["c17"].equals(table["c17"])
    assert found["c17"].num_chunks == table["c17"].num_chunks
    # What is kept here for the column is about as long as the column. What tests before this one
    # deleted may be there for a moment yet.
    settles(lambda: nodes.two.status().used_bytes < 2 * MIB)
    assert not nodes.is_copied(name)


def test_objects_come_here_in_advance(nodes):
    names = [nodes.put(bytes([at]) * MIB) for at in range(4)]
    nodes.two.pool.prefetch([*names, "@parts:nothing", "of no pool"])
    nodes.two.pool.prefetch(names[0])
    settles(lambda: all(nodes.is_copied(name) for name in names))
    for at, name in enumerate(names):
        assert nodes.two.get(name) == bytes([at]) * MIB
        (here,) = nodes.two.pool.read(name, [(5, 2)])
        assert here == bytes([at]) * 2
    with pytest.raises(plasmon.Absent):
        nodes.two.get("@parts:nothing")
    with pytest.raises(TypeError):
        nodes.two.pool.prefetch(7)


def test_objects_of_no_pool_are_read_in_place(store):
    id = store.put(b"0123456789")
    views = store.pool.read(id, [(2, 3), (0, 0), (9, 1)])
    assert views == [b"234", b"", b"9"]
    assert [bytes(piece) for piece in store.pool.stream(id)] == [b"0123456789"]
    with pytest.raises(plasmon.BadRequest, match="not within"):
        store.pool.read(id, [(9, 2)])
    with pytest.raises(plasmon.Absent):
        store.pool.read(store.new_id(), [(0, 1)])
    found = store.pool.gather([(id, [(2, 3)]), (store.new_id(), [(0, 1)])], errors="return")
    assert found[0] == [b"234"]
    assert isinstance(found[1], plasmon.Absent)
    table = pa.table({"a": [1, 2, 3], "b": ["x", None, "z"]})
    id = store.put(table)
    assert store.pool.read_columns(id, ["b"]).equals(table.select(["b"]))
    assert store.pool.read_columns(id, [-1, 0], rows=(1, 9)).equals(table.select(["b", "a"])[1:])
    store.pool.prefetch([id, "nothing"])


def test_columns_of_an_object_in_parts(store):
    with store.table_builder(pa.schema({"a": pa.int64(), "b": pa.string()})) as builder:
        builder.extend(pa.table({"a": [1, 2, None], "b": ["x", None, "z"]}))
        id = builder.finish()
    whole = store.get(id)
    for columns in (["a"], ["b"], ["b", "a"], []):
        found = store.pool.read_columns(id, columns)
        assert found.equals(whole.select(columns))
        assert found.num_rows == whole.num_rows


def test_without_a_pool_names_of_one_are_unreachable_at_once(store):
    begin = time.monotonic()
    for call in (
        lambda: store.pool.read("@prod:x", [(0, 1)]),
        lambda: next(store.pool.stream("@prod:x")),
        lambda: store.pool.read_columns("@prod:x", ["a"]),
        lambda: store.pool.prefetch("@prod:x"),
        lambda: store.pool.gather([(f"@prod:{at}", [(0, 1)]) for at in range(3000)]),
    ):
        with pytest.raises(plasmon.Unreachable, match="no pool daemon"):
            call()
    assert time.monotonic() - begin < DEADLINE_S / 3
