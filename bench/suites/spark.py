"""Spark's shuffle with our manager and with Spark's own, on the oldest and the newest line.

Both managers get the same settings, and each application two executors with one core. The figures
are ratios of whole jobs, ours over Spark's own, so smaller is better.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from functools import cache
from statistics import median
from typing import Any

from bench.case import FREE, Case, Entry, Figure, Samples, Side, Suite, at_most
from bench.provision import ROOT, MissingError
from bench.run import Context, Results

#: For how long to wait for a job, on a machine that may do something else besides, in seconds.
JOB_TIMEOUT_S = 900.0
JAR = ROOT / "spark" / "target" / "plasmon-spark.jar"
LINES = {"3.5": "spark35", "4.3": "spark4"}
WORKER = ("-m", "bench.rivals.spark.worker")
OURS, VANILLA = "plasmon", "sort"

JOBS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "terasort": (
        "3 million rows of 100 bytes, ranged and sorted",
        {"job": "terasort", "rows": 3_000_000},
        {"rows": 200_000},
    ),
    "blocks400": (
        "400 x 400 blocks",
        {"job": "blocks", "rows": 500_000, "count": 400},
        {"rows": 10_000, "count": 40},
    ),
    "blocks1000": (
        "1000 x 1000 blocks",
        {"job": "blocks", "rows": 100_000, "count": 1000},
        {"rows": 10_000, "count": 80},
    ),
    "tpc": (
        "joins of 1.8 million line items, orders and customers",
        {"job": "tpc", "rows": 1_800_000},
        {"rows": 100_000},
    ),
    "group": (
        "RDD groupByKey of 400,000 pairs",
        {"job": "group_by_key", "rows": 400_000},
        {"rows": 40_000},
    ),
    "kill": (
        "an executor killed when all map tasks have finished",
        {"job": "kill", "rows": 800_000},
        {"rows": 80_000},
    ),
}
SPILL = "3 million rows out of 2 map tasks, in executors of 512 MB"


@cache
def _jar() -> None:
    if subprocess.run([ROOT / "scripts" / "spark.sh", "jar"], check=False).returncode != 0:
        raise MissingError("the jar could not be built: see scripts/spark.sh jar")


def _measure(context: Context, entry: Entry) -> Samples:
    """A job may take longer than one usually waits for an answer."""
    _jar()
    request = dict(entry.request)
    quick = request.pop("quick")
    with context.awake(entry.side) as worker:
        worker.send(request | (quick if context.quick else {}))
        answer = worker.receive(JOB_TIMEOUT_S)
    context.note(answer)
    return [float(sample) for sample in answer["samples"]]


def _side(line: str, manager: str, small: bool = False) -> Side:
    arguments = (*WORKER, manager, str(JAR)) if manager == OURS else (*WORKER, manager)
    start = {"executor_mb": 512} if small else {}
    name = f"{manager}-{line}{'-small' if small else ''}"
    return Side(name, "Python", arguments, LINES[line], start, settle_ms=500)


def _case(name: str, line: str) -> Case:
    title, request, quick = JOBS[name]
    entries = tuple(
        Entry(
            f"{manager}-{line}",
            {"op": "run", **request, "quick": quick},
            f"shuffle manager: {manager}",
            measure=_measure,
        )
        for manager in (VANILLA, OURS)
    )
    return Case(f"{name}_{line}", f"{title}, Spark {line}", entries, rounds=5, quick_rounds=1)


def _spill() -> Case:
    request = {"op": "run", "job": "repartition", "rows": 3_000_000, "quick": {"rows": 200_000}}
    entries = tuple(
        Entry(f"{manager}-3.5-small", request, f"shuffle manager: {manager}", measure=_measure)
        for manager in (VANILLA, OURS)
    )
    return Case("spill_3.5", f"{SPILL}, Spark 3.5", entries, rounds=5, quick_rounds=1)


CASES = (*(_case(name, line) for line in LINES for name in JOBS), _spill())


def _ratio(case: str, line: str) -> Callable[[Results], float]:
    sides = (f"{OURS}-{line}", f"{VANILLA}-{line}")
    if case == "spill":
        sides = (f"{sides[0]}-small", f"{sides[1]}-small")
    return lambda results: results.ratio(f"{case}_{line}", *sides)


def _told(results: Results, case: str, side: str, what: str) -> float:
    notes = results.notes.get((case, side, FREE.name))
    if not notes:
        raise MissingError(f"{side}: {case} was not measured")
    return median(float(note[what]) for note in notes)


def _fetch_wait(line: str) -> Callable[[Results], float]:
    case = f"blocks1000_{line}"

    def compute(results: Results) -> float:
        ours, vanilla = (
            _told(results, case, f"{manager}-{line}", "fetch_wait_ms")
            for manager in (OURS, VANILLA)
        )
        return ours / max(vanilla, 1.0)

    return compute


def _commit(line: str) -> Callable[[Results], float]:
    return lambda results: (
        _told(results, f"blocks400_{line}", f"{OURS}-{line}", "write_ns") / 400 / 1e6
    )


def _figures(line: str) -> tuple[Figure, ...]:
    at = line.replace(".", "")
    return (
        Figure(
            f"terasort_ratio_{at}",
            f"{JOBS['terasort'][0]}, Spark {line}",
            "x",
            _ratio("terasort", line),
            at_most(1.05),
        ),
        Figure(
            f"blocks400_ratio_{at}",
            f"{JOBS['blocks400'][0]}, Spark {line}",
            "x",
            _ratio("blocks400", line),
            at_most(0.9),
        ),
        Figure(
            f"blocks1000_fetch_wait_ratio_{at}",
            f"time that reduce tasks wait for {JOBS['blocks1000'][0]}, Spark {line}",
            "x",
            _fetch_wait(line),
            at_most(0.1),
        ),
        Figure(
            f"map_commit_ms_{at}",
            f"write time of a map task of blocks400, Spark {line}",
            "ms",
            _commit(line),
            at_most(1),
        ),
        Figure(f"tpc_ratio_{at}", f"{JOBS['tpc'][0]}, Spark {line}", "x", _ratio("tpc", line)),
        Figure(
            f"group_ratio_{at}", f"{JOBS['group'][0]}, Spark {line}", "x", _ratio("group", line)
        ),
        Figure(
            f"executor_kill_ratio_{at}",
            f"{JOBS['kill'][0]}, Spark {line}",
            "x",
            _ratio("kill", line),
            at_most(0.6),
        ),
        Figure(
            f"executor_kill_reruns_{at}",
            f"map tasks run again: {JOBS['kill'][0]}",
            "tasks",
            lambda results: _told(results, f"kill_{line}", f"{OURS}-{line}", "told"),
            at_most(0),
        ),
    )


FIGURES = (
    *(figure for line in LINES for figure in _figures(line)),
    Figure("spill_ratio", f"{SPILL}, Spark 3.5", "x", _ratio("spill", "3.5"), at_most(0.8)),
    Figure(
        "spill_local_bytes",
        f"bytes spilled to local directories: {SPILL}",
        "B",
        lambda results: _told(results, "spill_3.5", f"{OURS}-3.5-small", "spilled_bytes"),
        at_most(0),
    ),
)

SIDES = (
    *(_side(line, manager) for line in LINES for manager in (VANILLA, OURS)),
    *(_side("3.5", manager, small=True) for manager in (VANILLA, OURS)),
)

SUITE = Suite("spark", SIDES, CASES, FIGURES, page="docs/benchmarks/spark.md")
