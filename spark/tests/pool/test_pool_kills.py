"""A machine dies, or a program of its node: jobs go on, and no output is lost that has a copy."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from machines import MAPS, Steps, pool_spark
from stores import line as next_line
from stores import marks, until_marked
from table import row

from bench.spark_standalone import WORKER_TIMEOUT_S

#: As in faults.py, which only Spark's interpreter can import.
DROPPED_MAPS = 8


def lose_a_machine(line: str, step: str, folder: Path, *, silently: bool) -> None:
    """Kills a machine at a step, with two copies of all outputs: nothing runs again."""
    title = f"machine killed{'' if silently else ', heard'}: {step}"
    # What is heard needs no timeouts, which a machine that does much else may exceed.
    timeout_s = WORKER_TIMEOUT_S if silently else 60
    settings = {} if silently else {"spark_network_timeout": "60s"}
    cluster = pool_spark(line, worker_timeout_s=timeout_s)
    with cluster as spark, row(title, line, 2) as made:
        steps = Steps(spark, folder, step, spark_plasmon_copies="2", **settings)
        steps.until_held(step)
        assert steps.maps_on(0), "a map task has finished there"
        spark.until_copied(2 * len(steps.marks("map")))
        spark.machines.kill(0, silently=silently)
        steps.go_on(step)
        steps.end(step)
        made.account = steps.account()
        assert (made.account.reruns, made.account.failed_stages) == (0, 0)
        assert len({index for index, _ in steps.marks("map")}) == MAPS
        spark.until_gone()


def test_a_killed_machine_whose_connections_end(tmp_path: Path) -> None:
    """Which is noticed at once: for `make test`."""
    lose_a_machine("4", "reduces", tmp_path, silently=False)


@pytest.mark.slow
@pytest.mark.parametrize("step", ["maps", "between", "reduces"])
def test_a_killed_machine_costs_no_output_that_has_two_copies(
    line: str, step: str, tmp_path: Path
) -> None:
    lose_a_machine(line, step, tmp_path, silently=True)


@pytest.mark.slow
@pytest.mark.parametrize("step", ["between", "reduces"])
def test_without_copies_the_lost_map_tasks_run_again(line: str, step: str, tmp_path: Path) -> None:
    with pool_spark(line) as spark, row(f"machine killed: {step}", line, 1) as made:
        steps = Steps(spark, tmp_path, step, spark_plasmon_copies="1")
        steps.until_held(step)
        lost, before = steps.maps_on(0), steps.marks("map")
        assert lost
        spark.machines.kill(0)
        steps.go_on(step)
        steps.end(step)
        made.account = steps.account()
        again = [index for index, _ in steps.marks("map")]
        assert sorted(again) == sorted([index for index, _ in before] + lost)
        assert made.account.reruns == len(lost)
        spark.until_gone()


@pytest.mark.slow
@pytest.mark.parametrize("copies", [1, 2])
def test_a_killed_worker_costs_no_output(line: str, copies: int, tmp_path: Path) -> None:
    """The machine's store goes on, so that nothing is lost, also without a second copy."""
    with pool_spark(line) as spark, row("worker killed: between", line, copies) as made:
        steps = Steps(spark, tmp_path, "between", spark_plasmon_copies=str(copies))
        steps.until_held("between")
        assert steps.maps_on(0)
        spark.cluster.kill_worker(0)
        spark.cluster.wait_until_lost(1)
        spark.until_logged("that Spark had forgotten")
        steps.go_on("between")
        steps.end("between")
        made.account = steps.account()
        assert (made.account.reruns, made.account.failed_stages) == (0, 0)
        spark.until_gone()


@pytest.mark.slow
@pytest.mark.parametrize("copies", [1, 2])
def test_outputs_that_spark_has_dropped_for_good_stay_dropped(copies: int, tmp_path: Path) -> None:
    """A worker is lost while they are made anew, and its machine's store goes on."""
    with pool_spark("3.5") as spark, row("worker killed: dropped", "3.5", copies):
        settings = {"spark_plasmon_copies": str(copies)}
        words = ("faults.py", "drop", str(tmp_path))
        process = spark.start(spark.cluster.master, *words, **settings)
        assert next_line(process) == {"job": "dropped", "result": [0, 0]}
        until_marked(tmp_path, "map-", DROPPED_MAPS + DROPPED_MAPS // 2)
        spark.cluster.kill_worker(0)
        spark.cluster.wait_until_lost(1)
        spark.until_logged("Lost executor")
        (tmp_path / "hold").unlink()
        assert spark.finish(process).results() == {"drop": True}
        again = Counter(mark.split("-")[1] for mark in marks(tmp_path, "map-"))
        assert len(again) == DROPPED_MAPS
        assert min(again.values()) >= 2, again
        spark.until_gone()


@pytest.mark.slow
def test_killed_programs_of_nodes_cost_no_output(line: str, tmp_path: Path) -> None:
    """Each in another stage and on another machine; each is started again by the other one."""
    with pool_spark(line) as spark:
        for program, copies in (("plasmon-poold", 1), ("plasmond", 2)):
            with row(f"{program} killed", line, copies) as made:
                folder = tmp_path / program
                folder.mkdir()
                held = ("maps", "reduces", "between")
                steps = Steps(spark, folder, *held, spark_plasmon_copies=str(copies))
                for at, step in enumerate(held):
                    steps.until_held(step)
                    spark.machines.kill_program(at, program)
                    steps.go_on(step)
                steps.end("between")
                made.account = steps.account()
                assert (made.account.reruns, made.account.failed_stages) == (0, 0)
                assert len(steps.marks("map")) == MAPS
                spark.until_gone()
