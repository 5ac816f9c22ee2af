"""Sorting tables, beside the libraries that people sort tables with.

Every case is measured at ten million rows and at a hundred million; a rival that cannot hold the
larger one, or would take minutes for it, is compared at the smaller, and the figure says so. The
figures are ratios of wall times with two processors.
Each side sorts in a process (and a store) of its own that is there for one table, so that all
memory is its own, and one measurement gives wall, processor time, peak memory and the cold run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bench.case import Case, Entry, Figure, Median, Samples, Side, Suite, at_least, at_most
from bench.environments import MissingError
from bench.run import Context, Results
from bench.suites import _sort_measure

OURS = "plasmon-python"
RIVALS = ("polars", "polars-streaming", "duckdb", "pandas", "numpy", "pyarrow")
CASES_OF = {
    "key": "one column of float64",
    "key_payload7": "a key of float64 and seven columns beside it",
    "string": "one column of strings of 16 characters",
    "two_keys": "an int64 of 1,000 values, then a float64, descending",
}
SIZES = {"1e7": 10_000_000, "1e8": 100_000_000}
#: The metrics of a sort.
WHAT = {
    "wall": "wall time",
    "cpu": "processor time of all threads",
    "peak": "peak memory over the bytes of the input",
    "cold": "wall time of the first run",
    "cold_cpu": "processor time of the first run",
}
#: Rows for `--quick`, of each size.
QUICK_PART = 50
#: The store takes the result, and the result before it.
START = {"capacity_bytes": 16 << 30, "settings": [["warm_bytes_max", "8g"]]}

WORK = {
    "polars": "DataFrame.sort",
    "polars-streaming": "LazyFrame.sort, collected by the streaming engine",
    "duckdb": "order by, into an Arrow table",
    "pandas": "DataFrame.sort_values",
    "numpy": "sort, or argsort or lexsort and taking every column; one thread",
    "pyarrow": "Table.sort_by; one thread",
}


def _scaled(context: Context, entry: Entry) -> Samples:
    def scale(rows: int) -> int:
        return context.scale(rows, rows // QUICK_PART)

    rows, least = entry.request["rows"], min(SIZES.values())
    request = {**entry.request, "rows": scale(rows)}
    what = request.pop("what")
    # Of ours nothing is left out but what it refuses itself.
    smaller = scale(least) if rows != least and entry.side != OURS else None
    answer = _sort_measure.answer(context, entry.side, request, smaller)
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
    heat: Literal["warm", "cold"] = "cold" if what.startswith("cold") else "warm"
    entries = _entries(case, SIZES[size], what)
    return Case(name, title, entries, rounds=1, quick_rounds=1, unit=unit, heat=heat)


def _scaling(case: str, size: str) -> Case:
    rows, work = SIZES[size], "plasmon.sort(threads=N)"
    entries = tuple(
        _entry(OURS, case, rows, "wall", work, f"{count} threads", threads=count)
        for count in (1, 2)
    )
    title = f"{CASES_OF[case]}, {size} rows, with 1 and with 2 threads"
    return Case(f"{case}_{size}_threads", title, entries, rounds=1, quick_rounds=1)


CASES = (
    *(_case(case, size, what) for size in SIZES for case in CASES_OF for what in WHAT),
    *(_scaling(case, "1e8") for case in ("key", "key_payload7")),
)


@dataclass(frozen=True)
class Largest:
    """A ratio at the largest size that both sides were measured at."""

    case: str
    rival: str

    def __call__(self, results: Results) -> float:
        return results.ratio(f"{self.case}_{self._size(results)}", self.rival, OURS)

    def _size(self, results: Results) -> str:
        missing: MissingError | None = None
        for size in reversed(SIZES):
            try:
                results.ratio(f"{self.case}_{size}", self.rival, OURS)
            except MissingError as reason:
                missing = missing or reason
            else:
                return size
        assert missing is not None, "there are sizes"
        raise missing

    def remark(self, results: Results) -> str:
        """At which size, if it is not the largest, and why."""
        size, largest = self._size(results), list(SIZES)[-1]
        if size == largest:
            return ""
        reason = results.missing.get((f"{self.case}_{largest}", self.rival, "free"), "not measured")
        return f"at {size} rows; at {largest}: {reason}"


def _limit(case: str, rival: str) -> float:
    known = {
        ("key", "polars"): 2.5,
        ("key", "pandas"): 20,
        ("key_payload7", "polars"): 4,
        ("key_payload7", "polars-streaming"): 1.5,
    }
    return known.get((case, rival), 1)


@dataclass(frozen=True)
class Efficiency:
    """The speed-up from one to two, over two."""

    case: str

    def __call__(self, results: Results) -> float:
        case = f"{self.case}_1e8_threads"
        return results.ratio(case, f"{OURS} 1 threads", f"{OURS} 2 threads") / 2


def _peak(results: Results) -> float:
    return max(results.median(f"{case}_1e8_peak", OURS) for case in CASES_OF)


def _ratio(case: str, rival: str) -> Figure:
    ratio = Largest(case, rival)
    return Figure(
        f"{case}_ratio_{rival.replace('-', '_')}",
        f"time of {rival} over that of {OURS}: {CASES_OF[case]}",
        "x",
        ratio,
        at_least(_limit(case, rival)),
        ratio.remark,
    )


def _scaling_figure(name: str, case: str) -> Figure:
    what = f"speed-up from 1 to 2 threads, over 2: {CASES_OF[case]}"
    return Figure(name, what, "x", Efficiency(case), at_least(0.9))


FIGURES = (
    *(_ratio(case, rival) for case in CASES_OF for rival in RIVALS),
    _scaling_figure("scaling_1_to_2_threads", "key_payload7"),
    _scaling_figure("scaling_1_to_2_key_threads", "key"),
    Figure(
        "peak_memory_ratio",
        "peak memory of the sort, input and result included, over the input; the worst case",
        "x",
        _peak,
        at_most(2.2),
    ),
    *(
        Figure(
            f"peak_memory_ratio_{case}",
            f"peak memory of the sort over the input: {CASES_OF[case]}",
            "x",
            Median(f"{case}_1e8_peak", OURS),
            at_most(2.2),
        )
        for case in CASES_OF
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
