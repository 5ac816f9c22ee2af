"""The worker's side of the harness's protocol, for workers in Python.

A side is a class whose methods named ``op_<name>`` take a request's fields and return an answer's
fields. It runs in its own environment, so this module and the sides import nothing of the harness
and nothing beyond the standard library that every environment has.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Answer = dict[str, Any]

#: As ``bench.worker`` has it: in the environment of every process that comes from a worker.
MARK = "PLASMON_BENCH_MARK"


class UnsupportedError(Exception):
    """The side has nothing like it."""


def serve(side: object) -> None:
    """Answers requests until the harness closes its end."""
    requests = os.fdopen(os.dup(0))
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    # What this process starts inherits its standard input, and a program that reads there would
    # take requests away; what a library prints must not end up between two answers.
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    for line in requests:
        request = json.loads(line)
        answers.write(json.dumps(_answer(side, request)) + "\n")
    end = getattr(side, "op_stop", None)
    if end is not None:
        end()


def _answer(side: object, request: dict[str, Any]) -> Answer:
    name = request.pop("op")
    operation = getattr(side, f"op_{name}", None)
    try:
        if operation is None:
            raise UnsupportedError(f"has no {name}")
        answer: Answer = operation(**request)
        return answer
    except UnsupportedError as error:
        return {"unsupported": str(error)}
    except Exception as error:
        traceback.print_exc()
        return {"error": f"{type(error).__name__}: {error}"}


def timed(
    operation: Callable[[], object],
    count: int,
    batch: int = 1,
    after: Callable[[], object] | None = None,
    warmup: int = 1,
    seconds: float | None = None,
) -> Answer:
    """Times `count` batches of an operation; each sample is nanoseconds per operation.

    `after` runs between the batches and is not timed. `seconds` ends the series early.
    """
    now = time.perf_counter_ns
    samples: list[float] = []
    end = None if seconds is None else now() + int(seconds * 1e9)
    turns = range(batch)
    for turn in range(-warmup, count):
        begin = now()
        for _ in turns:
            operation()
        taken = now() - begin
        if after is not None:
            after()
        if turn >= 0:
            samples.append(taken / batch)
            if end is not None and now() > end:
                break
    return {"samples": samples, "batch": batch}


class Fetches:
    """Samples of fetches, each with the processor time that the whole side spent on it."""

    def __init__(self, batch: int = 1) -> None:
        self.batch = batch
        self._samples: list[float] = []
        self._cpu_ns: list[float] = []

    @contextmanager
    def sample(self) -> Iterator[None]:
        """What is done within it is one sample: a batch of fetches."""
        before = spent_ns()
        begin = time.perf_counter_ns()
        yield
        taken = time.perf_counter_ns() - begin
        self.add(taken, spent_ns() - before)

    def add(self, taken_ns: float, cpu_ns: float) -> None:
        """One sample that was timed elsewhere."""
        self._samples.append(taken_ns / self.batch)
        self._cpu_ns.append(cpu_ns / self.batch)

    def answer(self) -> Answer:
        """The samples after the first one, which warmed up."""
        return {"samples": self._samples[1:], "batch": self.batch, "cpu_ns": self._cpu_ns[1:]}


def fetched(operation: Callable[[], object], count: int, batch: int = 1) -> Answer:
    """Like :func:`timed`, with the processor time of all processes of the side."""
    fetches = Fetches(batch)
    for _ in range(count + 1):
        with fetches.sample():
            for _ in range(batch):
                operation()
    return fetches.answer()


def spent_ns() -> int:
    """The processor time of all processes that come from this worker, itself included."""
    # Of a thread that runs, `schedstat` is behind; the others sleep by now.
    own = time.process_time_ns()
    mark = os.environ.get(MARK)
    if not mark:
        return own
    wanted = f"{MARK}={mark}".encode()
    others = {int(name) for name in os.listdir("/proc") if name.isdigit()} - {os.getpid()}
    marked = (pid for pid in others if wanted in _read(f"/proc/{pid}/environ").split(b"\0"))
    return own + sum(_process_ns(pid) for pid in marked)


def _process_ns(pid: int) -> int:
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return 0
    spent = (_read(f"/proc/{pid}/task/{thread}/schedstat").split() for thread in threads)
    return sum(int(words[0]) for words in spent if words)


def _read(path: str) -> bytes:
    """A file under /proc, empty when its process is gone."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def rate(operation: Callable[[], object], seconds: float, batch: int = 64) -> Answer:
    """How many operations per second one process does for a while."""
    now = time.perf_counter_ns
    turns = range(batch)
    done = 0
    begin = now()
    end = begin + int(seconds * 1e9)
    while now() < end:
        for _ in turns:
            operation()
        done += batch
    return {"per_s": done * 1e9 / (now() - begin)}


def spaced(operation: Callable[[int], object], count: int, gap_us: float) -> Answer:
    """Does an operation repeatedly, with a sleep before each; returns when each began."""
    stamps: list[int] = []
    for turn in range(count):
        time.sleep(gap_us / 1e6)
        stamps.append(time.monotonic_ns())
        operation(turn)
    return {"stamps": stamps}


def awaited(operation: Callable[[int], object], count: int) -> Answer:
    """Waits for one thing after the other; returns when each had come."""
    stamps: list[int] = []
    for turn in range(count):
        operation(turn)
        stamps.append(time.monotonic_ns())
    return {"stamps": stamps}


def payload(size: int, source: str | None = None) -> memoryview:
    """Bytes to put. A source is a file of the harness, mapped, so that all sides copy the same."""
    if source is None:
        return memoryview(os.urandom(min(size, 1 << 20)) * -(-size // (1 << 20)))[:size]
    descriptor = os.open(source, os.O_RDONLY)
    try:
        flags = mmap.MAP_SHARED | mmap.MAP_POPULATE
        return memoryview(mmap.mmap(descriptor, size, flags=flags, prot=mmap.PROT_READ))
    finally:
        os.close(descriptor)


def shared_id(series: int, turn: int) -> bytes:
    """The id, 20 bytes, that the two clients of one series use for one turn."""
    return hashlib.sha1(f"{series}/{turn}".encode(), usedforsecurity=False).digest()
