"""Results on a pool of three machines are those with Spark's own manager on one."""

from __future__ import annotations

from typing import Any

import pytest
from machines import pool_spark
from submitting import FEW
from table import row


@pytest.mark.slow
@pytest.mark.parametrize("copies", [1, 2])
def test_all_jobs(line: str, copies: int, expected: dict[str, Any]) -> None:
    with pool_spark(line) as spark, row("all jobs", line, copies) as made:
        settings = {"spark_plasmon_copies": str(copies)}
        outcome = spark.run(spark.cluster.master, "jobs.py", **settings)
        made.account = spark.account()
        assert outcome.results() == expected
        assert (made.account.reruns, made.account.failed_stages) == (0, 0)
        spark.until_gone()


@pytest.mark.slow
def test_a_few_jobs_that_do_not_wait_for_second_copies(
    line: str, expected_few: dict[str, Any]
) -> None:
    with pool_spark(line) as spark, row("jobs, ack=async", line, 2) as made:
        settings = {"spark_plasmon_ack": "async", "spark_plasmon_pool": "@few"}
        outcome = spark.run(spark.cluster.master, "jobs.py", *FEW, **settings)
        made.account = spark.account()
        assert outcome.results() == expected_few
        spark.until_gone("@few-")
