"""What happens when something dies or disappears."""

from __future__ import annotations

import os
import re
import select
import signal
import zipfile
from collections import Counter
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from stores import (
    change,
    daemon_pid,
    kill_store,
    line,
    marks,
    objects,
    remove_all,
    store,
    until_empty,
    until_marked,
    until_said,
)
from submitting import DEADLINE_S, FEW, JAR, SPARKS, Cluster, Spark, scratch, submitter

CLUSTER = "local-cluster[2,1,1024]"
#: As in faults.py, which only Spark's interpreter can import.
MAPS, MANY, ROWS = 8, 40, 4_000
#: Its records can be moved, so a reduce task reads all outputs as one stream.
KRYO = {"spark_serializer": "org.apache.spark.serializer.KryoSerializer"}
SUMS = [[key, sum(range(key, ROWS, 50))] for key in range(50)]
#: What the rows of `overflow` have as SQL serialises them, 140 bytes each.
OVERFLOW_BYTES = 150_000 * 140


def test_executor_killed_after_the_maps_reruns_none(spark4: Spark, tmp_path: Path) -> None:
    finished = spark4.run(CLUSTER, "faults.py", "kill_in_reduce", str(tmp_path))
    assert finished.results() == {"kill_in_reduce": SUMS}
    assert marks(tmp_path, "killed") == ["killed"]
    assert len(marks(tmp_path, "map-")) == MAPS


@pytest.mark.slow
def test_executor_killed_in_the_maps_reruns_only_its_own(spark: Spark, tmp_path: Path) -> None:
    finished = spark.run(CLUSTER, "faults.py", "kill_in_map", str(tmp_path))
    assert finished.results() == {"kill_in_map": SUMS}
    assert marks(tmp_path, "killed") == ["killed"]
    # The killed task never finished, so each map task finished once.
    assert len(marks(tmp_path, "map-")) == MAPS


@pytest.mark.slow
def test_a_killed_worker_costs_time_and_no_result(spark: Spark, tmp_path: Path) -> None:
    """Spark forgets all outputs of the worker's host, and makes them again on the other one."""
    os.mkfifo(tmp_path / "go-on")
    with Cluster(spark, ["127.0.0.1", "127.0.0.2"]) as cluster:
        limits = {"spark_executor_cores": "1", "spark_executor_memory": "1g"}
        process = spark.start(cluster.master, "faults.py", "lose", str(tmp_path), **limits)
        line(process)
        cluster.kill_worker()
        (tmp_path / "go-on").write_bytes(b"")
        output, _ = process.communicate(timeout=DEADLINE_S)
    assert '{"job": "lose", "result": true}' in output, (spark.scratch / "log").read_text()[-4000:]
    assert len(marks(tmp_path, "map-")) < 2 * MAPS, "those of the other host stay"


@pytest.mark.slow
def test_outputs_that_spark_has_dropped_for_good_stay_dropped(
    spark35: Spark, tmp_path: Path
) -> None:
    """Neither a reader that asks late brings them back, nor a worker that is lost while they are
    made anew: old outputs beside new ones would be wrong. Python does not reach the tracker of
    Spark 4.3, whose environment names classes that are not there."""
    with Cluster(spark35, ["127.0.0.1", "127.0.0.2"]) as cluster:
        limits = {"spark_executor_cores": "1", "spark_executor_memory": "1g"}
        process = spark35.start(cluster.master, "faults.py", "drop", str(tmp_path), **limits)
        assert line(process) == {"job": "dropped", "result": [0, 0]}
        until_marked(tmp_path, "map-", MAPS + MAPS // 2)
        cluster.kill_worker()
        until_said(spark35.scratch / "log", "Lost executor", 1)
        (tmp_path / "hold").unlink()
        output, _ = process.communicate(timeout=DEADLINE_S)
    log = (spark35.scratch / "log").read_text()
    assert '{"job": "drop", "result": true}' in output, log[-4000:]
    again = Counter(mark.split("-")[1] for mark in marks(tmp_path, "map-"))
    assert len(again) == MAPS
    assert min(again.values()) >= 2, again


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "settings"), [("remove", {}), ("damage", {}), ("damage", KRYO), ("miscount", KRYO)]
)
def test_a_lost_output_is_made_again_and_no_other(
    spark: Spark, tmp_path: Path, what: str, settings: dict[str, str]
) -> None:
    """Of several outputs read as one stream the last one was named for a wrong count, whichever it
    was: a map task that was right ran again four times, and the job failed."""
    os.mkfifo(tmp_path / "go-on")
    process = spark.start("local[2]", "faults.py", "lose", str(tmp_path), **settings)
    socket, namespace = line(process)["result"]
    assert len(marks(tmp_path, "map-")) == MAPS
    (done,) = marks(tmp_path, "map-2-")
    attempt = done.rpartition("-")[2]
    assert change(socket, namespace, f"shuffle-0/{attempt}/", what).split("/")[1] == attempt
    (tmp_path / "go-on").write_bytes(b"")
    output, _ = process.communicate(timeout=DEADLINE_S)
    log = (spark.scratch / "log").read_text()
    assert '{"job": "lose", "result": true}' in output, log[-4000:]
    # Tasks that start while the output is missing get that from Spark, which names none: -1.
    assert set(re.findall(r"mapIndex=(\d+), mapId=(\d+)", log)) == {("2", attempt)}
    again = [mark.split("-")[1] for mark in marks(tmp_path, "map-")]
    assert sorted(again) == sorted(["2", *map(str, range(MAPS))]), "map task 2 alone runs twice"


@pytest.mark.slow
def test_outputs_that_are_all_lost_are_made_again_at_once(spark: Spark, tmp_path: Path) -> None:
    """Each attempt named one lost output, and Spark gives up after four attempts of a stage."""
    os.mkfifo(tmp_path / "go-on")
    process = spark.start(CLUSTER, "faults.py", "lose_all", str(tmp_path))
    socket, namespace = line(process)["result"]
    assert remove_all(socket, namespace, "shuffle-0/") == MANY
    (tmp_path / "go-on").write_bytes(b"")
    output, _ = process.communicate(timeout=DEADLINE_S)
    log = (spark.scratch / "log").read_text()
    assert '{"job": "lose_all", "result": true}' in output, log[-4000:]
    assert f"{MANY} of {MANY} outputs of shuffle 0 are gone" in log
    again = [mark.split("-")[1] for mark in marks(tmp_path, "map-")]
    assert sorted(again) == sorted(str(index) for index in [*range(MANY), *range(MANY)])


def test_an_application_loses_one_thing_after_the_other(spark35: Spark, tmp_path: Path) -> None:
    """Each of these ended the job, and those of the store every later one. By themselves, on a
    cluster and with each Spark they are tested in the slow tests."""
    os.mkfifo(tmp_path / "go-on")
    process = spark35.start("local[2]", "faults.py", "lose_in_turn", str(tmp_path), **KRYO)
    socket, namespace = line(process)["result"]
    log = spark35.scratch / "log"

    def goes_on(made: int) -> None:
        (tmp_path / "go-on").write_bytes(b"")
        assert line(process) == {"job": "again", "result": True}, log.read_text()[-4000:]
        assert len(marks(tmp_path, "map-")) == made

    (done,) = marks(tmp_path, "map-2-")
    change(socket, namespace, f"shuffle-0/{done.rpartition('-')[2]}/", "miscount")
    goes_on(MANY + 1)
    assert remove_all(socket, namespace, "shuffle-0/") >= MANY
    goes_on(2 * MANY + 1)
    # Its keeper brings it back with all objects.
    os.kill(daemon_pid(socket), signal.SIGKILL)
    goes_on(2 * MANY + 1)
    kill_store(socket)
    until_said(log, "goes on with another store", 1)
    goes_on(3 * MANY + 1)
    process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0


@pytest.mark.slow
def test_a_shuffle_that_spark_cleans_up_leaves_the_store(spark: Spark, tmp_path: Path) -> None:
    """As Spark's ContextCleanerSuite, which looks for the blocks in Spark's block manager."""
    os.mkfifo(tmp_path / "used")
    os.mkfifo(tmp_path / "go-on")
    process = spark.start("local[2]", "faults.py", "clean_up", str(tmp_path))
    socket, _ = line(process)["result"]
    assert objects(socket) == MAPS
    (tmp_path / "used").write_bytes(b"")
    assert line(process)["job"] == "cleaned"
    assert objects(socket) == 0
    (tmp_path / "go-on").write_bytes(b"")
    output, _ = process.communicate(timeout=DEADLINE_S)
    log = (spark.scratch / "log").read_text()
    assert '{"job": "clean_up", "result": true}' in output, log[-4000:]
    assert len(marks(tmp_path, "map-")) == 2 * MAPS, "a later job makes the outputs again"


@pytest.mark.slow
def test_a_killed_store_comes_back_with_its_objects(spark: Spark, tmp_path: Path) -> None:
    """The store of an application had no keeper: every later job failed, the daemon was gone."""
    os.mkfifo(tmp_path / "go-on")
    process = spark.start(CLUSTER, "faults.py", "lose", str(tmp_path))
    socket, _ = line(process)["result"]
    daemon = daemon_pid(socket)
    os.kill(daemon, signal.SIGKILL)
    (tmp_path / "go-on").write_bytes(b"")
    output, _ = process.communicate(timeout=DEADLINE_S)
    log = (spark.scratch / "log").read_text()
    assert '{"job": "lose", "result": true}' in output, log[-4000:]
    assert len(marks(tmp_path, "map-")) == MAPS, "nothing was lost, so no map task ran again"
    assert not Path(socket).parent.exists(), "the store ends with its application all the same"


@pytest.mark.slow
@pytest.mark.parametrize("master", ["local[2]", CLUSTER])
def test_a_store_whose_processes_are_both_killed_is_replaced(
    spark: Spark, tmp_path: Path, master: str
) -> None:
    """Daemon and keeper: every later job of the application failed, the daemon was gone."""
    os.mkfifo(tmp_path / "go-on")
    process = spark.start(master, "faults.py", "lose_store", str(tmp_path))
    socket = line(process)["result"]
    assert len(marks(tmp_path, "map-")) == MAPS
    log = spark.scratch / "log"
    kill_store(socket)
    if master == "local[2]":
        until_said(log, "goes on with another store", 1)
    (tmp_path / "go-on").write_bytes(b"")
    assert line(process) == {"job": "again", "result": True}
    # The maps of the shuffle that is used again, and those of a new one. On a cluster the job
    # meets the store's end: what executors have mapped they still read.
    made = len(marks(tmp_path, "map-"))
    assert made == 3 * MAPS or (master == CLUSTER and made >= 2 * MAPS), made
    # The first death may be longer ago than a minute.
    for deaths in (2, 3, 4):
        kill_store(socket)
        until_said(log, "goes on with another store|times within a minute", deaths)
        if "times within a minute" in log.read_text():
            break
    (tmp_path / "go-on").write_bytes(b"")
    said = line(process)
    assert said["job"] == "ended"
    assert "ended 3 times within a minute, daemon and keeper" in said["result"]
    process.communicate(timeout=DEADLINE_S)
    assert process.returncode != 0
    assert not Path(socket).parent.exists()


@pytest.mark.slow
def test_the_executors_of_a_cluster_go_on_with_another_store(
    spark35: Spark, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "go-on")
    with Cluster(spark35, ["127.0.0.1"]) as cluster:
        limits = {"spark_executor_cores": "1", "spark_executor_memory": "1g"}
        process = spark35.start(cluster.master, "faults.py", "lose", str(tmp_path), **limits)
        socket, _ = line(process)["result"]
        kill_store(socket)
        (tmp_path / "go-on").write_bytes(b"")
        output, _ = process.communicate(timeout=DEADLINE_S)
    log = (spark35.scratch / "log").read_text()
    assert '{"job": "lose", "result": true}' in output, log[-4000:]


def jar_without_library(folder: Path) -> Path:
    """A jar of ours with which no process can join an application."""
    jar = folder / "damaged.jar"
    with zipfile.ZipFile(JAR) as whole, zipfile.ZipFile(jar, "w") as damaged:
        for name in whole.namelist():
            if not name.endswith(".so"):
                damaged.writestr(name, whole.read(name))
    return jar


@pytest.mark.slow
def test_executors_that_cannot_start_end_the_job_with_their_reason(
    spark: Spark, tmp_path: Path
) -> None:
    """Spark started them again forever, and the driver named no cause."""
    settings = {"spark_executor_extraClassPath": str(jar_without_library(tmp_path))}
    finished = spark.run(CLUSTER, "faults.py", "no_executors", str(tmp_path), **settings)
    said = finished.results()["no_executors"]
    assert re.search(r"executors cannot start: \d+ failed and none works", said), said
    assert "the Plasmon jar holds no libplasmon_jni.so for this machine" in said


@pytest.mark.slow
def test_an_application_that_waits_for_executors_ends_with_their_reason(
    spark35: Spark, tmp_path: Path
) -> None:
    """No job was there that could fail, and Spark 3.5 makes the shuffle manager of executors before
    they register: the context waited for as long as it was allowed to."""
    settings = {
        "spark_executor_extraClassPath": str(jar_without_library(tmp_path)),
        "spark_cores_max": "2",
        "spark_scheduler_minRegisteredResourcesRatio": "1.0",
        "spark_scheduler_maxRegisteredResourcesWaitingTime": f"{2 * DEADLINE_S}s",
    }
    finished = spark35.run(CLUSTER, "faults.py", "no_executors", str(tmp_path), **settings)
    assert finished.code != 0
    pattern = r"Error initializing SparkContext\.\njava\.lang\.IllegalStateException: (.*)"
    said = re.findall(pattern, finished.log)[0]
    assert re.search(r"executors cannot start: \d+ failed and none works", said), said
    assert "the Plasmon jar holds no libplasmon_jni.so for this machine" in said


def test_reduce_tasks_read_in_the_order_of_the_map_tasks(spark35: Spark, tmp_path: Path) -> None:
    """Outputs came in the order of a hash, a different one in each run, and sums with them."""
    finished = spark35.run("local[2]", "faults.py", "order", str(tmp_path))
    rows, lists = finished.results()["order"]
    for key in range(5):
        ordered = list(range(key, ROWS, 5))
        assert [row for row in rows if row % 5 == key] == ordered
        assert [values for found, values in lists if found == key] == [ordered]


@pytest.mark.slow
def test_a_killed_driver_takes_its_store_along(spark35: Spark, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "go-on")
    process = spark35.start(CLUSTER, "faults.py", "wait", str(tmp_path))
    socket, driver = line(process)["result"]
    daemon = daemon_pid(socket)
    watched = os.pidfd_open(daemon)
    os.kill(driver, signal.SIGKILL)
    ready, _, _ = select.select([watched], [], [], 120)
    os.close(watched)
    assert ready, "the daemon outlived the application"
    assert not Path(socket).exists()


@pytest.mark.slow
def test_more_than_the_store_holds_spills_into_its_tier(spark35: Spark, tmp_path: Path) -> None:
    settings = {"spark_plasmon_store_bytes": "24m", "spark_plasmon_run_bytes": "1m"}
    finished = spark35.run("local[2]", "faults.py", "fill", str(tmp_path), **settings)
    assert finished.results() == {"fill": 600 * 100_000}


def test_a_shuffle_larger_than_its_store_is_written_and_read_once(
    spark35: Spark, tmp_path: Path
) -> None:
    """Whole runs came back for a section each: 182 GB were read and written for 1 GB."""
    settings = {
        "spark_plasmon_store_bytes": str(OVERFLOW_BYTES // 4),
        "spark_plasmon_run_bytes": "256k",
        "spark_sql_adaptive_enabled": "false",
    }
    finished = spark35.run("local[2]", "faults.py", "overflow", str(tmp_path), **settings)
    written, read = finished.results()["overflow"]
    assert OVERFLOW_BYTES // 2 < written < OVERFLOW_BYTES * 3 // 2
    assert OVERFLOW_BYTES // 2 < read < OVERFLOW_BYTES * 2


@pytest.mark.slow
def test_a_full_store_fails_the_task_and_says_so(spark35: Spark, tmp_path: Path) -> None:
    with store(spark35.scratch, "16m") as socket:
        settings = {"spark_plasmon_store": str(socket), "spark_plasmon_timeout": "1s"}
        finished = spark35.run("local[2]", "faults.py", "fill", str(tmp_path), **settings)
        assert finished.code != 0
        assert "the store is full, and no object in it can be evicted or spilled" in finished.log
        assert objects(socket) == 0, "the application leaves nothing in a store that goes on"


@pytest.mark.slow
def test_a_quota_stops_its_application_and_no_other(spark35: Spark, tmp_path: Path) -> None:
    with store(spark35.scratch, "512m") as socket:
        shared = {"spark_plasmon_store": str(socket)}
        limited = shared | {"spark_plasmon_quota_bytes": "20m"}
        finished = spark35.run("local[2]", "faults.py", "fill", str(tmp_path), **limited)
        assert finished.code != 0
        assert "raise spark.plasmon.quota.bytes" in finished.log
        assert objects(socket) == 0
        finished = spark35.run("local[2]", "faults.py", "fill", str(tmp_path), **shared)
        assert finished.results() == {"fill": 600 * 100_000}


@pytest.mark.slow
def test_a_killed_driver_leaves_nothing_in_a_store_that_goes_on(
    spark35: Spark, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "go-on")
    with store(spark35.scratch, "512m") as socket:
        settings = {"spark_plasmon_store": str(socket)}
        process = spark35.start(CLUSTER, "faults.py", "wait", str(tmp_path), **settings)
        _, driver = line(process)["result"]
        assert objects(socket) > 0
        os.kill(driver, signal.SIGKILL)
        until_empty(socket)


@pytest.mark.slow
def test_two_applications_share_a_store(tmp_path: Path, expected_few: dict[str, Any]) -> None:
    """At the same time, of both lines, with the same numbers of shuffles and tasks."""
    with ExitStack() as stack:
        socket = stack.enter_context(store(Path(stack.enter_context(scratch())), "512m"))
        sparks = [stack.enter_context(contextmanager(submitter)(line)) for line in SPARKS]
        settings = {"spark_plasmon_store": str(socket)}
        running = [spark.start("local[2]", "jobs.py", *FEW, **settings) for spark in sparks]
        for process, spark in zip(running, sparks, strict=True):
            assert spark.finish(process).results() == expected_few
        assert objects(socket) == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"spark_shuffle_sort_io_plugin_class": ""}, "spark.shuffle.sort.io.plugin.class="),
        ({"spark_plasmon_store": "/nowhere/x.sock", "spark_plasmon_timeout": "1ms"}, "/nowhere"),
        ({"spark_plasmon_daemon": "/nowhere/plasmond"}, "/nowhere/plasmond"),
        ({"spark_plasmon_run_bytes": "1"}, "spark.plasmon.run.bytes must be from 64k to 1g"),
    ],
)
def test_what_is_missing_is_said_at_the_start(
    spark35: Spark, tmp_path: Path, settings: dict[str, str], said: str
) -> None:
    finished = spark35.run("local[2]", "faults.py", "fill", str(tmp_path), **settings)
    assert finished.code != 0
    assert said in finished.log
    assert not list(spark35.scratch.glob("plasmon-spark-*"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("executor", "said"),
    [
        ("target/plasmon-spark.jar", "give the jar's whole path"),
        ("/opt/site/lib.jar", "executors would not find Plasmon's shuffle manager"),
    ],
)
def test_a_jar_that_executors_cannot_find_is_refused(
    spark35: Spark, tmp_path: Path, executor: str, said: str
) -> None:
    """Executors without it died at their start and were started forever, without a cause."""
    settings = {"spark_executor_extraClassPath": executor}
    finished = spark35.run(CLUSTER, "faults.py", "fill", str(tmp_path), **settings)
    assert finished.code != 0
    assert said in finished.log


@pytest.mark.slow
def test_an_executor_on_another_machine_is_refused(spark35: Spark, tmp_path: Path) -> None:
    said = spark35.run("local[2]", "faults.py", "elsewhere", str(tmp_path)).results()["elsewhere"]
    assert "this executor runs on another machine than the driver" in said


@pytest.mark.slow
@pytest.mark.parametrize("library", [None, b"no library"])
def test_a_jar_without_a_library_for_the_machine_does_not_start(
    spark35: Spark, tmp_path: Path, library: bytes | None
) -> None:
    """Without one, and with one of another kind."""
    jar = tmp_path / "damaged.jar"
    with zipfile.ZipFile(JAR) as whole, zipfile.ZipFile(jar, "w") as damaged:
        for name in whole.namelist():
            if not name.endswith(".so"):
                damaged.writestr(name, whole.read(name))
            elif library is not None:
                damaged.writestr(name, library)
    settings = {"spark_driver_extraClassPath": str(jar)}
    finished = spark35.run("local[2]", "faults.py", "fill", str(tmp_path), **settings)
    assert finished.code != 0
    said = "does not load on this machine" if library else "holds no libplasmon_jni.so for this"
    assert said in finished.log
