"""TPC-H with both managers: Spark's own 22 queries, with adaptive execution.

The queries are those of Spark's test jar, the tables are made by :mod:`bench.tpch`.
"""

from __future__ import annotations

import subprocess
import zipfile
from collections.abc import Callable
from functools import cache
from math import exp, log
from typing import Any

from bench.case import FREE, Case, Entry, Figure, Samples, at_most
from bench.environments import ROOT, MissingError
from bench.run import Context, Results
from bench.suites._spark_sides import OURS, VANILLA, ask, entries, name
from bench.tpch import files

LINE, KIND = "3.5", "tpch"
QUERIES = range(1, 23)
SCALE, QUICK_SCALE = 1.0, 0.01
SPARK = "3.5.7"
TEST_JAR = f"org.apache.spark:spark-sql_2.12:{SPARK}:jar:tests"
#: A query that takes less runs again in the same turn: a fifth of a second more is noise otherwise.
SHORT_S = 2
#: Where the tables and Spark's test jar stay from run to run.
KEPT = ROOT / "target" / "bench"
TITLE = "Spark's own 22 TPC-H queries at scale factor 1, adaptive"


@cache
def _queries() -> dict[int, str]:
    """The queries by their numbers, from Spark's test jar, which Maven brings."""
    jar = KEPT / f"spark-sql_2.12-{SPARK}-tests.jar"
    if not jar.exists():
        copy = ("dependency:copy", f"-Dartifact={TEST_JAR}", f"-DoutputDirectory={KEPT}")
        pom = ROOT / "spark" / "suites" / "pom.xml"
        command = ["mvn", "-B", "-q", "--no-transfer-progress", "-f", str(pom), *copy]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise MissingError(f"Maven brings no {TEST_JAR}: {done.stdout.strip()[:200]}")
    with zipfile.ZipFile(jar) as archive:
        return {query: archive.read(f"tpch/q{query}.sql").decode() for query in QUERIES}


@cache
def _tables(scale: float) -> str:
    return str(files.folder(scale, KEPT))


def _measure(context: Context, entry: Entry) -> Samples:
    query = entry.request["query"]
    return ask(
        context,
        entry,
        {
            "op": "run",
            "job": "tpch",
            "name": f"q{query}",
            "sql": _queries()[query],
            "tables": _tables(QUICK_SCALE if context.quick else SCALE),
            "seconds": context.scale(SHORT_S, 0),
        },
    )


def _case(query: int) -> Case:
    asked = entries(LINE, KIND, {"op": "run", "query": query}, _measure)
    title = f"TPC-H query {query} at scale factor {SCALE:g}, Spark {LINE}"
    return Case(f"tpch_q{query:02}_{LINE}", title, asked, rounds=3, quick_rounds=1)


CASES = tuple(_case(query) for query in QUERIES)
_THEIRS = name(VANILLA, LINE, KIND)


def _ours(equal: bool) -> str:
    return name(OURS, LINE, KIND, equal)


def _notes(results: Results, case: str, label: str) -> list[dict[str, Any]]:
    found = results.notes.get((case, label, FREE.name))
    if not found:
        raise MissingError(f"{label}: {case} was not measured")
    return found


def _ratios(results: Results, equal: bool) -> list[float]:
    return [results.ratio(case.name, _ours(equal), _THEIRS) for case in CASES]


def _cold(results: Results, label: str) -> list[float]:
    return [float(_notes(results, case.name, label)[0]["cold_ns"]) for case in CASES]


def _cold_ratios(results: Results) -> list[float]:
    both = zip(_cold(results, _ours(False)), _cold(results, _THEIRS), strict=True)
    return [ours / theirs for ours, theirs in both]


def geomean(ratios: list[float]) -> float:
    """The geometric mean."""
    return exp(sum(map(log, ratios)) / len(ratios))


def _sum_ratio(equal: bool) -> Callable[[Results], float]:
    def compute(results: Results) -> float:
        ours, theirs = (
            sum(results.median(case.name, label) for case in CASES)
            for label in (_ours(equal), _THEIRS)
        )
        return ours / theirs

    return compute


def _worst(results: Results) -> str:
    """Which query is the slowest beside Spark's own manager."""
    try:
        ratios = _ratios(results, False)
    except MissingError:
        return ""
    return f"query {ratios.index(max(ratios)) + 1}"


def _differing(results: Results) -> float:
    """How many queries gave other rows with ours than with Spark's own manager."""
    found = 0
    for case in CASES:
        expected = _notes(results, case.name, _THEIRS)[0]["told"]
        for label in (_THEIRS, _ours(False), _ours(True)):
            found += any(note["told"] != expected for note in _notes(results, case.name, label))
    return float(found)


FIGURES = (
    Figure(
        "tpch_geomean_ratio",
        f"geometric mean: {TITLE}",
        "x",
        lambda results: geomean(_ratios(results, False)),
        at_most(0.9),
    ),
    Figure("tpch_sum_ratio", f"all together: {TITLE}", "x", _sum_ratio(False), at_most(0.9)),
    Figure(
        "tpch_worst_ratio",
        f"the slowest: {TITLE}",
        "x",
        lambda results: max(_ratios(results, False)),
        at_most(1.1),
        remark=_worst,
    ),
    Figure(
        "tpch_different_results",
        f"queries with other rows than with Spark's manager: {TITLE}",
        "queries",
        _differing,
        at_most(0),
    ),
    Figure(
        "tpch_geomean_ratio_cold",
        f"first runs, geometric mean: {TITLE}",
        "x",
        lambda results: geomean(_cold_ratios(results)),
    ),
    Figure(
        "tpch_sum_ratio_cold",
        f"first runs, all together: {TITLE}",
        "x",
        lambda results: sum(_cold(results, _ours(False))) / sum(_cold(results, _THEIRS)),
    ),
    Figure(
        "tpch_geomean_ratio_equal_memory",
        f"equal memory, geometric mean: {TITLE}",
        "x",
        lambda results: geomean(_ratios(results, True)),
    ),
    Figure(
        "tpch_sum_ratio_equal_memory",
        f"equal memory, all together: {TITLE}",
        "x",
        _sum_ratio(True),
    ),
    Figure(
        "tpch_worst_ratio_equal_memory",
        f"equal memory, the slowest: {TITLE}",
        "x",
        lambda results: max(_ratios(results, True)),
    ),
)
