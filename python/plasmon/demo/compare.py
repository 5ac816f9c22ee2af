"""The job and the readers, measured for one way of sharing after the other."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from plasmon.demo.memory import Usage, total
from plasmon.demo.tasks import Task
from plasmon.demo.ways import UnavailableWay, Way
from plasmon.demo.workers import Pool, Reads, timed

if TYPE_CHECKING:
    import pyarrow as pa

    import plasmon

#: How many processes read at once, one count after the other.
READERS = (1, 2, 4, 8, 16)
#: For how long the readers read before the daemon is killed, and after the next one is there.
_READING_S = 0.75
_NEXT_DAEMON_S = 30.0


@dataclass
class Outcome:
    """The cost and the answers of one way of sharing."""

    way: str
    asks: str
    #: Why there are no figures; empty if there are.
    missing: str = ""
    prepare_s: float = 0.0
    share_s: float = 0.0
    total_s: float = 0.0
    compute_s: list[float] = field(default_factory=list)
    answers: list[pa.Table] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    #: The memory of all processes, by the number of readers.
    readers: dict[int, Usage] = field(default_factory=dict)


@dataclass
class Survival:
    """The outcome of killing the daemon."""

    readers: int
    killed: int
    next: int
    #: Until the next daemon answered, and until it had taken a new object.
    away_s: float
    put_s: float
    reads: int
    reads_while_away: int
    longest_s: float
    wrong: int


def compare(
    way: Way,
    table: pa.Table,
    tasks: list[Task],
    say: Callable[[str], None],
    also: Callable[[Pool], None] | None = None,
) -> Outcome:
    """Measures one way. ``also`` is called with the readers, once all of them are there."""
    outcome = Outcome(way.name, way.asks)
    say(f"{way.name}: {len(tasks)} processes answer")
    block = way.prepared(table)
    try:
        taken, _ = timed(block.__enter__)
        outcome.prepare_s = taken if way.prepare_s is None else way.prepare_s
    except Exception as reason:
        outcome.missing = _why(reason)
        say(f"{way.name}: {outcome.missing}")
        return outcome
    try:
        for _ in range(way.runs):
            _job(way, tasks, outcome)
        _readers(way, tasks, outcome, say, also)
    except Exception as reason:
        outcome.missing = _why(reason)
        say(f"{way.name}: {outcome.missing}")
    finally:
        block.__exit__(None, None, None)
    return outcome


def _why(reason: Exception) -> str:
    """Why one way failed, as a line beside the results of the others."""
    if isinstance(reason, UnavailableWay):
        return str(reason)
    return f"failed here: {type(reason).__name__}: {reason}"


def _job(way: Way, tasks: list[Task], outcome: Outcome) -> None:
    """Each worker computes one task on the whole table; the fastest run counts."""
    with way.pool() as workers:
        if not way.forks:
            workers.grow(len(tasks))
            workers.ask("warm", [*tasks])
        start = time.perf_counter()
        if way.forks:
            workers.grow(len(tasks), fork=True)
        workers.tell_job((way.source(task.columns) for task in tasks), tasks)
        workers.answers()
        share_s = time.perf_counter() - start
        answers = workers.answers()
        total_s = time.perf_counter() - start
        if not outcome.answers or total_s < outcome.total_s:
            outcome.share_s, outcome.total_s = share_s, total_s
            outcome.compute_s = [seconds for seconds, _ in answers]
            outcome.answers = [answer for _, answer in answers]
        workers.ask("touch", [None] * len(tasks))
        outcome.usage = total([*workers.pids, *way.holders])


def _readers(
    way: Way,
    tasks: list[Task],
    outcome: Outcome,
    say: Callable[[str], None],
    also: Callable[[Pool], None] | None,
) -> None:
    """More and more processes hold the table and have looked at every page of it."""
    counts = [count for count in READERS if count <= way.readers_max]
    if not counts:
        return
    say(f"{way.name}: 1 to {counts[-1]} readers")
    with way.pool() as workers:
        for count in counts:
            first, new = len(workers), count - len(workers)
            workers.grow(count, fork=way.forks)
            workers.ask("take", [way.source() for _ in range(new)], first)
            workers.ask("touch", [None] * new, first)
            outcome.readers[count] = total([*workers.pids, *way.holders])
        if also is not None:
            also(workers)


def survive(store: plasmon.Store, workers: Pool, column: str) -> Survival:
    """Kills the daemon of ``store`` while the workers read."""
    killed = store.status().pid
    workers.tell("read", [column] * len(workers))
    time.sleep(_READING_S)
    start = time.monotonic()
    os.kill(killed, signal.SIGKILL)
    following = killed
    while following == killed:
        if time.monotonic() - start > _NEXT_DAEMON_S:
            raise TimeoutError(f"no daemon came within {_NEXT_DAEMON_S:.0f} seconds")
        following = store.status().pid
    back = time.monotonic()
    store.put(b"after the kill")
    put = time.monotonic()
    time.sleep(_READING_S)
    # The next command ends the reading; its answer follows that of the reading.
    workers.tell("touch", [None] * len(workers))
    found: list[Reads] = workers.answers()
    workers.answers()
    ended = [moment for reads in found for moment in reads.ended]
    return Survival(
        readers=len(workers),
        killed=killed,
        next=following,
        away_s=back - start,
        put_s=put - start,
        reads=len(ended),
        reads_while_away=sum(start <= moment <= back for moment in ended),
        longest_s=max(reads.longest_s for reads in found),
        wrong=sum(reads.wrong for reads in found),
    )
