"""How applications on a pool end, and how they are refused."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from machines import NAMESPACES, Steps, pool_spark
from submitting import DEADLINE_S, FEW
from table import row

#: A job begins before there are executors, as it does by Spark's defaults after a while.
EAGER = {"spark_scheduler_minRegisteredResourcesRatio": "0.0", "spark_plasmon_timeout": "2s"}


@pytest.mark.slow
def test_a_killed_driver_leaves_nothing_and_harms_no_other(line: str, tmp_path: Path) -> None:
    with pool_spark(line, cores=2) as spark, row("driver killed", line, 2) as made:
        machines = spark.machines
        folders = [tmp_path / name for name in ("dies", "stays")]
        for folder in folders:
            folder.mkdir()
        dies = Steps(spark, folders[0], "between", spark_plasmon_copies="2")
        dies.until_held("between")
        (namespace,) = machines.namespaces(NAMESPACES)
        other = spark.beside(tmp_path / "other")
        try:
            stays = Steps(other, folders[1], "between", spark_plasmon_copies="2")
            stays.until_held("between")
            own = machines.namespaces(NAMESPACES)
            del own[namespace]
            assert len(own) == 1
            os.kill(dies.driver, signal.SIGKILL)
            start = time.monotonic()
            spark.until_gone(namespace)
            made.outcome = f"gone after {time.monotonic() - start:.1f} s"
            assert machines.namespaces(NAMESPACES) == own, "the other one's outputs stay"
            stays.go_on("between")
            stays.end("between")
            made.account = stays.account()
            assert (made.account.reruns, made.account.failed_stages) == (0, 0)
            spark.until_gone()
        finally:
            other.stop()


@pytest.mark.slow
def test_a_quota_on_a_pool_stops_its_application_and_no_other(line: str, tmp_path: Path) -> None:
    """A map task writes 10 MB, and at least two of the six run on one machine."""
    with pool_spark(line, cores=2) as spark, row("quota used up", line) as made:
        folders = [tmp_path / name for name in ("stays", "fills")]
        for folder in folders:
            folder.mkdir()
        stays = Steps(spark, folders[0], "between")
        stays.until_held("between")
        other = spark.beside(tmp_path / "other")
        try:
            limited = {"spark_plasmon_quota_bytes": "15m", "spark_plasmon_copies": "1"}
            words = ("faults.py", "fill", str(folders[1]))
            outcome = other.run(spark.cluster.master, *words, **limited)
            assert outcome.code != 0
            assert re.search(
                r"the application's quota in the store is used up \(what it has in the namespace "
                r"@spark-\w+ may have 15728640 bytes on all nodes together\); raise "
                r"spark\.plasmon\.quota\.bytes",
                outcome.log,
            ), outcome.log[-6000:]
            made.outcome = "ended with the reason"
            # A limit that is large enough stops nothing.
            enough = limited | {"spark_plasmon_quota_bytes": "100m"}
            outcome = other.run(spark.cluster.master, *words, **enough)
            assert outcome.results() == {"fill": 600 * 100_000}
            stays.go_on("between")
            stays.end("between")
            spark.until_gone()
        finally:
            other.stop()


@pytest.mark.slow
def test_executors_on_machines_without_a_store_end_the_application(
    line: str, tmp_path: Path
) -> None:
    without = frozenset(range(3))
    with (
        pool_spark(line, without_stores=without) as spark,
        row("no store on machines", line) as made,
    ):
        words = ("faults.py", "no_executors", str(tmp_path))
        outcome = spark.run(spark.cluster.master, *words, **EAGER)
        said = outcome.results()["no_executors"]
        made.outcome = "ended with the reason"
        assert re.search(r"executors cannot start: \d+ failed and none works", said), said
        assert "no.sock" in said, said
        assert "Start one there (`plasmon start --cluster ..`" in said, said
        assert any(f"an executor on {spark.machines.address(at)} " in said for at in range(3)), said


@pytest.mark.slow
def test_a_machine_without_a_store_does_not_keep_the_others_from_working(
    line: str, expected_few: dict[str, Any]
) -> None:
    with (
        pool_spark(line, without_stores=frozenset({0})) as spark,
        row("no store on a machine", line, 1),
    ):
        settings = EAGER | {"spark_plasmon_copies": "1"}
        outcome = spark.run(spark.cluster.master, "jobs.py", *FEW, **settings)
        assert outcome.results() == expected_few
        assert f"an executor on {spark.machines.address(0)} needs a node" in outcome.log
        spark.until_gone()


@pytest.mark.slow
def test_an_application_that_waits_for_executors_without_stores_ends(line: str) -> None:
    """With Spark 3.5 its context waited for as long as it was allowed to."""
    without = frozenset(range(3))
    with pool_spark(line, without_stores=without) as spark, row("no store, waits", line) as made:
        settings = {
            "spark_scheduler_maxRegisteredResourcesWaitingTime": f"{2 * DEADLINE_S}s",
            "spark_plasmon_timeout": "2s",
        }
        outcome = spark.run(spark.cluster.master, "jobs.py", "reduce_by_key", **settings)
        assert outcome.code != 0
        made.outcome = "ended with the reason"
        said = re.findall(r"executors cannot start: \d+ failed and none works\..*", outcome.log)
        assert "Start one there (`plasmon start --cluster ..`" in said[0], said
