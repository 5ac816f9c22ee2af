"""Measurements of Spark's shuffle on a pool of three machines.

The machines, their nodes and the daemons of Spark and of Celeborn are made for one measurement, and
end with it.
"""

from __future__ import annotations

import select
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench import celeborn, environments
from bench.case import Entry, Samples
from bench.celeborn import Celeborn
from bench.environments import MissingError
from bench.pool_machines import PoolMachines
from bench.run import Context
from bench.spark_standalone import Standalone
from bench.worker import Worker
from scripts.demo_pool.network import NetworkError
from scripts.demo_pool.processes import DemoError

WORKER = ("-m", "bench.rivals.spark.pool_worker")
#: Of each node's store: two copies of all outputs, and what is on its way.
CAPACITY_BYTES = 2 << 30
#: For how long to wait for a job, in seconds.
JOB_TIMEOUT_S = 600.0
#: Of one application.
SAMPLES = 2
#: The machine that is killed.
VICTIM = 0


@contextmanager
def application(context: Context, entry: Entry) -> Iterator[tuple[Worker, Standalone]]:
    """A worker whose application runs on machines of its own."""
    released = celeborn.release() if entry.side.startswith(celeborn.NAME) else None
    interpreter = environments.rival(context.sides[entry.side].environment)
    home = next(interpreter.parents[1].glob("lib/python*/site-packages/pyspark"))
    shared = {"PYSPARK_PYTHON": str(interpreter), "PYTHONPATH": str(environments.ROOT)}
    # Not in the run's own folder: sockets have short paths.
    place = tempfile.TemporaryDirectory(prefix="spark-", ignore_cleanup_errors=True)
    daemon = environments.our_daemon()
    try:
        with (
            place as folder,
            PoolMachines(Path(folder), daemon, capacity_bytes=CAPACITY_BYTES) as machines,
        ):
            cluster = Standalone(machines, home, Path(folder), shared)
            rival = Celeborn(machines, released, Path(folder)) if released else None
            if rival is not None:
                rival.launch()
            cluster.start()
            machines.wait_until_joined()
            if rival is not None:
                rival.wait_until_ready()
            told: dict[str, Any] = {
                "master": cluster.master,
                "host": machines.host,
                "socket": str(machines.own.socket),
                "copies": entry.request["copies"],
            }
            if rival is not None:
                told["celeborn"] = rival.told()
            with context.fresh(entry.side, told) as (worker, _):
                yield worker, cluster
    except (DemoError, NetworkError) as error:
        raise MissingError(str(error)) from error


def job(context: Context, entry: Entry) -> Samples:
    """The time of a job on three machines, after it has run once."""
    request, quick = _request(entry)
    with application(context, entry) as (worker, _):
        samples: Samples = []
        for _ in range(1 if context.quick else SAMPLES):
            worker.send(request | (quick if context.quick else {}))
            answer = worker.receive(JOB_TIMEOUT_S)
            context.note(answer)
            samples += answer["samples"]
    return samples


def job_with_a_kill(context: Context, entry: Entry) -> Samples:
    """The time of a job of which a machine is killed as soon as reduce tasks run."""
    request, quick = _request(entry)
    with application(context, entry) as (worker, cluster):
        marks = Path(tempfile.mkdtemp(prefix="marks-", dir=worker.directory))
        request |= quick if context.quick else {}
        worker.send(request | {"folder": str(marks)})
        end = time.monotonic() + JOB_TIMEOUT_S
        # An answer that comes earlier is an error.
        while not (marks / "reduces").exists() and not _has_answered(worker):
            if time.monotonic() > end:
                raise MissingError("no reduce task has begun")
        cluster.machines.kill(VICTIM)
        answer = worker.receive(JOB_TIMEOUT_S)
    context.note(answer)
    return [float(sample) for sample in answer["samples"]]


def _has_answered(worker: Worker) -> bool:
    """Whether a worker has answered, or ended; looks for a moment."""
    return bool(select.select([worker.process.stdout], [], [], 0.01)[0])


def _request(entry: Entry) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the worker is asked for, and what of it is smaller when there is little time."""
    request = dict(entry.request)
    del request["copies"]
    return request, request.pop("quick")
