"""One node: a store with its keeper and its pool daemon, and the processes that read there."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import plasmon
from plasmon.demo import memory
from scripts.demo_pool.network import Network
from scripts.demo_pool.processes import DemoError, kill, log_end, marked, new_mark, spawn, until
from scripts.demo_pool.worker import Worker

_START_WITHIN_S = 30.0
_ENDED_WITHIN_S = 30.0


@dataclass(frozen=True)
class Programs:
    """The programs of a node."""

    daemon: str

    @classmethod
    def find(cls) -> Programs:
        """Those beside the interpreter, unless the environment names others."""
        folders = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
        daemon = os.environ.get("PLASMON_DAEMON") or shutil.which("plasmond", path=folders)
        if daemon is None:
            raise DemoError("plasmond is not installed: run make setup")
        beside = os.pathsep.join([str(Path(daemon).parent), os.environ.get("PATH", "")])
        poold = os.environ.get("PLASMON_POOLD") or shutil.which("plasmon-poold", path=beside)
        if poold is None:
            raise DemoError(
                f"the pool daemon plasmon-poold is neither beside {daemon} nor in PATH:"
                " set PLASMON_POOLD to its path"
            )
        return cls(daemon)


@dataclass(frozen=True)
class Copy:
    """A copy of an object on a node, as the node's own store lists it."""

    state: str
    #: Whether the pool keeps it there. Others are caches, which go when memory is short.
    kept: bool
    nbytes: int


class Node:
    """A node; made, it starts."""

    def __init__(self, network: Network, at: int, folder: Path) -> None:
        self.at, self.name = at, f"node{at + 1}"
        self.workers: list[Worker] = []
        self.is_up = True
        self._network = network
        self._mark = new_mark()
        self._folder = folder / self.name
        self._folder.mkdir(mode=0o700)
        self.socket = self._folder / "store.sock"
        self._log = self._folder / f"{self.name}.log"
        self._process: subprocess.Popen[str] | None = None

    def start(self, programs: Programs, endpoint: str, capacity: int, **more: str) -> None:
        """Starts the store, which starts its pool daemon; more settings have underscores."""
        settings = {
            "socket": str(self.socket),
            "capacity-bytes": str(capacity),
            "cluster": f"etcd://{endpoint}",
            "node-name": self.name,
            "pool-listen": self._network.address(self.at),
            "pool-folder": str(self._folder / "pool"),
            "log": "info",
        }
        settings |= {key.replace("_", "-"): value for key, value in more.items()}
        flags = [word for key, value in settings.items() for word in (f"--{key}", value)]
        command = [*self._network.inside(self.at), programs.daemon, *flags]
        self._process = spawn(command, self._mark, self._log)
        until(f"the store of {self.name} starts", _START_WITHIN_S, self._answers)

    def _answers(self) -> bool:
        assert self._process is not None, "it was started"
        try:
            self.connect().disconnect()
        except plasmon.PlasmonError as error:
            is_early = isinstance(error, plasmon.Disconnected) and self._process.poll() is None
            if not is_early:
                text = f"the store of {self.name} does not start: {error}{self.log_end()}"
                raise DemoError(text) from error
            return False
        return True

    def log_end(self) -> str:
        """The last lines of what its store and pool daemon said."""
        return log_end(self._log)

    def connect(self) -> plasmon.Store:
        """A connection to its store. Sockets of stores are files: no network is in between."""
        return plasmon.connect(self.socket, name="demo", start=False, reconnect_timeout=0)

    def run(self, command: list[str], log: Path, **environment: str) -> subprocess.Popen[str]:
        """Starts a program on this node, which ends with it."""
        given = [f"{key}={value}" for key, value in environment.items()]
        return spawn([*self._network.inside(self.at), "env", *given, *command], self._mark, log)

    def processes(self, program: str) -> list[int]:
        """The processes of this node whose program has this name."""
        found = []
        for pid in marked(self._mark):
            with contextlib.suppress(OSError):
                first = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode()
                found += [pid] if Path(first).name == program else []
        return found

    def add_worker(self) -> Worker:
        """One more process on this node."""
        name = f"{self.name}-{len(self.workers)}"
        log = self._folder / f"{name}.log"
        worker = Worker(name, self._network.inside(self.at), self.socket, self._mark, log)
        self.workers.append(worker)
        return worker

    def copy_of(self, name: str) -> Copy | None:
        """What its own store lists under a name of the pool; the pool is not asked."""
        namespace, _, text = name.partition(":")
        with self.connect() as store:
            own = store.list()
        found = [info for info in own if (info.namespace, info.name) == (namespace, text)]
        if not found:
            return None
        info = found[0]
        return Copy(info.state, info.policy == "keep", info.data_bytes + info.metadata_bytes)

    def shared_bytes(self) -> int:
        """The memory of stores that all processes of the node have together."""
        return memory.total(marked(self._mark)).shared_pss

    def received_bytes(self) -> int | None:
        """What came to it through the network."""
        return self._network.received_bytes(self.at)

    def end_processes(self) -> None:
        """Kills all that it started; when this returns, its kernel has closed their connections."""
        watched = []
        for pid in marked(self._mark):
            with contextlib.suppress(ProcessLookupError):
                watched.append(os.pidfd_open(pid))
        kill(self._mark)
        # A process that ends has no environment any more before it has no connections.
        for process in watched:
            select.select([process], [], [], _ENDED_WITHIN_S)
            os.close(process)

    def die(self) -> None:
        """Ends it as a loss of power does: nothing goes out any more, then all processes end."""
        self.is_up = False
        self._network.cut(self.at)
        kill(self._mark)

    def close(self) -> None:
        """Ends whatever is left of it."""
        kill(self._mark)
        for worker in self.workers:
            worker.close()
        if self._process is not None:
            self._process.wait()
