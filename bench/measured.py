"""What a run has measured, kept on disk as it goes on.

A whole run takes up to an hour. When it is interrupted, or its tables cannot be made, nothing of
it has to be measured again: ``--resume`` goes on after the last case that was measured as a whole.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bench.case import Suite
from bench.environments import ROOT
from bench.report import write
from bench.run import Results


def place(suite: Suite, quick: bool) -> Path:
    """The file of a suite's last run."""
    kind = "-quick" if quick else ""
    return ROOT / "target" / "bench" / f"{suite.name}{kind}-measured.json"


def save(path: Path, results: Results, done: list[str], facts: dict[str, Any]) -> None:
    """Writes what was measured so far, and which cases that are, whole or not at all."""
    content = {
        "done": done,
        "facts": facts,
        "rounds": list(results.rounds.items()),
        "missing": list(results.missing.items()),
        "failed": results.failed,
        "versions": results.versions,
        "notes": list(results.notes.items()),
    }
    write(path, content)


def load(path: Path) -> tuple[Results, list[str], dict[str, Any]]:
    """What the last run measured; the cases; the facts of its machine at its beginning.

    Raises :class:`SystemExit` with the reason where there is none.
    """
    try:
        content = json.loads(path.read_text())
    except FileNotFoundError:
        raise SystemExit(f"bench: no run to go on with: {path} is not there") from None
    results = Results(
        rounds={tuple(key): rounds for key, rounds in content["rounds"]},
        missing={tuple(key): reason for key, reason in content["missing"]},
        failed=content["failed"],
        versions=content["versions"],
        notes={tuple(key): notes for key, notes in content["notes"]},
    )
    return results, content["done"], content["facts"]
