"""``python -m bench <suite>``: measures, prints the table, writes the results."""

from __future__ import annotations

import argparse
import fnmatch
import importlib
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from bench import machine, measured, report
from bench.case import Suite
from bench.environments import ROOT
from bench.run import Context, Results, run


def main() -> int:
    """Runs a suite; the exit code is 1 when our own code failed to be measured."""
    arguments = _arguments()
    suite: Suite = importlib.import_module(f"bench.suites.{arguments.suite}").SUITE
    signal.signal(signal.SIGTERM, _exit)

    def chosen(name: str) -> bool:
        return any(fnmatch.fnmatch(name, pattern) for pattern in arguments.only or ["*"])

    results, facts = _measure(suite, chosen, arguments)
    content = report.document(suite, results, facts)
    print(report.table(content))
    if not arguments.only:
        _write(suite, content, arguments.quick)
        if suite.draw is not None and not arguments.quick:
            suite.draw(results)
    for failure in results.failed:
        print(f"bench: failed: {failure}", file=sys.stderr)
    return 1 if results.failed else 0


def _measure(
    suite: Suite, chosen: Callable[[str], bool], arguments: argparse.Namespace
) -> tuple[Results, dict[str, Any]]:
    """Runs the cases; what is measured of a whole suite is kept case by case."""
    results, done = Results(), list[str]()
    facts: dict[str, Any] = {**machine.facts(), "load_before": machine.load_average()}
    path = measured.place(suite, arguments.quick)
    if arguments.resume:
        results, done, facts = measured.load(path)
    begin = time.monotonic() - facts.get("seconds", 0.0)

    def keep(case: str) -> None:
        done.append(case)
        facts["seconds"] = time.monotonic() - begin
        if not arguments.only:
            measured.save(path, results, done, facts)

    scratch = Path(tempfile.mkdtemp(prefix="plasmon-bench-"))
    context = Context(suite.sides, scratch, arguments.quick)
    try:
        run(suite, context, lambda case: chosen(case) and case not in done, results, keep)
    finally:
        context.end()
        shutil.rmtree(scratch, ignore_errors=True)
    return results, facts | {"load_after": machine.load_average(), "quick": arguments.quick}


def _write(suite: Suite, content: dict[str, Any], quick: bool) -> None:
    name = f"{suite.name}{'-quick' if quick else ''}.json"
    path = ROOT / "bench" / "results" / name
    report.write(path, report.kept(content))
    rows = ROOT / "target" / "bench" / name
    report.write(rows, content)
    rows.with_suffix(".md").write_text(report.everything(content))
    print(f"\nwritten to {os.path.relpath(path)}; all rows to {os.path.relpath(rows)} and .md")
    if suite.page is not None and not quick:
        page = ROOT / suite.page
        page.write_text(report.insert(page.read_text(), report.pages(content)))


def _exit(number: int, _: FrameType | None) -> None:
    sys.exit(128 + number)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    known = sorted(
        path.stem for path in (ROOT / "bench" / "suites").glob("*.py") if path.stem[0] != "_"
    )
    parser.add_argument("suite", choices=known, help="what to measure")
    parser.add_argument(
        "--quick", action="store_true", help="few rounds, to see that everything works"
    )
    parser.add_argument(
        "--only",
        action="append",
        metavar="PATTERN",
        help="measure only the cases whose names match; writes no file; may be repeated",
    )
    parser.add_argument(
        "--resume",
        action="store_true",
        help="go on with a whole run that was interrupted, on the same machine and tree",
    )
    arguments = parser.parse_args()
    if arguments.resume and arguments.only:
        parser.error("--resume goes on with a whole run: leave --only out")
    return arguments


if __name__ == "__main__":
    sys.exit(main())
