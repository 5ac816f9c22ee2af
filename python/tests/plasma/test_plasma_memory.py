"""Capacity, eviction, deletion and quotas."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from .conftest import Running
from .test_plasma_objects import make

Ids = Callable[[int], Any]


def stored(client: Any) -> set[Any]:
    return set(client.list())


class TestCapacity:
    """How much fits."""

    def test_the_capacity_is_what_was_asked_for(self, start: Callable[..., Running]) -> None:
        assert start(10_000).connect().store_capacity() == 10_000
        assert start(123_456_789).connect().store_capacity() == 123_456_789

    def test_one_object_may_fill_the_store_again_and_again(self, client: Any, make_id: Ids) -> None:
        for number in range(3):
            client.create(make_id(number), 100_000_000)
            client.seal(make_id(number))
        assert stored(client) == {make_id(2)}

    def test_metadata_counts(self, client: Any, plasma: ModuleType, make_id: Ids) -> None:
        client.create(make_id(1), 99_999_000, b"m" * 1000)
        client.seal(make_id(1))
        with pytest.raises(plasma.PlasmaStoreFull):
            client.create(make_id(2), 100_000_000, b"m" * 9000)

    def test_what_can_never_fit_is_refused_and_leaves_nothing(
        self, client: Any, plasma: ModuleType, make_id: Ids
    ) -> None:
        for _ in range(3):
            with pytest.raises(plasma.PlasmaStoreFull):
                client.create(make_id(1), 100_009_000)
            with pytest.raises(plasma.PlasmaStoreFull):
                client.create_and_seal(make_id(1), bytes(100_009_000))
        assert not client.contains(make_id(1))
        assert stored(client) == set()
        make(client, make_id(1), b"fits")

    @pytest.mark.improved
    def test_an_object_that_can_never_fit_evicts_nothing(
        self, client: Any, plasma: ModuleType, make_id: Ids
    ) -> None:
        # The reference evicts everything before it finds that this does not help.
        make(client, make_id(1), b"cached")
        with pytest.raises(plasma.PlasmaStoreFull):
            client.create(make_id(2), 100_009_000)
        assert client.contains(make_id(1))

    def test_a_hundred_objects_of_a_hundredth_fit(self, client: Any, make_id: Ids) -> None:
        for number in range(100):
            client.create(make_id(number), 1_000_000)
            client.seal(make_id(number))
        assert len(stored(client)) == 100

    def test_objects_in_use_are_not_evicted(
        self, client: Any, other: Any, plasma: ModuleType, make_id: Ids
    ) -> None:
        make(client, make_id(1), b"x" * 60_000_000)
        (held,) = other.get_buffers([make_id(1)])
        with pytest.raises(plasma.PlasmaStoreFull):
            client.create(make_id(2), 50_000_000)
        assert held.slice(0, 3).to_pybytes() == b"xxx"
        assert stored(client) == {make_id(1)}
        del held
        gc.collect()
        client.create(make_id(2), 50_000_000)
        assert stored(client) == {make_id(2)}

    def test_objects_under_construction_are_not_evicted(
        self, client: Any, other: Any, plasma: ModuleType, make_id: Ids
    ) -> None:
        client.create(make_id(1), 60_000_000)
        with pytest.raises(plasma.PlasmaStoreFull):
            other.create(make_id(2), 50_000_000)
        client.seal(make_id(1))
        assert client.contains(make_id(1))

    def test_the_least_recently_used_make_room(self, client: Any, make_id: Ids) -> None:
        for number in range(10):
            make(client, make_id(number), bytes(10_000_000))
        # Reading makes the first one the most recent.
        client.get_buffers([make_id(0)])
        gc.collect()
        client.create(make_id(10), 10_000_000)
        client.seal(make_id(10))
        left = stored(client)
        assert {make_id(0), make_id(10), make_id(9)} <= left
        assert make_id(1) not in left

    def test_the_memory_of_a_killed_creator_comes_back(
        self, running: Running, client: Any, make_id: Ids
    ) -> None:
        doomed = running.connect()
        doomed.create(make_id(1), 60_000_000)
        doomed.create(make_id(2), 20_000_000)
        gc.collect()
        doomed.disconnect()
        events = running.subscribe()
        deadline = time.monotonic() + 30
        while stored(client) and time.monotonic() < deadline:
            # Each round trip gives the store the chance to notice the closed connection.
            pass
        assert stored(client) == set()
        make(client, make_id(3), b"x" * 100_000_000)
        assert events.wait_for(make_id(3)) == (100_000_000, 0)


class TestEvict:
    """`evict` frees exactly what it says, the least recently used first."""

    def test_bytes_of_data_and_metadata_are_counted(self, client: Any, make_id: Ids) -> None:
        make(client, make_id(1), b"x" * 100, b"m" * 11)
        make(client, make_id(2), b"x" * 100, b"m" * 22)
        assert client.evict(1) == 111
        assert client.evict(1_000_000) == 122
        assert client.evict(1) == 0
        assert stored(client) == set()

    def test_as_many_as_needed_go_in_order(self, client: Any, make_id: Ids) -> None:
        for number in range(10):
            make(client, make_id(number), bytes(1000))
        assert client.evict(1) == 1000
        assert client.evict(1000) == 1000
        assert client.evict(1001) == 2000
        assert stored(client) == {make_id(number) for number in range(4, 10)}

    def test_nothing_is_asked_for(self, client: Any, make_id: Ids) -> None:
        make(client, make_id(1), bytes(1000))
        assert client.evict(0) == 0
        assert stored(client) == {make_id(1)}

    def test_objects_are_used_when_they_are_released(
        self, client: Any, other: Any, make_id: Ids
    ) -> None:
        for number in range(4):
            make(client, make_id(number), bytes(1000))
        (first,) = other.get_buffers([make_id(0)])
        (second,) = client.get_buffers([make_id(1)])
        del second
        gc.collect()
        del first
        gc.collect()
        order = []
        left = stored(client)
        while client.evict(1):
            order += sorted(left - stored(client), key=lambda it: it.binary())
            left = stored(client)
        assert order == [make_id(2), make_id(3), make_id(1), make_id(0)]

    def test_looking_whether_it_is_there_is_no_use(self, client: Any, make_id: Ids) -> None:
        for number in range(2):
            make(client, make_id(number), bytes(1000))
        assert client.contains(make_id(0))
        client.list()
        client.evict(1)
        assert stored(client) == {make_id(1)}

    def test_hashing_is_use(self, client: Any, make_id: Ids) -> None:
        for number in range(2):
            make(client, make_id(number), bytes(1000))
        client.hash(make_id(0))
        client.evict(1)
        assert stored(client) == {make_id(0)}

    def test_objects_without_bytes_go_along(self, client: Any, make_id: Ids) -> None:
        for number, size in enumerate([0, 10, 0, 0, 10]):
            make(client, make_id(number), bytes(size))
        assert client.evict(1) == 10
        assert stored(client) == {make_id(number) for number in (2, 3, 4)}
        assert client.evict(1000) == 10
        assert stored(client) == set()

    def test_what_is_in_use_stays(self, client: Any, other: Any, make_id: Ids) -> None:
        for number in range(3):
            make(client, make_id(number), bytes(1000))
        held = other.get_buffers([make_id(1)])
        assert client.evict(1_000_000) == 2000
        assert stored(client) == {make_id(1)}
        assert held[0].size == 1000

    def test_an_evicted_object_may_be_created_again(self, client: Any, make_id: Ids) -> None:
        for content in (b"first", b"second"):
            make(client, make_id(1), content)
            assert client.get_buffers([make_id(1)])[0].to_pybytes() == content
            gc.collect()
            client.evict(1)
            assert client.get_buffers([make_id(1)], timeout_ms=0) == [None]


class TestDelete:
    """`delete`, now or after the last reader."""

    def test_deleted_objects_are_gone(self, client: Any, other: Any, make_id: Ids) -> None:
        ids = [make_id(number) for number in range(5)]
        for object_id in ids:
            make(client, object_id, b"x")
        other.delete(ids[:3])
        assert [client.contains(object_id) for object_id in ids] == [False] * 3 + [True] * 2
        assert client.get_buffers([ids[0]], timeout_ms=0) == [None]
        make(client, ids[0], b"again")

    def test_nothing_and_the_unknown_are_deleted_quietly(self, client: Any, make_id: Ids) -> None:
        assert client.delete([]) is None
        assert client.delete([make_id(1), make_id(2)]) is None

    def test_many_are_deleted_at_once(self, client: Any, make_id: Ids) -> None:
        ids = [make_id(number) for number in range(3000)]
        for object_id in ids:
            client.create_and_seal(object_id, b"x")
        client.delete(ids)
        assert stored(client) == set()

    def test_an_object_under_construction_stays_with_its_creator(
        self, client: Any, other: Any, make_id: Ids
    ) -> None:
        buffer = client.create(make_id(1), 10)
        other.delete([make_id(1)])
        assert client.contains(make_id(1))
        memoryview(buffer).cast("B")[:] = b"0123456789"
        client.seal(make_id(1))
        assert client.contains(make_id(1))
        assert buffer.to_pybytes() == b"0123456789"

    def test_what_this_client_reads_is_deleted_when_it_is_released(
        self, client: Any, other: Any, make_id: Ids
    ) -> None:
        make(client, make_id(1), b"held")
        (first,) = client.get_buffers([make_id(1)])
        (second,) = client.get_buffers([make_id(1)])
        client.delete([make_id(1)])
        del first
        gc.collect()
        assert client.contains(make_id(1))
        assert other.contains(make_id(1))
        assert second.to_pybytes() == b"held"
        del second
        gc.collect()
        assert not other.contains(make_id(1))
        assert not client.contains(make_id(1))

    def test_what_another_client_reads_is_deleted_when_it_is_released(
        self, running: Running, client: Any, other: Any, plasma: ModuleType, make_id: Ids
    ) -> None:
        events = running.subscribe()
        make(client, make_id(1), b"held")
        assert events.wait_for(make_id(1)) == (4, 0)
        (held,) = other.get_buffers([make_id(1)])
        client.delete([make_id(1)])
        # Until then it is there for all clients.
        assert client.contains(make_id(1))
        assert stored(client) == {make_id(1)}
        assert client.get_buffers([make_id(1)], timeout_ms=0)[0].to_pybytes() == b"held"
        with pytest.raises(plasma.PlasmaObjectExists):
            running.connect().create(make_id(1), 1)
        gc.collect()
        del held
        gc.collect()
        assert events.wait_for(make_id(1)) == (-1, -1)
        assert not client.contains(make_id(1))

    def test_the_buffer_of_the_creator_counts_as_reading(
        self, client: Any, other: Any, make_id: Ids
    ) -> None:
        buffer = client.create(make_id(1), 10)
        client.seal(make_id(1))
        client.delete([make_id(1)])
        assert other.contains(make_id(1))
        del buffer
        gc.collect()
        assert not other.contains(make_id(1))


class TestQuota:
    """`set_client_options`: a share of the memory that only its client evicts from."""

    def put_many(self, client: Any, ids: list[Any], size: int) -> None:
        for object_id in ids:
            client.create(object_id, size)
            client.seal(object_id)

    def test_a_client_at_its_quota_evicts_its_own(
        self, client: Any, other: Any, make_id: Ids
    ) -> None:
        client.set_client_options("limited", 10_000_000)
        make(other, make_id(0), bytes(1_000_000))
        ids = [make_id(number) for number in range(1, 9)]
        self.put_many(client, ids, 2_000_000)
        assert stored(client) == {make_id(0), *ids[3:]}

    def test_others_do_not_evict_it(
        self, client: Any, other: Any, plasma: ModuleType, make_id: Ids
    ) -> None:
        client.set_client_options("protected", 20_000_000)
        own = [make_id(number) for number in range(4)]
        self.put_many(client, own, 5_000_000)
        self.put_many(other, [make_id(number) for number in range(10, 30)], 10_000_000)
        assert set(own) <= stored(client)
        others = stored(other) - set(own)
        assert other.evict(1_000_000_000) == len(others) * 10_000_000
        assert stored(client) == set(own)
        with pytest.raises(plasma.PlasmaStoreFull):
            other.create(make_id(50), 90_000_000)

    def test_what_is_larger_than_the_quota_is_refused(
        self, client: Any, plasma: ModuleType, make_id: Ids
    ) -> None:
        client.set_client_options("small", 1_000_000)
        make(client, make_id(1), bytes(1000))
        with pytest.raises(plasma.PlasmaStoreFull):
            client.create(make_id(2), 1_100_000)
        assert not client.contains(make_id(2))
        make(client, make_id(2), bytes(500_000))

    def test_most_of_the_memory_stays_shared(
        self, client: Any, other: Any, plasma: ModuleType
    ) -> None:
        with pytest.raises(plasma.PlasmaStoreFull):
            client.set_client_options("greedy", 71_000_000)
        client.set_client_options("first", 40_000_000)
        with pytest.raises(plasma.PlasmaStoreFull):
            other.set_client_options("second", 31_000_000)
        other.set_client_options("second", 29_000_000)

    def test_a_quota_is_set_once(self, client: Any, plasma: ModuleType) -> None:
        client.set_client_options("me", 1_000_000)
        with pytest.raises(plasma.PlasmaStoreFull):
            client.set_client_options("me", 2_000_000)

    def test_after_the_client_its_objects_are_shared(
        self, client: Any, running: Running, make_id: Ids
    ) -> None:
        limited = running.connect()
        limited.set_client_options("limited", 20_000_000)
        self.put_many(limited, [make_id(1), make_id(2)], 5_000_000)
        gc.collect()
        assert client.evict(1) == 0
        limited.disconnect()
        deadline = time.monotonic() + 30
        while not (evicted := client.evict(10_000_000)) and time.monotonic() < deadline:
            pass
        assert evicted == 10_000_000
