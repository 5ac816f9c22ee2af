"""Executors that come and go, tasks that run twice, stages that start over."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import pytest
from stores import change, line, marks, until
from submitting import DEADLINE_S, Cluster, Spark, submitter

CLUSTER = "local-cluster[2,1,1024]"
MAPS, ROWS = 8, 4_000
SUMS = [[key, sum(range(key, ROWS, 50))] for key in range(50)]


@pytest.mark.slow
def test_executors_are_released_and_their_outputs_stay(spark: Spark, tmp_path: Path) -> None:
    settings = {
        "spark_dynamicAllocation_enabled": "true",
        "spark_dynamicAllocation_minExecutors": "0",
        "spark_dynamicAllocation_maxExecutors": "2",
        "spark_dynamicAllocation_executorIdleTimeout": "1s",
    }
    finished = spark.run(CLUSTER, "scheduling.py", "idle", str(tmp_path), **settings)
    assert finished.results() == {"idle": [0, True]}
    assert len(marks(tmp_path, "map-")) == MAPS, "no map task ran again"


@pytest.mark.slow
def test_executors_are_decommissioned_and_their_outputs_stay(spark: Spark, tmp_path: Path) -> None:
    settings = {
        "spark_decommission_enabled": "true",
        "spark_storage_decommission_enabled": "true",
        "spark_storage_decommission_shuffleBlocks_enabled": "true",
        "spark_storage_decommission_replicationReattemptInterval": "1s",
    }
    finished = spark.run(CLUSTER, "scheduling.py", "decommission", str(tmp_path), **settings)
    assert finished.results() == {"decommission": [[], True]}
    assert len(marks(tmp_path, "map-")) == MAPS, "no map task ran again"


@pytest.mark.slow
@pytest.mark.parametrize("old", ["false", "true"])
def test_a_speculative_attempt_and_the_first_one_do_not_meet(
    spark35: Spark, tmp_path: Path, old: str
) -> None:
    """On a cluster whose workers have two names for this machine: Spark does not start the
    second attempt on the host of the first. With the old protocol both have one map id."""
    settings = {
        "spark_shuffle_useOldFetchProtocol": old,
        "spark_speculation": "true",
        "spark_speculation_interval": "50ms",
        "spark_speculation_quantile": "0.5",
        "spark_cores_max": "2",
        "spark_executor_cores": "1",
        "spark_executor_memory": "1g",
    }
    with Cluster(spark35, ["127.0.0.1", "127.0.0.2"]) as cluster:
        finished = spark35.run(
            cluster.master, "scheduling.py", "speculate", str(tmp_path), **settings
        )
        assert finished.results() == {"speculate": SUMS}
        assert len(marks(tmp_path, "map-3-")) >= 1
        assert marks(tmp_path, "slow") == ["slow"]
        assert "speculat" in finished.log


@pytest.mark.slow
def test_an_attempt_that_loses_to_its_twin_leaves_no_output(spark35: Spark, tmp_path: Path) -> None:
    """Both attempts committed, and the output of the one that lost stayed with the shuffle."""
    os.mkfifo(tmp_path / "go-on")
    settings = {
        "spark_speculation": "true",
        "spark_speculation_interval": "50ms",
        "spark_speculation_quantile": "0.5",
        "spark_cores_max": "2",
        "spark_executor_cores": "1",
        "spark_executor_memory": "1g",
    }
    with Cluster(spark35, ["127.0.0.1", "127.0.0.2"]) as cluster:
        process = spark35.start(cluster.master, "scheduling.py", "twins", str(tmp_path), **settings)
        socket = line(process)["result"]
        until(socket, MAPS)
        assert len(marks(tmp_path, "map-3-")) == 2, "two attempts wrote the same output"
        (tmp_path / "go-on").write_bytes(b"")
        assert spark35.finish(process).results() == {"twins": SUMS}


@pytest.mark.slow
def test_a_lost_output_of_an_indeterminate_stage_makes_all_of_it_again(
    spark35: Spark, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "go-on")
    process = spark35.start("local[2]", "scheduling.py", "indeterminate", str(tmp_path))
    socket, namespace = line(process)["result"]
    assert (len(marks(tmp_path, "map-")), len(marks(tmp_path, "again-"))) == (MAPS, 4)
    change(socket, namespace, "shuffle-1/", "remove")
    (tmp_path / "go-on").write_bytes(b"")
    output, _ = process.communicate(timeout=DEADLINE_S)
    log = (spark35.scratch / "log").read_text()
    assert '{"job": "indeterminate", "result": true}' in output, log[-4000:]
    assert len(marks(tmp_path, "map-")) == MAPS, "the stage before is determinate and untouched"
    assert len(marks(tmp_path, "again-")) == 8, "every task of the stage ran again"


@pytest.mark.slow
def test_checksums_of_rows_are_those_of_sparks_own_manager(spark4: Spark, tmp_path: Path) -> None:
    settings = {"spark_sql_shuffle_orderIndependentChecksum_enabled": "true"}
    run = ("local[2]", "scheduling.py", "checksums", str(tmp_path))
    ours = spark4.run(*run, **settings).results()["checksums"]
    with closing(submitter("4", plasmon=False)) as others:
        assert ours == next(others).run(*run, **settings).results()["checksums"]
    assert ours[0] == 20_000
    assert len(set(ours[1:])) == MAPS, "no two map tasks have the same rows"
    assert "0" not in ours
