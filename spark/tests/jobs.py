"""Jobs whose results do not depend on the shuffle manager; each prints one line of JSON.

Run by spark-submit. The harness runs them with Spark's own manager and with Plasmon's, and compares
the lines.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Callable
from operator import add
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql.window import Window

#: Rows of the RDD jobs: enough for several runs with a run size of 64 KiB.
RDD_ROWS = 40_000


def digest(rows: list[Any]) -> str:
    """A fingerprint of rows in any order."""
    return hashlib.sha256("\n".join(sorted(map(str, rows))).encode()).hexdigest()


def pairs(sc: SparkContext) -> Any:
    """An RDD of (key, text) pairs with skewed keys, in 5 partitions."""
    return sc.parallelize(range(RDD_ROWS), 5).map(lambda n: ((n * n) % 211, f"value {n}"))


def reduce_by_key(spark: SparkSession) -> Any:
    return sorted(pairs(spark.sparkContext).mapValues(len).reduceByKey(add, 7).collect())


def group_by_key(spark: SparkSession) -> Any:
    grouped = pairs(spark.sparkContext).groupByKey(3).mapValues(lambda found: digest(list(found)))
    return sorted(grouped.collect())


def sort_by_key(spark: SparkSession) -> Any:
    return digest(pairs(spark.sparkContext).sortByKey(numPartitions=6).glom().map(len).collect())


def join_and_cogroup(spark: SparkSession) -> Any:
    sc = spark.sparkContext
    left = pairs(sc).filter(lambda pair: pair[0] % 7 == 0)
    right = sc.parallelize([(n, -n) for n in range(0, 211, 3)], 2)
    joined = digest(left.join(right, 4).collect())
    both = left.cogroup(right, 4).mapValues(lambda sides: [len(list(side)) for side in sides])
    return [joined, sorted(both.collect())]


def custom_partitioner(spark: SparkSession) -> Any:
    parts = pairs(spark.sparkContext).partitionBy(9, lambda key: (key * 31) % 9)
    return parts.glom().map(lambda rows: digest(rows)).collect()


def stops_early(spark: SparkSession) -> Any:
    """Python looks at one record and is done, while a thread of Spark's reads on."""
    parts = pairs(spark.sparkContext).partitionBy(9)
    return parts.mapPartitions(lambda rows: [next(iter(rows), None) is not None]).collect()


def many_partitions(spark: SparkSession) -> Any:
    """More partitions than rows in a map task: most blocks are empty."""
    return digest(pairs(spark.sparkContext).repartition(120).collect())


def java_objects(spark: SparkSession) -> Any:
    """An RDD of Java's, combined before the shuffle and serialised by Java or Kryo."""
    frame = spark.range(0, 20_000, 1, 4).selectExpr("cast(id % 500 as string) as key")
    java = frame._jdf.toJavaRDD()
    return [java.distinct(3).count(), java.repartition(5).distinct().count()]


def java_pairs(spark: SparkSession) -> Any:
    """Pairs of two numbers in an RDD of Java's, each key three times, in 12 partitions."""
    numbers = spark.sparkContext._jsc.sc().range(0, 6_000, 1, 4).toJavaRDD()
    once = numbers.zipWithIndex()
    return once.union(once).union(once)


def listed(java: Any) -> str:
    """A fingerprint of Java's records, in any order of the values of one key."""
    found = re.findall(r"\((\d+),(?:CompactBuffer)?\(*([\d, ]*)", java.collect().toString())
    return digest([(key, sorted(values.split(", "))) for key, values in found])


def java_groups(spark: SparkSession) -> Any:
    """Combined by reduce tasks alone."""
    return listed(java_pairs(spark).groupByKey(3))


def java_joins(spark: SparkSession) -> Any:
    """One task reads two shuffles, or one of them twice."""
    groups = java_pairs(spark).groupByKey(3)
    return [groups.join(groups).count(), java_pairs(spark).cogroup(groups).count()]


def java_sorts(spark: SparkSession) -> Any:
    """Sorted by reduce tasks, from first to last and from last to first."""
    pairs = java_pairs(spark)
    sort = [pairs.sortByKey(up, 4).keys().collect().toString() for up in (True, False)]
    hashed = spark.sparkContext._jvm.org.apache.spark.HashPartitioner(3)
    within = pairs.repartitionAndSortWithinPartitions(hashed).keys().collect().toString()
    return [hashlib.sha256(text.encode()).hexdigest() for text in (*sort, within)]


def own_serializer(spark: SparkSession) -> Any:
    """A shuffle whose serializer is not the application's."""
    sc = spark.sparkContext
    jvm, conf = sc._jvm, sc._jsc.sc().conf()
    assert jvm is not None
    anything = jvm.scala.reflect.ClassTag.AnyRef()
    partitioner = jvm.org.apache.spark.HashPartitioner(5)
    made = []
    for serializer in (
        jvm.org.apache.spark.serializer.KryoSerializer(conf),
        jvm.org.apache.spark.serializer.JavaSerializer(conf),
    ):
        shuffled = jvm.org.apache.spark.rdd.ShuffledRDD(
            java_pairs(spark).rdd(), partitioner, anything, anything, anything
        ).setSerializer(serializer)
        made.append(listed(shuffled.toJavaRDD()))
    return made


def large_records(spark: SparkSession) -> Any:
    """Records that are each larger than a run."""
    sc = spark.sparkContext
    made = sc.parallelize(range(6), 2).map(lambda n: (n % 3, bytes([n]) * 700_000))
    return sorted(made.groupByKey(2).mapValues(lambda it: sum(map(len, it))).collect())


def frames(spark: SparkSession) -> tuple[Any, Any]:
    orders = spark.range(0, 60_000, 1, 6).selectExpr(
        "id",
        "id % 1013 as customer",
        "cast(id % 97 as double) / 7 as price",
        "repeat('x', cast(id % 50 as int)) as note",
    )
    customers = spark.range(0, 1_100, 1, 2).selectExpr("id as customer", "id % 9 as region")
    return orders, customers


def joins_and_aggregates(spark: SparkSession) -> Any:
    orders, customers = frames(spark)
    joined = orders.join(customers, "customer").groupBy("region")
    result = joined.agg(f.count("*"), f.sum("id"), f.max("note"), f.countDistinct("customer"))
    outer = customers.join(orders, "customer", "left_anti").count()
    return [[list(row) for row in result.orderBy("region").collect()], outer]


def windows(spark: SparkSession) -> Any:
    orders, _ = frames(spark)
    window = Window.partitionBy("customer").orderBy("id")
    ranked = orders.withColumn("rank", f.row_number().over(window))
    counted = ranked.groupBy("rank").count().orderBy("rank")
    return [list(row) for row in counted.collect()]


def repartition(spark: SparkSession) -> Any:
    orders, _ = frames(spark)
    ranged = orders.repartitionByRange(8, "price").sortWithinPartitions("id")
    return digest(ranged.select("id", "note").collect())


def skew(spark: SparkSession) -> Any:
    """Nearly all rows have one key, so that AQE splits its partition by ranges of map tasks."""
    rows = spark.range(0, 80_000, 1, 8).selectExpr(
        "case when id % 20 = 0 then id % 400 else 7 end as key", "id", "repeat('y', 40) as pad"
    )
    few = spark.range(0, 400, 1, 2).selectExpr("id as key", "id * 3 as three")
    joined = rows.join(few.hint("merge"), "key").groupBy("three")
    return digest(joined.agg(f.count("*"), f.sum("id"), f.max("pad")).collect())


def beside_cached(spark: SparkSession) -> Any:
    """Tasks that read a shuffle and tasks that have a place to run, in one stage."""
    cached = spark.range(0, 3, 1, 1).cache()
    kept = cached.count()
    groups = spark.range(0, 500, 1, 2).groupBy("id").count().select("id")
    return [kept, cached.union(groups).count()]


JOBS: list[Callable[[SparkSession], Any]] = [
    reduce_by_key,
    group_by_key,
    sort_by_key,
    join_and_cogroup,
    custom_partitioner,
    stops_early,
    many_partitions,
    java_objects,
    java_groups,
    java_joins,
    java_sorts,
    own_serializer,
    large_records,
    joins_and_aggregates,
    windows,
    repartition,
    skew,
    beside_cached,
]


def main() -> None:
    """Runs the jobs that the arguments name, or all."""
    spark = SparkSession.builder.getOrCreate()
    wanted = set(sys.argv[1:])
    for job in JOBS:
        if not wanted or job.__name__ in wanted:
            print(json.dumps({"job": job.__name__, "result": job(spark)}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
