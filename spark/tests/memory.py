"""Applications that show what the shuffle takes in memory; each prints a line of JSON.

Run by spark-submit with the name of the application and a folder.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from pyspark import SparkContext
from pyspark.sql import SparkSession

#: Bytes of one record, which do not compress.
RECORD = 10_000


def connected(sc: SparkContext) -> Any:
    """A connection to the application's store, in Java."""
    conf = sc._jsc.sc().conf()
    socket, namespace = (conf.get(f"spark.plasmon.internal.{it}") for it in ("socket", "namespace"))
    store = sc._jvm.org.plasmon.shuffle.NativeStore
    return store.connect(socket, "test", namespace, 30_000, False)


def shuffled(sc: SparkContext, records: int) -> Any:
    """An RDD that was shuffled, and what is left of it."""
    rows = sc.parallelize(range(records), 4).map(lambda row: (row % 7, os.urandom(RECORD)))
    made = rows.partitionBy(3)
    assert made.count() == records
    return made


def finished(sc: SparkContext, folder: str) -> Any:
    """Three shuffles that all may be read again, in a store for two; ends when told to."""
    first = shuffled(sc, 1000)
    second = shuffled(sc, 1000)
    third = shuffled(sc, 1600)
    # There is none on a pool, where each node has its own.
    socket = sc._jsc.sc().conf().get("spark.plasmon.internal.socket", "")
    print(json.dumps({"socket": socket}), flush=True)
    while not Path(folder, "go-on").exists():
        time.sleep(0.1)
    # All are read again, wherever they are now.
    return [made.count() for made in (first, second, third)]


def query(session: SparkSession, rows: int) -> None:
    """A query that shuffles; nothing of it can be read again."""
    made = session.range(0, rows, 1, 4).selectExpr("id", "repeat(md5(cast(id as string)), 9) as x")
    made.repartition(5, "id").write.format("noop").mode("overwrite").save()


def queries(sc: SparkContext, folder: str) -> Any:
    """What is left in the store when two queries have filled most of it, and is spilled by then."""
    session = SparkSession(sc)
    store = connected(sc)
    held = []
    for _ in range(2):
        query(session, 40_000)
        held.append(store.figures().usedBytes())
    deadline = time.monotonic() + 60
    while store.figures().usedBytes() > 1.1 * held[0] and time.monotonic() < deadline:
        time.sleep(0.1)
    return [held, store.figures().usedBytes(), store.figures().spillWrittenBytes()]


def fetched(address: str) -> str:
    with urlopen(address, timeout=60) as answer:
        return answer.read().decode()


def shown(sc: SparkContext, folder: str) -> Any:
    """The tab of the UI, and the metrics."""
    kept = shuffled(sc, 300)
    metrics = json.loads(fetched(f"{sc.uiWebUrl}/metrics/json/"))["gauges"]
    ours = {name.partition(".plasmon.")[2]: it["value"] for name, it in metrics.items()}
    pages = [fetched(f"{sc.uiWebUrl}/{page}/") for page in ("plasmon", "jobs")]
    return [pages, {name: value for name, value in ours.items() if name}, kept.count()]


def blocks(sc: SparkContext, folder: str) -> Any:
    """A shuffle of several runs for each task, and one of few records, read whole and in part."""
    whole = shuffled(sc, 300).values().map(len).sum()
    few = sc.parallelize(range(60), 6).map(lambda row: (row % 4, row))
    return [whole, few.groupByKey(9).mapValues(sorted).sortByKey(numPartitions=3).collect()]


APPLICATIONS = {it.__name__: it for it in (finished, queries, shown, blocks)}


def main() -> None:
    """Runs the application that the arguments name."""
    name, folder = sys.argv[1:]
    with SparkContext() as sc:
        result = APPLICATIONS[name](sc, folder)
        print(json.dumps({"job": name, "result": result}), flush=True)


if __name__ == "__main__":
    main()
