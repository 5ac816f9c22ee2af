"""The processes that read: each runs commands from a pipe, one after the other.

Every way of sharing uses the same processes, the same tasks and the same libraries. They are forked
by :mod:`multiprocessing`'s fork server, which has imported the libraries and nothing else, so that
a process is up in a moment and none inherits anything of the demo's; only the way that *is* forking
forks the demo itself.

A worker keeps what it received until it is told to end. Before memory is measured, and after the
clock has stopped, it reads a byte of every page of its table: what was never looked at would not
count.
"""

from __future__ import annotations

import multiprocessing
import os
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any, Literal, Protocol

from plasmon.demo.tasks import Task, run

if TYPE_CHECKING:
    import pyarrow as pa

#: How long a worker may be silent.
WORKER_TIMEOUT_S = 120.0
_PAGE_BYTES = 4096
#: How many rows are added up at most when a table is read again and again.
READ_ROWS = 100_000
#: The imports of the fork server.
_LIBRARIES = [
    *("numpy", "pyarrow", "pyarrow.compute", "joblib"),
    *("plasmon", "plasmon._codecs", "plasmon.demo.ways"),
]


class Source(Protocol):
    """How a worker gets at the table; it is sent to the worker through the pipe."""

    def open(self) -> pa.Table:
        """The table. What it lies on stays as long as the source."""


@dataclass
class Reads:
    """The times of a worker that read a table repeatedly."""

    #: When each read ended, by the clock that all processes share.
    ended: list[float]
    longest_s: float
    #: Reads that failed, or found another sum.
    wrong: int


class Worker:
    """The commands of a worker, which are called by name."""

    def __init__(self, connection: Connection | None = None) -> None:
        self._connection = connection
        self.source: Source | None = None
        self.table: pa.Table | None = None

    def warm(self, task: Task) -> None:
        """Runs a task on a few rows: lazy imports and look-ups are done before the clock starts."""
        run(task, tiny(task))

    def take(self, source: Source) -> None:
        """Gets at the table."""
        self.source = source
        self.table = source.open()

    def compute(self, task: Task) -> tuple[float, pa.Table]:
        """Computes one answer."""
        start = time.perf_counter()
        answer = run(task, self.table)
        return time.perf_counter() - start, answer

    def touch(self, _: None) -> None:
        """Looks at each page of the table."""
        assert self.table is not None
        touch(self.table)

    def read(self, column: str) -> Reads:
        """Gets the table and adds rows of a column up, until the next command comes."""
        assert self.source is not None
        assert self._connection is not None
        first = _sum(self.source.open()[column])
        reads = Reads([], 0.0, 0)
        while not self._connection.poll():
            start = time.monotonic()
            try:
                reads.wrong += _sum(self.source.open()[column]) != first
            except Exception:
                reads.wrong += 1
            reads.ended.append(time.monotonic())
            reads.longest_s = max(reads.longest_s, reads.ended[-1] - start)
        return reads


def _sum(column: pa.ChunkedArray) -> str:
    """The sum of rows in the middle, as text: a NaN sum differs from itself."""
    import pyarrow.compute as pc

    return str(pc.sum(column.slice(len(column) // 2, READ_ROWS)))


Command = Literal["warm", "take", "compute", "touch", "read"]


def _serve(connection: Connection) -> None:
    """The life of a worker: answers commands until there are no more."""
    import pyarrow as pa

    pa.set_cpu_count(1)
    worker = Worker(connection)
    connection.send(("up", None))
    while order := connection.recv():
        command, argument = order
        try:
            connection.send(("done", getattr(worker, command)(argument)))
        except Exception as error:
            connection.send(("failed", f"{type(error).__name__}: {error}"))
    # What the table lies on may be closed in any order now: the kernel takes it.
    os._exit(0)


class Pool:
    """Some workers."""

    def __init__(self) -> None:
        self._connections: list[Connection] = []
        self._processes: list[Any] = []

    @property
    def pids(self) -> list[int]:
        """Their processes."""
        return [process.pid for process in self._processes]

    def __len__(self) -> int:
        return len(self._processes)

    def grow(self, count: int, *, fork: bool = False) -> None:
        """Starts workers until there are ``count``; ``fork`` makes them children of this one."""
        context: Any = multiprocessing.get_context("fork" if fork else "forkserver")
        if not fork:
            context.set_forkserver_preload(_LIBRARIES)
        new = []
        for _ in range(count - len(self)):
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs,), daemon=True)
            with warnings.catch_warnings():
                # Forking a process with threads: theirs are pyarrow's, which expects it.
                warnings.simplefilter("ignore", DeprecationWarning)
                process.start()
            theirs.close()
            self._connections.append(ours)
            self._processes.append(process)
            new.append(ours)
        for connection in new:
            _answer(connection)

    def tell(self, command: Command, arguments: list[Any], first: int = 0) -> None:
        """Sends a command to the workers from number ``first`` on, each with its own argument."""
        for connection, argument in zip(self._connections[first:], arguments, strict=True):
            connection.send((command, argument))

    def tell_job(self, sources: Iterator[Source], tasks: list[Task]) -> None:
        """Has each worker take a source and compute its task; each answers twice."""
        for connection, source, task in zip(self._connections, sources, tasks, strict=True):
            connection.send(("take", source))
            connection.send(("compute", task))

    def answers(self, first: int = 0) -> list[Any]:
        """The answers of the workers from number ``first`` on."""
        return [_answer(connection) for connection in self._connections[first:]]

    def ask(self, command: Command, arguments: list[Any], first: int = 0) -> list[Any]:
        """Sends a command and waits for all answers."""
        self.tell(command, arguments, first)
        return self.answers(first)

    def end(self) -> None:
        """Ends the workers."""
        for connection in self._connections:
            try:
                connection.send(None)
            except OSError:
                continue
        for process in self._processes:
            process.join(5)
            if process.is_alive():
                process.kill()
                process.join()
        for connection in self._connections:
            connection.close()


@contextmanager
def pool() -> Iterator[Pool]:
    """Workers that end with the block."""
    workers = Pool()
    try:
        yield workers
    finally:
        workers.end()


def _answer(connection: Connection) -> Any:
    if not connection.poll(WORKER_TIMEOUT_S):
        raise TimeoutError(f"a worker sent nothing for {WORKER_TIMEOUT_S:.0f} seconds")
    try:
        word, value = connection.recv()
    except EOFError as error:
        raise OSError("a worker died") from error
    if word == "failed":
        raise OSError(value)
    return value


def touch(table: pa.Table) -> int:
    """Reads one byte of each page of a table, so that all of it is mapped here."""
    import numpy as np

    return sum(
        int(np.frombuffer(buffer, np.uint8)[::_PAGE_BYTES].max())
        for column in table.columns
        for chunk in column.chunks
        for buffer in chunk.buffers()
        if buffer is not None and buffer.size
    )


def tiny(task: Task) -> pa.Table:
    """A table of a few rows that a task can be run on."""
    import datetime

    import pyarrow as pa

    value = pa.array([1.0, 2.0])
    moment = [datetime.datetime(2025, 1, day, tzinfo=datetime.UTC) for day in (1, 2)]
    key = pa.array(moment) if task.kind == "monthly" else pa.array(["a", "b"])
    return pa.table(
        {task.key: key, task.value: value} if task.key != task.value else {task.key: value}
    )


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """How long something takes, and what it returns."""
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result
