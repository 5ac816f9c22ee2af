"""The table of what was tested, printed after the last test."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

from machines import Account

HEAD = ("test", "Spark", "copies", "seconds", "maps again", "failed stages", "outcome")
OUTCOME_LETTERS_MAX = 60


@dataclass
class Row:
    """One line of the table."""

    test: str
    line: str
    copies: str
    seconds: float = 0.0
    account: Account | None = None
    outcome: str = ""

    def cells(self) -> tuple[str, ...]:
        """What stands in it."""
        found = self.account
        counts = [str(found.reruns), str(found.failed_stages)] if found else ["", ""]
        return (self.test, self.line, self.copies, f"{self.seconds:.1f}", *counts, self.outcome)


ROWS: list[Row] = []


@contextmanager
def row(test: str, line: str, copies: int | str = "") -> Generator[Row]:
    """Times what happens, and notes how it ended."""
    made = Row(test, line, str(copies))
    ROWS.append(made)
    start = time.monotonic()
    try:
        yield made
    except BaseException as error:
        text = f"{type(error).__name__}: {error}".split("\n")[0]
        made.outcome = f"FAILED {text}"[:OUTCOME_LETTERS_MAX]
        raise
    finally:
        made.seconds = time.monotonic() - start
    made.outcome = made.outcome or "ok"


def lines() -> list[str]:
    """The table, a line each."""
    cells = [HEAD, *(made.cells() for made in ROWS)]
    widths = [max(len(line[at]) for line in cells) for at in range(len(HEAD))]
    texts = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in cells
    ]
    return [texts[0], "-" * len(texts[0]), *texts[1:]]
