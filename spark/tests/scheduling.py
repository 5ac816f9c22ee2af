"""Applications whose tasks Spark schedules in unusual ways; each prints lines of JSON.

Run by spark-submit with the name of one and a folder for marks, see faults.py.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from faults import MAPS, mapped, mark, told_to_go_on, total
from pyspark import SparkContext, TaskContext

#: For how long to wait for what Spark does in its own time, in seconds.
PATIENCE_S = 120.0


def executors(sc: SparkContext) -> int:
    """How many executors there are; the driver is counted by Spark as well."""
    return sc._jsc.sc().getExecutorMemoryStatus().size() - 1


def idle(sc: SparkContext, folder: str) -> Any:
    """All executors are released between two jobs on one shuffle."""
    grouped = mapped(sc, folder).groupByKey(4)
    first = total(grouped)
    deadline = time.monotonic() + PATIENCE_S
    while executors(sc) > 0 and time.monotonic() < deadline:
        time.sleep(0.1)
    return [executors(sc), total(grouped) == first]


def speculate(sc: SparkContext, folder: str) -> Any:
    """One map task is so slow that Spark starts a second attempt, on the other host."""

    def run(index: int, rows: Iterator[int]) -> Iterator[tuple[int, int]]:
        yield from ((row % 50, row) for row in rows)
        deadline = time.monotonic() + PATIENCE_S
        if index == 3 and mark(folder, "slow"):
            # Both attempts write; the first one ends when the second has.
            while not list(Path(folder).glob("map-3-*")) and time.monotonic() < deadline:
                time.sleep(0.05)
        mark(folder, f"map-{index}-{TaskContext.get().taskAttemptId()}")

    rows = sc.parallelize(range(4_000), MAPS)
    return total(rows.mapPartitionsWithIndex(run).groupByKey(4))


def indeterminate(sc: SparkContext, folder: str) -> Any:
    """An output is lost whose map task may give its rows in another order the next time."""

    def run(index: int, rows: Iterator[Any]) -> Iterator[Any]:
        yield from rows
        mark(folder, f"again-{index}-{TaskContext.get().taskAttemptId()}")

    grouped = mapped(sc, folder).groupByKey(4)
    spread = grouped.mapPartitionsWithIndex(run).repartition(5).mapValues(sum)
    first = total(spread.groupByKey(3))
    conf = sc._jsc.sc().conf()
    named = [conf.get(f"spark.plasmon.internal.{what}") for what in ("socket", "namespace")]
    print(json.dumps({"job": "store", "result": named}), flush=True)
    told_to_go_on(folder)
    # Its map tasks read what was lost.
    return total(spread.groupByKey(2)) == first


APPLICATIONS = {made.__name__: made for made in (idle, speculate, indeterminate)}


def main() -> None:
    """Runs the application that the arguments name."""
    name, folder = sys.argv[1:]
    with SparkContext() as sc:
        sc.setLogLevel("WARN")
        # Functions of that file run in tasks.
        sc.addPyFile(str(Path(__file__).with_name("faults.py")))
        result = APPLICATIONS[name](sc, folder)
        print(json.dumps({"job": name, "result": result}), flush=True)


if __name__ == "__main__":
    main()
