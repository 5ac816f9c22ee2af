#!/usr/bin/env python3
"""One job with Spark's own shuffle manager and with Plasmon's: the results, and the times.

Makes a Parquet file of orders and one of customers, then joins and aggregates them twice in two
executors of one machine. Run it with ``make demo-spark``; by itself it needs pyspark in the
interpreter that runs it and the path of the jar.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROWS = 5_000_000
CUSTOMERS = 200_000
#: The first round is cold; the times of the others are reported.
ROUNDS = 4
PACKAGE = "org.apache.spark.shuffle.plasmon"


def submit(jar: Path, plasmon: bool, *arguments: str) -> list[str]:
    """A spark-submit of this file."""
    import pyspark

    home = Path(pyspark.__file__).parent
    conf = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "64",
        # Both tables are shuffled: this shows the shuffle.
        "spark.sql.autoBroadcastJoinThreshold": "-1",
    }
    if plasmon:
        conf |= {
            "spark.shuffle.manager": f"{PACKAGE}.PlasmonShuffleManager",
            "spark.shuffle.sort.io.plugin.class": f"{PACKAGE}.PlasmonShuffleDataIO",
            "spark.driver.extraClassPath": str(jar),
            "spark.executor.extraClassPath": str(jar),
        }
    flags = [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
    program = [str(home / "bin" / "spark-submit"), "--master", "local-cluster[2,1,1536]"]
    return [*program, *flags, __file__, *arguments]


def make(folder: Path) -> None:
    """Writes the two tables. Runs in Spark."""
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.getOrCreate()
    orders = spark.range(0, ROWS, 1, 16).selectExpr(
        "id",
        f"cast(hash(id) % {CUSTOMERS // 2} + {CUSTOMERS // 2} as bigint) as customer",
        "cast(id % 10007 as double) / 100 as price",
        "md5(cast(id as string)) as note",
    )
    orders.write.parquet(str(folder / "orders"))
    customers = spark.range(0, CUSTOMERS, 1, 4).selectExpr(
        "id as customer", "concat('region ', id % 7) as region"
    )
    customers.write.parquet(str(folder / "customers"))
    spark.stop()


def work(folder: Path) -> None:
    """Joins and aggregates, several times. Runs in Spark."""
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as f

    spark = SparkSession.builder.getOrCreate()
    orders, customers = (spark.read.parquet(str(folder / name)) for name in ("orders", "customers"))
    times, rows = [], []
    for _ in range(ROUNDS):
        begin = time.monotonic()
        # A plan of its own: what a plan has shuffled once Spark does not shuffle again.
        joined = orders.join(customers, "customer").groupBy("region")
        result = joined.agg(
            f.count("*").alias("orders"),
            f.round(f.sum("price"), 2).alias("turnover"),
            f.max("note").alias("note"),
        ).orderBy("region")
        rows = [row.asDict() for row in result.collect()]
        times.append(time.monotonic() - begin)
    spark.stop()
    print(json.dumps({"rows": rows, "seconds": times}))


def run(command: list[str]) -> str:
    """The output of a command; its log is shown if it fails."""
    environment = os.environ | {
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    environment.pop("SPARK_HOME", None)
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode != 0:
        sys.exit(f"{command[0]} failed:\n{done.stderr[-4000:]}")
    return done.stdout


def compare(jar: Path) -> None:
    """Runs everything and prints both sides."""
    # Executors run in other folders, and start again forever when they do not find it.
    jar = jar.resolve()
    with tempfile.TemporaryDirectory(prefix="plasmon-demo-") as scratch:
        folder = Path(scratch)
        print(f"writing {ROWS:,} orders and {CUSTOMERS:,} customers as Parquet ...", flush=True)
        run(submit(jar, False, "make", scratch))
        answers = {}
        for name, plasmon in (("Spark's own manager", False), ("Plasmon's manager", True)):
            print(f"joining and aggregating them with {name} ...", flush=True)
            lines = run(submit(jar, plasmon, "work", str(folder))).splitlines()
            answers[name] = json.loads(lines[-1])
    for name, answer in answers.items():
        print(
            f"\n{name}: the first time {answer['seconds'][0]:.2f} s, then "
            + ", ".join(f"{one:.2f}" for one in answer["seconds"][1:])
            + " s"
        )
        for row in answer["rows"]:
            print(
                "  "
                + "  ".join(
                    f"{value:>12}" if not isinstance(value, str) else value
                    for value in row.values()
                )
            )
    first, second = (answer["rows"] for answer in answers.values())
    print("\nthe results are the same" if first == second else "\nTHE RESULTS DIFFER")
    if first != second:
        sys.exit(1)


def main() -> None:
    """Is the demonstration, and what it submits."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["make", "work", "compare"])
    parser.add_argument("path", type=Path, help="the jar, or the folder of the tables")
    arguments = parser.parse_args()
    {"make": make, "work": work, "compare": compare}[arguments.what](arguments.path)


if __name__ == "__main__":
    main()
