"""Shows results: a table for people, JSON for programs, the tables of a page."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.case import Case, Entry, Figure, Pinning, Suite
from bench.environments import MissingError
from bench.run import Results

OURS = "plasmon"
#: Operations that move all bytes of an object, so that a bandwidth means something.
COPYING = ("copy", "put", "put_numpy", "fetch")
TIMES = (("s", 1e9), ("ms", 1e6), ("us", 1e3), ("ns", 1.0))


def format_value(value: float, unit: str) -> str:
    """A value with three digits and the unit that suits it."""
    if unit == "ns":
        name, scale = next((pair for pair in TIMES if abs(value) >= pair[1]), TIMES[-1])
        return f"{_digits(value / scale)} {name}"
    if unit == "1/s":
        return f"{_digits(value / 1e6)} M/s" if value >= 1e6 else f"{_digits(value / 1e3)} k/s"
    return f"{_digits(value)} {unit}".strip()


def _digits(value: float) -> str:
    if abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def rows(suite: Suite, results: Results) -> list[dict[str, Any]]:
    """One row for each case, pinning and entry, missing ones included."""
    known = _RowContext(
        results,
        {side.name: side.language for side in suite.sides},
        {figure.row: figure for figure in suite.figures if figure.row is not None},
    )
    return [_row(case, pinning, entry, known) for case, pinning, entry in _measured(suite, results)]


@dataclass(frozen=True)
class _RowContext:
    """What every row needs."""

    results: Results
    languages: dict[str, str]
    #: The figures that are the median of one entry, by that entry.
    figures: dict[tuple[str, str, str], Figure]


def _measured(suite: Suite, results: Results) -> Iterator[tuple[Case, Pinning, Entry]]:
    for case in suite.cases:
        for pinning in case.pinnings:
            for entry in case.entries:
                key = (case.name, entry.label, pinning.name)
                if key in results.rounds or key in results.missing:
                    yield case, pinning, entry


def _row(case: Case, pinning: Pinning, entry: Entry, known: _RowContext) -> dict[str, Any]:
    results = known.results
    key = (case.name, entry.label, pinning.name)
    row: dict[str, Any] = {
        "case": case.name,
        "title": case.title,
        "side": entry.side,
        "label": entry.label,
        "language": known.languages[entry.side],
        "pinned": pinning.name,
        "heat": case.heat,
        "unit": case.unit,
        "work": entry.work,
    }
    if key in results.missing and key not in results.rounds:
        return {**row, "missing": results.missing[key]}
    if key in results.notes:
        row["notes"] = results.notes[key]
    found = results.spread(*key)
    row |= {
        "median": found.median,
        "min": found.min,
        "p10": found.p10,
        "p90": found.p90,
        "repetitions": found.rounds,
        "samples": found.samples,
    }
    size = entry.request.get("object_bytes", 0)
    if entry.request["op"] in COPYING and size >= 1 << 20:
        row["gb_per_s"] = size * entry.request.get("at_once", 1) / found.median
    ratio = _ratio_to_ours(case, pinning, entry, known)
    if ratio is not None:
        row["ratio_to_ours"] = ratio
    figure = known.figures.get(key)
    if figure is not None and figure.target is not None:
        value = figure.compute(results)
        row |= {"target": str(figure.target), "hit": figure.target.hit(value)}
    return row


def _ratio_to_ours(case: Case, pinning: Pinning, entry: Entry, known: _RowContext) -> float | None:
    """The entry over our first one in the same language, or over our first one at all."""
    ours = [other for other in case.entries if other.side.startswith(OURS)]
    language = known.languages[entry.side]
    alike = [other for other in ours if known.languages[other.side] == language]
    for base in alike or ours:
        if base.label == entry.label:
            return None
        try:
            return known.results.ratio(case.name, entry.label, base.label, pinning.name)
        except MissingError:
            continue
    return None


def figures(suite: Suite, results: Results) -> tuple[dict[str, float], dict[str, Any]]:
    """The promised numbers, and how each stands to its target."""
    numbers: dict[str, float] = {}
    targets: dict[str, Any] = {}
    for figure in suite.figures:
        entry: dict[str, Any] = {"what": figure.what, "unit": figure.unit}
        try:
            value = figure.compute(results)
        except MissingError as missing:
            entry |= {"missing": str(missing), "hit": False}
        else:
            numbers[figure.name] = value
            entry["value"] = value
            remark = figure.remark(results) if figure.remark is not None else ""
            if remark:
                entry["what"] += f"; {remark}"
            if figure.target is not None:
                entry["hit"] = figure.target.hit(value)
        if figure.target is not None:
            entry["target"] = str(figure.target)
        targets[figure.name] = entry
    return numbers, targets


def document(suite: Suite, results: Results, facts: dict[str, Any]) -> dict[str, Any]:
    """The content of ``bench/results/<name>.json``."""
    numbers, targets = figures(suite, results)
    return {
        "figures": numbers,
        "targets": targets,
        "rows": rows(suite, results),
        "machine": facts,
        "versions": results.versions,
        "parts": suite.parts(results) if suite.parts is not None else {},
    }


def kept(content: dict[str, Any]) -> dict[str, Any]:
    """What of it stays in the repository: all but the rows of single measurements."""
    return {key: value for key, value in content.items() if key != "rows"}


def write(path: Path, content: dict[str, Any]) -> None:
    """Writes a results file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(content, indent=1) + "\n")
    partial.replace(path)


COLUMNS = ("pinned", "side", "median", "p10", "p90", "min", "GB/s", "x ours", "rounds", "target")


def _cells(row: dict[str, Any]) -> list[str]:
    names = [row["pinned"], f"{row['label']} ({row['language']})"]
    if "missing" in row:
        return [*names, f"missing: {row['missing']}", *[""] * (len(COLUMNS) - 3)]
    spreads = [format_value(row[key], row["unit"]) for key in ("median", "p10", "p90", "min")]
    bandwidth = _digits(row["gb_per_s"]) if "gb_per_s" in row else ""
    ratio = _digits(row["ratio_to_ours"]) if "ratio_to_ours" in row else ""
    verdict = f"{row['target']} {_verdict(row['hit'])}" if "target" in row else ""
    return [*names, *spreads, bandwidth, ratio, str(row["repetitions"]), verdict]


def _verdict(hit: bool) -> str:
    return "hit" if hit else "MISS"


def _aligned(lines: list[list[str]]) -> list[str]:
    # A missing row's reason may be long; it must not widen the column of the medians.
    widths = [
        max((len(line[at]) for line in lines if not line[at].startswith("missing:")), default=0)
        for at in range(len(lines[0]))
    ]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]


def table(content: dict[str, Any]) -> str:
    """The results for a terminal: rows by case, then the figures with their targets."""
    lines: list[str] = []
    for title, group in _by_case(content["rows"]):
        cells = [["", *COLUMNS], *[["", *_cells(row)] for row in group]]
        lines += [title, *_aligned(cells), ""]
    lines.append("figures")
    lines += _aligned([["", *line] for line in _figure_lines(content)])
    for name, text in content.get("parts", {}).items():
        lines += ["", name, text]
    return "\n".join(lines)


def _by_case(found: list[dict[str, Any]]) -> list[tuple[str, list[dict[str, Any]]]]:
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in found:
        groups.setdefault(f"{row['case']}: {row['title']} ({row['heat']})", []).append(row)
    return list(groups.items())


def _figure_lines(content: dict[str, Any]) -> list[list[str]]:
    lines = [["figure", "value", "target", "", "what"]]
    for name, entry in content["targets"].items():
        value = format_value(entry["value"], entry["unit"]) if "value" in entry else "missing"
        verdict = "" if "hit" not in entry or "value" not in entry else _verdict(entry["hit"])
        lines.append([name, value, entry.get("target", ""), verdict, entry["what"]])
    return lines


def markdown(lines: list[list[str]]) -> str:
    """A table of a page; the first line is its head."""
    head, *rest = ["| " + " | ".join(line) + " |" for line in lines]
    return "\n".join([head, "|" + " --- |" * len(lines[0]), *rest])


def pages(content: dict[str, Any]) -> dict[str, str]:
    """The parts of a page that the harness writes, by the name in their markers."""
    machine = content["machine"]
    facts = [
        ["fact", "value"],
        ["processor", f"{machine['cpu']}, {machine['cpus']} processors"],
        ["virtual machine", "yes" if machine["hypervisor"] else "no"],
        ["kernel", machine["kernel"]],
        [
            "huge pages: anonymous, shared",
            f"{machine['huge_pages']}, {machine['huge_pages_shmem']}",
        ],
        ["load before, after", f"{machine['load_before']}, {machine['load_after']}"],
        ["seconds", f"{machine['seconds']:.0f}"],
        ["versions", ", ".join(f"{k} {v}" for k, v in sorted(content["versions"].items()))],
    ]
    return {
        "machine": markdown(facts),
        "figures": markdown(_figure_lines(content)),
        **content.get("parts", {}),
    }


def everything(content: dict[str, Any]) -> str:
    """Every case with its rows and what each side does, as a page of its own."""
    parts = ["# Everything measured"]
    for title, group in _by_case(content["rows"]):
        name, _, text = title.partition(": ")
        work = [f"- {row['label']}: {row['work']}." for row in _once(group)]
        body = markdown([list(COLUMNS), *[_cells(row) for row in group]])
        parts.append(f"## {name}\n\n{text}\n\n{body}\n\n" + "\n".join(work))
    return "\n\n".join(parts) + "\n"


def _once(group: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The first row of each label."""
    return list({row["label"]: row for row in reversed(group)}.values())[::-1]


def insert(page: str, parts: dict[str, str]) -> str:
    """A page with the parts between its markers replaced, such as ``<!-- bench:figures -->``."""
    for name, text in parts.items():
        begin, end = f"<!-- bench:{name} -->", f"<!-- /bench:{name} -->"
        pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
        if not pattern.search(page):
            raise ValueError(f"the page lacks the markers {begin} and {end}")
        replacement = f"{begin}\n{text}\n{end}"
        page = pattern.sub(lambda _, text=replacement: text, page)  # type: ignore[misc]
    return page
