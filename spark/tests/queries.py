"""What SQL makes of the shuffle: adaptive execution and streams; each prints lines of JSON.

Run by spark-submit with a folder for the files of the stream.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

#: Files of the stream, each a micro-batch, and the rows of each.
FILES, ROWS = 4, 500


def final_plan(frame: Any) -> str:
    """The final plan as text; adaptive execution has it afterwards."""
    frame.collect()
    return str(frame._jdf.queryExecution().executedPlan().toString())


def coalesced(spark: SparkSession) -> Any:
    """Small partitions are read together."""
    rows = spark.range(0, 5_000, 1, 4).selectExpr("id % 10 as key", "id")
    result = rows.groupBy("key").agg(f.sum("id"))
    plan = final_plan(result)
    return ["AQEShuffleRead coalesced" in plan, sorted(map(list, result.collect()))]


def planned(spark: SparkSession) -> Any:
    """Records that compress well are few partitions, because their compressed sizes count."""
    rows = spark.range(0, 10_000, 1, 4).selectExpr("id % 50 as key", "repeat('y', 1000) as pad")
    read = rows.repartition("key").select(f.spark_partition_id(), f.length("pad"))
    return sorted({partition for partition, _ in read.collect()})


def split(spark: SparkSession) -> Any:
    """A large partition is read by several tasks, each from a range of map tasks."""
    rows = spark.range(0, 80_000, 1, 8).selectExpr(
        "case when id % 20 = 0 then id % 400 else 7 end as key", "id", "repeat('y', 40) as pad"
    )
    few = spark.range(0, 400, 1, 2).selectExpr("id as key", "id * 3 as three")
    joined = rows.join(few.hint("merge"), "key").select("three", "id", "pad")
    counted = joined.agg(f.count("*"), f.sum("id"), f.sum("three"), f.max("pad"))
    return ["skewed" in final_plan(counted), list(counted.collect()[0])]


def local(spark: SparkSession) -> Any:
    """A join that turns out to be small becomes a broadcast, and its shuffle is read by map."""
    spark.conf.set("spark.sql.adaptive.autoBroadcastJoinThreshold", "1m")
    rows = spark.range(0, 20_000, 1, 4).selectExpr("id % 997 as key", "id")
    few = spark.range(0, 997, 1, 2).filter("id % 100 = 3").selectExpr("id as key", "id * 2 as two")
    joined = rows.join(few, "key")
    plan = final_plan(joined)
    spark.conf.unset("spark.sql.adaptive.autoBroadcastJoinThreshold")
    total = joined.agg(f.count("*"), f.sum("two")).collect()[0]
    return ["AQEShuffleRead local" in plan and "BroadcastHashJoin" in plan, list(total)]


def stream(spark: SparkSession, folder: Path) -> Any:
    """A stream that aggregates, in micro-batches of one file each."""
    source = folder / "source"
    source.mkdir(parents=True)
    for file in range(FILES):
        rows = [{"key": n % 7, "n": file * ROWS + n} for n in range(ROWS)]
        text = "\n".join(map(json.dumps, rows))
        (source / f"{file}.json").write_text(text)
    read = spark.readStream.schema("key int, n long").option("maxFilesPerTrigger", 1)
    sums = read.json(str(source)).groupBy("key").agg(f.sum("n"), f.count("*"))
    writer = sums.writeStream.format("memory").queryName("sums").outputMode("complete")
    query = writer.option("checkpointLocation", str(folder / "state")).trigger(availableNow=True)
    running = query.start()
    running.awaitTermination()
    batches = sum(progress["numInputRows"] > 0 for progress in running.recentProgress)
    return [batches, sorted(map(list, spark.table("sums").collect()))]


def main() -> None:
    """Runs everything."""
    spark = SparkSession.builder.getOrCreate()
    for job in (coalesced, planned, split, local):
        print(json.dumps({"job": job.__name__, "result": job(spark)}), flush=True)
    result = stream(spark, Path(sys.argv[1]))
    print(json.dumps({"job": "stream", "result": result}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
