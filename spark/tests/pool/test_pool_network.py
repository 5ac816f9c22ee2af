"""The network fails in part, is slow, or executors come and go."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from machines import PoolSpark, Steps, pool_spark
from table import row

#: For how long one direction is blocked: longer than a node waits before it reports another one.
BLOCKED_S = 6.0
#: Rows with so many bytes make a shuffle of 40 MB, which takes seconds through a slow cable.
LARGE_ROW_BYTES = 10_000
SLOW_MBIT_PER_S = 50
#: How often an executor is killed, and how many.
CHURN_S = 4.0
KILLS = 8


@pytest.mark.slow
def test_a_direction_between_two_machines_is_blocked_for_a_while(line: str, tmp_path: Path) -> None:
    with pool_spark(line) as spark, row("one-way partition", line, 2) as made:
        steps = Steps(spark, tmp_path, "between", spark_plasmon_copies="2")
        steps.until_held("between")
        machines = spark.machines
        with machines.machines.blocked(0, machines.address(1)):
            steps.go_on("between")
            # How long the fault lasts is what is tested.
            time.sleep(BLOCKED_S)
        steps.end("between")
        made.account = steps.account()
        assert (made.account.reruns, made.account.failed_stages) == (0, 0)
        spark.until_gone()


@pytest.mark.slow
def test_a_machine_with_a_slow_cable(line: str, tmp_path: Path) -> None:
    with pool_spark(line) as spark:
        for copies in (1, 2):
            with row(f"slow cable: {SLOW_MBIT_PER_S} Mbit/s", line, copies) as made:
                folder = tmp_path / str(copies)
                folder.mkdir()
                with spark.machines.machines.slowed(0, SLOW_MBIT_PER_S):
                    steps = Steps(
                        spark, folder, row_bytes=LARGE_ROW_BYTES, spark_plasmon_copies=str(copies)
                    )
                    steps.end()
                made.account = steps.account()
                assert (made.account.reruns, made.account.failed_stages) == (0, 0)
                spark.until_gone()


class Churn(threading.Thread):
    """Kills executors of any machine, until it is stopped."""

    def __init__(self, spark: PoolSpark, seed: int) -> None:
        super().__init__(daemon=True)
        self._cluster, self._random = spark.cluster, random.Random(seed)
        self._is_over = threading.Event()
        self.kills = 0

    def run(self) -> None:
        while self.kills < KILLS and not self._is_over.wait(CHURN_S):
            machines = range(self._cluster.machines.count)
            live = [pid for at in machines for pid in self._cluster.executors(at)]
            if live:
                with suppress(ProcessLookupError):
                    os.kill(self._random.choice(live), signal.SIGKILL)
                    self.kills += 1

    def stop(self) -> None:
        """Ends it."""
        self._is_over.set()
        self.join()


@pytest.mark.slow
def test_executors_come_and_go(line: str, expected: dict[str, Any]) -> None:
    seed = int(os.environ.get("SEED", random.randrange(1 << 32)))
    print(f"SEED={seed}")
    with pool_spark(line) as spark, row("executors killed at random", line, 2) as made:
        churn = Churn(spark, seed)
        churn.start()
        try:
            settings = {"spark_plasmon_copies": "2", "spark_task_maxFailures": "20"}
            outcome = spark.run(spark.cluster.master, "jobs.py", **settings)
        finally:
            churn.stop()
        made.account = spark.account()
        made.outcome = f"{churn.kills} kills"
        assert outcome.results() == expected
        assert churn.kills > 0
        assert (made.account.reruns, made.account.failed_stages) == (0, 0)
        spark.until_gone()
