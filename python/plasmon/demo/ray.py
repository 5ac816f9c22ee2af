"""Ray's object store, where Ray is installed: the same tasks in actors instead of our workers."""

from __future__ import annotations

import importlib.util
import os
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plasmon.demo.tasks import Task
from plasmon.demo.ways import UnavailableWay, Way, check_room
from plasmon.demo.workers import WORKER_TIMEOUT_S, Command, Pool, Source, Worker, timed

if TYPE_CHECKING:
    import pyarrow as pa

_ROOM = 1.3
#: An actor takes a second to start.
_READERS_MAX = 4


@dataclass
class _Reference:
    """The result of ``ray.put``. It is in a list, or Ray would get it for the actor."""

    held: list[Any]

    def open(self) -> pa.Table:
        import ray

        return ray.get(self.held[0])


class _Actors(Pool):
    """Ray's actors, with the commands of the workers."""

    def __init__(self) -> None:
        super().__init__()
        self._actors: list[Any] = []
        self._pids: list[int] = []
        self._under_way: list[list[Any]] = []

    @property
    def pids(self) -> list[int]:
        return self._pids

    def __len__(self) -> int:
        return len(self._actors)

    def grow(self, count: int, *, fork: bool = False) -> None:
        del fork
        import ray

        new = [ray.remote(_Actor).remote() for _ in range(count - len(self))]
        self._actors += new
        self._under_way += [[] for _ in new]
        self._pids += ray.get([actor.pid.remote() for actor in new], timeout=WORKER_TIMEOUT_S)

    def tell(self, command: Command, arguments: list[Any], first: int = 0) -> None:
        for at, argument in enumerate(arguments, first):
            self._under_way[at].append(self._actors[at].do.remote(command, argument))

    def tell_job(self, sources: Iterator[Source], tasks: list[Task]) -> None:
        for at, (source, task) in enumerate(zip(sources, tasks, strict=True)):
            self._under_way[at] += [
                self._actors[at].do.remote("take", source),
                self._actors[at].do.remote("compute", task),
            ]

    def answers(self, first: int = 0) -> list[Any]:
        import ray

        waiting = [orders.pop(0) for orders in self._under_way[first:]]
        return list(ray.get(waiting, timeout=WORKER_TIMEOUT_S))

    def end(self) -> None:
        import ray

        for actor in self._actors:
            ray.kill(actor)


class _Actor:
    """One worker in an actor."""

    def __init__(self) -> None:
        import pyarrow as pa

        pa.set_cpu_count(1)
        self._worker = Worker()

    def pid(self) -> int:
        return os.getpid()

    def do(self, command: str, argument: Any) -> Any:
        return getattr(self._worker, command)(argument)


class Ray(Way):
    """``ray.put``, and ``ray.get`` in actors."""

    def __init__(self) -> None:
        asks = "its own processes, cluster and way of starting programs; put once, as here"
        super().__init__("ray", asks, readers_max=_READERS_MAX)

    @contextmanager
    def _actors(self) -> Iterator[Pool]:
        actors = _Actors()
        try:
            yield actors
        finally:
            actors.end()

    def pool(self) -> AbstractContextManager[Pool]:
        return self._actors()

    def source(self, columns: list[str] | None = None) -> Source:
        return _Reference([self._put])

    @contextmanager
    def prepared(self, table: pa.Table) -> Iterator[None]:
        spec = importlib.util.find_spec("ray")
        # A folder of this name is no package.
        if spec is None or spec.origin is None:
            raise UnavailableWay("not installed")
        check_room(Path("/dev/shm"), table)
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        import ray

        before = _descendants()
        with tempfile.TemporaryDirectory(prefix="ray-") as folder:
            ray.init(
                num_cpus=_READERS_MAX,
                include_dashboard=False,
                object_store_memory=int(table.nbytes * _ROOM) + (80 << 20),
                _temp_dir=folder,
                log_to_driver=False,
                logging_level="ERROR",
            )
            try:
                # Its servers have to be there; its idle workers, which it starts ahead, do not.
                self.holders = [
                    pid for pid in _descendants() - before if _name(pid) in ("raylet", "gcs_server")
                ]
                self.prepare_s, self._put = timed(lambda: ray.put(table))
                yield
            finally:
                ray.shutdown()


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def _descendants() -> set[int]:
    """The processes that this one started, and those that they did."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(entry.name)] = int(words[1])
    found: set[int] = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found
