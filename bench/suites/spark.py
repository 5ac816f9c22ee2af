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

from bench.case import FREE, Case, Entry, Figure, Samples, Side, Suite, Target, at_most
from bench.environments import ROOT, MissingError
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
        {"job": "kill", "rows": 4_000_000},
        {"rows": 80_000},
    ),
}
#: Jobs of the oldest line alone, so that a run takes a quarter of an hour.
OLDEST_ONLY = {"blocks1000", "group"}
SPILL = "3 million rows of 100 bytes from 2 map tasks to 256 reduce tasks, in executors of 512 MB"
SPILL_SORT = "RDD sortByKey of 6 million pairs in 2 reduce tasks, in executors of 512 MB"
SMALL_STORE = "4 million rows of 100 bytes from 8 map tasks to 400 reduce tasks, store of a quarter"
THROTTLED = "600 MB that do not compress, shuffle files on a volume of 125 MB/s"
READS = "reading one block of 400 x 400: find, pin, check, copy"


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


def _reads(context: Context, entry: Entry) -> Samples:
    """Every block is timed by a program of its own, with its own store."""
    _jar()
    classes = ROOT / "spark" / "target" / "test-classes"
    maps = str(entry.request["maps"] if not context.quick else entry.request["quick"])
    command = [
        "java",
        "-Xmx512m",
        "-cp",
        f"{classes}:{JAR}",
        "org.plasmon.shuffle.BlockReads",
        maps,
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=JOB_TIMEOUT_S, check=False
    )
    if done.returncode != 0:
        raise MissingError(f"blocks were not read: {done.stderr.strip()[-200:]}")
    told = dict(word.split("=") for word in done.stdout.split())
    context.note({name: float(value) for name, value in told.items()})
    return [float(told["p50_ns"])]


def _side(line: str, manager: str, kind: str = "") -> Side:
    arguments = (*WORKER, manager, str(JAR)) if manager == OURS else (*WORKER, manager)
    starts = {"small": {"executor_mb": 512}, "throttled": {"throttled": True}}
    start = starts.get(kind, {})
    name = f"{manager}-{line}{'-' if kind else ''}{kind}"
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


def _special(kind: str, name: str, title: str, request: dict[str, Any]) -> Case:
    entries = tuple(
        Entry(f"{manager}-3.5-{kind}", request, f"shuffle manager: {manager}", measure=_measure)
        for manager in (VANILLA, OURS)
    )
    return Case(f"{name}_3.5", f"{title}, Spark 3.5", entries, rounds=5, quick_rounds=1)


def _block_reads() -> Case:
    request = {"op": "block_reads", "maps": 400, "quick": 40}
    entry = Entry(f"{OURS}-3.5", request, "one connection, one thread", measure=_reads)
    return Case("block_reads", READS, (entry,), rounds=5, quick_rounds=1)


SPILLING = {"op": "run", "job": "repartition", "rows": 3_000_000, "quick": {"rows": 200_000}}
SORTING = {"op": "run", "job": "sort_by_key", "rows": 6_000_000, "quick": {"rows": 200_000}}
#: Of a row as SQL serialises it, with its length.
EXCHANGED_ROW_BYTES = 140
EXCHANGE = {
    "op": "run",
    "job": "exchange",
    "rows": 4_000_000,
    "store_bytes": 140_000_000,
    "quick": {"rows": 500_000, "store_bytes": 17_500_000},
}
SCATTER = {"op": "run", "job": "scatter", "rows": 800_000, "quick": {"rows": 50_000}}
CASES = (
    *(
        _case(name, line)
        for line in LINES
        for name in JOBS
        if line == "3.5" or name not in OLDEST_ONLY
    ),
    _special("small", "spill", SPILL, SPILLING),
    _special("small", "spill_sort", SPILL_SORT, SORTING),
    _special("exchange", "small_store", SMALL_STORE, EXCHANGE),
    _special("throttled", "throttled", THROTTLED, SCATTER),
    _block_reads(),
)


def _ratio(case: str, line: str, kind: str = "") -> Callable[[Results], float]:
    sides = (f"{OURS}-{line}{kind}", f"{VANILLA}-{line}{kind}")
    return lambda results: results.ratio(f"{case}_{line}", *sides)


def _noted(results: Results, case: str, side: str, what: str) -> float:
    notes = results.notes.get((case, side, FREE.name))
    if not notes:
        raise MissingError(f"{side}: {case} was not measured")
    return median(float(note[what]) for note in notes)


def _fetch_wait(line: str) -> Callable[[Results], float]:
    case = f"blocks1000_{line}"

    def compute(results: Results) -> float:
        ours, vanilla = (
            _noted(results, case, f"{manager}-{line}", "fetch_wait_ms")
            for manager in (OURS, VANILLA)
        )
        return ours / max(vanilla, 1.0)

    return compute


def _commit(line: str) -> Callable[[Results], float]:
    return lambda results: (
        _noted(results, f"blocks400_{line}", f"{OURS}-{line}", "write_ns") / 400 / 1e6
    )


def _figures(line: str) -> tuple[Figure, ...]:
    """The oldest line's figures have the plain names."""
    at = "" if line == "3.5" else f"_{line.replace('.', '')}"

    def title(case: str, what: str = "") -> str:
        return f"{what}{JOBS[case][0]}, Spark {line}"

    def ratio(case: str, target: Target | None = None) -> Figure:
        return Figure(f"{case}_ratio{at}", title(case), "x", _ratio(case, line), target)

    every = (
        ratio("terasort", at_most(1.05)),
        ratio("blocks400", at_most(0.9)),
        Figure(
            f"map_commit_ms{at}",
            title("blocks400", "write time of a map task of "),
            "ms",
            _commit(line),
            at_most(1),
        ),
        ratio("tpc"),
        Figure(f"executor_kill_ratio{at}", title("kill"), "x", _ratio("kill", line), at_most(0.6)),
        Figure(
            f"executor_kill_reruns{at}",
            title("kill", "map tasks run again: "),
            "tasks",
            lambda results: _noted(results, f"kill_{line}", f"{OURS}-{line}", "told"),
            at_most(0),
        ),
    )
    if line != "3.5":
        return every
    return (
        *every,
        ratio("group"),
        Figure(
            "blocks1000_fetch_wait_ratio",
            title("blocks1000", "time that reduce tasks wait for "),
            "x",
            _fetch_wait(line),
            at_most(0.1),
        ),
    )


def _spilled(manager: str) -> Callable[[Results], float]:
    cases = ("spill_3.5", "spill_sort_3.5")
    side = f"{manager}-3.5-small"
    return lambda results: sum(_noted(results, case, side, "spilled_bytes") for case in cases)


def _tier(what: str) -> Callable[[Results], float]:
    return lambda results: _noted(results, "small_store_3.5", f"{OURS}-3.5-exchange", what)


def _tier_share(what: str) -> Callable[[Results], float]:
    return lambda results: _tier(what)(results) / max(_tier("written_bytes")(results), 1.0)


def _p99_us(results: Results) -> float:
    return _noted(results, "block_reads", f"{OURS}-3.5", "p99_ns") / 1e3


FIGURES = (
    *(figure for line in LINES for figure in _figures(line)),
    Figure("spill_ratio", SPILL, "x", _ratio("spill", "3.5", "-small"), at_most(0.8)),
    Figure(
        "spill_sort_ratio", SPILL_SORT, "x", _ratio("spill_sort", "3.5", "-small"), at_most(0.8)
    ),
    Figure(
        "spill_local_bytes",
        "bytes that both spilling jobs spill to local directories",
        "B",
        _spilled(OURS),
        at_most(0),
    ),
    Figure("spill_local_bytes_vanilla", "the same with Spark's manager", "B", _spilled(VANILLA)),
    Figure(
        "small_store_ratio",
        SMALL_STORE,
        "x",
        _ratio("small_store", "3.5", "-exchange"),
        at_most(1.0),
    ),
    *(
        figure
        for way in ("written", "read")
        for figure in (
            Figure(
                f"small_store_{way}_bytes",
                f"bytes {way} in the store's spill tier: {SMALL_STORE}",
                "B",
                _tier(f"tier_{way}_bytes"),
            ),
            Figure(
                f"small_store_{way}_share",
                f"the same of the shuffle's bytes: {SMALL_STORE}",
                "x",
                _tier_share(f"tier_{way}_bytes"),
                at_most(1.1),
            ),
        )
    ),
    Figure(
        "throttled_ratio", THROTTLED, "x", _ratio("throttled", "3.5", "-throttled"), at_most(0.5)
    ),
    Figure("block_read_p99_us", f"99 of 100 times: {READS}", "us", _p99_us, at_most(100)),
)

SIDES = (
    *(_side(line, manager) for line in LINES for manager in (VANILLA, OURS)),
    *(
        _side("3.5", manager, kind)
        for kind in ("small", "exchange", "throttled")
        for manager in (VANILLA, OURS)
    ),
)

SUITE = Suite("spark", SIDES, CASES, FIGURES, page="docs/benchmarks/spark.md")
