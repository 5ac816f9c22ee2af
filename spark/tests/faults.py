"""Applications in which something dies or disappears; each prints lines of JSON.

Run by spark-submit with the name of the fault and a folder, in which finished map tasks leave
files, so that the harness can count them.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark import SparkContext, TaskContext

MAPS = 8
MANY = 40
ROWS = 4_000


def executor_pid() -> int:
    """The executor's process: the parent of the daemon that forked this worker."""
    daemon = os.getppid()
    return int(Path(f"/proc/{daemon}/stat").read_text().rpartition(")")[2].split()[1])


def kill_executor() -> None:
    """Kills this worker's executor, and the worker, which would work on for a while."""
    os.kill(executor_pid(), signal.SIGKILL)
    os._exit(1)


def mark(folder: str, what: str) -> bool:
    """Leaves a file; whether it is the first of this name."""
    try:
        Path(folder, what).open("x").close()
    except FileExistsError:
        return False
    return True


def mapped(sc: SparkContext, folder: str, dies: int | None = None, maps: int = MAPS) -> Any:
    """An RDD whose map tasks leave a file when they are done; one kills its executor, once."""

    def run(index: int, rows: Iterator[int]) -> Iterator[tuple[int, int]]:
        if index == dies and mark(folder, "killed"):
            kill_executor()
        yield from ((row % 50, row) for row in rows)
        mark(folder, f"map-{index}-{TaskContext.get().taskAttemptId()}")

    return sc.parallelize(range(ROWS), maps).mapPartitionsWithIndex(run)


def total(rows: Any) -> list[tuple[int, int]]:
    return sorted(rows.mapValues(sum).collect())


def kill_in_map(sc: SparkContext, folder: str) -> Any:
    """The executor of one map task dies while others have finished."""
    return total(mapped(sc, folder, dies=5).groupByKey(4))


def kill_in_reduce(sc: SparkContext, folder: str) -> Any:
    """An executor dies when all map tasks have finished."""

    def run(index: int, rows: Iterator[Any]) -> Iterator[Any]:
        if index == 3 and mark(folder, "killed"):
            kill_executor()
        yield from rows

    grouped = mapped(sc, folder).groupByKey(4)
    return total(grouped.mapPartitionsWithIndex(run, preservesPartitioning=True))


def told_to_go_on(folder: str) -> None:
    """Waits for the harness, which opens the other end; Spark passes no standard input on."""
    Path(folder, "go-on").read_bytes()


def lose_all(sc: SparkContext, folder: str) -> Any:
    """As `lose`, with more outputs than a stage has attempts."""
    return lose(sc, folder, MANY)


def lose(sc: SparkContext, folder: str, maps: int = MAPS) -> Any:
    """The harness takes outputs or the store away, or damages one, between two jobs."""
    grouped = mapped(sc, folder, maps=maps).groupByKey(4)
    first = total(grouped)
    conf = sc._jsc.sc().conf()
    socket = conf.get("spark.plasmon.internal.socket")
    namespace = conf.get("spark.plasmon.internal.namespace")
    print(json.dumps({"job": "store", "result": [socket, namespace]}), flush=True)
    told_to_go_on(folder)
    second = total(grouped)
    return first == second


def wait(sc: SparkContext, folder: str) -> Any:
    """The driver waits to be killed, with its store in use by two executors."""
    mapped(sc, folder).groupByKey(4).count()
    socket = sc._jsc.sc().conf().get("spark.plasmon.internal.socket")
    pid = sc._jvm.java.lang.ProcessHandle.current().pid()
    print(json.dumps({"job": "running", "result": [socket, pid]}), flush=True)
    told_to_go_on(folder)


def fill(sc: SparkContext, folder: str) -> Any:
    """A shuffle of 60 MB, whose rows do not compress."""
    rows = sc.parallelize(range(600), 6).map(lambda row: (row % 10, os.urandom(100_000)))
    return rows.groupByKey(3).mapValues(lambda it: sum(map(len, it))).values().sum()


def order(sc: SparkContext, folder: str) -> Any:
    """Lists of values in the order in which a reduce task reads them."""
    rows = sc.parallelize(range(ROWS), MANY).map(lambda row: (row % 5, row))
    lists = rows.groupByKey(3).mapValues(list).collect()
    return [rows.partitionBy(3).map(lambda row: row[1]).collect(), lists]


def elsewhere(sc: SparkContext, folder: str) -> str:
    """What an executor says that is told of a driver on another machine."""
    conf = sc._jsc.sc().conf().clone()
    conf.set("spark.plasmon.internal.machine", "another")
    package = sc._jvm.org.apache.spark.shuffle.plasmon
    try:
        package.PlasmonShuffleManager(conf, False)
    except Exception as error:
        return str(error)
    return "it was taken"


FAULTS = {
    made.__name__: made
    for made in (kill_in_map, kill_in_reduce, lose, lose_all, wait, fill, order, elsewhere)
}


def main() -> None:
    """Runs the fault that the arguments name."""
    name, folder = sys.argv[1:]
    with SparkContext() as sc:
        sc.setLogLevel("WARN")
        result = FAULTS[name](sc, folder)
        print(json.dumps({"job": name, "result": result}), flush=True)


if __name__ == "__main__":
    main()
