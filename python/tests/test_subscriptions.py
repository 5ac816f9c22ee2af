from __future__ import annotations

import asyncio
import threading

import pytest

import plasmon

from .conftest import DEADLINE_S, MIB


def events(subscription, count):
    """The next notices, with the states that they tell."""
    found = []
    while len(found) < count:
        notice = subscription.next(DEADLINE_S)
        assert isinstance(notice, plasmon.Notice), notice
        found.append((notice.id, notice.state))
    return found


def test_what_happens_is_reported_in_order(store, other):
    with other.subscribe() as subscription:
        ids = [store.put(b"x" * n) for n in range(3)]
        store.flush()
        store.delete(ids[1])
        assert events(subscription, 4) == [
            *((id, "sealed") for id in ids),
            (ids[1], "deleted"),
        ]
        assert subscription.next(0) is None
        assert subscription.next(0.01) is None


def test_notices_carry_sizes(store, other):
    with other.subscribe() as subscription:
        id = store.put(b"12345", metadata=b"abc")
        assert subscription.next(DEADLINE_S) == plasmon.Notice(id, "sealed", 5, 3)


def test_a_filter_lets_names_through(store, other):
    with other.subscribe("news", "a") as subscription:
        store.put(b"")
        store.put(b"", name="alpha", namespace="other")
        store.put(b"", name="beta", namespace="news")
        wanted = store.put(b"", name="alpha", namespace="news")
        assert events(subscription, 1) == [(wanted, "sealed")]
        assert subscription.next(0) is None
        store.delete([wanted, plasmon.ObjectId.from_name("beta", "news")])
    store.delete("alpha", namespace="other")


def test_evictions_are_reported(own):
    store = own(8 * MIB)
    subscription = store.subscribe()
    id = store.put(b"c" * MIB, policy="cache")
    assert store.evict(1)[1] == 1
    assert events(subscription, 2) == [(id, "sealed"), (id, "evicted")]
    subscription.close()


def test_iteration_ends_with_close(store, other):
    subscription = other.subscribe()
    found = []

    def read():
        found.extend(subscription)

    reader = threading.Thread(target=read)
    reader.start()
    id = store.put(b"")
    store.flush()
    while not found:
        reader.join(0.01)
    subscription.close()
    subscription.close()
    reader.join(DEADLINE_S)
    assert not reader.is_alive()
    assert [notice.id for notice in found] == [id]
    with pytest.raises(ValueError, match="closed"):
        subscription.fileno()
    with pytest.raises(plasmon.Cancelled):
        subscription.next(0)


def test_asynchronous_iteration(store, other):
    async def main():
        ids = []
        with other.subscribe() as subscription:
            for _ in range(20):
                ids.append(store.put(b""))
                notice = await anext(subscription)
                assert (notice.id, notice.state) == (ids[-1], "sealed")
            found = []
            store.delete(ids)
            async for notice in subscription:
                found.append(notice.id)
                if len(found) == len(ids):
                    break
        return ids, found

    ids, found = asyncio.run(asyncio.wait_for(main(), DEADLINE_S))
    assert found == ids


def test_nothing_is_lost_without_a_word(store, other):
    count = 20_000
    with other.subscribe() as subscription:
        ids = [store.put(b"") for _ in range(count)]
        store.flush()
        seen, lost = set(), 0
        while len(seen) + lost < count:
            notice = subscription.next(DEADLINE_S)
            if isinstance(notice, plasmon.Lost):
                lost += notice.count
            else:
                seen.add(notice.id)
        assert seen <= set(ids)
        assert len(seen) + lost == count
    store.delete(ids)
