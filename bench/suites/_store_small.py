"""Cases of small objects: getting, putting, deleting, waiting."""

from __future__ import annotations

from typing import Any

from bench import fresh_store, two_client
from bench.case import CROSS_CORE, FREE, SAME_CORE, TWO_CORES, Case, Entry
from bench.suites._store_sides import (
    IN_PLACE,
    KIB,
    LIMITS,
    MIB,
    OWN,
    PLASMA,
    PLASMA_RAW,
    PLASMA_SEAL,
    PYTHON,
    RAY,
    RAY_PUT,
    RUST,
    SEGMENT,
    SEGMENTS,
    SOCKET,
    USER,
    VINEYARD,
    VINEYARD_COPY,
    VINEYARD_SEAL,
    entry,
    put,
)


def _get(side: str, work: str, size: int, batch: int, variant: str = "", **more: Any) -> Entry:
    return entry(side, "get", work, variant, object_bytes=size, count=20, batch=batch, **more)


def _get_rivals(size: int) -> tuple[Entry, ...]:
    return (
        _get(PLASMA, "get_buffers of one id, buffer dropped: two messages, one answer", size, 20),
        _get(VINEYARD, "get_blob, dropped: one message, one answer", size, 20),
        _get(RAY, "ray.get of the reference to an array, array dropped", size, 20),
    )


def _spread(variant: str, objects: int, **more: Any) -> Entry:
    read = "; the first byte is read" if more else ""
    work = f"get_now of {objects:,} objects, in an order that no prefetcher knows{read}"
    return _get(RUST, work, 64, 200_000, variant, objects=objects, **more)


READS = (
    Case(
        "get_hot",
        "get and release of one sealed object of 1 KB",
        (
            entry(
                LIMITS,
                "atomics",
                "a compare-exchange, two loads and a store in one process",
                "atomics",
                count=20,
                batch=100_000,
            ),
            _get(RUST, "get_now: a pin that borrows the store", KIB, 100_000),
            _get(RUST, "get: a buffer that keeps the store", KIB, 100_000, "owned", way="owned"),
            _get(PYTHON, "get_buffer, dropped", KIB, 2_000),
            *_get_rivals(KIB),
            _get(SEGMENTS, "attach by name, map, unmap, close", KIB, 20),
        ),
        (SAME_CORE, CROSS_CORE),
        rounds=7,
    ),
    Case(
        "get_hot_1mb",
        "the same with 1 MB: without a copy",
        (
            _get(RUST, "get_now", MIB, 100_000),
            _get(PYTHON, "get_buffer, dropped", MIB, 2_000),
            *_get_rivals(MIB),
        ),
        (SAME_CORE,),
        rounds=3,
    ),
    Case(
        "get_spread",
        "get and release while walking over many objects of 64 B",
        (
            _spread("1", 1),
            _spread("1k", 1_000),
            _spread("100k", 100_000),
            _spread("1M", 1_000_000),
            _spread("1M touched", 1_000_000, way="touched"),
        ),
        (SAME_CORE,),
    ),
    Case(
        "get_many",
        "get of 1000 objects of 100 B in one call, time of the call",
        (
            entry(RUST, "get_many", "get_many, dropped", object_bytes=100, objects=1000, count=50),
            entry(
                PYTHON, "get_many", "get_buffers, dropped", object_bytes=100, objects=1000, count=50
            ),
            entry(
                PLASMA, "get_many", "get_buffers, dropped", object_bytes=100, objects=1000, count=10
            ),
            entry(
                VINEYARD, "get_many", "get_blobs, dropped", object_bytes=100, objects=1000, count=10
            ),
            entry(RAY, "get_many", "ray.get of a list", object_bytes=100, objects=1000, count=5),
        ),
        (SAME_CORE,),
    ),
    Case(
        "get_numpy",
        "get of a NumPy array of 1 MB, not copied",
        (
            entry(PYTHON, "get_numpy", "get", object_bytes=MIB, count=20, batch=500),
            entry(PLASMA, "get_numpy", "get", object_bytes=MIB, count=20, batch=10),
            entry(
                VINEYARD, "get_numpy", "get: built from its metadata", object_bytes=MIB, count=20
            ),
            entry(RAY, "get_numpy", "ray.get", object_bytes=MIB, count=20, batch=10),
        ),
        (SAME_CORE,),
    ),
    Case(
        "two_readers",
        "gets per second of two clients on two cores over those of one",
        tuple(
            entry(
                side,
                "get_rate",
                "each gets and releases an object of 1 KB of its own",
                measure=two_client.scaling,
                object_bytes=KIB,
                seconds=0.2,
            )
            for side in (RUST, PYTHON, PLASMA, VINEYARD, RAY)
        ),
        (TWO_CORES,),
        unit="x",
    ),
)

WRITES = (
    Case(
        "put_1kb",
        "make an object of 1 KB (deleted untimed)",
        (
            put(RUST, OWN, KIB, 20, batch=2_000),
            put(RUST, IN_PLACE, KIB, 20, "in place", "in_place", batch=2_000),
            put(RUST, USER, KIB, 20, "user id", "user_id", batch=200),
            put(RUST, SOCKET, KIB, 20, "socket", "socket", batch=100),
            put(PYTHON, OWN, KIB, 20, batch=500),
            put(PYTHON, IN_PLACE, KIB, 20, "in place", "in_place", batch=500),
            put(PYTHON, USER, KIB, 20, "user id", "user_id", batch=100),
            put(PLASMA, PLASMA_SEAL, KIB, 20, batch=20),
            put(
                PLASMA,
                "create_and_seal: one message with the data in it, hashed, answer awaited",
                KIB,
                20,
                "create_and_seal",
                "create_and_seal",
                batch=20,
            ),
            put(VINEYARD, VINEYARD_SEAL, KIB, 20, batch=20),
            put(RAY, RAY_PUT, KIB, 20, batch=10),
            put(SEGMENTS, SEGMENT, KIB, 20, batch=20),
        ),
        (SAME_CORE, CROSS_CORE),
    ),
    Case(
        "put_1mb",
        "make an object of 1 MB in recycled memory (deleted untimed)",
        (
            entry(
                LIMITS,
                "copy",
                "memcpy into warm shared memory, one thread",
                "memcpy",
                object_bytes=MIB,
                count=100,
                threads=1,
                way="plain",
                fresh=False,
            ),
            put(RUST, OWN, MIB, 100),
            put(PYTHON, OWN, MIB, 100),
            put(PLASMA, PLASMA_SEAL, MIB, 50),
            put(PLASMA, PLASMA_RAW, MIB, 50, "raw", "put_raw_buffer"),
            put(VINEYARD, VINEYARD_SEAL, MIB, 50),
            put(VINEYARD, VINEYARD_COPY, MIB, 50, "copy", "copy"),
            put(RAY, RAY_PUT, MIB, 30),
            put(SEGMENTS, SEGMENT, MIB, 50),
        ),
    ),
    Case(
        "put_numpy",
        "put of a NumPy array of 1 MB (deleted untimed)",
        tuple(
            entry(side, "put_numpy", work, object_bytes=MIB, count=count)
            for side, work, count in (
                (PYTHON, "put; no answer awaited", 100),
                (PLASMA, "put: serialized into the object, hashed", 50),
                (VINEYARD, "put: a blob and its metadata", 20),
                (RAY, RAY_PUT, 30),
            )
        ),
    ),
)


def _trips(variant: str, op: str, work: str, batch: int) -> Entry:
    return entry(LIMITS, op, work, variant, count=100, batch=batch, server_cpu="$server_cpu")


def _wake(side: str, work: str) -> Entry:
    return entry(side, "wake_seal", work, measure=two_client.wake, count=100, gap_us=2000)


REST = (
    Case(
        "round_trip",
        "what a message to another process and its answer cost",
        (
            _trips("socket", "socket_round_trip", "64 B over a Unix SEQPACKET socket", 10),
            entry(LIMITS, "system_call", "getppid", "system call", count=50, batch=1000),
        ),
        (SAME_CORE, CROSS_CORE),
        rounds=3,
    ),
    Case(
        "round_trip_polled",
        "the same through shared memory, with both processes polling",
        (_trips("spin", "spin_round_trip", "two words in shared memory", 100),),
        (CROSS_CORE,),
        rounds=3,
    ),
    Case(
        "wake",
        "from the begin of a seal to the return of another client's get, which slept",
        (
            entry(
                LIMITS,
                "futex_wake",
                "FUTEX_WAKE of a process asleep in FUTEX_WAIT: one hop",
                "futex",
                count=100,
                gap_us=2000,
                server_cpu="$server_cpu",
            ),
            _wake(RUST, "seal into the ring, get woken by the sealer while the daemon publishes"),
            _wake(PYTHON, "the same"),
            _wake(PLASMA, "seal's message, answer to the waiting get: two hops, hash"),
            _wake(VINEYARD, "put_name, answer to the waiting get_name: two hops"),
            entry(
                RAY,
                "wake_task",
                "the nearest thing: from the end of an actor's method to the return of ray.get",
                count=50,
                gap_us=2000,
            ),
        ),
        (SAME_CORE, CROSS_CORE),
        rounds=4,
    ),
    Case(
        "insert_rate",
        "objects of 100 B per second until all are visible, one client",
        (
            entry(RUST, "insert_rate", "put_many, flush", object_bytes=100, objects=200_000),
            entry(PYTHON, "insert_rate", "put_many, flush", object_bytes=100, objects=100_000),
            entry(PLASMA, "fill", "create_and_seal, one by one", object_bytes=100, objects=3_000),
            entry(
                VINEYARD,
                "fill",
                "create_blob and seal, one by one",
                object_bytes=100,
                objects=1_500,
            ),
            entry(RAY, "fill", "ray.put, one by one", object_bytes=100, objects=500),
            entry(SEGMENTS, "fill", "a file each", object_bytes=100, objects=1_500),
        ),
        (FREE,),
        unit="1/s",
    ),
    Case(
        "delete",
        "delete of one object of 1 KB",
        (
            entry(
                RUST, "delete", "delete_soon: into the ring", object_bytes=KIB, count=20, batch=1000
            ),
            entry(
                RUST,
                "delete",
                "delete: answer awaited",
                "awaited",
                object_bytes=KIB,
                count=20,
                batch=100,
                awaited=True,
            ),
            entry(
                PYTHON, "delete", "delete: answer awaited", object_bytes=KIB, count=20, batch=100
            ),
            entry(PLASMA, "delete", "delete: answer awaited", object_bytes=KIB, count=20, batch=20),
            entry(
                VINEYARD, "delete", "delete: answer awaited", object_bytes=KIB, count=20, batch=20
            ),
            entry(RAY, "delete", "", object_bytes=KIB, count=1, batch=1),
            entry(SEGMENTS, "delete", "unlink", object_bytes=KIB, count=20, batch=20),
        ),
        (SAME_CORE, CROSS_CORE),
        rounds=3,
    ),
    Case(
        "list_100k",
        "list of a store with 100,000 objects",
        tuple(
            entry(side, "list", work, measure=fresh_store.list_ns, count=2, objects=100_000)
            for side, work in (
                (RUST, "list: descriptions of all"),
                (PYTHON, "list: descriptions of all"),
                (PLASMA, "list: a dictionary of all"),
            )
        ),
        (FREE,),
        rounds=2,
        quick_rounds=1,
    ),
)

CASES = (*READS, *WRITES, *REST)
