"""The tables and plots that only the objects' page has."""

from __future__ import annotations

import json
import subprocess
from typing import Any

from bench.case import FREE
from bench.environments import ROOT, MissingError, rival
from bench.report import format_value, markdown
from bench.run import Results
from bench.stats import median
from bench.suites._objects_cases import (
    CORRECT,
    OLD,
    OURS,
    PICKLE,
    RIVALS,
    STORE,
    TRIALS,
    VALUES,
)

PLOTS = ROOT / "docs" / "benchmarks"
PLOT_TIMEOUT_S = 120.0
#: The article's titles of its plots, by case.
ARTICLE = {
    "arrays_list": "List of large numpy arrays",
    "arrays_dict": "Dictionary of large numpy arrays",
    "dict_of_sets": "Large dictionary of small sets",
    "strings": "Large list of strings",
}
COLUMNS = (OURS, STORE, f"{PICKLE} out-of-band", *RIVALS)
#: Marks a side that gave back something else than what went in.
OTHER = " ≠"
MARKS = {"right": "yes", "wrong": "**WRONG**", "error": "error", "absent": ""}


def notes(results: Results, case: str, label: str) -> list[dict[str, Any]]:
    """The notes of workers beside their samples."""
    found = results.notes.get((case, label, FREE.name))
    if not found:
        reason = results.missing.get((case, label, FREE.name), f"{case} was not measured")
        raise MissingError(f"{label}: {reason}")
    return found


def nbytes(results: Results, value: str, label: str) -> int:
    """How many bytes a side makes of a value."""
    return int(notes(results, f"dumps_{value}", label)[0]["bytes"])


def verdicts(results: Results, label: str) -> dict[str, str]:
    """What became of each value of the table of correctness."""
    found: dict[str, str] = notes(results, CORRECT.name, label)[0]["verdicts"]
    return found


def parts(results: Results) -> dict[str, str]:
    """The tables, by the names in their markers; those of cases that were measured."""
    made = {
        "speed": _speed(results),
        "sizes": _sizes(results),
        "clocks": _clocks(results),
        "correctness": _correctness(results),
    }
    return {name: markdown(lines) for name, lines in made.items() if len(lines) > 1}


def _measured(results: Results) -> list[str]:
    return [
        value.name
        for value in VALUES
        if all((f"{op}_{value.name}", PICKLE, FREE.name) in results.rounds
               for op in ("dumps", "loads"))
    ]  # fmt: skip


def _speed(results: Results) -> list[list[str]]:
    """How many times faster than pickle each side is."""
    lines = [["dumps / loads", f"{PICKLE} 5", *COLUMNS]]
    for name in _measured(results):
        times = [
            format_value(results.median(f"{op}_{name}", PICKLE), "ns") for op in ("dumps", "loads")
        ]
        cells = [_faster(results, name, label) for label in COLUMNS]
        lines.append([f"`{name}`", " / ".join(times), *cells])
    return lines


def _faster(results: Results, name: str, label: str) -> str:
    try:
        ratios = [results.ratio(f"{op}_{name}", PICKLE, label) for op in ("dumps", "loads")]
        same = notes(results, f"dumps_{name}", label)[0]["same"]
    except MissingError:
        return ""
    return " / ".join(format_value(ratio, "") for ratio in ratios) + ("" if same else OTHER)


def _sizes(results: Results) -> list[list[str]]:
    labels = (PICKLE, *COLUMNS)
    lines = [["bytes", *labels]]
    for name in _measured(results):
        cells = []
        for label in labels:
            try:
                cells.append(f"{nbytes(results, name, label):,}")
            except MissingError:
                cells.append("")
        lines.append([f"`{name}`", *cells])
    return lines


def _clocks(results: Results) -> list[list[str]]:
    """Processor time beside wall-clock time: what is left to other processes shows here."""
    lines = [["processor / wall clock", PICKLE, OURS, STORE]]
    for name in _measured(results):
        for op in ("dumps", "loads"):
            cells = [_both(results, f"{op}_{name}", label) for label in (PICKLE, OURS, STORE)]
            lines.append([f"{op} `{name}`", *cells])
    return lines


def _both(results: Results, case: str, label: str) -> str:
    try:
        processor = results.median(case, label)
        wall = median([told["wall_ns"] for told in notes(results, case, label)])
    except MissingError:
        return ""
    return f"{format_value(processor, 'ns')} / {format_value(wall, 'ns')}"


def _correctness(results: Results) -> list[list[str]]:
    """The verdicts of all sides, the totals first."""
    found: dict[str, dict[str, str]] = {}
    for label in TRIALS:
        try:
            found[label] = verdicts(results, label)
        except MissingError:
            continue
    if not found:
        return []
    names = list(dict.fromkeys(name for table in found.values() for name in table))
    lines = [["value", *found]]
    for verdict, title in (("right", "right"), ("wrong", "wrong silently"), ("error", "error")):
        counts = [sum(one == verdict for one in table.values())
                  for table in found.values()]  # fmt: skip
        lines.append([f"**{title}**", *[f"**{count}**" for count in counts]])
    for name in names:
        marks = [MARKS[table.get(name, "absent")]
                 for table in found.values()]  # fmt: skip
        lines.append([name, *marks])
    return lines


def draw(results: Results) -> None:
    """Draws the article's four plots again, of this run."""
    plots = []
    for name, title in ARTICLE.items():
        sides = (("Pickle", PICKLE), ("pyarrow.serialize", OLD), ("Plasmon", _ours(name)))
        bars = {}
        for shown_as, label in sides:
            try:
                bars[shown_as] = [
                    results.median(f"{op}_{name}", label) / 1e6 for op in ("dumps", "loads")
                ]
            except MissingError:
                continue
        plots.append({"title": title, "bars": bars, "file": str(PLOTS / f"objects-{name}.png")})
    done = subprocess.run(
        [str(rival("objects")), "-m", "bench.plots"],
        cwd=ROOT,
        input=json.dumps(plots),
        capture_output=True,
        text=True,
        timeout=PLOT_TIMEOUT_S,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"the plots could not be drawn: {done.stderr.strip()[-500:]}")


def _ours(name: str) -> str:
    return next(value.ours for value in VALUES if value.name == name)
