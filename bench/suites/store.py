"""The node's store: every row of its target table beside its limit and its rivals.

Rivals are compared with our Python client, because Python is how all of them are measured here.
The cases are in `_store_small` and `_store_large`.
"""

from __future__ import annotations

from bench.case import (
    CROSS_CORE,
    FREE,
    SAME_CORE,
    TWO_CORES,
    Bandwidth,
    Figure,
    Median,
    Pinning,
    Ratio,
    Side,
    Suite,
    at_least,
    at_most,
)
from bench.suites import _store_large, _store_small
from bench.suites._store_sides import (
    GIB,
    LIMITS,
    PLASMA,
    PYTHON,
    RAY,
    RUST,
    SEGMENTS,
    VINEYARD,
)


def _rival(name: str, folder: str, settle_ms: int = 0) -> Side:
    return Side(name, "Python", ("-m", f"bench.rivals.{folder}.worker"), folder, {}, settle_ms)


#: Freed memory stays with the store, as it does with Plasma and vineyard. By default it keeps a
#: quarter of the capacity, which is less than the largest objects here.
WARM = {"settings": [["warm_bytes_max", "2g"]]}

SIDES = (
    Side(LIMITS, "Rust", ("limits",), "native"),
    Side(RUST, "Rust", ("store",), "native", WARM),
    Side(PYTHON, "Python", ("-m", "bench.ours.worker"), "ours", WARM),
    _rival(PLASMA, "plasma"),
    _rival(VINEYARD, "vineyard"),
    _rival(RAY, "ray", settle_ms=300),
    _rival(SEGMENTS, "shared_memory"),
)


def _rivals(
    prefix: str, case: str, pinning: Pinning, rivals: dict[str, tuple[str, float | None]]
) -> tuple[Figure, ...]:
    """How many times as long each rival takes as our Python client."""
    return tuple(
        Figure(
            f"{prefix}_ratio_{name}",
            f"time of {label} over that of {PYTHON}, {pinning.name}",
            "x",
            Ratio(case, label, PYTHON, pinning),
            None if limit is None else at_least(limit),
        )
        for name, (label, limit) in rivals.items()
    )


EVERY_RIVAL = {"plasma": PLASMA, "vineyard": VINEYARD, "ray": RAY}


def _every_rival(limit: float) -> dict[str, tuple[str, float | None]]:
    return {name: (label, limit) for name, label in EVERY_RIVAL.items()}


READS = (
    Figure(
        "get_hot_ns_rust",
        "get and release, hot, Rust",
        "ns",
        Median("get_hot", RUST, SAME_CORE),
        at_most(20),
    ),
    Figure(
        "get_hot_ns_python",
        "get and release, hot, Python",
        "ns",
        Median("get_hot", PYTHON, SAME_CORE),
        at_most(1000),
    ),
    Figure(
        "get_1m_objects_ns",
        "get and release over a million objects, Rust",
        "ns",
        Median("get_spread", f"{RUST} 1M", SAME_CORE),
        at_most(100),
    ),
    Figure(
        "two_reader_scaling",
        "gets of two Rust readers on two cores over those of one",
        "x",
        Median("two_readers", RUST, TWO_CORES),
        at_least(1.8),
    ),
    *_rivals("get", "get_hot", SAME_CORE, _every_rival(30)),
    *_rivals("get_cross_core", "get_hot", CROSS_CORE, _every_rival(30)),
)

SMALL = (
    Figure(
        "put_1kb_ns_rust",
        "put of 1 KB, nothing awaited, Rust",
        "ns",
        Median("put_1kb", RUST, SAME_CORE),
        at_most(150),
    ),
    Figure(
        "put_1kb_ns_python",
        "put of 1 KB, nothing awaited, Python",
        "ns",
        Median("put_1kb", PYTHON, SAME_CORE),
        at_most(2000),
    ),
    Figure(
        "put_1kb_acknowledged_ns_rust",
        "put of 1 KB with an id of the caller's, answer awaited, Rust",
        "ns",
        Median("put_1kb", f"{RUST} user id", SAME_CORE),
    ),
    *_rivals("put_1kb", "put_1kb", SAME_CORE, _every_rival(15)),
    Figure(
        "put_1kb_acknowledged_ratio_plasma",
        f"time of {PLASMA} over that of {PYTHON}, answers awaited by both",
        "x",
        Ratio("put_1kb", PLASMA, f"{PYTHON} user id", SAME_CORE),
    ),
    Figure(
        "small_objects_per_s",
        "objects of 100 B per second, batched, until all are visible, Rust",
        "1/s",
        Median("insert_rate", RUST),
        at_least(5e6),
    ),
)

LARGE = (
    Figure(
        "put_1mb_vs_memcpy",
        "bandwidth of a put of 1 MB over that of a warm memcpy, one thread, Rust",
        "x",
        Ratio("put_1mb", f"{LIMITS} memcpy", RUST),
        at_least(0.9),
    ),
    *_rivals("put_1mb", "put_1mb", FREE, _every_rival(3)),
    Figure(
        "put_1gib_recycled_vs_memcpy",
        "the same of 1 GiB in recycled memory, one thread",
        "x",
        Ratio("put_1gib_one_thread", f"{LIMITS} memcpy", RUST),
        at_least(0.9),
    ),
    Figure(
        "put_1gib_recycled_vs_memcpy_all",
        "the same with a thread per core",
        "x",
        Ratio("put_1gib", f"{LIMITS} memcpy", RUST),
        at_least(0.9),
    ),
    Figure(
        "put_1gib_recycled_gbps",
        "its bandwidth",
        "GB/s",
        Bandwidth("put_1gib", RUST, GIB),
    ),
    *_rivals(
        "put_1gib",
        "put_1gib",
        FREE,
        {"plasma": (f"{PLASMA} raw", 1.5), "vineyard": (f"{VINEYARD} copy", 1), "ray": (RAY, None)},
    ),
    Figure(
        "put_1gib_fresh_gbps",
        "bandwidth of the first put of 1 GiB into a new store, Rust",
        "GB/s",
        Bandwidth("put_1gib_fresh", RUST, GIB),
        at_least(2.5),
    ),
    Figure(
        "put_1gib_fresh_vs_first_touch",
        "its bandwidth over that of a memcpy that touches its target first, one thread",
        "x",
        Ratio("put_1gib_fresh", f"{LIMITS} first touch", RUST),
        at_least(1),
    ),
)

REST = (
    Figure(
        "wake_vs_futex",
        "wake-up of a waiter asleep over that of a futex, cross-core, Rust",
        "x",
        Ratio("wake", RUST, f"{LIMITS} futex", CROSS_CORE),
        at_most(1.2),
    ),
    Figure(
        "wake_vs_futex_same_core",
        "the same, same-core",
        "x",
        Ratio("wake", RUST, f"{LIMITS} futex", SAME_CORE),
        at_most(1.2),
    ),
    Figure(
        "overhead_bytes_per_object",
        "memory beside the bytes of each of a million small objects",
        "B",
        Median("overhead", f"{RUST} 1M"),
        at_most(160),
    ),
    Figure(
        "start_ms",
        "from starting a store to the first connection",
        "ms",
        Median("start", RUST),
        at_most(10),
    ),
    Figure(
        "recover_2e6_objects_s",
        "from the death of the daemon to the first answer of the next, two million objects",
        "s",
        Median("recover", RUST),
        at_most(2),
    ),
    Figure(
        "small_put_behind_4gib_create_ms",
        "put of 3 KB by a new client while another one creates 4 GiB, Python",
        "ms",
        Median("put_behind_create", PYTHON),
        at_most(20),
    ),
    Figure(
        "request_with_1500_idle_clients_ratio",
        "time of a small request beside 1500 idle clients over one without them, same-core, Python",
        "x",
        Median("beside_idle", PYTHON, SAME_CORE),
        at_most(1.2),
    ),
    Figure(
        "longest_turn_ms",
        "the daemon's longest turn with a million objects and 4,000 connections",
        "ms",
        Median("longest_turn", PYTHON),
        at_most(10),
    ),
    *(
        Figure(
            f"resident_over_capacity_{level}",
            f"the most memory that all objects take, over the capacity, level {level}",
            "x",
            Median("residency", f"{PYTHON} {level}"),
            at_most(1.02),
        )
        for level in ("shared", "leased", "strict")
    ),
    Figure(
        "idle_rss_mb",
        "resident memory of an idle store, daemon and keeper",
        "MB",
        Median("idle", RUST),
        at_most(8),
    ),
)

FIGURES = (*READS, *SMALL, *LARGE, *REST)

CASES = (*_store_small.CASES, *_store_large.CASES)

SUITE = Suite("store", SIDES, CASES, FIGURES, page="docs/benchmarks/store.md")
