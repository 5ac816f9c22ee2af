"""The jobs of the demo. Each returns a result that does not depend on the shuffle manager.

Functions that run in executors are nested, so that executors need no module of this package.
"""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from pyspark import TaskContext
from pyspark.sql import SparkSession

from scripts.demo_spark.marks import KILLED, KILLED_WITHIN_S, MAP, REDUCE

#: Parts of the job in which processes are killed.
MAPS, REDUCES = 16, 9


def blocks(spark: SparkSession, rows: int, count: int) -> list[Any]:
    """As many map tasks as reduce tasks, so count x count blocks of a few bytes."""
    spread = spark.range(0, rows, 1, count).repartition(count, "id")
    return _digest(spread, "id")


def spill(spark: SparkSession, rows: int) -> list[Any]:
    """Two map tasks whose output is more than the memory that an executor has for it."""
    made = spark.range(0, rows, 1, 2).selectExpr(
        "substr(md5(cast(id as string)), 1, 10) as key",
        "repeat(md5(cast(id as string)), 3) as payload",
    )
    return _digest(made.repartition(256, "key"), "key, payload")


def _digest(frame: Any, columns: str) -> list[Any]:
    """The number of rows, and an order-independent digest of their contents."""
    found = frame.selectExpr("count(*)", f"bit_xor(xxhash64({columns}))").collect()
    return list(found[0])


def groups(spark: SparkSession, rows: int, folder: str) -> list[Any]:
    """Groups pairs by key; reduce tasks wait until a process was killed, if there is a folder."""

    def leave(what: str) -> None:
        if folder:
            Path(folder, what).touch()

    def work(index: int, numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
        for number in numbers:
            yield number % 100, zlib.crc32(str(number).encode())
        leave(f"{MAP}{index}-{TaskContext.get().taskAttemptId()}")

    def read(index: int, pairs: Iterable[Any]) -> Iterator[Any]:
        # The parent of this process belongs to Python, and that one's parent is the executor.
        stat = Path(f"/proc/{os.getppid()}/stat").read_text()
        leave(f"{REDUCE}{index}-{int(stat.rpartition(')')[2].split()[1])}")
        end = time.monotonic() + KILLED_WITHIN_S
        while folder and not Path(folder, KILLED).exists() and time.monotonic() < end:
            time.sleep(0.01)
        yield from pairs

    made = spark.sparkContext.parallelize(range(rows), MAPS).mapPartitionsWithIndex(work)
    summed = made.groupByKey(REDUCES).mapPartitionsWithIndex(read).mapValues(sum)
    return [list(pair) for pair in sorted(summed.collect())]


JOBS: dict[str, Callable[..., list[Any]]] = {"blocks": blocks, "spill": spill, "groups": groups}
