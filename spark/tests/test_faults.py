"""What happens when something dies or disappears."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest
from submitting import DEADLINE_S, JAR, ROOT, Spark

CLUSTER = "local-cluster[2,1,1024]"
#: As in faults.py, which only Spark's interpreter can import.
MAPS, ROWS = 8, 4_000
SUMS = [[key, sum(range(key, ROWS, 50))] for key in range(50)]

#: Changes an object of a store: takes it away, or puts a damaged copy in its place.
CHANGE = """
import sys, plasmon
socket, namespace, what = sys.argv[1:]
store = plasmon.connect(socket)
(victim,) = [o for o in store.list(namespace=namespace) if o.name.startswith("shuffle-0/")][:1]
with store.get_buffer(victim.id) as held:
    damaged = bytearray(held)
store.delete(victim.id)
if what == "damage":
    damaged[-1] ^= 1
    with store.create(len(damaged), name=victim.name, namespace=namespace) as writer:
        memoryview(writer)[:] = damaged
print(victim.name)
"""


def marks(folder: Path, prefix: str) -> list[str]:
    """The files that tasks left."""
    return sorted(file.name for file in folder.glob(f"{prefix}*"))


def line(process: subprocess.Popen[str]) -> dict[str, Any]:
    """The next line of JSON that an application prints."""
    assert process.stdout is not None
    deadline = time.monotonic() + DEADLINE_S
    while True:
        ready, _, _ = select.select([process.stdout], [], [], deadline - time.monotonic())
        assert ready, "the application printed nothing"
        text = process.stdout.readline()
        assert text, "the application ended"
        if text.startswith("{"):
            return json.loads(text)


def test_executor_killed_after_the_maps_reruns_none(spark: Spark, tmp_path: Path) -> None:
    finished = spark.run(CLUSTER, "faults.py", "kill_in_reduce", str(tmp_path))
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
@pytest.mark.parametrize("what", ["remove", "damage"])
def test_a_lost_output_is_made_again_and_no_other(spark: Spark, tmp_path: Path, what: str) -> None:
    os.mkfifo(tmp_path / "go-on")
    process = spark.start("local[2]", "faults.py", "lose", str(tmp_path))
    socket, namespace = line(process)["result"]
    assert len(marks(tmp_path, "map-")) == MAPS
    changing = [sys.executable, "-c", CHANGE, socket, namespace, what]
    victim = subprocess.run(changing, capture_output=True, text=True, check=False)
    assert victim.returncode == 0, victim.stderr
    index = victim.stdout.split("/")[1]
    (tmp_path / "go-on").write_bytes(b"")
    output, _ = process.communicate(timeout=DEADLINE_S)
    assert '{"job": "lose", "result": true}' in output, (spark.scratch / "log").read_text()[-4000:]
    again = [mark.split("-")[1] for mark in marks(tmp_path, "map-")]
    twice = [mark for mark in set(again) if again.count(mark) == 2]
    assert len(again) == MAPS + 1, f"one of {MAPS} maps is made again"
    assert len(twice) == 1
    assert any(mark.endswith(f"-{index}") for mark in marks(tmp_path, f"map-{twice[0]}-"))


@pytest.mark.slow
def test_a_killed_driver_takes_its_store_along(spark35: Spark, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "go-on")
    process = spark35.start(CLUSTER, "faults.py", "wait", str(tmp_path))
    socket, driver = line(process)["result"]
    daemon = int(
        subprocess.run(
            [
                sys.executable,
                "-c",
                "import sys, plasmon; print(plasmon.connect(sys.argv[1]).status().pid)",
                socket,
            ],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    )
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


@pytest.mark.slow
def test_a_full_store_fails_the_task_and_says_so(spark35: Spark, tmp_path: Path) -> None:
    socket = spark35.scratch / "small.sock"
    daemon = ROOT / "target" / "release" / "plasmond"
    read, write = os.pipe()
    flags = ["--socket", str(socket), "--capacity-bytes", "16m", "--keeper", "false"]
    small = subprocess.Popen([daemon, *flags, "--ready-fd", str(write)], pass_fds=[write])
    try:
        os.close(write)
        assert os.read(read, 200), "the store did not start"
        settings = {"spark_plasmon_store": str(socket), "spark_plasmon_timeout": "1s"}
        finished = spark35.run("local[2]", "faults.py", "fill", str(tmp_path), **settings)
        assert finished.code != 0
        assert "the store is full and nothing in it may be dropped or spilled" in finished.log
        listed = subprocess.run(
            [
                sys.executable,
                "-c",
                "import sys, plasmon; print(len(plasmon.connect(sys.argv[1]).list()))",
                str(socket),
            ],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        assert int(listed) == 0, "the application leaves nothing in a store that goes on"
    finally:
        os.close(read)
        small.terminate()
        small.wait()


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
