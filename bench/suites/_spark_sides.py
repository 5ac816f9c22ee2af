"""The applications that the suite of Spark measures, and how they are asked for their jobs.

Each manager has an application of each kind, and ours another one with equal memory: its store and
its executors together have what the executors of Spark's own manager have.
"""

from __future__ import annotations

import subprocess
from functools import cache
from typing import Any

from bench.case import Case, Entry, Samples, Side
from bench.environments import ROOT, MissingError
from bench.run import Context

#: For how long to wait for a job, on a machine that may do something else besides, in seconds.
JOB_TIMEOUT_S = 900.0
JAR = ROOT / "spark" / "target" / "plasmon-spark.jar"
LINES = {"3.5": "spark35", "4.3": "spark4"}
WORKER = ("-m", "bench.rivals.spark.worker")
OURS, VANILLA = "plasmon", "sort"
EQUAL = "equal"

EXECUTORS, EXECUTOR_MB = 2, 1024
#: Spark starts no executor with less than 450 MB, and not every Java gives it all of these.
EXECUTOR_MB_MIN = 464
#: What the store gets of each executor's memory, where that leaves the executor enough.
STORE_SHARE = 1 / 4
#: The store that holds a quarter of its job's shuffle.
SMALL_STORE_BYTES = 140_000_000

#: What differs from two executors of 1 GB, by the kind of application.
KINDS: dict[str, dict[str, Any]] = {
    "": {},
    "small": {"executor_mb": 512},
    "exchange": {},
    "throttled": {"throttled": True},
    "tpch": {"adaptive": True},
}


@cache
def jar() -> None:
    """Builds the package."""
    if subprocess.run([ROOT / "scripts" / "spark.sh", "jar"], check=False).returncode != 0:
        raise MissingError("the jar could not be built: see scripts/spark.sh jar")


def split(executor_mb: int) -> dict[str, int]:
    """Executors and a store that together have what two executors of this size have."""
    share_mb = min(int(executor_mb * STORE_SHARE), executor_mb - EXECUTOR_MB_MIN)
    return {"executor_mb": executor_mb - share_mb, "store_bytes": EXECUTORS * share_mb << 20}


def _equal(kind: str) -> dict[str, Any]:
    """How the application with equal memory is started."""
    start = KINDS[kind]
    if kind == "exchange":
        # Its store has the size that the job asks for.
        return {"executor_mb": EXECUTOR_MB - (SMALL_STORE_BYTES // EXECUTORS >> 20)}
    return start | split(start.get("executor_mb", EXECUTOR_MB))


def name(manager: str, line: str, kind: str = "", equal: bool = False) -> str:
    """What an application is called."""
    words = (manager, line, kind, EQUAL if equal else "")
    return "-".join(word for word in words if word)


def _side(line: str, manager: str, kind: str, equal: bool = False) -> Side:
    arguments = (*WORKER, manager, str(JAR)) if manager == OURS else (*WORKER, manager)
    start = _equal(kind) if equal else KINDS[kind]
    return Side(
        name(manager, line, kind, equal), "Python", arguments, LINES[line], start, settle_ms=500
    )


def _sides(line: str, kind: str) -> tuple[Side, ...]:
    return (
        _side(line, VANILLA, kind),
        _side(line, OURS, kind),
        _side(line, OURS, kind, equal=True),
    )


SIDES = tuple(
    side for line in LINES for kind in KINDS if not kind or line == "3.5"
    for side in _sides(line, kind)
)  # fmt: skip


def entries(line: str, kind: str, request: dict[str, Any], measure: Any) -> tuple[Entry, ...]:
    """A job, for each application of a kind."""
    return tuple(
        Entry(side.name, request, f"shuffle manager: {side.name.split('-')[0]}", measure=measure)
        for side in _sides(line, kind)
    )


def measure(context: Context, entry: Entry) -> Samples:
    """A job may take longer than one usually waits for an answer."""
    request = dict(entry.request)
    quick = request.pop("quick")
    return ask(context, entry, request | (quick if context.quick else {}))


def ask(context: Context, entry: Entry, request: dict[str, Any]) -> Samples:
    """Asks an application, and keeps what it notes beside its sample."""
    jar()
    with context.awake(entry.side) as worker:
        worker.send(request)
        answer = worker.receive(JOB_TIMEOUT_S)
    context.note(answer)
    return [float(sample) for sample in answer["samples"]]


def job_case(
    case: str, title: str, line: str, kind: str, request: dict[str, Any], rounds: int = 5
) -> Case:
    """A job that both managers do in turns, which knows by its name whether it ran before."""
    asked = entries(line, kind, {"op": "run", "name": case, **request}, measure)
    return Case(f"{case}_{line}", f"{title}, Spark {line}", asked, rounds=rounds, quick_rounds=1)
