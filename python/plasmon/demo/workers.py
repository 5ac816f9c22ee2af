"""Four worker processes, and the same job with the store and with pickle.

Both ways use the same processes (started by :mod:`multiprocessing`, method *spawn*), the same tasks
and the same libraries. The clock starts when every worker is up and has its imports done. Each
worker keeps what it received until it is told to end. Before memory is measured, and after the
clock has stopped, each reads a byte of every page of its table: what nobody looked at would not
count.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any, Literal

from plasmon.demo.memory import Usage, total
from plasmon.demo.tasks import Task, run

if TYPE_CHECKING:
    import pyarrow as pa

    import plasmon

WORKERS = 4
_PATIENCE_S = 600.0
_PAGE_BYTES = 4096


@dataclass
class Outcome:
    """What one way of sharing cost and answered."""

    way: str
    share_s: float = 0.0
    total_s: float = 0.0
    compute_s: list[float] = field(default_factory=list)
    answers: list[pa.Table] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)


def work(connection: Connection, way: Literal["store", "pickle"], socket: str, task: Task) -> None:
    """The life of one worker; the module's functions are its counterpart."""
    import pyarrow as pa

    pa.set_cpu_count(1)
    store: plasmon.Store | None = None
    if way == "store":
        import plasmon

        store = plasmon.connect(socket, start=False)
    run(task, _tiny(task))
    connection.send("up")
    if store is None:
        table = connection.recv()
        connection.send("received")
        seconds, answer = _timed(task, table)
        connection.send((seconds, answer))
    else:
        table = store.get(connection.recv(), timeout=_PATIENCE_S)
        connection.send("received")
        seconds, answer = _timed(task, table)
        connection.send((seconds, store.put(answer)))
    connection.recv()
    _touch(table)
    connection.send("touched")
    connection.recv()
    connection.send("bye")


def _timed(task: Task, table: pa.Table) -> tuple[float, pa.Table]:
    start = time.perf_counter()
    answer = run(task, table)
    return time.perf_counter() - start, answer


def _touch(table: pa.Table) -> int:
    """Reads one byte of each page of a table, so that all of it is mapped here."""
    import numpy as np

    return sum(
        int(np.frombuffer(buffer, np.uint8)[::_PAGE_BYTES].max())
        for column in table.columns
        for chunk in column.chunks
        for buffer in chunk.buffers()
        if buffer is not None and buffer.size
    )


def _measure(connections: list[Connection], pids: list[int]) -> Usage:
    """The memory of these processes once every worker has looked at all that it holds."""
    for connection in connections:
        connection.send("touch")
    _expect(connections, "touched")
    return total(pids)


def _tiny(task: Task) -> pa.Table:
    """A few rows, so that lazy imports and kernel look-ups are done before the clock starts."""
    import datetime

    import pyarrow as pa

    value = pa.array([1.0, 2.0])
    moment = [datetime.datetime(2025, 1, day, tzinfo=datetime.UTC) for day in (1, 2)]
    key = pa.array(moment) if task.kind == "monthly" else pa.array(["a", "b"])
    return pa.table(
        {task.key: key, task.value: value} if task.key != task.value else {task.key: value}
    )


def share_by_store(
    store: plasmon.Store, table_id: plasmon.ObjectId, tasks: list[Task], others: list[int]
) -> Outcome:
    """The workers read the table where it lies; ``others`` are processes to count the memory of."""
    with _started("store", str(store.socket), tasks) as (connections, pids):
        start = time.perf_counter()
        outcome = Outcome("plasmon")
        for connection in connections:
            connection.send(table_id)
        _expect(connections, "received")
        outcome.share_s = time.perf_counter() - start
        for connection in connections:
            seconds, answer_id = _receive(connection)
            outcome.compute_s.append(seconds)
            outcome.answers.append(store.get(answer_id))
        outcome.total_s = time.perf_counter() - start
        outcome.usage = _measure(connections, [*pids, *others])
    return outcome


def share_by_pickle(
    table: pa.Table, tasks: list[Task], columns_only: bool, others: list[int]
) -> Outcome:
    """Each worker gets a pickled copy, of the whole table or of just the columns that it needs."""
    with _started("pickle", "", tasks) as (connections, pids):
        start = time.perf_counter()
        outcome = Outcome("pickle, needed columns" if columns_only else "pickle, whole table")
        for connection, task in zip(connections, tasks, strict=True):
            connection.send(table.select(task.columns) if columns_only else table)
        _expect(connections, "received")
        outcome.share_s = time.perf_counter() - start
        for connection in connections:
            seconds, answer = _receive(connection)
            outcome.compute_s.append(seconds)
            outcome.answers.append(answer)
        outcome.total_s = time.perf_counter() - start
        outcome.usage = _measure(connections, [*pids, *others])
    return outcome


@contextmanager
def _started(
    way: Literal["store", "pickle"], socket: str, tasks: list[Task]
) -> Iterator[tuple[list[Connection], list[int]]]:
    import multiprocessing

    context = multiprocessing.get_context("spawn")
    connections: list[Connection] = []
    processes = []
    try:
        for task in tasks:
            ours, theirs = context.Pipe()
            process = context.Process(target=work, args=(theirs, way, socket, task), daemon=True)
            process.start()
            theirs.close()
            connections.append(ours)
            processes.append(process)
        _expect(connections, "up")
        yield connections, [process.pid for process in processes if process.pid is not None]
        for connection in connections:
            connection.send("end")
        _expect(connections, "bye")
    finally:
        for process in processes:
            process.join(5)
            if process.is_alive():
                process.kill()


def _expect(connections: list[Connection], word: str) -> None:
    for connection in connections:
        got = _receive(connection)
        if got != word:
            raise RuntimeError(f"a worker said {got!r} instead of {word!r}")


def _receive(connection: Connection) -> Any:
    if not connection.poll(_PATIENCE_S):
        raise TimeoutError(f"a worker said nothing for {_PATIENCE_S:.0f} seconds")
    return connection.recv()
