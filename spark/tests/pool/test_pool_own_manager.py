"""The machines themselves, with Spark's own shuffle manager: what it does is known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from machines import Steps, pool_spark
from submitting import FEW
from table import row


@pytest.mark.slow
def test_jobs_on_three_machines(line: str, expected_few: dict[str, Any]) -> None:
    with pool_spark(line, plasmon=False) as spark, row("own manager, jobs", line) as made:
        outcome = spark.run(spark.cluster.master, "jobs.py", *FEW)
        assert outcome.results() == expected_few
        made.account = spark.account()
        assert made.account.reruns == 0


@pytest.mark.slow
@pytest.mark.parametrize("step", ["maps", "between", "reduces"])
def test_a_killed_machine_costs_its_map_tasks(step: str, tmp_path: Path) -> None:
    """Those that ran there are made again, and no other."""
    title = f"own manager, machine killed: {step}"
    with pool_spark("3.5", plasmon=False) as spark, row(title, "3.5") as made:
        steps = Steps(spark, tmp_path, step)
        steps.until_held(step)
        lost = steps.maps_on(0)
        assert lost
        spark.machines.kill(0)
        spark.cluster.wait_until_lost(1)
        steps.go_on(step)
        steps.end(step)
        made.account = steps.account()
        assert made.account.reruns == len(lost)
