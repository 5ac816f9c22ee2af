from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest

import plasmon

from .conftest import DEADLINE_S


def in_thread(work):
    thread = threading.Thread(target=work)
    thread.start()
    return thread


def when_waiting(store, count=1):
    """Returns when ``count`` waits are under way in the daemon."""
    deadline = time.monotonic() + DEADLINE_S
    while store.status().waits < count:
        assert time.monotonic() < deadline, "no client waits"


def test_a_get_of_nothing_with_no_some_and_all_the_time(store):
    nothing = store.new_id()
    with pytest.raises(plasmon.Absent):
        store.get(nothing)
    with pytest.raises(plasmon.Absent):
        store.get(nothing, timeout=0)
    before = time.monotonic()
    with pytest.raises(plasmon.TimedOut):
        store.get(nothing, timeout=0.05)
    assert time.monotonic() - before >= 0.05
    # Whatever the number of steps that the time is cut into, it is the time that has passed.
    for timeout in (1e-9, 0.001, 0.01, 0.25, 0.5):
        with pytest.raises(plasmon.TimedOut):
            store.get(nothing, timeout=timeout)
        with pytest.raises(plasmon.TimedOut):
            store.get([nothing, store.put(b"here")], timeout=timeout)
    for bad in (-1, float("nan"), -0.001):
        with pytest.raises(ValueError, match="seconds"):
            store.get(nothing, timeout=bad)


@pytest.mark.parametrize("timeout", [None, DEADLINE_S, float("inf")])
def test_a_get_waits_for_its_object(store, other, timeout):
    id = store.new_id()
    found = []
    waiter = in_thread(lambda: found.append(other.get(id, timeout=timeout, wait=True)))
    when_waiting(store)
    store.put(b"at last", id=id)
    waiter.join(DEADLINE_S)
    assert found == [b"at last"]


def test_a_waiting_get_blocks_no_other_client(store, daemon):
    waiting = daemon.connect()
    id = store.new_id()
    waiter = in_thread(lambda: waiting.get(id, wait=True))
    when_waiting(store)
    for _ in range(100):
        assert waiting.get(waiting.put(b"meanwhile")) == b"meanwhile"
    store.put(b"", id=id)
    waiter.join(DEADLINE_S)
    assert not waiter.is_alive()
    waiting.disconnect()


def test_a_wait_ends_with_enough_objects_or_when_the_fate_is_known(store, other):
    here, gone, coming, never = store.put(b""), store.put(b""), store.new_id(), store.new_id()
    store.delete(gone)
    assert store.wait([here, gone], timeout=DEADLINE_S) == ["sealed", "deleted"]
    assert store.wait([here, never], 1) == ["sealed", "absent"]
    assert store.wait([never], 0) == ["absent"]
    assert store.wait([], timeout=0) == []
    assert store.wait([never], timeout=0.01) == ["absent"]
    found = []
    waiter = in_thread(lambda: found.append(other.wait([never, coming], 1, DEADLINE_S)))
    when_waiting(store)
    store.put(b"", id=coming)
    waiter.join(DEADLINE_S)
    assert found == [["absent", "sealed"]]
    with pytest.raises(ValueError, match="2 of 1"):
        store.wait([here], 2)


def test_a_wait_beyond_the_end_goes_on(store, other):
    id = plasmon.ObjectId.random()
    store.put(b"first", id=id)
    store.delete(id)
    assert other.wait(id, timeout=0.01, beyond_end=True) == ["deleted"]
    found = []
    waiter = in_thread(lambda: found.append(other.wait(id, None, DEADLINE_S, beyond_end=True)))
    when_waiting(store)
    store.put(b"second", id=id)
    waiter.join(DEADLINE_S)
    assert found == [["sealed"]]


def test_waiters_get_that_the_creator_died(store):
    id = store.new_id()
    code = """
        import sys, plasmon
        store = plasmon.connect(sys.argv[1])
        writer = store.create(100, id=plasmon.ObjectId.from_hex(sys.argv[2]))
        print("creating", flush=True)
        sys.stdin.read()
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), str(store.socket), id.hex()],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as creator:
        assert creator.stdout.readline() == b"creating\n"
        raised = []

        def wait():
            try:
                store.get(id, wait=True)
            except plasmon.PlasmonError as error:
                raised.append(error)

        waiter = in_thread(wait)
        when_waiting(store)
        os.kill(creator.pid, signal.SIGKILL)
        waiter.join(DEADLINE_S)
    assert [type(error) for error in raised] == [plasmon.CreatorDied]
    assert raised[0].object_id == id


def test_control_c_ends_a_wait(daemon):
    code = """
        import sys, plasmon
        store = plasmon.connect(sys.argv[1])
        try:
            print("waiting", flush=True)
            {call}
        except KeyboardInterrupt:
            print("interrupted", flush=True)
    """
    calls = [
        "store.get(store.new_id(), wait=True)",
        "store.wait(store.new_id())",
        "store.subscribe().next()",
    ]
    for call in calls:
        with subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(code).format(call=call), daemon.socket],
            stdout=subprocess.PIPE,
        ) as waiter:
            assert waiter.stdout.readline() == b"waiting\n"
            waiter.send_signal(signal.SIGINT)
            assert waiter.stdout.readline() == b"interrupted\n", call
            assert waiter.wait(DEADLINE_S) == 0


def test_the_event_loop_goes_on_while_it_waits(store, other):
    id = store.new_id()

    async def main():
        ticks = 0
        waiting = asyncio.create_task(other.get_async(id, wait=True))
        states = asyncio.create_task(other.wait_async([id], timeout=DEADLINE_S))
        while ticks < 100:
            await asyncio.sleep(0)
            ticks += 1
        assert not waiting.done()
        store.put(b"value", id=id)
        return await waiting, await states

    assert asyncio.run(asyncio.wait_for(main(), DEADLINE_S)) == (b"value", ["sealed"])


def test_asyncio_gets_of_many_and_of_names(store):
    async def main():
        ids = [store.put(bytes([n])) for n in range(50)]
        store.put(b"named", name="async", namespace="waiting")
        values = await store.get_async(ids)
        named = await store.get_async("async", namespace="waiting")
        views = await asyncio.gather(*(store.get_async(id, as_="memoryview") for id in ids))
        return values, named, [bytes(view) for view in views]

    values, named, views = asyncio.run(asyncio.wait_for(main(), DEADLINE_S))
    assert values == views == [bytes([n]) for n in range(50)]
    assert named == b"named"
    store.delete("async", namespace="waiting")


def test_asyncio_timeouts_and_fates(store):
    async def main():
        gone = store.put(b"")
        store.delete(gone)
        for nothing in ({}, {"timeout": 0}):
            with pytest.raises(plasmon.Absent):
                await store.get_async(store.new_id(), **nothing)
        with pytest.raises(plasmon.TimedOut):
            await store.get_async(store.new_id(), timeout=0.02)
        with pytest.raises(plasmon.Deleted):
            await store.get_async(gone)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(store.get_async(store.new_id(), wait=True), 0.02)

    asyncio.run(main())


def test_a_cancelled_task_cancels_its_wait(store):
    async def main():
        task = asyncio.create_task(store.wait_async(store.new_id()))
        while not store.status().waits:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        deadline = time.monotonic() + DEADLINE_S
        while store.status().waits:
            assert time.monotonic() < deadline
            await asyncio.sleep(0)

    asyncio.run(main())


def test_a_pending_wait_is_an_ordinary_descriptor(store):
    import select

    id = store.new_id()
    pending = store._start_wait([id])
    assert pending.poll() is None
    store.put(b"", id=id)
    assert select.select([pending], [], [], DEADLINE_S)[0]
    assert pending.poll() == ["sealed"]
    pending.close()
    pending.close()
    with pytest.raises(ValueError, match="closed"):
        pending.fileno()
