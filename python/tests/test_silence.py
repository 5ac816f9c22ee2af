"""A daemon that does not answer: every call ends, by itself or by Ctrl-C.

Calls had no timeout, could not be interrupted while they waited for an answer, and held the
interpreter while they dropped things; a get in an event loop could stop the loop.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import plasmon

from .conftest import DEADLINE_S

# Without a keeper, which would replace a daemon that stands still.
SETTINGS = {"keeper": False}

CALLS = {
    "status": "store.status()",
    "clients": "store.clients()",
    "list": "store.list()",
    "stat": "store.stat('x')",
    "states": "store.states(['x'])",
    "contains": "store.contains('x')",
    "put with a name": "store.put(b'1', name='b')",
    "put of much": "store.put(bytes(20 << 20))",
    "put of a list": "store.put([1, 2], name='c')",
    "create": "store.create(20 << 20)",
    "seal": "writer.seal()",
    "context manager": "with writer: pass",
    "scope": "store.scope('x')",
    "add to a scope": "scope.add('x')",
    "publish": "scope.publish()",
    "abort": "scope.abort()",
    "block of a scope": "with scope: pass",
    "block of a scope that raises": "with scope: raise KeyboardInterrupt",
    "flush": "(store.put(b'q'), store.flush())",
    "delete": "store.delete('a')",
    "get": "store.get('x')",
    "get with a timeout": "store.get('x', timeout=1000)",
    "get of many": "store.get(['x', 'y'])",
    "get_buffers": "store.get_buffers(['x', 'y'], timeout=1000)",
    "wait": "store.wait(['x'])",
    "digest": "store.digest('x')",
    "subscribe": "store.subscribe()",
    "next of a subscription": "subscription.next()",
    "connect": "plasmon.connect(socket)",
    "builder": "store.builder('int64').extend(range(10))",
    "sort": "store.sort({'x': [2, 1]}, 'x')",
    "plasma get": "client.get(plasma.ObjectID(b'x' * 20))",
    "plasma connect": "plasma.connect(socket)",
    "plasma contains": "client.contains(plasma.ObjectID(b'x' * 20))",
    "asyncio": "asyncio.run(store.get_async('x'))",
}

PROGRAM = """
    import asyncio, sys
    import plasmon
    from plasmon import plasma

    socket = sys.argv[1]
    store = plasmon.connect(socket)
    client = plasma.connect(socket)
    writer = store.create(20 << 20, name="writer")
    scope = store.scope("in the scope")
    subscription = store.subscribe()
    print("ready", flush=True)
    sys.stdin.readline()
    try:
        exec(sys.argv[2])
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    import os
    os._exit(0)
"""


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@contextmanager
def silent(**options) -> Iterator[tuple[plasmon.Store, int]]:
    """A store, and the number of its daemon."""
    with plasmon.start("128m", settings=SETTINGS) as store:
        socket, pid = str(store.socket), store.status().pid
        with plasmon.connect(socket, **options) as other:
            other.put(b"warm")
            other.flush()
            yield other, pid


def sleeps(pid: int) -> bool:
    with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
        return stat.read().rsplit(")", 1)[1].split()[0] == "S"


@pytest.mark.parametrize("what", CALLS)
def test_ctrl_c_ends_every_call(what):
    with silent() as (store, pid):
        program = [sys.executable, "-c", textwrap.dedent(PROGRAM), str(store.socket), CALLS[what]]
        pipe = subprocess.PIPE
        with subprocess.Popen(program, stdin=pipe, stdout=pipe, text=True) as child:
            assert child.stdout.readline() == "ready\n"
            with stopped(pid):
                print(file=child.stdin, flush=True)
                # Again and again: the call may not have begun when the first one comes.
                end = time.monotonic() + DEADLINE_S
                while child.poll() is None:
                    assert time.monotonic() < end, f"{what} goes on"
                    if sleeps(child.pid):
                        child.send_signal(signal.SIGINT)
                    time.sleep(0.05)
                assert child.stdout.read() == "interrupted\n"


def test_what_a_handler_raises_is_what_the_call_raises():
    class Enough(Exception):
        pass

    def handle(number, frame):
        # It may use the store itself, within a call of it.
        assert store.new_id() != store.new_id()
        raise Enough

    with silent() as (store, pid), stopped(pid):
        before = signal.signal(signal.SIGALRM, handle)
        try:
            for call in (store.status, lambda: store.get("x"), lambda: store.put(b"1", name="n")):
                signal.setitimer(signal.ITIMER_REAL, 0.2)
                with pytest.raises(Enough):
                    call()
        finally:
            signal.signal(signal.SIGALRM, before)


def test_a_handler_ends_the_scope_that_a_call_adds_to():
    refused = []

    def handle(number, frame):
        with pytest.raises(plasmon.BadRequest, match="adds ids") as caught:
            scope.publish()
        refused.append(caught.value)
        scope.abort()

    with silent(request_timeout=0.5) as (store, pid):
        scope = store.scope("in the scope")
        store.put(b"1", name="in the scope")
        before = signal.signal(signal.SIGALRM, handle)
        try:
            with stopped(pid):
                signal.setitimer(signal.ITIMER_REAL, 0.1)
                with pytest.raises(plasmon.TimedOut):
                    scope.add("x")
        finally:
            signal.signal(signal.SIGALRM, before)
        assert len(refused) == 1
        assert scope.state == "aborted"
        assert store.states("in the scope") == ["deleted"]


def test_a_daemon_that_does_not_answer_is_an_error():
    with silent(request_timeout=0.1) as (store, pid), stopped(pid):
        for call in (store.status, store.list, lambda: store.put(b"1", name="n")):
            with pytest.raises(plasmon.TimedOut, match="did not answer"):
                call()
        with pytest.raises(plasmon.TimedOut):
            plasmon.connect(store.socket, request_timeout=0.1)


def test_a_timeout_counts_whatever_the_daemon_does():
    with silent() as (store, pid), stopped(pid):
        for call in (
            store.get,
            store.get_buffer,
            lambda id, timeout: store.get([id, id], timeout=timeout),
        ):
            began = time.monotonic()
            with pytest.raises(plasmon.TimedOut):
                call("x", timeout=0.5)
            assert 0.5 <= time.monotonic() - began < DEADLINE_S


def test_for_ever_is_a_timeout_like_any_other():
    forever = float("inf")
    with plasmon.start("16m", settings=SETTINGS, timeout=forever) as store:
        for timeout in (forever, 1e18, 1e19):
            store.builder("int64", timeout=timeout).abort()
        options = dict.fromkeys(("timeout", "reconnect_timeout", "request_timeout"), forever)
        with plasmon.connect(store.socket, **options) as other:
            assert other.get(other.put(b"value"), timeout=forever) == b"value"


def test_an_event_loop_goes_on_while_a_get_waits():
    async def main(store, pid):
        with stopped(pid):
            waiting = [
                asyncio.create_task(store.get_async(store.new_id(), timeout=0.3)) for _ in range(10)
            ]
            turns = 0
            while not all(task.done() for task in waiting):
                await asyncio.sleep(0.01)
                turns += 1
        outcomes = await asyncio.gather(*waiting, return_exceptions=True)
        return turns, outcomes

    with silent() as (store, pid):
        turns, outcomes = asyncio.run(asyncio.wait_for(main(store, pid), DEADLINE_S))
        assert turns > 5
        assert all(isinstance(outcome, plasmon.TimedOut) for outcome in outcomes)


def test_more_tasks_wait_than_the_store_allows_requests(store, other):
    """One request for each task was refused beyond 1024, and took a descriptor each."""
    count = 1500

    async def main():
        ids = [store.new_id() for _ in range(count)]
        tasks = [asyncio.create_task(store.get_async(id, timeout=DEADLINE_S)) for id in ids]
        cancelled = asyncio.create_task(store.get_async(store.new_id(), wait=True))
        await asyncio.sleep(0)
        fds = len(os.listdir("/proc/self/fd"))
        for at, id in enumerate(ids):
            other.put(b"%d" % at, id=id)
            if at % 100 == 0:
                await asyncio.sleep(0)
        values = await asyncio.gather(*tasks)
        cancelled.cancel()
        await asyncio.gather(cancelled, return_exceptions=True)
        return fds, values

    before = len(os.listdir("/proc/self/fd"))
    fds, values = asyncio.run(asyncio.wait_for(main(), 2 * DEADLINE_S))
    assert values == [b"%d" % at for at in range(count)]
    assert fds < before + 100
    end = time.monotonic() + DEADLINE_S
    while store.status().waits:
        assert time.monotonic() < end


def test_tasks_wait_for_one_object_and_leave_one_by_one(store, other):
    async def main():
        id = store.new_id()
        tasks = [asyncio.create_task(store.get_async(id, timeout=DEADLINE_S)) for _ in range(20)]
        late = asyncio.create_task(store.get_async(id, timeout=0.05))
        for task in tasks[::2]:
            task.cancel()
        with pytest.raises(plasmon.TimedOut):
            await late
        other.put(b"value", id=id)
        return await asyncio.gather(*tasks[1::2])

    assert asyncio.run(asyncio.wait_for(main(), DEADLINE_S)) == [b"value"] * 10
