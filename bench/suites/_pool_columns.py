"""One column of a table on another node, against a share of the whole table."""

from __future__ import annotations

from dataclasses import dataclass

from bench.case import Case, Entry, Figure, Ratio, Side, at_most
from bench.pool_nodes import moved_share
from bench.run import Results

GIB = 1 << 30
COLUMNS = 50
POOL, FLIGHT = "plasmon-pool-python", "flight"
TABLE = {"table_bytes": GIB, "columns": COLUMNS}

_WORKER = ("-m", "bench.ours.pool_columns_worker")
SIDES = (
    Side(POOL, "Python", (*_WORKER, "pool"), "ours", {"capacity_bytes": 3 * GIB}, rests=False),
    Side(FLIGHT, "Python", (*_WORKER, "flight"), "ours"),
)

_COLUMN = f"one of {COLUMNS} columns of 1 GiB in batches of 64 Ki rows"


def _entry(side: str, op: str, work: str, count: int) -> Entry:
    return Entry(side, {"op": op, **TABLE, "count": count}, work, op)


CASES = (
    Case(
        "columns",
        "one column of a table on another node, and all of the table",
        (
            _entry(POOL, "column", f"read_columns: {_COLUMN}", 10),
            _entry(POOL, "whole", "the first get of the table", 2),
            _entry(FLIGHT, "column", f"do_get of a table of one column: {_COLUMN}", 10),
            _entry(FLIGHT, "whole", "do_get of the table", 2),
        ),
        rounds=5,
        quick_rounds=1,
    ),
    Case(
        "column_bytes",
        "bytes that came to a node that read one column, over those of the column",
        (
            Entry(
                POOL,
                {"op": "column", **TABLE, "count": 4, "object_bytes": 5 * GIB // COLUMNS},
                "five reads of a column, headers included",
                measure=moved_share,
            ),
        ),
        rounds=3,
        quick_rounds=1,
        unit="x",
    ),
)


@dataclass(frozen=True)
class Share:
    """The time of one column over a share of that of the whole table."""

    side: str

    def __call__(self, results: Results) -> float:
        return COLUMNS * Ratio("columns", f"{self.side} column", f"{self.side} whole")(results)


@dataclass(frozen=True)
class Moved:
    """The bytes that moved for a column, over its own."""

    def __call__(self, results: Results) -> float:
        return max(max(samples) for samples in results.samples("column_bytes", POOL))


FIGURES = (
    Figure(
        "column_share_ratio",
        f"time of one of {COLUMNS} columns of a table of 1 GiB on another node over"
        f" a {COLUMNS}th of that of the first get of the table",
        "x",
        Share(POOL),
        at_most(1.3),
    ),
    Figure(
        "column_moved_ratio",
        "bytes that came to the node for the column over those of the column",
        "x",
        Moved(),
        at_most(1.3),
    ),
    Figure("column_share_ratio_flight", "the time of Arrow Flight", "x", Share(FLIGHT), None),
    Figure(
        "column_vs_flight",
        "time of a column over Arrow Flight over that of ours",
        "x",
        Ratio("columns", f"{FLIGHT} column", f"{POOL} column"),
        None,
    ),
)
