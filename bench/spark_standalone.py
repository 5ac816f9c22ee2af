"""Spark's standalone cluster on the machines of a pool: the master here, a worker on each machine.

Executors have what their worker has in its environment: the socket of their machine's store, and
directories of their own.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from pathlib import Path

from bench.pool_machines import PoolMachines
from scripts.demo_pool.node import Node
from scripts.demo_pool.processes import DemoError, until

_STARTED_WITHIN_S = 120.0
#: After how many seconds without a sign the master gives a worker up. Spark's default is 60.
WORKER_TIMEOUT_S = 6
#: Daemons compile little and have small heaps: there are many on few processors.
_DAEMON_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
EXECUTOR, WORKER = b"CoarseGrainedExecutorBackend", b"deploy.worker.Worker"


class Standalone:
    """A master and its workers, while the value is entered; they end with their machines."""

    def __init__(
        self,
        machines: PoolMachines,
        home: Path,
        folder: Path,
        environment: dict[str, str],
        *,
        cores: int = 1,
        memory: str = "1g",
        without_stores: frozenset[int] = frozenset(),
        worker_timeout_s: int = WORKER_TIMEOUT_S,
    ) -> None:
        """The environment is what executors have beside, such as `PYSPARK_PYTHON`.

        Workers of machines without stores do not find the one that is there.
        """
        self.machines, self._home, self._folder = machines, home, folder
        self._environment = environment | {"SPARK_HOME": str(home)}
        self._size = ["-c", str(cores), "-m", memory]
        self._without_stores = without_stores
        self._options = f"{_DAEMON_OPTIONS} -Dspark.worker.timeout={worker_timeout_s}"
        self._log = folder / "master.log"
        self.master = ""
        #: The logs of the workers, by machine.
        self.logs: list[Path] = []

    def start(self) -> None:
        """Starts all of it; returns when all workers are there."""
        self.launch()
        self.wait_until_ready()

    def launch(self) -> None:
        """Starts the daemons, and does not wait for the workers."""
        own = self.machines.own
        arguments = ["--host", self.machines.host, "--port", "0", "--webui-port", "0"]
        self._run(own, self._log, "master.Master", self.machines.host, *arguments)
        self.master = self._said(self._log, r"Starting Spark master at (spark://\S+)")
        for at in range(self.machines.count):
            self.logs.append(self._folder / f"worker-{at}.log")
            self.add_worker(at)

    def add_worker(self, at: int) -> None:
        """Starts the worker of a machine."""
        host, node = self.machines.address(at), self.machines.nodes[at]
        own = self._folder / f"machine-{at}"
        (own / "local").mkdir(parents=True, exist_ok=True)
        # Without a store there is also none where it is looked for when nothing names it.
        socket = own / "no.sock" if at in self._without_stores else node.socket
        arguments = ["--host", host, "--port", "0", "--webui-port", "0", *self._size, self.master]
        self._run(
            node,
            self.logs[at],
            "worker.Worker",
            host,
            *arguments,
            PLASMON_SOCKET=str(socket),
            SPARK_WORKER_DIR=str(own / "work"),
            SPARK_LOCAL_DIRS=str(own / "local"),
        )

    def wait_until_ready(self) -> None:
        """Returns once all workers have registered."""
        for log in self.logs:
            self._said(log, "(Successfully registered with master)")

    def _run(
        self, node: Node, log: Path, service: str, host: str, *arguments: str, **more: str
    ) -> subprocess.Popen[str]:
        program = [str(self._home / "bin" / "spark-class"), f"org.apache.spark.deploy.{service}"]
        environment = self._environment | {
            "SPARK_LOCAL_IP": host,
            # Celeborn's client in an executor takes no address from Spark.
            "CELEBORN_LOCAL_HOSTNAME": host,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": self._options,
        }
        return node.run([*program, *arguments], log, **environment, **more)

    def _said(self, log: Path, pattern: str) -> str:
        """Waits for a line in a log."""

        def found() -> re.Match[str] | None:
            return re.search(pattern, log.read_text(errors="replace"))

        try:
            match: re.Match[str] = until(f"{log.stem} of Spark starts", _STARTED_WITHIN_S, found)
        except DemoError as error:
            raise DemoError(f"{error}\n{log.read_text(errors='replace')[-2000:]}") from error
        return match[1]

    def executors(self, at: int) -> list[int]:
        """The executors of a machine."""
        return self._processes(at, EXECUTOR)

    def kill_worker(self, at: int) -> None:
        """`kill -9` for the worker of a machine, which takes its executors along."""
        for pid in self._processes(at, WORKER):
            os.kill(pid, signal.SIGKILL)

    def _processes(self, at: int, word: bytes) -> list[int]:
        """The virtual machines on a machine with this word in their command line."""
        found = []
        for pid in self.machines.nodes[at].processes("java"):
            with contextlib.suppress(OSError):
                found += [pid] if word in Path(f"/proc/{pid}/cmdline").read_bytes() else []
        return found

    def wait_until_lost(self, count: int) -> None:
        """Returns once the master has told applications of so many lost workers."""
        end = time.monotonic() + _STARTED_WITHIN_S
        while self._log.read_text().count("Telling app of lost worker") < count:
            if time.monotonic() > end:
                raise DemoError(f"the master does not miss a worker within {_STARTED_WITHIN_S} s")
            time.sleep(0.1)
