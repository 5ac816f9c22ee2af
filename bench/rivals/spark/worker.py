"""A Spark application with two executors, whose jobs are timed.

Run as `worker plasmon JAR` or `worker sort`.

The application lives as long as the worker, so that every job but the first finds warm executors.
It is stopped as a whole while another side is measured, hence the long timeouts.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark import SparkContext, TaskContext, __version__
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from bench.rivals.protocol import Answer, serve
from bench.rivals.spark.settings import conf
from bench.rivals.spark.volume import Volume

#: What the stages of a job add up to, by the names of Spark's REST interface.
SUMS = {
    "fetch_wait_ms": "shuffleFetchWaitTime",
    "write_ns": "shuffleWriteTime",
    "written_bytes": "shuffleWriteBytes",
    "spilled_bytes": "diskBytesSpilled",
    "tasks": "numCompleteTasks",
    "run_ms": "executorRunTime",
}
#: The prefix of the driver's settings for its executors.
INTERNAL = "spark.plasmon.internal"
#: What the harness gives all processes of one worker.
MARK = "PLASMON_BENCH_MARK"
#: An executor's program.
EXECUTOR = b"CoarseGrainedExecutorBackend"
#: Parts of a job on rows that an executor is killed in.
MAPS = 16


def keys(spark: SparkSession, rows: int, partitions: int) -> DataFrame:
    """Rows of about 100 bytes with a random key of 10, as TeraSort has them."""
    key = "substr(md5(cast(id as string)), 1, 10) as key"
    return spark.range(0, rows, 1, partitions).selectExpr(
        key, "repeat(md5(cast(id as string)), 3) as payload"
    )


def terasort(spark: SparkSession, rows: int) -> None:
    ordered = keys(spark, rows, 16).repartitionByRange(32, "key").sortWithinPartitions("key")
    ordered.write.format("noop").mode("overwrite").save()


def repartition(spark: SparkSession, rows: int) -> None:
    """Few map tasks with much output each.

    By key, because SQL sorts before it deals out in turn; and with more partitions than Spark's
    manager writes without collecting anything in memory.
    """
    keys(spark, rows, 2).repartition(256, "key").write.format("noop").mode("overwrite").save()


def sort_by_key(spark: SparkSession, rows: int) -> None:
    """Pairs of numbers in an RDD of Java's, sorted by few reduce tasks."""
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    hashes = spark.range(0, rows, 1, 2).selectExpr("xxhash64(id)")._jdf
    numbers = getattr(hashes, "as")(jvm.org.apache.spark.sql.Encoders.LONG())
    numbers.javaRDD().zipWithIndex().sortByKey(True, 2).count()


def exchange(spark: SparkSession, rows: int) -> None:
    """Few map tasks, and many reduce tasks that each read a little of every run."""
    keys(spark, rows, 8).repartition(400, "key").write.format("noop").mode("overwrite").save()


def scatter(spark: SparkSession, rows: int) -> None:
    """Rows of 96 numbers that do not compress, in a shuffle without a sort."""
    words = (f"xxhash64(id, {word}) as word_{word}" for word in range(95))
    made = spark.range(0, rows, 1, 8).selectExpr("id", *words)
    made.repartition(32).write.format("noop").mode("overwrite").save()


def blocks(spark: SparkSession, rows: int, count: int) -> None:
    """As many map tasks as reduce tasks: count x count blocks."""
    spread = spark.range(0, rows, 1, count).repartition(count, f.hash("id"))
    spread.write.format("noop").mode("overwrite").save()


def tpc(spark: SparkSession, rows: int) -> None:
    """Line items, orders and customers: two joins, an aggregation and a sort."""
    items = spark.range(0, rows, 1, 16).selectExpr(
        "id % 450000 as order_id",
        "cast(id % 10007 as double) / 100 as price",
        "md5(cast(id as string)) as note",
    )
    orders = spark.range(0, 450_000, 1, 8).selectExpr("id as order_id", "id % 45000 as customer")
    customers = spark.range(0, 45_000, 1, 4).selectExpr("id as customer", "id % 25 as nation")
    joined = items.join(orders, "order_id").join(customers, "customer").groupBy("nation")
    joined.agg(f.sum("price"), f.max("note")).orderBy("nation").collect()


def group_by_key(spark: SparkSession, rows: int) -> None:
    pairs = spark.sparkContext.parallelize(range(rows), 8).map(lambda n: (n % 1000, n))
    pairs.groupByKey(8).mapValues(len).count()


def kill(spark: SparkSession, rows: int, folder: str) -> int:
    """Kills an executor when all map tasks have finished; how many of them ran again."""

    def mark(what: str) -> bool:
        try:
            Path(folder, what).open("x").close()
        except FileExistsError:
            return False
        return True

    def work(index: int, numbers: Any) -> Any:
        for number in numbers:
            yield number % 100, hash(str(number) * 20)
        mark(f"map-{index}-{TaskContext.get().taskAttemptId()}")

    def die_once(index: int, pairs: Any) -> Any:
        if index == 4 and mark("killed"):
            stat = Path(f"/proc/{os.getppid()}/stat").read_text()
            os.kill(int(stat.rpartition(")")[2].split()[1]), signal.SIGKILL)
            os._exit(1)
        yield from pairs

    made = spark.sparkContext.parallelize(range(rows), MAPS).mapPartitionsWithIndex(work)
    made.groupByKey(8).mapPartitionsWithIndex(die_once).count()
    return len(list(Path(folder).glob("map-*"))) - MAPS


JOBS: dict[str, Callable[..., Any]] = {
    job.__name__: job
    for job in (
        terasort,
        repartition,
        sort_by_key,
        exchange,
        scatter,
        blocks,
        tpc,
        group_by_key,
        kill,
    )
}


def tier_bytes(context: SparkContext) -> dict[str, int]:
    """What the application's own store has written to its spill tier and read from it.

    Executors read sections in the tier's files by themselves, which the store does not count. What
    the kernel counts as read by them is also what they load and hear from the driver: a few MB.
    """
    jvm = context._jvm
    assert jvm is not None
    told = context._jsc.sc().conf()
    words = (told.get(f"{INTERNAL}.socket"), "bench", told.get(f"{INTERNAL}.namespace"))
    store = jvm.org.plasmon.shuffle.NativeStore.connect(*words, 30_000, False)
    figures = store.figures()
    store.close()
    written, restored = figures.spillWrittenBytes(), figures.restoredBytes()
    return {"tier_written_bytes": written, "tier_read_bytes": restored + read_by_executors()}


def read_by_executors() -> int:
    """How many bytes the executors of this application have read, from any source."""
    mark = os.environ.get(MARK, "").encode()
    found = 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes()
            is_ours = EXECUTOR in command and mark in (folder / "environ").read_bytes()
            if is_ours:
                found += int((folder / "io").read_text().split()[1])
        except OSError:
            # It has ended, or is another user's.
            continue
    return found


class Application:
    """One application with one shuffle manager."""

    def __init__(self, manager: str, jar: str = "") -> None:
        self.manager = manager
        self.jar = jar
        self.spark: SparkSession | None = None
        self.directory = Path()
        self.executor_mb = 1024
        #: Whether shuffle files go to a slow volume, and that volume.
        self.is_throttled = False
        self.volume: Volume | None = None
        #: The size of the application's own store; 0: the package chooses.
        self.store_bytes = 0
        self.kills = 0
        #: Jobs that ran before, and whose classes are compiled.
        self.warmed: set[str] = set()

    def op_start(
        self,
        directory: str,
        capacity_bytes: int,
        executor_mb: int = 1024,
        throttled: bool = False,
    ) -> Answer:
        """Only notes the request: an application takes longer to start than the harness waits."""
        self.directory = Path(directory)
        self.executor_mb = executor_mb
        self.is_throttled = throttled
        return {"address": "", "start_ns": 0, "versions": {"spark": __version__}}

    def session(self) -> SparkSession:
        if self.spark is None:
            os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
            os.environ["SPARK_WORKER_DIR"] = str(self.directory / "work")
            local = self.directory
            if self.is_throttled:
                local = self.directory / "volume"
                self.volume = Volume(local)
            os.environ["SPARK_LOCAL_DIRS"] = str(local)
            builder = SparkSession.builder.appName(f"bench {self.manager}")
            for key, value in self._conf().items():
                builder = builder.config(key, value)
            self.spark = builder.getOrCreate()
        return self.spark

    def _conf(self) -> dict[str, str]:
        return conf(self.manager, self.jar, self.executor_mb, self.store_bytes)

    def op_run(self, job: str, store_bytes: int = 0, **parameters: Any) -> Answer:
        """Runs a job; the sample is its wall time, beside it the sums over its stages.

        The size of the store counts when the application is started, with its first job.
        """
        self.store_bytes = store_bytes
        spark = self.session()
        if job == "kill":
            self.kills += 1
            folder = self.directory / f"marks-{self.kills}"
            folder.mkdir()
            parameters["folder"] = str(folder)
        elif job not in self.warmed:
            self.warmed.add(job)
            JOBS[job](spark, **parameters)
        before = self.sums()
        begin = time.perf_counter_ns()
        told = JOBS[job](spark, **parameters)
        taken = time.perf_counter_ns() - begin
        after = self.sums()
        sums = {name: after[name] - before[name] for name in after}
        return {"samples": [taken], "told": told, **sums}

    def sums(self) -> dict[str, int]:
        """What all stages so far add up to, and what the store has moved."""
        context = self.session().sparkContext
        url = f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}/stages"
        with urllib.request.urlopen(url) as answer:
            stages = json.load(answer)
        sums = {name: sum(stage[key] for stage in stages) for name, key in SUMS.items()}
        return sums | (tier_bytes(context) if self.store_bytes and self.jar else {})

    def op_stop(self) -> None:
        # First, because stopping takes a while, and a worker that takes too long is killed: what is
        # still open stays until it is closed.
        if self.volume is not None:
            self.volume.remove()
        if self.spark is not None:
            self.spark.stop()


if __name__ == "__main__":
    serve(Application(*sys.argv[1:]))
