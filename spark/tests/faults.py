"""Applications in which something dies or disappears; each prints lines of JSON.

Run by spark-submit with the name of the fault and a folder, in which finished map tasks leave
files, so that the harness can count them.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark import SparkContext, TaskContext
from pyspark.sql import SparkSession

MAPS = 8
MANY = 40
#: How often something is taken from one application.
TURNS = 4
ROWS = 4_000
#: A shuffle of 21 MB, whose reduce tasks read little of every run.
OVERFLOW_ROWS = 150_000
OVERFLOW_REDUCES = 60


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
    """An RDD whose map tasks leave a file when they are done; one kills its executor, once.

    The second half of them waits while there is a file called ``hold``.
    """

    def run(index: int, rows: Iterator[int]) -> Iterator[tuple[int, int]]:
        if index == dies and mark(folder, "killed"):
            kill_executor()
        while index >= maps // 2 and Path(folder, "hold").exists():
            time.sleep(0.05)
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


def told_to_go_on(folder: str, gate: str = "go-on") -> None:
    """Waits for the harness, which opens the other end; Spark passes no standard input on."""
    Path(folder, gate).read_bytes()


def tell_store(sc: SparkContext) -> None:
    """Tells the harness where the application's outputs are."""
    conf = sc._jsc.sc().conf()
    socket = conf.get("spark.plasmon.internal.socket")
    namespace = conf.get("spark.plasmon.internal.namespace")
    print(json.dumps({"job": "store", "result": [socket, namespace]}), flush=True)


def clean_up(sc: SparkContext, folder: str) -> Any:
    """Spark's cleaner removes a shuffle between two jobs, as when nothing refers to it any more."""
    grouped = mapped(sc, folder).groupByKey(4)
    first = total(grouped)
    tell_store(sc)
    told_to_go_on(folder, "used")
    shuffle, blocking = 0, True
    sc._jsc.sc().cleaner().get().doCleanupShuffle(shuffle, blocking)
    print(json.dumps({"job": "cleaned", "result": shuffle}), flush=True)
    told_to_go_on(folder)
    return first == total(grouped)


def lose_all(sc: SparkContext, folder: str) -> Any:
    """As `lose`, with more outputs than a stage has attempts."""
    return lose(sc, folder, MANY)


def lose(sc: SparkContext, folder: str, maps: int = MAPS) -> Any:
    """The harness takes outputs or the store away, or damages one, between two jobs."""
    grouped = mapped(sc, folder, maps=maps).groupByKey(4)
    first = total(grouped)
    tell_store(sc)
    told_to_go_on(folder)
    second = total(grouped)
    return first == second


def lose_in_turn(sc: SparkContext, folder: str) -> Any:
    """As `lose_all`, as often as the harness takes something away."""
    grouped = mapped(sc, folder, maps=MANY).groupByKey(4)
    first = total(grouped)
    tell_store(sc)
    for _ in range(TURNS):
        told_to_go_on(folder)
        print(json.dumps({"job": "again", "result": total(grouped) == first}), flush=True)
    return "done"


def lose_store(sc: SparkContext, folder: str) -> Any:
    """The harness kills the store again and again, each time between two jobs on one shuffle."""
    grouped = mapped(sc, folder).groupByKey(4)
    first = total(grouped)
    socket = sc._jsc.sc().conf().get("spark.plasmon.internal.socket")
    print(json.dumps({"job": "store", "result": socket}), flush=True)
    while True:
        told_to_go_on(folder)
        try:
            # The shuffle's outputs, and those of another one.
            same = total(grouped) == first and total(mapped(sc, folder).groupByKey(3)) == first
        except Exception as error:
            print(json.dumps({"job": "ended", "result": str(error)}), flush=True)
            raise
        print(json.dumps({"job": "again", "result": same}), flush=True)


def restored(sc: SparkContext, shuffle: int, partitions: int) -> int:
    """How many outputs the driver lists again, as a reader asks for it that misses some."""
    jvm, env = sc._jvm, sc._jsc.sc().env()
    utils = jvm.org.apache.spark.util.RpcUtils
    driver = utils.makeDriverRef("plasmon-surviving-outputs", env.conf(), env.rpcEnv())
    question = sc._gateway.new_array(jvm.int, 2)
    question[0], question[1] = shuffle, partitions
    tags = getattr(getattr(jvm.scala.reflect, "ClassTag$"), "MODULE$")
    return driver.askSync(question, tags.Object())


def drop(sc: SparkContext, folder: str) -> Any:
    """Spark drops all outputs for good, and makes them anew while the harness waits."""
    grouped = mapped(sc, folder).groupByKey(4)
    first = total(grouped)
    tracker = sc._jsc.sc().env().mapOutputTracker()
    tracker.unregisterAllMapAndMergeOutput(0)
    asked = restored(sc, 0, 4)
    left = [asked, tracker.getNumAvailableOutputs(0)]
    mark(folder, "hold")
    print(json.dumps({"job": "dropped", "result": left}), flush=True)
    return first == total(grouped)


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


def overflow(sc: SparkContext, folder: str) -> Any:
    """What a shuffle of four times its store's size moves to files and back, in bytes."""
    jvm, conf = sc._jvm, sc._jsc.sc().conf()
    process = jvm.java.lang.ProcessHandle.current().pid()
    words = ("spark.plasmon.internal.socket", "test", "spark.plasmon.internal.namespace")
    words = [conf.get(word) if "." in word else word for word in words]
    store = jvm.org.plasmon.shuffle.NativeStore.connect(*words, 30_000, False)

    def moved() -> tuple[int, int]:
        # Tasks read in files by themselves; the kernel counts that.
        read = int(Path(f"/proc/{process}/io").read_text().split()[1])
        figures = store.figures()
        return figures.spillWrittenBytes(), figures.restoredBytes() + read

    key = "substr(md5(cast(id as string)), 1, 10) as key"
    made = (
        SparkSession(sc)
        .range(0, OVERFLOW_ROWS, 1, MAPS)
        .selectExpr(key, "repeat(md5(cast(id as string)), 3) as payload")
    )
    shuffled = made.repartition(OVERFLOW_REDUCES, "key")
    # The first time reads classes as well.
    for _ in range(2):
        before = moved()
        shuffled.write.format("noop").mode("overwrite").save()
        after = moved()
    return [now - then for now, then in zip(after, before, strict=True)]


def no_executors(sc: SparkContext, folder: str) -> Any:
    """The error of a job whose executors all fail at their start."""
    try:
        return fill(sc, folder)
    except Exception as error:
        return str(error)


def order(sc: SparkContext, folder: str) -> Any:
    """Lists of values in the order in which a reduce task reads them."""
    rows = sc.parallelize(range(ROWS), MANY).map(lambda row: (row % 5, row))
    lists = rows.groupByKey(3).mapValues(list).collect()
    return [rows.partitionBy(3).map(lambda row: row[1]).collect(), lists]


def elsewhere(sc: SparkContext, folder: str) -> str:
    """The output of an executor whose driver is on another machine."""
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
    for made in (
        kill_in_map,
        kill_in_reduce,
        lose,
        lose_all,
        lose_in_turn,
        lose_store,
        clean_up,
        drop,
        wait,
        fill,
        overflow,
        no_executors,
        order,
        elsewhere,
    )
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
