from __future__ import annotations

import gc
import pickle
import threading
import time

import numpy as np
import pandas as pd
import pytest

import plasmon
from plasmon import _native

from .conftest import DEADLINE_S, MIB


@pytest.mark.parametrize("data", [b"", b"x", b"y" * 63, b"z" * 64, bytes(range(256)) * 9000])
def test_bytes_come_back(store, other, data):
    id = store.put(data)
    assert store.get(id) == data
    assert type(store.get(id)) is bytes
    assert other.get(id, timeout=DEADLINE_S) == data


@pytest.mark.parametrize(
    "size", [_native.LIMITS["LARGE_OBJECT_BYTES"] + step for step in (-1, 0, 1)]
)
def test_small_and_large_objects_meet_without_a_seam(store, other, size):
    data = bytes(range(251)) * (size // 251 + 1)
    id = store.put(data[:size])
    assert other.get(id) == data[:size]
    assert store.delete(id) == 1


def test_names_find_their_objects_in_every_process(store, other):
    id = store.put(b"1", name="prices", namespace="shop")
    assert id == plasmon.ObjectId.from_name("prices", "shop")
    assert other.get("prices", namespace="shop") == b"1"
    assert other.contains("prices", namespace="shop")
    assert not other.contains("prices")
    assert other.stat(id).name == "prices"
    assert other.stat(id).namespace == "shop"
    assert store.delete("prices", namespace="shop") == 1


def test_an_id_is_taken_once(store, other):
    id = plasmon.ObjectId.random()
    assert store.put(b"first", id=id) == id
    for client in (store, other):
        with pytest.raises(plasmon.Exists) as caught:
            client.put(b"second", id=id)
        assert caught.value.object_id == id
    assert other.get(id) == b"first"


@pytest.mark.parametrize("size", [10, 5 << 20])
def test_an_object_is_replaced_in_one_step(store, other, size):
    name = f"replaced {size}"
    for number in range(4):
        value = np.full(size, number, np.uint8)
        id = store.put(value, name=name, replace=True)
        assert id == plasmon.ObjectId.from_name(name)
        kept = other.get(name)
        np.testing.assert_array_equal(kept, value)
        writer = store.create(5, name=name, replace=True)
        assert other.get(name).nbytes == size
        writer.data[:] = b"bytes"
        assert writer.seal() == id
        assert other.get(name) == b"bytes"
        np.testing.assert_array_equal(kept, value)
    # Everything that can be put: tables go another way than arrays, and lists than both.
    for value in (pd.DataFrame({"a": [number]}), [1, "two"], "text", b"bytes"):
        store.put(value, name=name, replace=True)
        found = other.get(name)
        assert found.equals(value) if isinstance(value, pd.DataFrame) else found == value
    with pytest.raises(plasmon.BadRequest, match="name"):
        store.put(b"", replace=True)
    held = store.put(b"whole", members=[id])
    with pytest.raises(plasmon.InUse):
        store.put(b"new", name=name, replace=True)
    assert other.get(name) == b"bytes"
    store.delete(held)


def test_many_objects_in_one_call(store, other):
    values = [bytes([n % 251]) * (n % 97) for n in range(5000)]
    ids = [store.put(value) for value in values]
    store.flush()
    assert other.get(ids) == values
    assert other.get(tuple(ids[:3])) == values[:3]
    assert other.get(iter(ids[:3])) == values[:3]
    assert other.get([]) == []
    assert len(set(ids)) == len(ids)


def test_a_missing_one_of_many_is_an_error_or_in_its_place(store):
    here, missing = store.put(b"here"), store.new_id()
    with pytest.raises(plasmon.NotFound):
        store.get([here, missing], timeout=0)
    found = store.get_buffers([here, missing], timeout=0, errors="return")
    assert bytes(found[0]) == b"here"
    assert isinstance(found[1], plasmon.Absent)
    assert found[1].object_id == missing
    with pytest.raises(ValueError, match="errors"):
        store.get_buffers([here], errors="ignore")


def test_metadata_comes_back(store):
    id = store.put(b"data", metadata=b"about")
    with store.get_buffer(id) as buffer:
        assert bytes(buffer.metadata) == b"about"
        assert bytes(buffer) == b"data"
    assert store.stat(id).metadata_bytes == 5
    assert bytes(store.get_buffer(store.put(b"", metadata=bytearray(b"only"))).metadata) == b"only"


def test_delete_is_seen_by_all_clients(store, other):
    id = store.put(b"gone", id=plasmon.ObjectId.random())
    assert other.contains(id)
    assert store.delete([id]) == 1
    for client in (store, other):
        assert not client.contains(id)
        assert client.states(id) == ["deleted"]
        with pytest.raises(plasmon.Deleted):
            client.get(id)
    assert store.delete(id) == 0
    with pytest.raises(plasmon.NotFound):
        store.delete(id, missing="raise")


def test_a_deleted_object_stays_for_its_reader(store, other):
    id = store.put(b"read me")
    buffer = other.get_buffer(id)
    store.delete(id)
    assert bytes(buffer) == b"read me"
    assert not other.contains(id)


def test_an_id_can_be_used_again_after_delete(store, other):
    id = plasmon.ObjectId.random()
    for round in range(50):
        value = str(round).encode()
        store.put(value, id=id)
        assert other.get(id) == value
        store.delete(id)


def test_listing_and_stat(store, other):
    before = time.time()
    ids = [store.put(b"x" * n, name=f"list-{n}", namespace="listing") for n in range(3)]
    found = other.list("listing")
    assert {info.id for info in found} == set(ids)
    assert [info.name for info in other.list("listing", "list-2")] == ["list-2"]
    info = other.stat("list-2", namespace="listing")
    assert (info.data_bytes, info.state, info.policy, info.tag) == (2, "sealed", "keep", 0)
    assert info.kind == "bytes"
    assert before - 60 < info.created < time.time() + 60
    assert info.level == store.level
    assert store.stat(store.new_id()) is None
    assert "list-2" in found._repr_html_()
    store.delete(ids)
    assert other.list("listing") == []


def test_more_objects_than_a_page_of_a_listing(store):
    ids = [store.put(b"", name=str(n), namespace="pages") for n in range(1000)]
    assert {info.id for info in store.list("pages")} == set(ids)
    store.delete(ids)


def test_states_that_callers_can_tell_apart(store):
    sealed, deleted, absent = store.put(b"a"), store.put(b"b"), store.new_id()
    store.delete(deleted)
    with store.create(10) as writer:
        ids = [sealed, deleted, absent, writer.id]
        assert store.states(ids) == ["sealed", "deleted", "absent", "creating"]


def test_a_time_to_live_ends(store):
    id = store.put(b"short", ttl=0.05)
    info = store.stat(id)
    assert info is None or info.expires > info.created
    deadline = time.monotonic() + DEADLINE_S
    while store.states(id) != ["deleted"]:
        assert time.monotonic() < deadline
        store.wait(store.new_id(), timeout=0.05)
    with pytest.raises(plasmon.Deleted):
        store.get(id)


def test_cached_objects_are_evicted_and_kept_ones_are_not(own):
    store = own(8 * MIB)
    kept = store.put(b"k" * MIB)
    cached = [store.put(b"c" * MIB, policy="cache") for _ in range(20)]
    store.flush()
    states = store.states(cached)
    assert "evicted" in states
    with pytest.raises(plasmon.Evicted):
        store.get(cached[states.index("evicted")])
    assert store.get(kept) == b"k" * MIB
    survivors = states.count("sealed")
    freed, count = store.evict(2 * MIB)
    assert freed >= 2 * MIB
    assert count >= 2
    assert store.states(cached).count("sealed") == survivors - count


def test_a_full_store_says_so(own):
    store = own(8 * MIB)
    held = []
    with pytest.raises(plasmon.StoreFull) as caught:
        for _ in range(20):
            held.append(store.put(b"k" * MIB, id=plasmon.ObjectId.random()))
    assert isinstance(caught.value, MemoryError)
    assert len(held) >= 6
    assert all(state == "sealed" for state in store.states(held))
    store.delete(held)
    assert store.get(store.put(b"k" * MIB)) == b"k" * MIB


def test_sizes_at_and_past_the_capacity(own):
    store = own(8 * MIB)
    assert store.capacity == 8 * MIB
    with store.create(8 * MIB) as writer:
        assert len(writer) == 8 * MIB
    assert store.delete(writer.id) == 1
    for size in (8 * MIB + 1, 1 << 40, 1 << 63, (1 << 64) - 1):
        with pytest.raises(plasmon.NoRoom):
            store.create(size)
    with pytest.raises(OverflowError):
        store.create(1 << 64)
    with pytest.raises(OverflowError):
        store.create(-1)


def test_a_quota_holds(own):
    store = own(16 * MIB)
    store.set_quota(4 * MIB)
    with pytest.raises(plasmon.QuotaExceeded):
        store.create(5 * MIB)
    store.set_quota(0)
    store.create(5 * MIB).abort()


@pytest.mark.parametrize("how", ["end", "disconnect"])
def test_what_is_in_an_adopted_namespace_goes_with_its_adopter(own, how):
    store = own()
    adopter = plasmon.connect(store.socket)
    adopter.adopt("run", bytes_max=MIB)
    store.put(1, name="x", namespace="run")
    kept = store.put(2, name="x")
    with pytest.raises(plasmon.Exists):
        store.adopt("run")
    with pytest.raises(plasmon.QuotaExceeded):
        store.put(b"x" * 2 * MIB, name="y", namespace="run")
    with pytest.raises(plasmon.NotFound):
        store.end_adoption("run")
    adopter.end_adoption("run") if how == "end" else adopter.disconnect()
    deadline = time.monotonic() + 60
    while store.list("run"):
        assert time.monotonic() < deadline
    with pytest.raises(plasmon.Cancelled):
        store.put(1, name="late", namespace="run")
    assert store.get(kept) == 2
    store.adopt("run")
    store.put(1, name="x", namespace="run")
    with pytest.raises(plasmon.Unsupported):
        store.adopt("@run")


def test_digests_are_of_the_content(store):
    one, same, other = store.put(b"a"), store.put(b"a"), store.put(b"b")
    assert len(store.digest(one)) == 32
    assert store.digest(one) == store.digest(same)
    assert store.digest(one) != store.digest(other)


def test_figures_of_store_and_clients(store):
    status = store.status()
    assert status.capacity_bytes == store.capacity
    assert status.clients >= 1
    assert status.version == plasmon.__version__
    assert "capacity_bytes" in status._repr_html_()
    assert store.level in repr(store)
    mine = [client for client in store.clients() if client.access == "rw"]
    assert mine
    assert all(client.pid for client in mine)


def test_composites_keep_their_members(store):
    members = [store.put(b"1"), store.put(b"2")]
    whole = store.put(b"whole", members=members)
    assert store.stat(members[0]).holders == 1
    store.delete(whole)
    assert store.get(members) == [b"1", b"2"]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"policy": "never"}, ValueError),
        ({"ttl": -1}, ValueError),
        ({"ttl": float("nan")}, ValueError),
        ({"namespace": "n"}, ValueError),
        ({"name": ""}, ValueError),
        ({"metadata": "text"}, TypeError),
        ({"id": b"0" * 20}, TypeError),
        ({"colour": "red"}, TypeError),
        ({"id": plasmon.ObjectId(bytes(20)), "name": "x"}, plasmon.BadRequest),
    ],
)
def test_options_that_make_no_sense(store, options, error):
    with pytest.raises(error):
        store.put(b"", **options)


@pytest.mark.parametrize("key", [b"0" * 20, 7, None, object()])
def test_what_is_no_key(store, key):
    with pytest.raises(TypeError, match="ObjectId"):
        store.get_buffer(key)
    with pytest.raises(TypeError):
        store.contains(key)


def test_threads_share_a_store(store):
    errors = []

    def work(seed: int) -> None:
        try:
            for round in range(300):
                data = bytes([seed, round % 256]) * (round + 1)
                id = store.put(data)
                assert store.get(id) == data
                with store.get_buffer(id) as buffer:
                    assert buffer.data[0] == seed
                store.delete(id)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


def test_a_disconnected_store_says_so_and_buffers_stay(daemon):
    store = daemon.connect()
    buffer = store.get_buffer(store.put(b"still here"))
    writer = store.create(100)
    store.disconnect()
    store.disconnect()
    calls = [(store.put, b"x"), (store.get, buffer.id), (store.contains, buffer.id), (writer.seal,)]
    for call, *arguments in calls:
        with pytest.raises(plasmon.Disconnected):
            call(*arguments)
    del calls, call, arguments
    assert bytes(buffer) == b"still here"
    del buffer, store
    gc.collect()


def test_a_store_travels_by_pickle(store):
    id = store.put(b"x")
    store.flush()
    with pickle.loads(pickle.dumps(store)) as again:
        assert again.socket == store.socket
        assert again.get(id) == b"x"


def test_no_daemon_listens(tmp_path):
    with pytest.raises(plasmon.Disconnected):
        plasmon.connect(tmp_path / "absent.sock")


def test_a_piece_of_a_spilled_object_is_read_in_its_file(own, tmp_path):
    """All of it had to come back into memory, where another one made room for it."""
    with own(8 * MIB, spill_dir=str(tmp_path / "spilled")) as store:
        whole = bytes(range(256)) * (8 * MIB // 1024)
        ids = [store.put(bytes([at]) + whole) for at in range(8)]
        before = store.status()
        assert before.spilled > 0
        for at, id in enumerate(ids):
            assert store.read(id, 0, 3) == bytes([at, 0, 1])
            assert store.read(id, 1000, 0) == b""
            assert store.read(id, len(whole) - 1) == b"\xfe\xff"
            assert store.read(id) == bytes([at]) + whole
            for offset, length in [(len(whole), 2), (2**64 - 1, 1), (0, 2**63)]:
                with pytest.raises(plasmon.PlasmonError):
                    store.read(id, offset, length)
            with pytest.raises(OverflowError):
                store.read(id, -1)
        after = store.status()
        assert (after.spilled, after.restored_total) == (before.spilled, before.restored_total)
        with pytest.raises(plasmon.Absent):
            store.read("nothing of this name")


def test_an_object_is_written_to_its_file_once(own, tmp_path):
    with own(8 * MIB, spill_dir=str(tmp_path / "spilled")) as store:
        ids = [store.put(bytes([at]) * 2 * MIB) for at in range(8)]
        for _ in range(3):
            assert all(store.get(id) == bytes([at]) * 2 * MIB for at, id in enumerate(ids))
        status = store.status()
        assert status.spill_written_bytes_total <= 8 * 2 * MIB
        assert status.spill_read_bytes_total > 16 * 2 * MIB
        assert status.spill_kept_bytes > 0
