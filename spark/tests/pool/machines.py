"""Spark on three machines with a node of the pool each, and what applications there do."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from submitting import DEADLINE_S, HERE, ROOT, Spark, scratch

from bench.pool_machines import CAPACITY_BYTES, PoolMachines
from bench.spark_standalone import WORKER_TIMEOUT_S, Standalone


def _daemon() -> Path:
    """The daemon beside the newest pool daemon: `make test` builds both without optimizations."""
    folders = [ROOT / "target" / kind for kind in ("release", "debug")]
    built = [folder / "plasmon-poold" for folder in folders if (folder / "plasmon-poold").exists()]
    newest = max(built, key=lambda file: file.stat().st_mtime, default=folders[0] / "plasmon-poold")
    return newest.with_name("plasmond")


DAEMON = _daemon()
#: Programs of a test's application must find the modules of the tests.
PYTHONPATH = os.pathsep.join([str(HERE), str(HERE / "pool")])
#: As in steps.py, which only Spark's interpreter can import.
MAPS, HELD, REDUCES, ROWS = 9, 3, 6, 4_000
SUMS = [[key, sum(range(key, ROWS, 50))] for key in range(50)]

#: How the namespaces of applications on the pool begin.
NAMESPACES = "@spark-"
GONE_WITHIN_S = 60.0

#: Much starts, and little is computed for long.
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
#: Three executors, which all take part from the first task on. What is lost is missed after
#: seconds; Spark's defaults are minutes.
SETTINGS = {
    "spark_executor_cores": "1",
    "spark_executor_memory": "640m",
    "spark_cores_max": "3",
    "spark_scheduler_minRegisteredResourcesRatio": "1.0",
    "spark_scheduler_maxRegisteredResourcesWaitingTime": "120s",
    "spark_network_timeout": "12s",
    "spark_network_timeoutInterval": "2s",
    "spark_executor_heartbeatInterval": "2s",
    "spark_shuffle_io_retryWait": "1s",
    "spark_driver_extraJavaOptions": JAVA_OPTIONS,
    "spark_executor_extraJavaOptions": JAVA_OPTIONS,
    "spark_eventLog_enabled": "true",
    "spark_eventLog_compress": "false",
    "spark_eventLog_rolling_enabled": "false",
}


@dataclass
class PoolSpark(Spark):
    """One line of Spark on the machines; applications are submitted on this machine."""

    machines: PoolMachines = field(kw_only=True)
    cluster: Standalone = field(kw_only=True)

    def environment(self) -> dict[str, str]:
        return super().environment() | {
            "SPARK_LOCAL_IP": self.machines.host,
            "PLASMON_SOCKET": str(self.machines.own.socket),
            "PYTHONPATH": PYTHONPATH,
        }

    def command(self, master: str, app: str, *arguments: str, **settings: str) -> list[str]:
        (self.scratch / "events").mkdir(exist_ok=True)
        where = {
            "spark_driver_host": self.machines.host,
            "spark_driver_bindAddress": self.machines.host,
            "spark_eventLog_dir": f"file://{self.scratch}/events",
        }
        return super().command(master, app, *arguments, **(SETTINGS | where | settings))

    def beside(self, folder: Path) -> PoolSpark:
        """For a second application on the same machines, with files of its own."""
        folder.mkdir()
        return PoolSpark(
            self.line, folder, self.plasmon, machines=self.machines, cluster=self.cluster
        )

    def log(self) -> str:
        """What the application has logged so far."""
        return (self.scratch / "log").read_text(errors="replace")

    def until_logged(self, text: str) -> None:
        """Waits until the application has logged something."""
        deadline = time.monotonic() + DEADLINE_S
        while text not in self.log():
            assert time.monotonic() < deadline, self.log()[-6000:]
            time.sleep(0.05)

    def until_copied(self, objects: int) -> None:
        """Waits until the nodes have at least so many objects of applications, copies counted."""
        self._until_objects(NAMESPACES, lambda found: found >= objects)

    def until_gone(self, prefix: str = NAMESPACES) -> None:
        """Waits until no node that is up has an object in such a namespace."""
        self._until_objects(prefix, lambda found: found == 0)

    def _until_objects(self, prefix: str, holds: Callable[[int], bool]) -> None:
        deadline = time.monotonic() + GONE_WITHIN_S
        while not holds((found := self.machines.namespaces(prefix)).total()):
            assert time.monotonic() < deadline, f"objects of {found}"
            time.sleep(0.05)

    def account(self) -> Account:
        """What the event logs of the applications so far say."""
        return Account.of(self.scratch / "events")


@contextmanager
def pool_spark(
    line: str,
    *,
    plasmon: bool = True,
    cores: int = 1,
    without_stores: frozenset[int] = frozenset(),
    worker_timeout_s: int = WORKER_TIMEOUT_S,
    spilling_bytes: int | None = None,
) -> Generator[PoolSpark]:
    """Three machines with a node, and a worker with so many cores, each; and Spark's master.

    If it is given, each node holds that many bytes, and spills what is more.
    """
    spills = spilling_bytes is not None
    capacity_bytes = spilling_bytes or CAPACITY_BYTES
    with (
        scratch() as name,
        PoolMachines(Path(name), DAEMON, capacity_bytes=capacity_bytes, spills=spills) as machines,
    ):
        folder = Path(name)
        alone = Spark(line, folder)
        environment = {"PYSPARK_PYTHON": str(alone.python), "PYTHONPATH": PYTHONPATH}
        cluster = Standalone(
            machines,
            alone.home,
            folder,
            environment,
            cores=cores,
            memory=f"{cores}g",
            without_stores=without_stores,
            worker_timeout_s=worker_timeout_s,
        )
        cluster.start()
        machines.wait_until_joined()
        made = PoolSpark(line, folder, plasmon, machines=machines, cluster=cluster)
        try:
            yield made
        except BaseException:
            keep_logs(folder)
            raise
        finally:
            made.stop()


def keep_logs(folder: Path) -> None:
    """Keeps what all programs logged, for the reader of a failed test."""
    test = os.environ.get("PYTEST_CURRENT_TEST", "").split(" ")[0].rpartition("::")[2]
    kept = ROOT / "target" / "test-logs" / "spark-pool" / test
    shutil.rmtree(kept, ignore_errors=True)
    for log in [*folder.rglob("*.log"), *folder.rglob("log"), *folder.rglob("stderr")]:
        to = kept / log.relative_to(folder)
        to.parent.mkdir(parents=True, exist_ok=True)
        with suppress(OSError):
            shutil.copy(log, to)


@dataclass(frozen=True)
class Account:
    """What an event log says of map tasks and stages."""

    #: How often map tasks ended well after they had done so before.
    reruns: int = 0
    failed_stages: int = 0

    @classmethod
    def of(cls, folder: Path) -> Account:
        """Of all applications whose logs are in a folder.

        A map task that is made again for another job counts as a new one: its stage has another
        number.
        """
        done: Counter[tuple[str, int, int]] = Counter()
        failed = 0
        for file in filter(Path.is_file, folder.rglob("*")):
            for text in file.read_text().splitlines():
                event = json.loads(text)
                kind = event["Event"]
                if kind == "SparkListenerStageCompleted":
                    failed += "Failure Reason" in event["Stage Info"]
                elif kind == "SparkListenerTaskEnd" and event["Task Type"] == "ShuffleMapTask":
                    well = event["Task End Reason"]["Reason"] == "Success"
                    task = event["Task Info"]["Index"]
                    done[file.name, event["Stage ID"], task] += well
        return cls(sum(times - 1 for times in done.values() if times > 1), failed)


class Steps:
    """A run of steps.py, which waits at some of its steps."""

    def __init__(
        self,
        spark: PoolSpark,
        folder: Path,
        *holds: str,
        row_bytes: int = 0,
        **settings: str,
    ) -> None:
        self.spark, self.folder = spark, folder
        for step in holds:
            (folder / f"hold-{step}").touch()
        master = spark.cluster.master
        words = ("pool/steps.py", str(folder), str(row_bytes))
        self.process = spark.start(master, *words, **settings)
        self._deadline = time.monotonic() + DEADLINE_S
        self._unread = b""
        self.driver = int(self.line("driver"))

    def line(self, job: str, at_least: int | None = None) -> Any:
        """Waits for the line of a job, and for a number that is large enough."""
        while True:
            text = self._next()
            if text is None:
                raise AssertionError(f"no line of {job}: {self.spark.log()[-6000:]}")
            if not text.startswith(b"{"):
                continue
            told = json.loads(text)
            if told["job"] == job and (at_least is None or told["result"] >= at_least):
                return told["result"]

    def _next(self) -> bytes | None:
        """The next line; None when there is none in time, or none any more."""
        assert self.process.stdout is not None
        pipe = self.process.stdout.fileno()
        while b"\n" not in self._unread:
            left = self._deadline - time.monotonic()
            if left <= 0 or not select.select([pipe], [], [], left)[0]:
                return None
            more = os.read(pipe, 1 << 16)
            if not more:
                return None
            self._unread += more
        line, self._unread = self._unread.split(b"\n", 1)
        return line

    def until_held(self, step: str) -> None:
        """Waits until the application is at a step, and nothing else runs."""
        if step == "maps":
            self.line("tasks", MAPS - HELD)
        elif step == "reduces":
            self._until_marked("reduce", 3)
        else:
            assert self.line("first") == SUMS

    def _until_marked(self, what: str, count: int) -> None:
        while len(self.marks(what)) < count:
            assert time.monotonic() < self._deadline, self.spark.log()[-6000:]
            assert self.process.poll() is None, self.spark.log()[-6000:]
            time.sleep(0.05)

    def go_on(self, step: str) -> None:
        """Lets the application go on from a step."""
        (self.folder / step).touch()

    def marks(self, what: str) -> list[tuple[int, str]]:
        """The indices of tasks that came so far, and their machines."""
        names = [file.name.split("-") for file in self.folder.glob(f"{what}-*-*")]
        return sorted((int(index), host) for _, index, _, host in names)

    def maps_on(self, at: int) -> list[int]:
        """The map tasks that have finished on a machine."""
        host = self.spark.machines.address(at)
        return [index for index, found in self.marks("map") if found == host]

    def account(self) -> Account:
        """Map tasks that ran again, for whichever job, and failed stages."""
        indices = [index for index, _ in self.marks("map")]
        return Account(len(indices) - len(set(indices)), self.spark.account().failed_stages)

    def end(self, held: str = "") -> None:
        """Waits for the end; both jobs must have given what they give everywhere."""
        if held != "between":
            assert self.line("first") == SUMS
        assert self.line("second") == SUMS
        try:
            assert self.process.wait(DEADLINE_S) == 0, self.spark.log()[-6000:]
        except subprocess.TimeoutExpired as late:
            raise AssertionError(self.spark.log()[-6000:]) from late
