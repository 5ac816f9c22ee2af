"""Spark's shuffle on three machines with a node of the pool each: cases and figures.

Beside Spark's own manager on the same machines, each with one executor, and beside Celeborn where a
release of it is named.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import Any

from bench import celeborn
from bench.case import FREE, Case, Entry, Figure, Measure, Samples, Side, at_most
from bench.environments import MissingError
from bench.run import Context, Results
from bench.spark_pool import WORKER, job, job_with_a_kill
from bench.suites._spark_sides import JAR, jar

OURS, VANILLA, CELEBORN = "plasmon-3.5-pool", "sort-3.5-pool", f"{celeborn.NAME}-3.5-pool"
ONE_COPY, TWO_COPIES = "copies 1", "copies 2"

TERASORT = "3 million rows of 100 bytes, ranged and sorted, on three machines"
BLOCKS = "400 x 400 blocks on three machines"
KILL = "a machine of three killed in the reduce stage"

SIDES = (
    Side(OURS, "Python", (*WORKER, "plasmon", str(JAR)), "spark35"),
    Side(VANILLA, "Python", (*WORKER, "sort"), "spark35"),
    Side(CELEBORN, "Python", (*WORKER, celeborn.NAME), "spark35"),
)


def _entry(side: str, request: dict[str, Any], copies: int, measure: Measure) -> Entry:
    variant = {0: "", 1: ONE_COPY, 2: TWO_COPIES}[copies]
    work = f"shuffle manager: {side.split('-', maxsplit=1)[0]} {variant}".strip()

    def built(context: Context, entry: Entry) -> Samples:
        jar()
        return measure(context, entry)

    return Entry(side, {**request, "copies": copies}, work, variant, measure=built)


def _case(
    name: str, title: str, request: dict[str, Any], measure: Measure, *copies: int, rounds: int
) -> Case:
    entries = (
        _entry(VANILLA, request, 0, measure),
        *(_entry(side, request, count, measure) for side in (OURS, CELEBORN) for count in copies),
    )
    return Case(f"{name}_3.5", f"{title}, Spark 3.5", entries, rounds=rounds, quick_rounds=1)


CASES = (
    _case(
        "pool_terasort",
        TERASORT,
        {"op": "run", "job": "terasort", "rows": 3_000_000, "quick": {"rows": 200_000}},
        job,
        1,
        2,
        rounds=2,
    ),
    _case(
        "pool_blocks400",
        BLOCKS,
        {
            "op": "run",
            "job": "blocks",
            "rows": 500_000,
            "count": 400,
            "quick": {"rows": 10_000, "count": 40},
        },
        job,
        1,
        rounds=2,
    ),
    _case(
        "node_kill",
        KILL,
        {"op": "run_killed", "rows": 4_000_000, "quick": {"rows": 200_000}},
        job_with_a_kill,
        2,
        rounds=2,
    ),
)


def _ratio(case: str, top: str, bottom: str) -> Callable[[Results], float]:
    return lambda results: results.ratio(f"{case}_3.5", top, bottom)


def _noted(what: str, label: str) -> Callable[[Results], float]:
    def compute(results: Results) -> float:
        notes = results.notes.get(("node_kill_3.5", label, FREE.name))
        if not notes:
            raise MissingError(f"{label}: node_kill was not measured")
        return median(float(note[what]) for note in notes)

    return compute


_ONE, _TWO = f"{OURS} {ONE_COPY}", f"{OURS} {TWO_COPIES}"


def _beside_celeborn(case: str, title: str, copies: str) -> Figure:
    """Ours over Celeborn's with as many copies."""
    ratio = _ratio(case, f"{OURS} {copies}", f"{CELEBORN} {copies}")
    return Figure(f"{case}_ratio_celeborn", f"over Celeborn's time: {title}", "x", ratio)


FIGURES = (
    Figure(
        "pool_terasort_ratio", TERASORT, "x", _ratio("pool_terasort", _ONE, VANILLA), at_most(1.1)
    ),
    Figure(
        "pool_blocks400_ratio", BLOCKS, "x", _ratio("pool_blocks400", _ONE, VANILLA), at_most(0.8)
    ),
    Figure(
        "copies2_ratio",
        f"two copies over one: {TERASORT}",
        "x",
        _ratio("pool_terasort", _TWO, _ONE),
        at_most(1.25),
    ),
    Figure("node_kill_ratio", KILL, "x", _ratio("node_kill", _TWO, VANILLA), at_most(0.6)),
    Figure(
        "node_kill_reruns",
        f"map tasks run again: {KILL}",
        "tasks",
        _noted("map_tasks_again", _TWO),
        at_most(0),
    ),
    Figure(
        "node_kill_failed_stages",
        f"failed stages: {KILL}",
        "stages",
        _noted("failed_stages", _TWO),
        at_most(0),
    ),
    _beside_celeborn("pool_terasort", TERASORT, ONE_COPY),
    _beside_celeborn("pool_blocks400", BLOCKS, ONE_COPY),
    _beside_celeborn("node_kill", KILL, TWO_COPIES),
)
