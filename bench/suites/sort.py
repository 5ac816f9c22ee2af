"""Sorting tables, beside the libraries that people sort tables with.

Every case is measured at ten million rows and at a hundred million; a rival that cannot hold the
larger one is compared at the smaller. The figures are ratios of wall times with two processors.
Each side sorts in a process (and a store) of its own that is there for one table, so that all
memory is its own, and one measurement gives wall, processor time, peak memory and the cold run.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal
from weakref import WeakKeyDictionary

from bench.case import Case, Entry, Figure, Samples, Side, Suite, at_least, at_most
from bench.provision import MissingError
from bench.rivals.protocol import Answer
from bench.run import Context, Results
from bench.worker import UnsupportedError

OURS = "plasmon-python"
RIVALS = ("polars", "polars-streaming", "duckdb", "pandas", "numpy", "pyarrow")
CASES_OF = {
    "key": "one column of float64",
    "key_payload7": "a key of float64 and seven columns beside it",
    "string": "one column of strings of 16 characters",
    "two_keys": "an int64 of 1,000 values, then a float64, descending",
}
SIZES = {"1e7": 10_000_000, "1e8": 100_000_000}
#: What is told of a sort.
WHAT = {
    "wall": "wall time",
    "cpu": "processor time of all threads",
    "peak": "peak memory over the bytes of the input",
    "cold": "wall time of the first run",
}
#: Rows for `--quick`, of each size.
QUICK_PART = 50
#: The store takes the input of a sort with workers, the result, and the result before it.
START = {"capacity_bytes": 16 << 30, "settings": [["warm_bytes_max", "8g"]]}

WORK = {
    "polars": "DataFrame.sort",
    "polars-streaming": "LazyFrame.sort, collected by the streaming engine",
    "duckdb": "order by, into an Arrow table",
    "pandas": "DataFrame.sort_values",
    "numpy": "sort, or argsort or lexsort and taking every column; one thread",
    "pyarrow": "Table.sort_by; one thread",
}


#: What was measured of a context already: what a side said of a table, or why it said nothing.
_KNOWN: WeakKeyDictionary[Context, dict[str, Answer | Exception]] = WeakKeyDictionary()


def _scaled(context: Context, entry: Entry) -> Samples:
    rows = entry.request["rows"]
    assert isinstance(rows, int)
    request = {**entry.request, "rows": context.scale(rows, rows // QUICK_PART)}
    what = request.pop("what")
    known = _KNOWN.setdefault(context, {})
    key = json.dumps([entry.side, request])
    if key not in known:
        try:
            with context.fresh(entry.side) as (worker, _):
                known[key] = worker.call(request)
        except (MissingError, UnsupportedError) as reason:
            known[key] = reason
    answer = known[key]
    if isinstance(answer, Exception):
        raise answer
    return [float(sample) for sample in answer["sort"][what]]


def _entry(
    side: str, case: str, rows: int, what: str, work: str, variant: str = "", **more: int
) -> Entry:
    request = {"op": "sort", "case": case, "rows": rows, "what": what, **more}
    return Entry(side, request, work, variant, _scaled)


def _entries(case: str, rows: int, what: str) -> tuple[Entry, ...]:
    work = "plasmon.sort into the store, recycled memory, a thread per core; stable"
    ours = _entry(OURS, case, rows, what, work)
    return (ours, *(_entry(name, case, rows, what, WORK[name]) for name in RIVALS))


def _case(case: str, size: str, what: str) -> Case:
    name = f"{case}_{size}" if what == "wall" else f"{case}_{size}_{what}"
    title = f"{CASES_OF[case]}, {size} rows: {WHAT[what]}"
    unit = "x" if what == "peak" else "ns"
    heat: Literal["warm", "cold"] = "cold" if what == "cold" else "warm"
    entries = _entries(case, SIZES[size], what)
    return Case(name, title, entries, rounds=1, quick_rounds=1, unit=unit, heat=heat)


def _scaling(case: str, size: str) -> Case:
    rows = SIZES[size]
    work = "plasmon.sort(workers=N): processes that read the input in the store"
    entries = tuple(
        _entry(OURS, case, rows, "wall", work, f"{workers} workers", workers=workers)
        for workers in (1, 2)
    )
    title = f"{CASES_OF[case]}, {size} rows, with worker processes"
    return Case(f"{case}_{size}_workers", title, entries, rounds=1, quick_rounds=1)


CASES = (
    *(_case(case, size, what) for size in SIZES for case in CASES_OF for what in WHAT),
    *(_scaling(case, size) for size in SIZES for case in ("key", "key_payload7")),
)


@dataclass(frozen=True)
class Largest:
    """A ratio at the largest size that both sides were measured at."""

    case: str
    rival: str

    def __call__(self, results: Results) -> float:
        for size in reversed(SIZES):
            try:
                return results.ratio(f"{self.case}_{size}", self.rival, OURS)
            except MissingError as missing:
                last = missing
        raise last


def _limit(case: str, rival: str) -> float:
    known = {
        ("key", "polars"): 2.5,
        ("key", "pandas"): 20,
        ("key_payload7", "polars"): 4,
        ("key_payload7", "polars-streaming"): 1.5,
    }
    return known.get((case, rival), 1)


def _efficiency(results: Results) -> float:
    case = "key_payload7_1e8_workers"
    return results.ratio(case, f"{OURS} 1 workers", f"{OURS} 2 workers") / 2


def _peak(results: Results) -> float:
    return max(results.median(f"{case}_1e8_peak", OURS) for case in CASES_OF)


def _figure(name: str, what: str, compute: Callable[[Results], float], least: float) -> Figure:
    return Figure(name, what, "x", compute, at_least(least))


FIGURES = (
    *(
        _figure(
            f"{case}_ratio_{rival.replace('-', '_')}",
            f"time of {rival} over that of {OURS}: {CASES_OF[case]}",
            Largest(case, rival),
            _limit(case, rival),
        )
        for case in CASES_OF
        for rival in RIVALS
    ),
    _figure("scaling_1_to_2", "speed-up from 1 to 2 worker processes, over 2", _efficiency, 0.9),
    Figure(
        "peak_memory_ratio",
        "peak memory of the sort, input and result included, over the input; the worst case",
        "x",
        _peak,
        at_most(2.2),
    ),
)

SIDES = (
    Side(OURS, "Python", ("-m", "bench.ours.sort_worker"), "ours", START),
    *(
        Side(name, "Python", ("-m", "bench.rivals.tables.worker", name), "tables")
        for name in RIVALS
    ),
)

SUITE = Suite("sort", SIDES, CASES, FIGURES, page="docs/benchmarks/sort.md")
