"""Results with Plasmon's manager are those with Spark's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from submitting import FEW, Spark

CLUSTER = "local-cluster[2,1,1024]"


def test_a_few_jobs_in_two_executors(spark: Spark, expected_few: dict[str, Any]) -> None:
    assert spark.run(CLUSTER, "jobs.py", *FEW).results() == expected_few
    assert not list(spark.scratch.glob("plasmon-spark-*")), "the store's folder is removed"


@pytest.mark.slow
def test_all_jobs_in_two_executors(spark: Spark, expected: dict[str, Any]) -> None:
    assert spark.run(CLUSTER, "jobs.py").results() == expected


@pytest.mark.slow
def test_encrypted_and_compressed(spark: Spark, expected: dict[str, Any]) -> None:
    settings = {"spark_io_encryption_enabled": "true", "spark_plasmon_compress": "true"}
    assert spark.run("local[2]", "jobs.py", **settings).results() == expected


@pytest.mark.slow
def test_kryo(spark: Spark, expected: dict[str, Any]) -> None:
    kryo = "org.apache.spark.serializer.KryoSerializer"
    assert spark.run("local[2]", "jobs.py", spark_serializer=kryo).results() == expected


@pytest.mark.slow
def test_little_memory(spark: Spark, expected: dict[str, Any]) -> None:
    """With hardly any memory for execution every task is refused some, and makes runs earlier."""
    settings = {"spark_memory_fraction": "0.01", "spark_plasmon_run_bytes": "8m"}
    assert spark.run("local[2]", "jobs.py", **settings).results() == expected


@pytest.mark.slow
def test_one_part_of_a_task_gives_its_memory_to_another(
    spark: Spark, expected: dict[str, Any]
) -> None:
    """A join holds two results of groupByKey, and combines them in its own memory."""
    settings = {
        "spark_testing_memory": "2000000",
        "spark_testing_reservedMemory": "0",
        "spark_shuffle_spill_initialMemoryThreshold": "1024",
    }
    finished = spark.run("local[2]", "jobs.py", "java_joins", **settings)
    assert finished.results() == {"java_joins": expected["java_joins"]}
    assert "another part of the task needs the memory" in finished.log


@pytest.mark.slow
def test_checksums_of_rows(spark4: Spark, expected: dict[str, Any]) -> None:
    """Which Spark 4.1 and later compares where an attempt is repeated."""
    settings = {
        "spark_sql_shuffle_orderIndependentChecksum_enabled": "true",
        "spark_sql_shuffle_orderIndependentChecksum_enableFullRetryOnMismatch": "true",
    }
    assert spark4.run("local[2]", "jobs.py", **settings).results() == expected


def spilled(folder: Path) -> tuple[int, int]:
    """What tasks spilled out of memory, and how much of that into local files, in bytes."""
    events = [
        json.loads(line)
        for file in folder.rglob("*")
        if file.is_file()
        for line in file.read_text().splitlines()
        if '"SparkListenerTaskEnd"' in line
    ]
    tasks = [event["Task Metrics"] for event in events]
    return tuple(
        sum(task[f"{what} Bytes Spilled"] for task in tasks) for what in ("Memory", "Disk")
    )


def test_reduce_tasks_spill_into_the_store(
    spark: Spark, tmp_path: Path, expected_few: dict[str, Any]
) -> None:
    """Whose collections may have 500 records and are merged in the end."""
    settings = {
        "spark_eventLog_enabled": "true",
        "spark_eventLog_compress": "false",
        "spark_eventLog_dir": f"file://{tmp_path}",
        "spark_shuffle_spill_numElementsForceSpillThreshold": "500",
    }
    # Joins are left out: they combine once more, in Spark's own collections and files.
    jobs = ["java_objects", "java_groups", "java_sorts"]
    results = spark.run("local[2]", "jobs.py", *jobs, **settings).results()
    assert results == {job: expected_few[job] for job in jobs}
    memory, disk = spilled(tmp_path)
    assert memory > 0
    assert disk == 0
