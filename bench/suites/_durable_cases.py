"""The cases of durable objects: puts that return when they are synced, and what a log costs."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

from bench.case import Case, Entry, Measure, Samples, Side
from bench.run import Context, ask, ask_fresh

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30

OURS, OURS_DAX, OURS_RUST = "plasmon", "plasmon-dax", "plasmon-rust"
LOG, LOG_DAX, LOG_MEMORY = "plasmon-log", "plasmon-log-dax", "plasmon-log-memory"
LIMITS, FILES, REDIS = "limits", "files", "redis"
ROCKSDB, LMDB = "rocksdb", "lmdb"
PMEMOBJ, PMEMOBJ_DAX = "libpmemobj", "libpmemobj-dax"
ON_DISK: dict[str, Any] = {"folder": "$disk"}
ON_DAX: dict[str, Any] = {"folder": "$memory", "forced": True}
CLIENTS, BATCH = 32, 64
#: How many times each size is put in a round.
COUNTS = {4 * KIB: 50, 64 * KIB: 50, MIB: 20, 64 * MIB: 3}
NAMES = {4 * KIB: "4kib", 64 * KIB: "64kib", MIB: "1mib", 64 * MIB: "64mib"}
OBJECTS = {"10k": 10_000, "100k": 100_000, "1m": 1_000_000}


def _rival(name: str, module: str, folder: str, start: dict[str, Any]) -> Side:
    return Side(name, "Python", ("-m", f"bench.rivals.{module}"), folder, start)


SIDES = (
    Side(OURS, "Python", ("-m", "bench.ours.durable_worker"), "ours", ON_DISK),
    Side(OURS_DAX, "Python", ("-m", "bench.ours.durable_worker"), "ours", ON_DAX),
    Side(OURS_RUST, "Rust", ("store",), "native", ON_DISK),
    Side(LOG, "Rust", ("log",), "native", ON_DISK),
    Side(LOG_DAX, "Rust", ("log",), "native", ON_DAX),
    Side(LOG_MEMORY, "Rust", ("log",), "native", {"folder": "$memory"}),
    Side(LIMITS, "Rust", ("limits",), "native"),
    _rival(FILES, "files.worker", "files", ON_DISK),
    _rival(REDIS, "redis.durable", "redis", ON_DISK),
    _rival(ROCKSDB, "rocksdb.worker", "rocksdb", ON_DISK),
    _rival(LMDB, "lmdb.worker", "lmdb", ON_DISK),
    _rival(PMEMOBJ, "pmemobj.worker", "pmemobj", ON_DISK),
    _rival(PMEMOBJ_DAX, "pmemobj.worker", "pmemobj", ON_DAX),
)


def settled(context: Context, entry: Entry) -> Samples:
    """The usual measurement, after all that the sides before have left to write is written."""
    os.sync()
    return ask(context, entry)


def _entry(
    side: str,
    op: str,
    work: str,
    variant: str = "",
    measure: Measure | None = settled,
    **request: Any,
) -> Entry:
    return Entry(side, {"op": op, **request}, work, variant, measure)


WHOLE = "put(durable=True): copied into shared memory, sent to the daemon, in its log, synced"
ALONE = "the log alone, in this process: put of bytes, sync; with its checksums"
WAYS = {
    "preallocated": "pwrite into a preallocated file, fdatasync",
    "overwritten": "the same into a file that was written before",
    "appended": "the same into a file that grows",
    "direct": "O_DIRECT into a file that was written before",
}
TRANSACTIONS = {
    "rpmp": "as RPMP: tx_zalloc under a lock, memcpy, a list",
    "tx_alloc": "tx_alloc, memcpy",
}


def _put(size: int) -> Case:
    how = {"object_bytes": size, "count": COUNTS[size]}
    files = [_entry(FILES, "put", work, way, way=way, **how) for way, work in WAYS.items()]
    pmemobj = [
        _entry(PMEMOBJ, "put", f"{work}; its fences are msync", way, way=way, **how)
        for way, work in TRANSACTIONS.items()
    ]
    return Case(
        f"put_{NAMES[size]}",
        f"a put of {_words(size)} that returns when it is on the disk",
        (
            _entry(OURS, "put", WHOLE, **how),
            _entry(LOG, "put", ALONE, **how),
            *files,
            _entry(REDIS, "put", "SET with appendfsync always", **how),
            _entry(ROCKSDB, "put", "put with sync", **how),
            _entry(LMDB, "put", "a transaction", **how),
            # Each takes a second for some sizes.
            *(replace(entry, rounds=2) for entry in pmemobj),
        ),
    )


def _words(size: int) -> str:
    return f"{size // MIB} MiB" if size >= MIB else f"{size // KIB} KiB"


PUTS = tuple(_put(size) for size in COUNTS)


def _clients(side: str, work: str) -> Entry:
    return _entry(side, "put_clients", work, object_bytes=4 * KIB, clients=CLIENTS, seconds=1.0)


def _batch(side: str, work: str) -> Entry:
    return _entry(side, "put_batch", work, object_bytes=4 * KIB, batch=BATCH, count=10)


TOGETHER = (
    Case(
        "put_4kib_clients",
        f"4 KiB by {CLIENTS} clients, each awaits its answer: the time that passes for a put",
        (
            _clients(OURS, "processes; the daemon syncs once for all that wait"),
            _clients(OURS_RUST, "threads with a connection each; likewise"),
            _clients(FILES, "threads with a file and an fdatasync each"),
            _clients(REDIS, "processes; Redis syncs once for all that it has read"),
            _clients(ROCKSDB, "threads; RocksDB groups their writes"),
            _clients(LMDB, "threads; one transaction after the other"),
        ),
    ),
    Case(
        "put_4kib_batch",
        f"4 KiB, {BATCH} of them handed over at once by one client: the time of one",
        (
            _batch(OURS, "put_many: their memory, then their seals, each asked for together"),
            _batch(OURS_RUST, "likewise"),
            _batch(LOG, "put of each, one sync"),
            _batch(FILES, "pwrite of each, one fdatasync"),
            _batch(REDIS, "a pipeline; Redis syncs once for each piece that it reads"),
            _batch(ROCKSDB, "a write batch"),
            _batch(LMDB, "one transaction"),
        ),
    ),
)


def _dax(size: int) -> Case:
    how = {"object_bytes": size, "count": COUNTS[size]}
    work = "streaming stores to the next place of a mapped file, a fence: nothing else"
    return Case(
        f"dax_put_{NAMES[size]}",
        f"a put of {_words(size)} into memory that stands for persistent memory",
        (
            _entry(LIMITS, "stream", work, "streaming", None, folder="$memory", **how),
            _entry(LOG_DAX, "put", ALONE, measure=None, **how),
            _entry(OURS_DAX, "put", WHOLE, measure=None, **how),
            *(
                _entry(PMEMOBJ_DAX, "put", work, way, None, way=way, **how)
                for way, work in TRANSACTIONS.items()
            ),
        ),
    )


DAX = tuple(_dax(size) for size in COUNTS)


def in_seconds(context: Context, entry: Entry) -> Samples:
    """Seconds of a new side, for one request."""
    return [nanoseconds / 1e9 for nanoseconds in ask_fresh(context, entry)]


LIVE_BYTES, WRITTEN_BYTES = GIB, 6 * GIB

COSTS = (
    Case(
        "recover",
        "from opening the folder until every object of it is known",
        tuple(
            _entry(
                LOG,
                "recover",
                f"{objects:,} objects of 100 B; files out of the page cache",
                name,
                in_seconds,
                objects=objects,
                object_bytes=100,
                count=3,
            )
            for name, objects in OBJECTS.items()
        ),
        rounds=2,
        quick_rounds=1,
        unit="s",
        heat="cold",
    ),
    Case(
        "churn",
        "bytes written to the log's files over bytes of the objects put, in the long run",
        (
            _entry(
                LOG_MEMORY,
                "churn",
                "puts of 4 to 256 KiB and deletes of any of them, at random",
                "random",
                ask_fresh,
                live_bytes=LIVE_BYTES,
                written_bytes=WRITTEN_BYTES,
                oldest_first=False,
            ),
            _entry(
                LOG_MEMORY,
                "churn",
                "the same, the oldest object deleted first",
                "oldest first",
                ask_fresh,
                live_bytes=LIVE_BYTES,
                written_bytes=WRITTEN_BYTES,
                oldest_first=True,
            ),
        ),
        rounds=1,
        quick_rounds=1,
        unit="x",
    ),
)

CASES = (*PUTS, *TOGETHER, *DAX, *COSTS)
