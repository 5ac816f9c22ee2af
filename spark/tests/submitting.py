"""Runs applications with real Spark, of the lines that the project supports, and reads results."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Generator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
JAR = ROOT / "spark" / "target" / "plasmon-spark.jar"
HERE = Path(__file__).resolve().parent

#: For how long an application may run, on a machine that does much else besides, in seconds.
DEADLINE_S = 420

#: The environments of scripts/spark.sh: the oldest line and the newest, and those of ``lines``.
SPARKS = {"3.5": "spark35", "4": "spark4"}
OTHERS = {version: f"spark-{version}" for version in os.environ.get("SPARK_VERSIONS", "").split()}

#: The jobs of `make test`: records of SQL, of Python and of Java, combined, sorted, skewed.
FEW = [
    "reduce_by_key",
    "stops_early",
    "java_objects",
    "java_groups",
    "java_sorts",
    "joins_and_aggregates",
    "skew",
]

PACKAGE = "org.apache.spark.shuffle.plasmon"
PLASMON = {
    "spark.shuffle.manager": f"{PACKAGE}.PlasmonShuffleManager",
    "spark.shuffle.sort.io.plugin.class": f"{PACKAGE}.PlasmonShuffleDataIO",
    "spark.driver.extraClassPath": str(JAR),
    "spark.executor.extraClassPath": str(JAR),
}
QUIET = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "6",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.plasmon.run.bytes": "64k",
    # AQE takes the skew of a test's rows for skew only if these are small.
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "64k",
    "spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes": "128k",
}


@dataclass
class Outcome:
    """The outcome of an application."""

    code: int
    lines: list[dict[str, Any]]
    log: str

    def results(self) -> dict[str, Any]:
        """The results by job; a failed application fails the test with its log."""
        assert self.code == 0, self.log[-6000:]
        return {line["job"]: line["result"] for line in self.lines}


@dataclass
class Spark:
    """One line of Spark, and how to submit to it."""

    line: str
    scratch: Path
    plasmon: bool = True
    running: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def python(self) -> Path:
        return ROOT / ".venvs" / (SPARKS | OTHERS)[self.line] / "bin" / "python"

    @property
    def home(self) -> Path:
        return next(self.python.parents[1].glob("lib/python*/site-packages/pyspark"))

    def command(self, master: str, app: str, *arguments: str, **settings: str) -> list[str]:
        """A spark-submit; settings are named with underscores for dots."""
        conf = QUIET | (PLASMON if self.plasmon else {})
        conf |= {key.replace("_", "."): value for key, value in settings.items()}
        flags = [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
        submit = str(self.home / "bin" / "spark-submit")
        return [submit, "--master", master, *flags, str(HERE / app), *arguments]

    def start(
        self, master: str, app: str, *arguments: str, **settings: str
    ) -> subprocess.Popen[str]:
        """Starts an application; its log goes to a file in the scratch folder."""
        (self.scratch / "local").mkdir(exist_ok=True)
        with (self.scratch / "log").open("w") as log:
            process = subprocess.Popen(
                self.command(master, app, *arguments, **settings),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=self.environment(),
                cwd=self.scratch,
                start_new_session=True,
            )
        self.running.append(process)
        return process

    def environment(self) -> dict[str, str]:
        """The environment of Spark's programs."""
        return os.environ | {
            "SPARK_HOME": str(self.home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": str(self.python),
            "PYSPARK_DRIVER_PYTHON": str(self.python),
            "SPARK_SUBMIT_OPTS": f"-Djava.io.tmpdir={self.scratch}",
            "SPARK_WORKER_DIR": str(self.scratch / "work"),
            "SPARK_LOCAL_DIRS": str(self.scratch / "local"),
        }

    def run(self, master: str, app: str, *arguments: str, **settings: str) -> Outcome:
        """Runs an application to its end."""
        return self.finish(self.start(master, app, *arguments, **settings))

    def finish(self, process: subprocess.Popen[str]) -> Outcome:
        """Waits for the end of an application."""
        output, _ = process.communicate(timeout=DEADLINE_S)
        lines = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
        return Outcome(process.returncode, lines, (self.scratch / "log").read_text())

    def stop(self) -> None:
        """Ends what still runs; a test that was ended early leaves its application."""
        for process in self.running:
            # Also after a driver was killed: its Python waits forever.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def scratch() -> tempfile.TemporaryDirectory[str]:
    """A directory whose path is short, because sockets have short paths."""
    return tempfile.TemporaryDirectory(prefix="spark-", ignore_cleanup_errors=True)


def submitter(version: str, plasmon: bool = True) -> Generator[Spark]:
    """One line of Spark with its own temporary directory."""
    with scratch() as folder:
        made = Spark(version, Path(folder), plasmon)
        yield made
        made.stop()


class Cluster:
    """A standalone cluster on this machine, with a worker for each of some host names."""

    def __init__(self, spark: Spark, hosts: list[str]) -> None:
        self.spark = spark
        self.hosts = hosts
        self.running: list[subprocess.Popen[str]] = []
        self.master = ""
        self.log = Path()

    def launch(self, name: str, *arguments: str) -> Path:
        """Starts one of Spark's daemons; the file of its log."""
        log = self.spark.scratch / f"{name}-{len(self.running)}.log"
        service = f"org.apache.spark.deploy.{name.lower()}.{name}"
        with log.open("w") as output:
            program = [str(self.spark.home / "bin" / "spark-class"), service, *arguments]
            environment = self.spark.environment()
            # Each daemon has its own address.
            environment.pop("SPARK_LOCAL_IP")
            process = subprocess.Popen(
                program, stdout=output, stderr=output, text=True, env=environment
            )
        self.running.append(process)
        return log

    @staticmethod
    def said(log: Path, pattern: str) -> re.Match[str]:
        """Waits for a line in a log."""
        deadline = time.monotonic() + DEADLINE_S
        while not (found := re.search(pattern, log.read_text())):
            assert time.monotonic() < deadline, log.read_text()[-2000:]
            time.sleep(0.1)
        return found

    def kill_worker(self) -> None:
        """Kills the first worker; when this returns, applications were notified."""
        self.running[1].kill()
        self.said(self.log, "Telling app of lost worker")

    def __enter__(self) -> Cluster:
        flags = ["--port", "0", "--webui-port", "0"]
        self.log = log = self.launch("Master", "--host", "127.0.0.1", *flags)
        self.master = self.said(log, r"Starting Spark master at (spark://\S+)")[1]
        for host in self.hosts:
            log = self.launch("Worker", "--host", host, *flags, "-c", "1", "-m", "1g", self.master)
            self.said(log, "Successfully registered with master")
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.running:
            process.terminate()
        for process in self.running:
            process.wait()
