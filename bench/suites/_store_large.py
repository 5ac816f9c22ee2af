"""Cases of large objects, and of a store as a whole."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bench import fresh_store
from bench.case import CROSS_CORE, FREE, SAME_CORE, Case, Entry, Measure
from bench.run import ask_fresh
from bench.suites._store_sides import (
    GIB,
    LIMITS,
    OWN_LARGE,
    PLASMA,
    PLASMA_RAW,
    PLASMA_SEAL,
    PYTHON,
    RAY,
    RAY_PUT,
    RUST,
    SEGMENT,
    SEGMENTS,
    VINEYARD,
    VINEYARD_COPY,
    VINEYARD_SEAL,
    entry,
    put,
)


def _copy(variant: str, work: str, threads: int | str, way: str, fresh: bool = False) -> Entry:
    return entry(
        LIMITS,
        "copy",
        work,
        variant,
        object_bytes=GIB,
        count=1,
        threads=threads,
        way=way,
        fresh=fresh,
        source="$source",
    )


def _put_gib(side: str, work: str, variant: str = "", way: str = "", **more: Any) -> Entry:
    return put(side, work, GIB, 1, variant, way, source="$source", **more)


def _first_gib(side: str, work: str, variant: str = "", way: str = "") -> Entry:
    more: dict[str, Any] = {"way": way} if way else {}
    return entry(
        side,
        "put",
        f"{work}; the first put into a new store",
        variant,
        ask_fresh,
        object_bytes=GIB,
        count=1,
        cold=True,
        source="$source",
        **more,
    )


ALL_CORES = "the same, a thread per core"


def _few(entry: Entry) -> Entry:
    """What no figure is made of takes part in the first rounds only."""
    return replace(entry, rounds=3)


LARGE = (
    Case(
        "put_1gib_one_thread",
        "make an object of 1 GiB in recycled memory with one copying thread",
        (
            _copy("memcpy", "memcpy into warm shared memory", 1, "plain"),
            _copy("streaming", "AVX2 stores past the caches into warm memory", 1, "streaming"),
            _put_gib(RUST, OWN_LARGE, threads=1),
            _put_gib(PLASMA, PLASMA_SEAL),
            _put_gib(VINEYARD, VINEYARD_SEAL),
        ),
        (FREE,),
    ),
    Case(
        "put_1gib",
        "the same with as many threads as each side takes",
        (
            _copy(
                "memcpy", "memcpy into warm shared memory, a thread per core", "$threads", "plain"
            ),
            _copy("streaming", "AVX2 streaming, a thread per core", "$threads", "streaming"),
            _put_gib(RUST, OWN_LARGE),
            _put_gib(PYTHON, OWN_LARGE),
            _put_gib(PLASMA, PLASMA_RAW, "raw", "put_raw_buffer"),
            _put_gib(VINEYARD, VINEYARD_COPY, "copy", "copy"),
            _put_gib(RAY, RAY_PUT),
        ),
        (FREE,),
    ),
    Case(
        "put_1gib_fresh",
        "the first object of 1 GiB in a new store",
        (
            _copy("first touch", "memcpy into untouched shared memory", 1, "plain", True),
            _few(
                _copy("first touch, all", "the same, a thread per core", "$threads", "plain", True)
            ),
            _copy("pwrite", "pwrite into an untouched memfd", 1, "write", True),
            _few(_copy("pwrite, all", ALL_CORES, "$threads", "write", True)),
            _first_gib(RUST, OWN_LARGE),
            _first_gib(PYTHON, OWN_LARGE),
            _few(_first_gib(PLASMA, PLASMA_RAW, "raw", "put_raw_buffer")),
            _few(_first_gib(VINEYARD, VINEYARD_COPY, "copy", "copy")),
            _few(_first_gib(RAY, RAY_PUT)),
            _few(_first_gib(SEGMENTS, SEGMENT)),
        ),
        (FREE,),
        # Each is one sample, and a host that has to find memory makes it up to three times as long.
        rounds=9,
        quick_rounds=1,
        heat="cold",
    ),
)


def _overhead(side: str, variant: str, objects: int) -> Entry:
    work = f"growth of all its processes over {objects:,} objects of 100 B, less their bytes"
    return entry(
        side,
        "fill",
        work,
        variant,
        fresh_store.overhead_bytes,
        object_bytes=100,
        objects=objects,
    )


def _whole(measure: Measure, work: str, *sides: str) -> tuple[Entry, ...]:
    return tuple(entry(side, "start", work, measure=measure) for side in sides)


STORES = (
    Case(
        "overhead",
        "memory beside the bytes of a small object",
        (
            _overhead(RUST, "100k", 100_000),
            _overhead(RUST, "1M", 1_000_000),
            _overhead(PLASMA, "100k", 100_000),
            _overhead(VINEYARD, "20k", 20_000),
            _overhead(RAY, "5k", 5_000),
        ),
        rounds=2,
        quick_rounds=1,
        unit="B",
    ),
    Case(
        "start",
        "from starting a store to the first connection",
        (
            *_whole(fresh_store.start_ms, "daemon and keeper", RUST),
            *_whole(fresh_store.start_ms, "its client retries every 100 ms", PLASMA),
            *_whole(fresh_store.start_ms, "metadata in the daemon", VINEYARD),
            *_whole(fresh_store.start_ms, "ray.init without a dashboard", RAY),
        ),
        rounds=5,
        quick_rounds=1,
        unit="ms",
        heat="cold",
    ),
    Case(
        "recover",
        "from the death of the daemon to the first answer of the next, two million objects",
        (
            entry(
                RUST,
                "recover",
                "kill -9, with two million objects of 100 B",
                measure=fresh_store.recover_s,
                object_bytes=100,
                objects=2_000_000,
                count=3,
            ),
        ),
        rounds=1,
        quick_rounds=1,
        unit="s",
        heat="cold",
    ),
    Case(
        "beside_idle",
        "a small request beside 1500 idle clients over one without them",
        (
            entry(
                PYTHON,
                "request_beside_idle",
                "states of one object; the clients have rings and submit nothing",
                measure=fresh_store.ask_crowded,
                clients=1500,
                count=2000,
            ),
        ),
        # Left to itself the kernel moves client and daemon from one processor to two meanwhile,
        # which alone takes four times as long.
        (SAME_CORE, CROSS_CORE),
        rounds=3,
        quick_rounds=1,
        unit="x",
    ),
    Case(
        "longest_turn",
        "the daemon's longest turn with a million objects and 4,000 connections",
        (
            entry(
                PYTHON,
                "longest_turn",
                "a million pins, 100,000 objects that expire at once; puts, reads, deletes, "
                "connections that come and go, status",
                measure=fresh_store.ask_crowded,
                objects=1_000_000,
                expiring=100_000,
                clients=4000,
                count=300,
            ),
        ),
        # A turn during which the kernel ran something else is long as well.
        rounds=3,
        quick_rounds=1,
        unit="ms",
        heat="cold",
    ),
    Case(
        "residency",
        "the most memory that all objects take of the machine, over the capacity of 256 MiB",
        tuple(
            entry(
                PYTHON,
                "residency",
                "three processes put, read and delete, three read and sit idle",
                variant=level,
                measure=fresh_store.ask_at_level,
                level=level,
                seconds=10,
                busy=3,
                idle=3,
            )
            for level in ("shared", "leased", "strict")
        ),
        rounds=1,
        quick_rounds=1,
        unit="x",
        heat="cold",
    ),
    Case(
        "put_behind_create",
        "a put of 3 KB by a new client while another one creates 4 GiB",
        (
            entry(
                PYTHON,
                "put_behind_create",
                "it needs a lease, so memory; until it is applied",
                measure=fresh_store.ask_roomy,
                create_bytes=4 * GIB,
                object_bytes=3000,
                count=3,
            ),
        ),
        rounds=1,
        quick_rounds=1,
        unit="ms",
        heat="cold",
    ),
    Case(
        "idle",
        "resident memory of a store with one client and no object",
        _whole(
            fresh_store.idle_mb,
            "resident set of its processes, the client excluded",
            *(RUST, PLASMA, VINEYARD, RAY),
        ),
        rounds=2,
        quick_rounds=1,
        unit="MB",
    ),
)

CASES = (*LARGE, *STORES)
