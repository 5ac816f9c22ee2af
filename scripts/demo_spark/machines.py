"""The job in which a machine is killed, on three machines that are network namespaces.

Each manager has machines of its own, with a node of a pool, a worker of Spark's standalone cluster
and an executor on each. Spark's own manager does not use the pool.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.environments import MissingError
from bench.pool_machines import PoolMachines
from bench.spark_standalone import Standalone
from bench.worker import Worker
from scripts.demo_pool.network import NetworkError
from scripts.demo_pool.processes import DemoError
from scripts.demo_spark import scene
from scripts.demo_spark.marks import KILLED, REDUCE
from scripts.demo_spark.scene import JOB_TIMEOUT_S, MANAGERS, Account, Job, Run

KILL = Job("groups", "a machine of three is killed in the reduce stage", 900_000, kills="machine")
#: Beside the pool daemon, as the build of the jar leaves them.
DAEMON = scene.ROOT / "target" / "release" / "plasmond"
#: The machine that is killed.
VICTIM = 0
#: Of each machine's store.
CAPACITY_BYTES = 512 << 20
COPIES = 2


def play(job: Job, account: Account, folder: Path, say: Callable[[str], None]) -> None:
    """Runs the job with each manager, and notes why not where there can be no machines."""
    account.jobs.append(job)
    for manager, told in MANAGERS.items():
        say(f"three machines with {manager} manager ...")
        try:
            with _machines(Path(tempfile.mkdtemp(dir=folder))) as cluster:
                run = _run(cluster, job, told, folder)
        except _ElsewhereError as error:
            account.left_out[job.title] = str(error)
            say(f"  left out: {error}")
            return
        account.note(job, manager, run)
        say(f"  {job.title}: {run.seconds:.1f} s")


class _ElsewhereError(Exception):
    """There can be no machines here."""


@contextmanager
def _machines(folder: Path) -> Iterator[Standalone]:
    """Three machines with everything that an application needs."""
    home = next(scene.PYTHON.parents[1].glob("lib/python*/site-packages/pyspark"))
    shared = {"PYSPARK_PYTHON": str(scene.PYTHON), "PYTHONPATH": str(scene.ROOT)}
    machines = PoolMachines(folder, DAEMON, capacity_bytes=CAPACITY_BYTES)
    try:
        machines.__enter__()
    except (MissingError, NetworkError, DemoError, OSError) as error:
        raise _ElsewhereError(str(error)) from error
    try:
        cluster = Standalone(machines, home, folder, shared)
        cluster.start()
        machines.wait_until_joined()
        yield cluster
    finally:
        machines.__exit__(None, None, None)


def _run(cluster: Standalone, job: Job, told: list[str], folder: Path) -> Run:
    directory = Path(tempfile.mkdtemp(prefix=f"{told[0]}-", dir=folder))
    marks = Path(tempfile.mkdtemp(prefix="marks-", dir=directory))
    command = [str(scene.PYTHON), "-m", "scripts.demo_spark.pool_worker", *told]
    worker = Worker(command, directory)
    start: dict[str, Any] = {
        "op": "start_on",
        "directory": str(directory),
        "executor_mb": scene.EXECUTOR_MB,
        "master": cluster.master,
        "host": cluster.machines.host,
        "socket": str(cluster.machines.own.socket),
        "copies": COPIES,
    }
    try:
        worker.call(start)
        less = job.smaller(scene.WARM_UP).rows
        worker.call({"op": "show", "job": job.key, "rows": less, "folder": ""}, JOB_TIMEOUT_S)
        worker.send({"op": "show_killed", "rows": job.rows, "folder": str(marks), "here": False})
        _wait_for_a_reduce_task(worker, marks)
        cluster.machines.kill(VICTIM)
        (marks / KILLED).touch()
        return Run.of(worker.receive(JOB_TIMEOUT_S))
    finally:
        worker.end()


def _wait_for_a_reduce_task(worker: Worker, marks: Path) -> None:
    end = time.monotonic() + JOB_TIMEOUT_S
    while not any(marks.glob(f"{REDUCE}*")) and worker.process.poll() is None:
        if time.monotonic() > end:
            raise MissingError("no reduce task has begun")
        time.sleep(0.01)
