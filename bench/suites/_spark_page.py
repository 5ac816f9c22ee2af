"""The table that only Spark's page has: every job, warm, its first run, and with equal memory."""

from __future__ import annotations

from bench.case import FREE, Case
from bench.environments import MissingError
from bench.report import format_value, markdown
from bench.run import Results
from bench.suites._spark_sides import EQUAL, VANILLA

HEAD = [
    "job",
    "Spark's: first run",
    "Spark's",
    "ours: first run",
    "ours",
    "ours, equal memory: first run",
    "ours, equal memory",
    "ratio: first run",
    "ratio",
    "ratio, equal memory",
]


def jobs(cases: tuple[Case, ...], results: Results) -> str:
    """A row for each job that both managers do."""
    compared = [case for case in cases if len(case.entries) > 1]
    return markdown([HEAD, *(_row(case, results) for case in compared)])


def _row(case: Case, results: Results) -> list[str]:
    labels = {_column(entry.label): entry.label for entry in case.entries}
    times: list[str] = []
    for column in ("theirs", "ours", "equal"):
        label = labels[column]
        times += [_cell(_cold(results, case, label)), _cell(_warm(results, case, label))]
    theirs, ours, equal = (labels[column] for column in ("theirs", "ours", "equal"))
    return [
        case.name,
        *times,
        _quotient(_cold(results, case, ours), _cold(results, case, theirs)),
        _ratio(results, case, ours, theirs),
        _ratio(results, case, equal, theirs),
    ]


def _column(label: str) -> str:
    if label.startswith(VANILLA):
        return "theirs"
    return "equal" if label.endswith(EQUAL) else "ours"


def _cold(results: Results, case: Case, label: str) -> float | None:
    notes = results.notes.get((case.name, label, FREE.name), [])
    return next((float(note["cold_ns"]) for note in notes if "cold_ns" in note), None)


def _warm(results: Results, case: Case, label: str) -> float | None:
    try:
        return results.median(case.name, label)
    except MissingError:
        return None


def _cell(value: float | None) -> str:
    return "missing" if value is None else format_value(value, "ns")


def _quotient(top: float | None, bottom: float | None) -> str:
    return "missing" if top is None or bottom is None else f"{top / bottom:.2f}"


def _ratio(results: Results, case: Case, top: str, bottom: str) -> str:
    try:
        return f"{results.ratio(case.name, top, bottom):.2f}"
    except MissingError:
        return "missing"
