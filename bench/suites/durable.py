"""Durable objects: a put that returns when it would survive a loss of power, and its rivals.

Every side syncs with every put. The rows of persistent memory are measured in memory that stands
for it, because machines with persistent memory are rare: they show the processor's part alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from bench.case import FREE, Figure, Median, Ratio, Suite, Target, at_least, at_most
from bench.environments import MissingError
from bench.report import format_value, markdown
from bench.run import Results
from bench.suites._durable_cases import (
    BATCH,
    CASES,
    CLIENTS,
    DAX,
    FILES,
    LIMITS,
    LMDB,
    LOG,
    LOG_DAX,
    LOG_MEMORY,
    OURS,
    OURS_DAX,
    OURS_RUST,
    PMEMOBJ_DAX,
    PUTS,
    REDIS,
    ROCKSDB,
    SIDES,
    TOGETHER,
)

STREAMING = f"{LIMITS} streaming"


@dataclass(frozen=True)
class Noted:
    """The largest note of this name beside the samples of an entry."""

    case: str
    label: str
    note: str

    def __call__(self, results: Results) -> float:
        notes = results.notes.get((self.case, self.label, FREE.name), [])
        values = [float(note[self.note]) for note in notes if self.note in note]
        if not values:
            raise MissingError(f"{self.label}: {self.case} was not measured")
        return max(values)


def _over(
    name: str, what: str, case: str, top: str, bottom: str, target: Target | None = None
) -> Figure:
    return Figure(name, what, "x", Ratio(case, top, bottom), target)


def _rivals(case: str, name: str, words: str) -> tuple[Figure, ...]:
    """How many times as long each rival takes; Redis has a figure of its own where it has one."""
    return tuple(
        _over(f"{name}_ratio_{rival}", f"time of {rival} over ours, {words}", case, rival, OURS)
        for rival in (REDIS, ROCKSDB, LMDB)
    )


DISK = (
    _over(
        "durable_1mib_vs_fdatasync",
        "time of a durable put of 1 MiB over that of pwrite and fdatasync, preallocated file",
        "put_1mib",
        OURS,
        f"{FILES} preallocated",
        at_most(1.2),
    ),
    _over(
        "durable_1mib_vs_overwritten",
        "the same over pwrite and fdatasync into a file that was written before",
        "put_1mib",
        OURS,
        f"{FILES} overwritten",
    ),
    _over(
        "durable_4kib_vs_fdatasync",
        "time of a durable put of 4 KiB over that of pwrite and fdatasync, preallocated file",
        "put_4kib",
        OURS,
        f"{FILES} preallocated",
    ),
    _over(
        "durable_4kib_batch_ratio_redis",
        f"time for one of {BATCH} puts of 4 KiB in a pipeline to Redis over that in our put_many",
        "put_4kib_batch",
        REDIS,
        OURS,
        at_least(2),
    ),
    _over(
        "durable_4kib_batch_ratio_redis_rust",
        "the same, our client in Rust",
        "put_4kib_batch",
        REDIS,
        OURS_RUST,
    ),
    _over(
        "durable_4kib_clients_ratio_redis",
        f"time that passes for a put of 4 KiB of Redis over ours, {CLIENTS} clients",
        "put_4kib_clients",
        REDIS,
        OURS,
        at_least(2),
    ),
    _over(
        "durable_4kib_clients_ratio_redis_rust",
        "the same, our clients in Rust",
        "put_4kib_clients",
        REDIS,
        OURS_RUST,
    ),
    *_rivals("put_4kib", "durable_4kib", "4 KiB, one client"),
    *_rivals("put_1mib", "durable_1mib", "1 MiB, one client"),
)

MEMORY = (
    _over(
        "dax_1mib_vs_streaming_copy",
        "time of 1 MiB in the log alone over that of a streaming copy, memory standing for DAX",
        "dax_put_1mib",
        LOG_DAX,
        STREAMING,
        at_most(1.3),
    ),
    _over(
        "dax_store_1mib_vs_streaming_copy",
        "the same of the whole put: shared memory, the daemon, its log",
        "dax_put_1mib",
        OURS_DAX,
        STREAMING,
    ),
    _over(
        "dax_ratio_libpmemobj",
        "time of 1 MiB in libpmemobj, as RPMP used it, over that in the log alone",
        "dax_put_1mib",
        f"{PMEMOBJ_DAX} rpmp",
        LOG_DAX,
        at_least(2),
    ),
    _over(
        "dax_ratio_libpmemobj_tx_alloc",
        "the same with memory that is not zeroed first and no list",
        "dax_put_1mib",
        f"{PMEMOBJ_DAX} tx_alloc",
        LOG_DAX,
    ),
)

COSTS = (
    Figure(
        "recover_1e6_s",
        "from opening the folder until a million objects are known",
        "s",
        Median("recover", f"{LOG} 1m"),
        at_most(2),
    ),
    Figure(
        "write_amplification",
        "bytes written over bytes put, objects deleted at random",
        "x",
        Median("churn", f"{LOG_MEMORY} random"),
        at_most(1.3),
    ),
    Figure(
        "space_amplification",
        "the most that the folder took over the bytes of its objects, deleted at random",
        "x",
        Noted("churn", f"{LOG_MEMORY} random", "space_amplification"),
        at_most(2.1),
    ),
)

FIGURES = (*DISK, *MEMORY, *COSTS)


def _parts(results: Results) -> dict[str, str]:
    """Every side of every put, with its bandwidth where it moves much."""
    lines = [["case", "side", "time", "p10", "p90", "MB/s"]]
    for case in (*PUTS, *TOGETHER, *DAX):
        for entry in case.entries:
            try:
                found = results.spread(case.name, entry.label)
            except MissingError as missing:
                # A reason of several lines would end the table.
                reason = str(missing).splitlines()[0]
                lines.append([case.name, entry.label, reason, "", "", ""])
                continue
            speed = f"{entry.request['object_bytes'] * 1e3 / found.median:,.0f}"
            times = [format_value(value, "ns") for value in (found.median, found.p10, found.p90)]
            lines.append([case.name, entry.label, *times, speed])
    return {"puts": markdown(lines)}


SUITE = Suite("durable", SIDES, CASES, FIGURES, page="docs/benchmarks/durable.md", parts=_parts)
