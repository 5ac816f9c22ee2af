"""Columns that grow in shared memory, beside Arrow's own pools and Plasma.

One C++ program appends to Arrow's Int64Builder on the pools of the installed pyarrow and on ours;
our own builder does the same through its own interface. Every side is a separate process, and a
fresh sample is the first thing that a process does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bench.case import (
    FREE,
    Bandwidth,
    Case,
    Entry,
    Figure,
    Ratio,
    Samples,
    Side,
    Suite,
    at_least,
    at_most,
)
from bench.environments import MissingError
from bench.report import format_value, markdown
from bench.run import Context, Results, ask, ask_fresh

POOL, BUILDER, PLASMA = "plasmon-pool", "plasmon-builder", "plasma"
RIVALS = ("system", "jemalloc", "mimalloc")
TOTAL_BYTES, CHUNK_BYTES = 512 << 20, 1 << 20
DOUBLE_FROM_BYTES, DOUBLE_TO_BYTES = 128 << 10, 128 << 20
PARQUET_ROWS = 5_000_000
READERS = 4

#: Warm memory is what "recycled" is about: as much as one build and its bitmap take.
START = {"settings": [["warm_bytes_max", "1g"]]}

WORK = {
    POOL: "Arrow's Int64Builder in C++ on our memory pool",
    BUILDER: "our ColumnBuilder in Rust",
    **{name: f"Arrow's Int64Builder in C++ on pyarrow's {name} pool" for name in RIVALS},
}


def _append(side: str, fresh: bool) -> Entry:
    request: dict[str, Any] = {
        "op": "append_int64",
        "total_bytes": TOTAL_BYTES,
        "chunk_bytes": CHUNK_BYTES,
        "count": 1 if fresh else 5,
        "warmups": 0 if fresh else 2,
    }
    if side == BUILDER:
        request["ending"] = "abort"
    return Entry(side, request, WORK[side], measure=ask_fresh if fresh else None)


def _finish() -> tuple[Entry, ...]:
    sizes = {"total_bytes": TOTAL_BYTES, "chunk_bytes": CHUNK_BYTES, "count": 3, "warmups": 1}
    request = {"op": "append_int64", **sizes, "ending": "finish"}
    return (Entry(BUILDER, request, "append, seal as an object, delete it"),)


def _double(side: str, touched: bool) -> Entry:
    work = "Reallocate of an Arrow memory pool" if side != BUILDER else "a buffer of our allocator"
    sizes = {"from_bytes": DOUBLE_FROM_BYTES, "to_bytes": DOUBLE_TO_BYTES}
    request = {"op": "double_buffer", **sizes, "touched": touched, "count": 10, "warmups": 2}
    return Entry(side, request, work)


def _share(context: Context, entry: Entry) -> Samples:
    """All sides read one file, which is made when it is first needed."""
    path = context.scratch / "table.parquet"
    if not path.exists():
        rows = context.scale(PARQUET_ROWS, PARQUET_ROWS // 10)
        with context.awake(POOL) as worker:
            worker.call({"op": "write_parquet", "path": str(path), "rows": rows})
    request = {**entry.request, "path": str(path)}
    return ask(context, Entry(entry.side, request, entry.work, entry.variant))


def _shared(side: str, work: str, variant: str = "", **more: str) -> Entry:
    request = {"op": "share_parquet", "readers": READERS, "count": 3, "warmups": 1, **more}
    return Entry(side, request, work, variant, _share)


ALL = (POOL, BUILDER, *RIVALS)
MIB = 1 << 20
CASES = (
    Case(
        "append_recycled",
        f"append int64 until {TOTAL_BYTES // MIB} MiB, {CHUNK_BYTES // MIB} MiB at a time, and "
        "free them; memory that this process had before",
        tuple(_append(side, fresh=False) for side in ALL),
        quick_rounds=1,
    ),
    Case(
        "append_fresh",
        "the same as the first thing that a process does",
        tuple(_append(side, fresh=True) for side in ALL),
        quick_rounds=1,
        heat="cold",
    ),
    Case(
        "append_sealed",
        "the same, sealed as an object: its memory is the store's, so every build is fresh",
        _finish(),
        rounds=3,
        quick_rounds=1,
    ),
    Case(
        "double",
        "grow a buffer of 128 KiB by doubling it ten times, and free it; nothing is written",
        tuple(_double(side, touched=False) for side in ALL),
        rounds=3,
        quick_rounds=1,
    ),
    Case(
        "double_touched",
        "the same with every byte written",
        tuple(_double(side, touched=True) for side in ALL),
        rounds=3,
        quick_rounds=1,
    ),
    Case(
        "share_parquet",
        f"read a Parquet file and share the table; {READERS} processes each sum a column of it",
        (
            _shared(POOL, "read_table in store.pooled(), put: nothing is copied"),
            _shared(POOL, "read_table, put: one copy", "copying", way="default"),
            _shared(PLASMA, "read_table of pyarrow 11, IPC stream into create(), seal"),
        ),
        quick_rounds=1,
    ),
)


@dataclass(frozen=True)
class LargestNote:
    """The largest value of a note that entries gave beside their samples."""

    what: str
    of: tuple[tuple[str, str], ...]

    def __call__(self, results: Results) -> float:
        found = [_largest_note(results, case, label, self.what) for case, label in self.of]
        return float(max(found))


def _largest_note(results: Results, case: str, label: str, what: str) -> int:
    notes = results.notes.get((case, label, FREE.name), [])
    if not notes:
        raise MissingError(f"{label}: {case} was not measured")
    return int(max(note[what] for note in notes))


def _growing(label: str) -> tuple[tuple[str, str], ...]:
    return tuple((case.name, label) for case in CASES if case.name.startswith(("append", "double")))


def _pooled(label: str) -> tuple[tuple[str, str], ...]:
    return tuple(pair for pair in _growing(label) if pair[0] != "append_sealed")


def _ratio(rival: str, least: float | None) -> Figure:
    return Figure(
        f"builder_ratio_{rival}",
        f"time of Arrow's Int64Builder on pyarrow's {rival} pool over that on ours, recycled",
        "x",
        Ratio("append_recycled", rival, POOL),
        None if least is None else at_least(least),
    )


def _speed(name: str, what: str, case: str, label: str, least: float | None) -> Figure:
    target = None if least is None else at_least(least)
    return Figure(name, what, "GB/s", Bandwidth(case, label, TOTAL_BYTES), target)


def _note_figure(
    name: str, what: str, unit: str, compute: Callable[[Results], float], most: float | None = None
) -> Figure:
    return Figure(name, what, unit, compute, None if most is None else at_most(most))


FIGURES = (
    _speed(
        "builder_recycled_gbps",
        "Arrow's Int64Builder on our pool, memory used before",
        "append_recycled",
        POOL,
        9,
    ),
    _speed(
        "builder_fresh_gbps",
        "the same as the first thing that a process does",
        "append_fresh",
        POOL,
        1.3,
    ),
    _ratio("jemalloc", 8),
    _ratio("mimalloc", 2),
    _ratio("system", None),
    _speed("own_builder_recycled_gbps", "our builder, likewise", "append_recycled", BUILDER, 9),
    _speed("own_builder_fresh_gbps", "our builder, likewise", "append_fresh", BUILDER, 1.3),
    _speed(
        "own_builder_sealed_gbps",
        "our builder, sealed and deleted each time",
        "append_sealed",
        BUILDER,
        None,
    ),
    _note_figure(
        "growth_moves",
        "growths of our builder and allocator that moved a buffer, by its address",
        "moves",
        LargestNote("moves", _growing(BUILDER)),
        0,
    ),
    _note_figure(
        "pool_growth_moves",
        "the same of a series of builds of Arrow's builder on our pool, at worst",
        "moves",
        LargestNote("moves", _pooled(POOL)),
    ),
    _note_figure(
        "put_table_bytes_copied",
        "bytes of a table read through the pool that lie in other pages after it was put",
        "B",
        LargestNote("copied_bytes", (("share_parquet", POOL),)),
        0,
    ),
    Figure(
        "parquet_share_ratio_plasma",
        "time to read a file and share it with 4 readers, of Plasma over ours",
        "x",
        Ratio("share_parquet", PLASMA, POOL),
        at_least(1),
    ),
    Figure(
        "parquet_share_ratio_copying",
        "the same of our own copying put over the pool",
        "x",
        Ratio("share_parquet", f"{POOL} copying", POOL),
    ),
)


def _parts(results: Results) -> dict[str, str]:
    """What the sides noted beside their times: memory, moves, and where the time went."""
    head = ["case", "side", "resident", "resident after", "growths", "moves", "bytes moved"]
    lines = [head]
    for case in CASES:
        for entry in case.entries:
            notes = results.notes.get((case.name, entry.label, FREE.name))
            if notes and "moves" in notes[0]:
                names = ("resident_bytes", "resident_after_bytes", "growths", "moves")
                numbers = [max(note[name] for note in notes) for name in names]
                moved = max(note["moved_bytes"] for note in notes)
                sizes = [f"{number / MIB:,.0f} MiB" for number in (*numbers[:2], moved)]
                counts = [str(number) for number in numbers[2:]]
                lines.append([case.name, entry.label, *sizes[:2], *counts, sizes[2]])
    shares = [["side", "read_table", "put", "table", "bytes copied"]]
    for entry in CASES[-1].entries:
        notes = results.notes.get((CASES[-1].name, entry.label, FREE.name))
        if notes:
            times = [_median([note[name] for note in notes]) for name in ("read_ns", "share_ns")]
            sizes = [f"{notes[0][name]:,}" for name in ("table_bytes", "copied_bytes")]
            shares.append([entry.label, *(format_value(time, "ns") for time in times), *sizes])
    return {"memory": markdown(lines), "sharing": markdown(shares)}


def _median(rounds: list[list[float]]) -> float:
    values = sorted(value for values in rounds for value in values)
    return values[len(values) // 2]


SIDES = (
    Side(POOL, "C++", ("-m", "bench.ours.columns_worker", "plasmon"), "ours", START),
    Side(BUILDER, "Rust", ("store",), "native", START),
    *(Side(name, "C++", ("-m", "bench.ours.columns_worker", name), "ours") for name in RIVALS),
    Side(PLASMA, "Python", ("-m", "bench.rivals.plasma.tables_worker"), "plasma"),
)

SUITE = Suite("columns", SIDES, CASES, FIGURES, page="docs/benchmarks/columns.md", parts=_parts)
