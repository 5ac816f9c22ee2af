"""Several clients of one side at once, each of which waits for the answer to its put.

As in :mod:`bench.rivals.protocol`, nothing beyond the standard library is imported.
"""

from __future__ import annotations

import os
import select
import signal
import struct
import threading
import time
import traceback
from collections.abc import Callable

from bench.rivals.protocol import Answer

Put = Callable[[], object]
Connect = Callable[[int], Put]
_READY_WITHIN_S = 30.0
#: What a client says at the end: its puts, and for how long it made them, in nanoseconds.
_OUTCOME = struct.Struct("<QQ")


def by_processes(clients: int, seconds: float, connect: Connect) -> Answer:
    """Puts of so many processes, each with a connection of its own: the time of one put.

    The processes are forked, so this must be called before the worker has threads or connections
    that a child must not have. `connect` is called in the child with its number.
    """
    children = [_Child(number, seconds, connect) for number in range(clients)]
    try:
        for child in children:
            child.expect(b"r", _READY_WITHIN_S)
        for child in children:
            child.go()
        outcomes = [child.outcome(seconds + _READY_WITHIN_S) for child in children]
    finally:
        for child in children:
            child.end()
    return _answer(outcomes)


def by_threads(clients: int, seconds: float, connect: Connect) -> Answer:
    """The same by threads, for a library whose files one process has."""
    puts = [connect(number) for number in range(clients)]
    outcomes: list[tuple[int, int]] = []
    errors: list[Exception] = []
    begin = threading.Barrier(clients)

    def run(put: Put) -> None:
        try:
            put()
            begin.wait(_READY_WITHIN_S)
            outcomes.append(_put_for(seconds, put))
        except Exception as error:
            begin.abort()
            errors.append(error)

    threads = [threading.Thread(target=run, args=(put,)) for put in puts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return _answer(outcomes)


def _put_for(seconds: float, put: Put) -> tuple[int, int]:
    now = time.perf_counter_ns
    done, begin = 0, now()
    end = begin + int(seconds * 1e9)
    while now() < end:
        put()
        done += 1
    return done, now() - begin


def _answer(outcomes: list[tuple[int, int]]) -> Answer:
    """The time that passes for each put of all clients together."""
    per_ns = sum(done / taken for done, taken in outcomes)
    return {"samples": [1 / per_ns], "batch": sum(done for done, _ in outcomes)}


class _Child:
    """One client."""

    def __init__(self, number: int, seconds: float, connect: Connect) -> None:
        self._said, said = os.pipe()
        told, self._tell = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            code = 1
            try:
                os.close(self._said)
                os.close(self._tell)
                put = connect(number)
                put()
                os.write(said, b"r")
                assert os.read(told, 1) == b"g", "the worker ended"
                os.write(said, _OUTCOME.pack(*_put_for(seconds, put)))
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                # Nothing of the parent's may be run or written a second time.
                os._exit(code)
        os.close(said)
        os.close(told)

    def expect(self, wanted: bytes, within_s: float) -> None:
        found = self._read(len(wanted), within_s)
        if found != wanted:
            raise RuntimeError(f"a client says {found!r}; its error is in the worker's log")

    def go(self) -> None:
        os.write(self._tell, b"g")

    def outcome(self, within_s: float) -> tuple[int, int]:
        found = self._read(_OUTCOME.size, within_s)
        if len(found) != _OUTCOME.size:
            raise RuntimeError("a client ended early; its error is in the worker's log")
        done, taken = _OUTCOME.unpack(found)
        return done, taken

    def _read(self, length: int, within_s: float) -> bytes:
        ready, _, _ = select.select([self._said], [], [], within_s)
        if not ready:
            raise TimeoutError(f"a client says nothing within {within_s:g} s")
        return os.read(self._said, length)

    def end(self) -> None:
        os.close(self._said)
        os.close(self._tell)
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
