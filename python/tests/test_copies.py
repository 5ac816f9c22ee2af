"""Copies in a pool: what a put asks for, and what it is refused."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import plasmon

NAME = "@prod:sales"
DEADLINE_S = 60.0


def table():
    pa = pytest.importorskip("pyarrow")
    return pa.table({"x": np.arange(1000)})


@pytest.fixture
def pooled(own, tmp_path, monkeypatch):
    """A store that belongs to a pool whose daemon does nothing."""
    poold = tmp_path / "poold"
    poold.write_text("#!/bin/sh\nexec sleep 600\n")
    poold.chmod(0o700)
    monkeypatch.setenv("PLASMON_POOLD", str(poold))
    return own(cluster="etcd://127.0.0.1:1", node_name="one")


@pytest.mark.parametrize("options", [{"copies": 2}, {"copies_min": 1}])
@pytest.mark.parametrize("named", [{}, {"name": "sales"}, {"name": "@sales", "namespace": "prod"}])
def test_only_objects_of_a_pool_have_copies(store, options, named):
    for put in (
        lambda: store.put(b"x", **named, **options),
        lambda: store.create(1, **named, **options),
    ):
        with pytest.raises(plasmon.BadRequest, match="name begins with @") as caught:
            put()
        assert named.get("name", "") in str(caught.value)
    assert not store.contains("sales")


@pytest.mark.parametrize("option", ["copies", "copies_min"])
@pytest.mark.parametrize("count", [0, 9, -1, 2**40])
def test_there_are_1_to_8_copies(store, option, count):
    with pytest.raises(ValueError, match=f"{option} is 1 to 8 nodes of a pool, found {count}"):
        store.put(b"x", name=NAME, **{option: count})


@pytest.mark.parametrize("option", ["copies", "copies_min"])
@pytest.mark.parametrize("count", ["2", 2.0, [2]])
def test_a_number_of_copies_is_an_int(store, option, count):
    with pytest.raises(TypeError):
        store.put(b"x", name=NAME, **{option: count})


@pytest.mark.parametrize(("copies", "least"), [(1, 2), (None, 3)])
def test_no_more_copies_are_required_than_wanted(store, copies, least):
    with pytest.raises(plasmon.BadRequest, match="copies_min") as caught:
        store.put(b"x", name=NAME, copies=copies, copies_min=least)
    assert caught.value.object_id == plasmon.ObjectId.from_name(NAME)
    assert NAME in str(caught.value)


def test_a_store_without_a_pool_says_so(store):
    for value in (b"x", [1], np.arange(3), np.arange(10**6), table()):
        with pytest.raises(plasmon.Unsupported, match="pool") as caught:
            store.put(value, name=NAME, copies=3, copies_min=1)
        assert caught.value.object_id == plasmon.ObjectId.from_name(NAME)
    with pytest.raises(plasmon.Unsupported, match="pool"):
        store.create(5, name="sales", namespace="@prod", copies=8)
    # None is what is not given.
    id = store.put(b"x", copies=None, copies_min=None)
    assert store.get(id) == b"x"


def test_an_object_without_a_name_needs_a_pool(store):
    for value in (b"x", [1], np.arange(3), np.arange(10**6), table()):
        with pytest.raises(plasmon.Unsupported, match="--cluster"):
            store.put(value, pool=True)
    with pytest.raises(plasmon.Unsupported, match="--cluster"):
        store.create(5, pool=True, copies=2)
    assert store.get(store.put(b"x", pool=False, ack=None)) == b"x"


@pytest.mark.parametrize(
    "options",
    [
        {"ack": "copies"},
        {"ack": "local", "name": "sales"},
        {"ack": "local", "name": NAME},
        {"pool": True, "name": "sales"},
        {"pool": True, "id": plasmon.ObjectId(bytes(20))},
        {"pool": True, "copies_min": 2},
    ],
)
def test_what_cannot_be_asked_of_a_pool_is_refused(store, options):
    with pytest.raises(plasmon.BadRequest):
        store.put(b"x", **options)


def test_there_are_two_acknowledgements(store):
    with pytest.raises(ValueError, match='ack is "copies" or "local", found "none"'):
        store.put(b"x", pool=True, ack="none")
    with pytest.raises(TypeError):
        store.put(b"x", pool=True, ack=1)


def test_only_objects_of_a_pool_are_settled(store):
    assert store.settle([]) == []
    id = store.put(b"x")
    with pytest.raises(plasmon.BadRequest, match="only objects of a pool"):
        store.settle(id)
    found = store.settle([id, "sales"], timeout=0, errors="return")
    assert [type(one) for one in found] == [plasmon.BadRequest] * 2


def test_what_a_durable_object_of_a_pool_cannot_be(store):
    for options in [{"policy": "cache"}, {"storage": "memory"}]:
        with pytest.raises(plasmon.BadRequest, match="leave durable out"):
            store.put(b"x", name=NAME, durable=True, **options)
    with pytest.raises(plasmon.BadRequest, match="in the logs of its nodes"):
        store.put(b"x", pool=True, durable=True, ack="local")
    with pytest.raises(plasmon.Unsupported, match="in none"):
        store.put(b"x", name=NAME, durable=True)
    id = store.put(b"x", durable=False)
    assert store.get(id) == b"x"


def test_builders_make_one_piece_for_a_pool(store):
    pytest.importorskip("pyarrow")
    builder = store.table_builder({"x": "int64"})
    builder.append({"x": 1})
    # The states of such an object are asked of the pool, which is missing.
    for options in ({}, {"copies": 2}):
        with pytest.raises(plasmon.Unsupported, match="pool"):
            builder.finish(name=NAME, **options)
    id = builder.finish(name="local")
    assert store.get(id)["x"].to_pylist() == [1]
    column = store.builder("int64")
    column.append(1)
    with pytest.raises(plasmon.BadRequest, match="name begins with @"):
        column.finish(name="other", copies=2)
    column.abort()


@pytest.mark.parametrize(
    "options", [{"ttl": 1.0}, {"replace": True}, {"owned": True}, {"members": [NAME]}]
)
def test_what_a_pool_cannot_do_is_refused_at_once(pooled, options):
    with pytest.raises(
        plasmon.Unsupported, match=r"an object of a pool|a name of the pool"
    ) as caught:
        pooled.put(bytes(1 << 20), name=NAME, copies=2, **options)
    assert NAME in str(caught.value)
    assert pooled.list() == []


def test_a_put_without_its_pool_daemon_is_unreachable_and_leaves_nothing(pooled):
    """The store waits ten seconds for the pool daemon, so all are put at the same time."""
    values = [b"x", np.arange(10**5), table()]

    def put(at):
        with plasmon.connect(pooled.socket, start=False) as store:
            store.put(values[at], name=f"{NAME}-{at}", copies=2)

    with ThreadPoolExecutor(len(values)) as threads:
        for done in [threads.submit(put, at) for at in range(len(values))]:
            with pytest.raises(plasmon.Unreachable):
                done.result(DEADLINE_S)
    assert pooled.list() == []


def test_a_store_without_a_pool_daemon_knows_nothing_of_its_pool(store):
    pool = store.pool
    for ask in (pool.status, pool.nodes, pool.verify, pool.compare, lambda: pool.where("@prod:x")):
        with pytest.raises(plasmon.Unreachable):
            ask()


def test_a_placement_is_local_or_spread_and_for_objects_of_a_pool(store):
    for name in (None, "sales"):
        assert store.get(store.put(b"x", name=name, placement="local")) == b"x"
        with pytest.raises(plasmon.BadRequest, match="only an object of a pool has a placement"):
            store.put(b"x", name=name, placement="spread")
    for given in ("", "Spread", "near"):
        with pytest.raises(ValueError, match='"local" or "spread"'):
            store.put(b"x", name=NAME, placement=given)
    with pytest.raises(plasmon.Unsupported):
        store.put(b"x", name=NAME, placement="spread")


def test_a_storage_is_memory_or_cache_and_for_objects_of_a_pool(store):
    assert store.get(store.put(b"x", name="kept", storage="memory")) == b"x"
    with pytest.raises(plasmon.BadRequest, match="only an object of a pool has a storage"):
        store.put(b"x", storage="cache")
    for options, word in [
        ({"copies": 2}, "one copy"),
        ({"placement": "spread"}, "on this node"),
    ]:
        with pytest.raises(plasmon.BadRequest, match=word):
            store.put(b"x", name=NAME, storage="cache", **options)
    with pytest.raises(plasmon.BadRequest, match="its storage is cache"):
        store.put(b"x", name=NAME, storage="memory", policy="cache")
    with pytest.raises(plasmon.Unsupported, match="in none"):
        store.put(b"x", name=NAME, storage="durable")
    with pytest.raises(ValueError, match='"memory", "cache" or "durable"'):
        store.put(b"x", name=NAME, storage="keep")
    with pytest.raises(plasmon.Unsupported, match="in none"):
        store.put(b"x", name=NAME, storage="cache")
