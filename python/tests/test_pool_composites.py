"""Objects of a pool that consist of others: between two whole nodes, and when one of them dies."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest

import plasmon

from . import test_pool_parts
from .conftest import DEADLINE_S, MIB, settles

pa = pytest.importorskip("pyarrow")

from .random_tables.failure import same  # noqa: E402
from .random_tables.made import Make  # noqa: E402

pool_of_two, nodes = test_pool_parts.pool_of_two, test_pool_parts.nodes


def build(store, batches, **options):
    """A table that is built in the store, and its object."""
    with store.table_builder(batches[0].schema) as builder:
        for batch in batches:
            builder.extend(batch)
        return builder.finish(**options)


def long(rows=200_000, seed=1):
    """A table whose columns are long enough to be members."""
    dice = random.Random(seed)
    texts = [dice.choice(["", "Bern", "Rome", "ünï" * 9]) for _ in range(1000)]
    return pa.table(
        {
            "a": pa.array([dice.getrandbits(60) for _ in range(1000)] * (rows // 1000)),
            "b": pa.array(texts * (rows // 1000)),
            "c": pa.array(range(rows), pa.float64()),
        }
    )


def members(store):
    """The members that are here, of whichever node."""
    return [
        info for info in store.list() if info.owned or (not info.name and info.data_bytes > MIB)
    ]


def used(store):
    return store.status().used_bytes


def is_in_parts(store, name):
    return store.get_buffer(name).tag == plasmon._native.TAG_COMPOSITE


def gone(nodes):
    """Waits until nothing is left on any node."""
    settles(lambda: not members(nodes.one) and not members(nodes.two))


@pytest.mark.parametrize(
    "options",
    [
        {"name": "@parts:built", "copies": 1},
        {"name": "@parts:built"},
        {"pool": True, "ack": "copies"},
        {"pool": True, "copies": 2},
    ],
)
def test_what_is_built_for_the_pool_lies_in_members_and_is_read_everywhere(nodes, options):
    nodes.put(b"the nodes have joined")
    wanted = long()
    before = used(nodes.one)
    id = build(nodes.one, wanted.to_batches(50_000), **options)
    assert is_in_parts(nodes.one, id)
    assert used(nodes.one) - before < 1.1 * wanted.nbytes, "it is there once"
    assert len(nodes.one.pool.where(id).holders) == options.get("copies", 1 + ("name" in options))
    for store in (nodes.two, nodes.one):
        found = store.get(id, as_="arrow")
        same("the table", wanted, found)
        assert found.schema == wanted.schema
    nodes.two.delete(id)
    same("what is held stays", wanted, found)
    del found
    gone(nodes)
    for store in (nodes.one, nodes.two):
        with pytest.raises((plasmon.Absent, plasmon.Deleted)):
            store.get(id)


def test_a_column_brings_its_own_members_alone(nodes):
    wanted = long()
    nodes.put(b"the nodes have joined")
    build(nodes.one, [wanted], name="@parts:built", copies=1)
    before = used(nodes.two)
    found = nodes.two.pool.read_columns("@parts:built", ["c"])
    assert found.equals(wanted.select(["c"]))
    assert used(nodes.two) - before < 1.2 * wanted.select(["c"]).nbytes
    # What the object is made of can be read as bytes, too: it is short.
    described = b"".join(bytes(piece) for piece in nodes.two.pool.stream("@parts:built"))
    assert described[:8] == b"PLMCOMP1"
    assert len(described) < 8192
    del found
    nodes.one.delete("@parts:built")
    gone(nodes)


def test_random_tables_are_the_same_on_the_other_node(nodes):
    nodes.put(b"the nodes have joined")
    first, in_parts = int(os.environ.get("SEED", "1")), 0
    for seed in range(first, first + 12):
        make = Make(seed)
        kinds = [make.type(rare=False) for _ in range(make.choice([1, 2, 4]))]
        rows = make.choice([0, 1, 1000])
        few = pa.table({f"c{at}": make.array(kind, rows) for at, kind in enumerate(kinds)})
        times = max(1, min(4000, 4 * MIB // max(few.nbytes, 1)))
        wanted = pa.concat_tables([few] * times).combine_chunks()
        try:
            batches = wanted.to_batches() or [wanted]
            build(nodes.one, batches, name="@parts:random", copies=1)
        except plasmon.Unsupported:
            continue
        in_parts += is_in_parts(nodes.one, "@parts:random")
        found = nodes.two.get("@parts:random", as_="arrow")
        same(f"SEED={seed}", nodes.one.get("@parts:random", as_="arrow"), found)
        same(f"SEED={seed}", wanted, found)
        del found
        nodes.two.delete("@parts:random", wait=False)
        gone(nodes)
    assert in_parts > 1 or "SEED" in os.environ


def test_a_member_that_is_gone_is_named(nodes):
    nodes.put(b"the nodes have joined")
    wanted = long()
    id = build(nodes.one, [wanted], name="@parts:built", copies=1)
    held = nodes.one.get(id, as_="arrow")
    lost = max(members(nodes.one), key=lambda info: info.data_bytes).id
    nodes.two.delete(lost)
    settles(lambda: not [info for info in members(nodes.one) if info.id == lost])
    begin = time.monotonic()
    for store in (nodes.two, nodes.one):
        with pytest.raises((plasmon.Deleted, plasmon.Absent), match=f"member of .*{id}") as gone_:
            store.get("@parts:built")
        assert gone_.value.object_id == lost
        with pytest.raises((plasmon.Deleted, plasmon.Absent), match=f"member of .*{id}"):
            store.pool.read_columns("@parts:built", wanted.column_names)
    assert time.monotonic() - begin < DEADLINE_S
    same("what is held stays", wanted, held)
    nodes.one.delete("@parts:built")
    del held
    gone(nodes)


def test_members_of_ones_own_making(nodes):
    nodes.put(b"the nodes have joined")
    one, two = nodes.one, nodes.two
    parts = [one.put(bytes([at]) * MIB, pool=True) for at in range(3)]
    # On another node the members have to be brought first.
    with pytest.raises(plasmon.Absent, match="not on this node") as absent:
        two.put(b"list", name="@parts:x", copies=1, members=parts)
    assert absent.value.object_id == parts[0]
    held = [two.get_buffer(id) for id in parts]
    two.put(b"list", name="@parts:x", copies=1, members=parts)
    assert one.get("@parts:x") == b"list"
    two.delete("@parts:x")
    # It does not own them.
    assert [bytes(one.get(id)[:1]) for id in parts] == [b"\0", b"\1", b"\2"]
    del held
    one.delete(parts)
    with pytest.raises((plasmon.Deleted, plasmon.Absent)) as deleted:
        one.put(b"list", name="@parts:x", copies=1, members=parts)
    assert deleted.value.object_id == parts[0]
    gone(nodes)


def processes_of(store):
    """The processes of a node: daemon, keeper and pool daemon name its socket."""
    socket = os.fsencode(str(store.socket))
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
        except OSError:
            continue
        if socket in words:
            found.append(int(entry.name))
    return found


def test_a_table_outlives_the_node_where_it_was_built(nodes):
    # The last test of the module: the first node is dead after it.
    nodes.put(b"the nodes have joined")
    wanted = long()
    build(nodes.one, [wanted], name="@parts:kept", copies=2, copies_min=2)
    victims = processes_of(nodes.one)
    assert len(victims) > 1
    for pid in victims:
        os.kill(pid, signal.SIGKILL)
    found = nodes.two.get("@parts:kept", as_="arrow")
    same("what the second node has", wanted, found)

    def is_deleted():
        try:
            nodes.two.delete("@parts:kept")
        except (plasmon.Unreachable, plasmon.TimedOut):
            return False
        return True

    settles(is_deleted)
    del found
    settles(lambda: not members(nodes.two))


@pytest.mark.parametrize("owns_members", [False, True])
def test_members_end_with_a_composite_that_owns_them_alone(nodes, owns_members):
    parts = [nodes.one.put(b"a part %d" % at, pool=True, ack="copies") for at in range(3)]
    options = {"members": parts, "owns_members": owns_members}
    whole = nodes.one.put(b"the whole", name="@parts:whole", copies=1, **options)
    assert nodes.two.get(whole) == b"the whole"
    nodes.two.delete(whole)
    if not owns_members:
        assert [nodes.two.get(part) for part in parts] == [b"a part 0", b"a part 1", b"a part 2"]
        nodes.two.delete(parts)
    settles(lambda: not any(nodes.one.contains(part) for part in parts))
    for part in parts:
        with pytest.raises((plasmon.Absent, plasmon.Deleted)):
            nodes.two.get(part, timeout=0)
