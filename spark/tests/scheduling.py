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
from pyspark.sql import SparkSession

#: For how long to wait for what Spark does in its own time, in seconds.
TIMEOUT_S = 120.0


def executors(sc: SparkContext) -> int:
    """How many executors there are; the driver is counted by Spark as well."""
    return sc._jsc.sc().getExecutorMemoryStatus().size() - 1


def idle(sc: SparkContext, folder: str) -> Any:
    """All executors are released between two jobs on one shuffle."""
    grouped = mapped(sc, folder).groupByKey(4)
    first = total(grouped)
    deadline = time.monotonic() + TIMEOUT_S
    while executors(sc) > 0 and time.monotonic() < deadline:
        time.sleep(0.1)
    return [executors(sc), total(grouped) == first]


def decommission(sc: SparkContext, folder: str) -> Any:
    """All executors are decommissioned between two jobs on one shuffle, and others come."""
    jvm = sc._jvm
    assert jvm is not None
    grouped = mapped(sc, folder).groupByKey(4)
    first = total(grouped)
    backend = sc._jsc.sc().schedulerBackend()
    leaving = ("0", "1")
    for executor in leaving:
        info = jvm.org.apache.spark.scheduler.ExecutorDecommissionInfo("", jvm.scala.Option.empty())
        assert backend.decommissionExecutor(executor, info, False, False)
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        staying = backend.getExecutorIds().mkString(",").split(",")
        if not set(leaving) & set(staying):
            break
        time.sleep(0.1)
    return [sorted(set(leaving) & set(staying)), total(grouped) == first]


def speculate(sc: SparkContext, folder: str) -> Any:
    """One map task is so slow that Spark starts a second attempt, on the other host."""

    def run(index: int, rows: Iterator[int]) -> Iterator[tuple[int, int]]:
        yield from ((row % 50, row) for row in rows)
        deadline = time.monotonic() + TIMEOUT_S
        if index == 3 and mark(folder, "slow"):
            # Both attempts write; the first one ends when the second has.
            while not list(Path(folder).glob("map-3-*")) and time.monotonic() < deadline:
                time.sleep(0.05)
        mark(folder, f"map-{index}-{TaskContext.get().taskAttemptId()}")

    rows = sc.parallelize(range(4_000), MAPS)
    return total(rows.mapPartitionsWithIndex(run).groupByKey(4))


def twins(sc: SparkContext, folder: str) -> Any:
    """As `speculate`, but the slow attempt ends so soon after the other that both commit."""

    def run(index: int, rows: Iterator[int]) -> Iterator[tuple[int, int]]:
        yield from ((row % 50, row) for row in rows)
        deadline = time.monotonic() + TIMEOUT_S
        if index == 3 and mark(folder, "slow"):
            while not list(Path(folder).glob("map-3-*")) and time.monotonic() < deadline:
                time.sleep(0.0005)
        mark(folder, f"map-{index}-{TaskContext.get().taskAttemptId()}")

    grouped = sc.parallelize(range(4_000), MAPS).mapPartitionsWithIndex(run).groupByKey(4)
    sums = total(grouped)
    socket = sc._jsc.sc().conf().get("spark.plasmon.internal.socket")
    print(json.dumps({"job": "store", "result": socket}), flush=True)
    told_to_go_on(folder)
    return sums


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


def checksums(sc: SparkContext, folder: str) -> Any:
    """The checksums of Spark 4.1 and later for the rows of each map task, in any order."""
    session = SparkSession(sc)
    rows = session.range(0, 20_000, 1, MAPS).selectExpr("id % 97 as key", "id", "repeat('z', 9)")
    keyed = rows.repartition(5, "key")
    found = [keyed.count()]
    # By hand, because Py4J looks at all methods, and not all of their classes are there.
    gateway, jvm = sc._gateway, sc._jvm
    assert gateway is not None
    assert jvm is not None
    named = jvm.java.lang.Class.forName
    field = named("org.apache.spark.SparkEnv").getDeclaredField("mapOutputTracker")
    field.setAccessible(True)
    tracker = field.get(sc._jsc.sc().env())
    method = named("org.apache.spark.MapOutputTrackerMaster").getMethod(
        "shuffleStatuses", gateway.new_array(jvm.java.lang.Class, 0)
    )
    shuffles = method.invoke(tracker, gateway.new_array(jvm.java.lang.Object, 0))
    statuses = shuffles.apply(0).mapStatuses()
    return found + [str(status.checksumValue()) for status in statuses]


APPLICATIONS = {
    made.__name__: made for made in (idle, decommission, speculate, twins, indeterminate, checksums)
}


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
