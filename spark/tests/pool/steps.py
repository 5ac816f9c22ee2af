"""An application that waits where the harness says; each line that it prints is JSON.

Run by spark-submit with a folder, and with how many bytes each row has beside. A step is a file in
the folder: tasks and driver wait at a step while there is a file ``hold-STEP``, until there is one
called ``STEP``. Finished map tasks leave a file with their machine in its name.

The driver prints how many tasks have ended, each time when it has changed.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark import SparkContext, TaskContext

ROWS = 4_000
MAPS = 9
#: The last map tasks, one for each machine, which wait at the step "maps".
HELD = 3
REDUCES = 6
#: For how long a step may last, in seconds.
TIMEOUT_S = 300.0


def wait_at(folder: str, step: str) -> None:
    """Waits at a step, if the harness wants that."""
    if not Path(folder, f"hold-{step}").exists():
        return
    deadline = time.monotonic() + TIMEOUT_S
    while not Path(folder, step).exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"the harness does not go on from the step {step}")
        time.sleep(0.02)


def leave(folder: str, what: str, index: int) -> None:
    """Leaves a file that says which attempt at a task has come so far, and on which machine."""
    attempt = TaskContext.get().taskAttemptId()
    Path(folder, f"{what}-{index}-{attempt}-{os.environ['SPARK_LOCAL_IP']}").touch()


def mapped(sc: SparkContext, folder: str, row_bytes: int) -> Any:
    """Pairs of a key and a number with some bytes that do not compress."""

    def run(index: int, rows: Iterator[int]) -> Iterator[tuple[int, tuple[int, bytes]]]:
        if index >= MAPS - HELD:
            wait_at(folder, "maps")
        yield from ((row % 50, (row, os.urandom(row_bytes))) for row in rows)
        leave(folder, "map", index)

    return sc.parallelize(range(ROWS), MAPS).mapPartitionsWithIndex(run)


def held(folder: str, index: int, rows: Iterator[Any]) -> Iterator[Any]:
    """A reduce task that waits when it has begun to read."""
    first = next(rows)
    leave(folder, "reduce", index)
    wait_at(folder, "reduces")
    yield first
    yield from rows


def total(grouped: Any) -> list[tuple[int, int]]:
    """The sum of the numbers of each key."""
    return sorted(grouped.mapValues(lambda rows: sum(row for row, _ in rows)).collect())


def say(job: str, result: Any) -> None:
    """Tells the harness something."""
    print(json.dumps({"job": job, "result": result}), flush=True)


def count_tasks(sc: SparkContext) -> None:
    """Tells how many tasks of all stages have ended, again and again."""
    seen: dict[int, int] = {}
    tracker, said = sc.statusTracker(), 0
    while True:
        for stage in tracker.getActiveStageIds():
            info = tracker.getStageInfo(stage)
            seen[stage] = max(seen.get(stage, 0), info.numCompletedTasks if info else 0)
        if sum(seen.values()) != said:
            said = sum(seen.values())
            say("tasks", said)
        time.sleep(0.05)


def main() -> None:
    """Two jobs on one shuffle."""
    folder, row_bytes = sys.argv[1], int(sys.argv[2])
    with SparkContext() as sc:
        sc.setLogLevel("WARN")
        say("driver", sc._jvm.java.lang.ProcessHandle.current().pid())
        threading.Thread(target=count_tasks, args=(sc,), daemon=True).start()
        grouped = mapped(sc, folder, row_bytes).groupByKey(REDUCES)
        running = grouped.mapPartitionsWithIndex(
            lambda index, rows: held(folder, index, rows), preservesPartitioning=True
        )
        say("first", total(running))
        wait_at(folder, "between")
        say("second", total(grouped))


if __name__ == "__main__":
    main()
