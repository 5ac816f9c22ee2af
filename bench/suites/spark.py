"""Spark's shuffle with our manager and with Spark's own, on the oldest and the newest line.

Both managers get the same settings, and each application two executors with one core. The figures
are ratios of whole jobs, ours over Spark's own, so smaller is better. ``_cold`` is the first run of
a job, ``_equal_memory`` what ours takes when its store's memory is taken from its executors. Those
of ``pool_`` and ``node_`` are of three machines with one executor each.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from statistics import median
from typing import Any

from bench.case import FREE, Case, Entry, Figure, Samples, Suite, Target, at_most
from bench.environments import ROOT, MissingError
from bench.run import Context, Results
from bench.suites import _spark_page, _spark_pool, _spark_tpch
from bench.suites._spark_sides import (
    JAR,
    JOB_TIMEOUT_S,
    LINES,
    OURS,
    SIDES,
    SMALL_STORE_BYTES,
    VANILLA,
    jar,
    job_case,
    name,
)

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


def _reads(context: Context, entry: Entry) -> Samples:
    """Every block is timed by a program of its own, with its own store."""
    jar()
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


def _case(job: str, line: str) -> Case:
    title, request, quick = JOBS[job]
    return job_case(job, title, line, "", {**request, "quick": quick})


def _block_reads() -> Case:
    request = {"op": "block_reads", "maps": 400, "quick": 40}
    entry = Entry(f"{OURS}-3.5", request, "one connection, one thread", measure=_reads)
    return Case("block_reads", READS, (entry,), rounds=5, quick_rounds=1)


SPILLING = {"job": "repartition", "rows": 3_000_000, "quick": {"rows": 200_000}}
SORTING = {"job": "sort_by_key", "rows": 6_000_000, "quick": {"rows": 200_000}}
#: Of a row as SQL serialises it, with its length.
EXCHANGED_ROW_BYTES = 140
EXCHANGE = {
    "job": "exchange",
    "rows": 4_000_000,
    "store_bytes": SMALL_STORE_BYTES,
    "quick": {"rows": 500_000, "store_bytes": 17_500_000},
}
SCATTER = {"job": "scatter", "rows": 800_000, "quick": {"rows": 50_000}}
#: Of applications on one machine.
LOCAL_CASES = (
    # First, so that no application lives on for it.
    _block_reads(),
    *(
        _case(job, line)
        for line in LINES
        for job in JOBS
        if line == "3.5" or job not in OLDEST_ONLY
    ),
    job_case("spill", SPILL, "3.5", "small", SPILLING),
    job_case("spill_sort", SPILL_SORT, "3.5", "small", SORTING),
    job_case("small_store", SMALL_STORE, "3.5", "exchange", EXCHANGE),
    job_case("throttled", THROTTLED, "3.5", "throttled", SCATTER),
    *_spark_tpch.CASES,
)
CASES = (*LOCAL_CASES, *_spark_pool.CASES)


def _ratio(case: str, line: str, kind: str = "", equal: bool = False) -> Callable[[Results], float]:
    sides = (name(OURS, line, kind, equal), name(VANILLA, line, kind))
    return lambda results: results.ratio(f"{case}_{line}", *sides)


def _noted(results: Results, case: str, side: str, what: str) -> float:
    notes = results.notes.get((case, side, FREE.name), [])
    told = [float(note[what]) for note in notes if what in note]
    if not told:
        raise MissingError(f"{side}: {what} of {case} was not measured")
    return median(told)


def _cold(case: str, line: str, kind: str = "") -> Callable[[Results], float]:
    """The first run of a job in its application."""

    def compute(results: Results) -> float:
        ours, vanilla = (
            _noted(results, f"{case}_{line}", name(manager, line, kind), "cold_ns")
            for manager in (OURS, VANILLA)
        )
        return ours / vanilla

    return compute


def _ratios(
    case: str, what: str, line: str, kind: str = "", target: Target | None = None
) -> tuple[Figure, ...]:
    """A job's figures: warm, its first run, and with equal memory."""
    # The oldest line's figures have the plain names.
    at = "" if line == "3.5" else f"_{line.replace('.', '')}"
    stem = f"{'executor_kill' if case == 'kill' else case}_ratio{at}"
    return (
        Figure(stem, what, "x", _ratio(case, line, kind), target),
        Figure(f"{stem}_cold", f"first run: {what}", "x", _cold(case, line, kind)),
        Figure(
            f"{stem}_equal_memory",
            f"equal memory: {what}",
            "x",
            _ratio(case, line, kind, equal=True),
        ),
    )


def _fetch_wait(line: str, equal: bool = False) -> Callable[[Results], float]:
    case = f"blocks1000_{line}"

    def compute(results: Results) -> float:
        ours, vanilla = (
            _noted(results, case, side, "fetch_wait_ms")
            for side in (name(OURS, line, equal=equal), name(VANILLA, line))
        )
        return ours / max(vanilla, 1.0)

    return compute


def _commit(line: str) -> Callable[[Results], float]:
    return lambda results: (
        _noted(results, f"blocks400_{line}", f"{OURS}-{line}", "write_ns") / 400 / 1e6
    )


def _figures(line: str) -> tuple[Figure, ...]:
    at = "" if line == "3.5" else f"_{line.replace('.', '')}"

    def title(case: str, what: str = "") -> str:
        return f"{what}{JOBS[case][0]}, Spark {line}"

    def ratios(case: str, target: Target | None = None) -> tuple[Figure, ...]:
        return _ratios(case, title(case), line, target=target)

    every = (
        *ratios("terasort", at_most(1.05)),
        *ratios("blocks400", at_most(0.9)),
        Figure(
            f"map_commit_ms{at}",
            title("blocks400", "write time of a map task of "),
            "ms",
            _commit(line),
            at_most(1),
        ),
        *ratios("tpc"),
        *ratios("kill", at_most(0.6)),
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
    waits = title("blocks1000", "time that reduce tasks wait for ")
    return (
        *every,
        *ratios("group"),
        *ratios("blocks1000"),
        Figure("blocks1000_fetch_wait_ratio", waits, "x", _fetch_wait(line), at_most(0.1)),
        Figure(
            "blocks1000_fetch_wait_ratio_equal_memory",
            f"equal memory: {waits}",
            "x",
            _fetch_wait(line, equal=True),
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
    *_ratios("spill", SPILL, "3.5", "small", at_most(0.8)),
    *_ratios("spill_sort", SPILL_SORT, "3.5", "small", at_most(0.8)),
    Figure(
        "spill_local_bytes",
        "bytes that both spilling jobs spill to local directories",
        "B",
        _spilled(OURS),
        at_most(0),
    ),
    Figure("spill_local_bytes_vanilla", "the same with Spark's manager", "B", _spilled(VANILLA)),
    *_ratios("small_store", SMALL_STORE, "3.5", "exchange", at_most(1.0)),
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
    *_ratios("throttled", THROTTLED, "3.5", "throttled", at_most(0.5)),
    *_spark_tpch.FIGURES,
    Figure("block_read_p99_us", f"99 of 100 times: {READS}", "us", _p99_us, at_most(100)),
    *_spark_pool.FIGURES,
)

SUITE = Suite(
    "spark",
    (*SIDES, *_spark_pool.SIDES),
    CASES,
    FIGURES,
    page="docs/benchmarks/spark.md",
    parts=lambda results: {"jobs": _spark_page.jobs(LOCAL_CASES, results)},
)
