"""Python objects as bytes: every row of the design's target list beside pickle and its rivals.

The figures are ratios of processor time to pickle's, taken round by round. The cases are in
`_objects_cases`, the tables of the page in `_objects_page`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bench.case import Figure, Median, Ratio, Suite, at_least, at_most
from bench.run import Results
from bench.suites import _objects_page
from bench.suites._objects_cases import (
    CASES,
    CORRECT,
    FEATHER,
    FLOOR,
    MIXED,
    OURS,
    PARQUET,
    PICKLE,
    SIDES,
    STORE,
    TRIALS,
    VALUES,
    Value,
)
from bench.suites._objects_page import nbytes, verdicts

#: Nothing may be slower than this share of pickle's speed.
WORST = 0.9
#: Reading may take this many times as long as CPython needs to make the objects alone.
FLOOR_RATIO_MAX = 1.3
#: A value may take this many times the bytes of its pickle, and this many more.
SIZE_RATIO_MAX, SIZE_EXTRA_BYTES_MAX = 1.6, 5 << 10
TRIALS_MIN = 84


def _ratio(name: str, case: str, top: str, bottom: str, target: float | None) -> Figure:
    what = f"processor time of {top} over that of {bottom}, {case}"
    limit = None if target is None else at_least(target)
    return Figure(name, what, "x", Ratio(case, top, bottom), limit)


def _of_value(value: Value) -> tuple[Figure, ...]:
    name = value.name
    figures = [
        _ratio(f"dumps_ratio_{name}", f"dumps_{name}", PICKLE, value.ours, value.dumps),
        _ratio(f"loads_ratio_{name}", f"loads_{name}", PICKLE, value.ours, value.loads),
    ]
    if value.memory:
        figures += [
            _ratio(f"dumps_bytes_ratio_{name}", f"dumps_{name}", PICKLE, OURS, None),
            _ratio(f"loads_bytes_ratio_{name}", f"loads_{name}", PICKLE, OURS, None),
        ]
    return tuple(figures)


BY_VALUE = tuple(figure for value in VALUES for figure in _of_value(value))


def _worst(results: Results) -> float:
    return min(figure.compute(results) for figure in BY_VALUE)


@dataclass(frozen=True)
class Excess:
    """The largest size over what it may be; 1 is the limit."""

    labels: tuple[str, ...] = (OURS, STORE)

    def __call__(self, results: Results) -> float:
        return max(
            nbytes(results, value.name, label) / _allowed(nbytes(results, value.name, PICKLE))
            for value in VALUES
            for label in self.labels
        )


def _allowed(pickle_bytes: int) -> float:
    return SIZE_RATIO_MAX * pickle_bytes + SIZE_EXTRA_BYTES_MAX


def _count(label: str, wanted: Callable[[str], bool]) -> Callable[[Results], float]:
    """How many verdicts over one mode are wanted."""
    return lambda results: float(
        sum(wanted(verdict) for verdict in verdicts(results, label).values())
    )


def _silently_wrong(results: Results) -> float:
    ours = [label for label in TRIALS if label.startswith(OURS)]
    return sum(_count(label, lambda verdict: verdict == "wrong")(results) for label in ours)


SUMMARY = (
    Figure(
        "worst_ratio",
        "the smallest of all the ratios above",
        "x",
        _worst,
        at_least(WORST),
    ),
    Figure(
        "worst_size",
        f"the largest size over {SIZE_RATIO_MAX} x pickle's + {SIZE_EXTRA_BYTES_MAX:,} B",
        "x",
        Excess(),
        at_most(1),
    ),
    Figure(
        "cases_total",
        "values that were tried",
        "values",
        _count(OURS, lambda verdict: verdict != "absent"),
        at_least(TRIALS_MIN),
    ),
    Figure(
        "cases_right",
        "of these came back as what they were, from trusted bytes",
        "values",
        Median(CORRECT.name, OURS),
    ),
    Figure(
        "cases_right_pickle",
        "the same of pickle",
        "values",
        Median(CORRECT.name, PICKLE),
    ),
    Figure(
        "cases_not_right",
        "values that did not",
        "values",
        _count(OURS, lambda verdict: verdict in {"wrong", "error"}),
        at_most(0),
    ),
    Figure(
        "cases_silently_wrong",
        "values that came back as something else without an error, in all of our modes",
        "values",
        _silently_wrong,
        at_most(0),
    ),
)

APART = "loads_apart_dict_of_sets"
COLLECTOR = (
    _ratio("loads_gc_ratio_dict_of_sets", APART, PICKLE, f"{OURS} gc counted", 2),
    _ratio("loads_gc_run_ratio_dict_of_sets", APART, PICKLE, f"{OURS} gc run", None),
    _ratio("loads_gc_off_ratio_dict_of_sets", "loads_dict_of_sets", f"{PICKLE} gc off", OURS, None),
)

SMALL = tuple(
    Figure(
        f"{op}_ns_{name}",
        f"processor time of {op}",
        "ns",
        Median(f"{op}_{name}", OURS),
        at_most(limit),
    )
    for name, limit in (("small_example", 2000), ("task_args", 1000))
    for op in ("dumps", "loads")
)

COLD = (
    _ratio("loads_apart_ratio_arrays_list", "loads_apart_arrays_list", PICKLE, STORE, None),
    _ratio("dumps_first_ratio_arrays_list", "dumps_arrays_list_first", PICKLE, STORE, None),
    _ratio("read_first_ratio_arrays_list", "read_arrays_list_first", PICKLE, STORE, None),
    _ratio("read_ratio_arrays_list", "read_arrays_list", PICKLE, STORE, None),
)


def _of_floor(name: str) -> tuple[Figure, ...]:
    case, title = f"loads_{name}", "the making of the objects alone"
    return (
        Figure(
            f"loads_over_floor_{name}",
            f"processor time of plasmon over {title}, {case}",
            "x",
            Ratio(case, OURS, FLOOR),
            at_most(FLOOR_RATIO_MAX),
        ),
        _ratio(f"loads_limit_{name}", case, PICKLE, FLOOR, None),
    )


FLOORS = tuple(figure for value in VALUES if value.floor for figure in _of_floor(value.name))

#: A frame as databases give them, put and got, beside what else frames are kept in.
FRAMES = tuple(
    _ratio(f"{word}_{MIXED}{suffix}", f"{op}_{MIXED}", rival, STORE, None)
    for word, op in (("put", "dumps"), ("get", "loads"))
    for suffix, rival in (("", PICKLE), ("_vs_parquet", PARQUET), ("_vs_feather", FEATHER))
)

FIGURES = (*BY_VALUE, *FRAMES, *FLOORS, *SUMMARY, *COLLECTOR, *SMALL, *COLD)

SUITE = Suite(
    "objects",
    SIDES,
    CASES,
    FIGURES,
    page="docs/benchmarks/objects.md",
    parts=_objects_page.parts,
    draw=_objects_page.draw,
)
