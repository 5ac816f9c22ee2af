"""The jobs that are timed, the same for both shuffle managers."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark import TaskContext
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as f

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


def tpch(spark: SparkSession, sql: str, tables: str) -> list[Row]:
    """A query over the tables in a folder."""
    for file in Path(tables).glob("*.parquet"):
        if not spark.catalog.tableExists(file.stem):
            spark.read.parquet(str(file)).createOrReplaceTempView(file.stem)
    rows: list[Row] = spark.sql(sql).collect()
    return rows


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
        tpch,
    )
}
