"""The pool: three nodes on loopback with a real etcd, beside bare TCP, iperf3 and Redis.

Objects are put on the first node and fetched on the second one. All nodes and all rivals share the
processors of one machine, so every figure that compares is a ratio of the same run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bench.case import (
    FREE,
    SAME_CORE,
    Bandwidth,
    Case,
    Entry,
    Figure,
    Median,
    Ratio,
    Side,
    Suite,
    Target,
    at_least,
    at_most,
)
from bench.environments import MissingError
from bench.pool_nodes import failover_ms, idle_mb, moved_share, start_ms
from bench.report import format_value, markdown
from bench.run import Results, ask_fresh
from bench.stats import median
from bench.suites import _pool_columns as columns

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
STREAM_BYTES = 256 * MIB
READERS = 8
STREAMS = 4
#: Objects that are put before the pool is waited for.
SETTLED = 20_000

POOL, STORE, TCP, REDIS, IPERF = "plasmon-pool", "plasmon-store", "limits", "redis", "iperf3"

#: Of each node. What moves to a node at one time is at most a quarter of it. The store without a
#: pool has as much.
START = {"capacity_bytes": 6 * GIB}

SIDES = (
    Side(POOL, "Rust", ("pool",), "native", START, rests=False),
    Side(STORE, "Rust", ("store",), "native", START),
    Side(TCP, "Rust", ("limits",), "native"),
    Side(REDIS, "Python", ("-m", "bench.rivals.redis.worker"), "redis"),
    Side(IPERF, "-", ("-m", "bench.rivals.iperf.worker"), "iperf"),
    *columns.SIDES,
)

FETCH = "the first get on the second node: find, land, move, check, seal, pin"
BARE = "eight bytes ask for as many over one connection, read into warm memory"
GET = "GET over one connection, read into warm memory"
COPY = "put under a free name, acknowledged by the pool"


def _entry(side: str, op: str, work: str, variant: str = "", **request: Any) -> Entry:
    return Entry(side, {"op": op, **request}, work, variant)


def _fetches(size: int, count: int, batch: int) -> tuple[Entry, ...]:
    return (
        _entry(POOL, "fetch", FETCH, object_bytes=size, count=count, warmups=count),
        _entry(TCP, "fetch", BARE, "tcp", object_bytes=size, count=count, batch=batch),
        _entry(REDIS, "fetch", GET, object_bytes=size, count=count, batch=batch),
    )


def _streams(at_once: int) -> tuple[Entry, ...]:
    size = {"object_bytes": STREAM_BYTES, "at_once": at_once}
    return (
        _entry(POOL, "fetch", FETCH, **size, count=3),
        _entry(IPERF, "fetch", f"a second of iperf3 -P {at_once}", **size, count=1),
    )


def _puts(size: int, count: int) -> tuple[Entry, ...]:
    def put(side: str, work: str, copies: int) -> Entry:
        variant = f"{copies} {'copy' if copies == 1 else 'copies'}"
        sizes = {"object_bytes": size, "count": count}
        return _entry(side, "put_copies", work, variant, copies=copies, **sizes)

    return (
        put(POOL, COPY, 1),
        put(POOL, COPY, 2),
        put(REDIS, "SET, answer awaited", 1),
        put(REDIS, "SET, and WAIT until a second server has it", 2),
    )


def _failover(wanted: str, fault: str, variant: str, work: str) -> Entry:
    request = {"op": "failover", "wanted": wanted, "fault": fault, "object_bytes": MIB}
    return Entry(POOL, request, work, variant, failover_ms)


FETCHES = (
    Case(
        "get_1kib",
        "first get of 1 KiB from another node",
        _fetches(KIB, 50, 50),
        rounds=9,
    ),
    Case(
        "get_1mib",
        "first get of 1 MiB from another node",
        _fetches(MIB, 40, 5),
        rounds=9,
    ),
    Case(
        "stream",
        "first get of 256 MiB from another node",
        (
            *_streams(1),
            _entry(TCP, "fetch", BARE, "tcp", object_bytes=STREAM_BYTES, count=3),
            _entry(REDIS, "fetch", GET, object_bytes=STREAM_BYTES, count=2),
        ),
        rounds=4,
    ),
    Case(
        "stream_1gib",
        "first get of 1 GiB from another node",
        (
            _entry(POOL, "fetch", FETCH, object_bytes=GIB, count=1),
            _entry(IPERF, "fetch", "a second of iperf3 -P 1", object_bytes=GIB, count=1),
        ),
        rounds=5,
        quick_rounds=1,
    ),
    Case(
        "streams",
        f"first gets of {STREAMS} objects of 256 MiB at the same time; the time of all",
        _streams(STREAMS),
        rounds=3,
        quick_rounds=1,
    ),
    Case(
        "second_get",
        "get and release of 1 MiB that was fetched before",
        (
            _entry(POOL, "second_get", "get_now", object_bytes=MIB, count=20, batch=100_000),
            _entry(
                STORE, "get", "get_now, without a pool", object_bytes=MIB, count=20, batch=100_000
            ),
        ),
        (SAME_CORE,),
    ),
    Case(
        "readers",
        f"bytes that came to a node whose {READERS} processes got one object at once, over its own",
        (
            Entry(
                POOL,
                {"op": "readers", "object_bytes": STREAM_BYTES, "readers": READERS},
                "the first get of each process",
                measure=moved_share,
            ),
        ),
        rounds=3,
        quick_rounds=1,
        unit="x",
    ),
)

PUTS = (
    Case(
        "put_1kib",
        "put of 1 KiB under a free name (deleted untimed)",
        (
            *_puts(KIB, 50),
            _entry(
                TCP,
                "fetch",
                "eight bytes, 1 KiB as the answer",
                "tcp",
                object_bytes=KIB,
                count=50,
                batch=50,
            ),
        ),
    ),
    Case("put_1mib", "put of 1 MiB under a free name (deleted untimed)", _puts(MIB, 30)),
    Case(
        "put_settled",
        f"puts of 1 KiB without a name, {SETTLED:,} at a time, until the pool has accepted them"
        " (deleted untimed)",
        tuple(
            _entry(side, "put_settled", work, object_bytes=KIB, count=5, batch=SETTLED)
            for side, work in (
                (POOL, "put, and one settle for all; one copy"),
                (REDIS, "SET in pipelines of 500, one server"),
            )
        ),
    ),
)


def _local(op: str, work: str, batch: int) -> tuple[Entry, ...]:
    # Where a process has its memory makes some of 13 ns, so each round starts both stores anew.
    request = {"op": op, "object_bytes": KIB, "count": 20, "batch": batch}
    return tuple(Entry(side, request, work, measure=ask_fresh) for side in (POOL, STORE))


LOCAL = (
    Case(
        "local_get",
        "get and release of 1 KiB that belongs to no pool, in a store with and without a pool",
        _local("get", "get_now", 100_000),
        (SAME_CORE,),
        rounds=7,
    ),
    Case(
        "local_put",
        "put of 1 KiB that belongs to no pool, in a store with and without a pool",
        _local("put", "id of the client's making; nothing awaited", 2_000),
        (SAME_CORE,),
        rounds=7,
    ),
)

DEATHS = (
    Case(
        "start",
        "from the start of the first of three nodes until all take copies and lead records",
        (Entry(POOL, {"op": "start"}, "etcd runs already", measure=start_ms),),
        rounds=3,
        quick_rounds=1,
        unit="ms",
        heat="cold",
    ),
    Case(
        "idle",
        "memory of a pool daemon of a pool without objects",
        (Entry(POOL, {"op": "start"}, "PSS of each of three", measure=idle_mb),),
        rounds=1,
        quick_rounds=1,
        unit="MB",
        heat="cold",
    ),
    Case(
        "failover",
        "from the death of one of three nodes until a program on another one is served",
        (
            _failover(
                "read", "kill", "read", "1 MiB with a second copy elsewhere; kill -9 of the holder"
            ),
            _failover(
                "read",
                "stop",
                "read, stopped",
                "the same; the holder is stopped and answers nothing",
            ),
            _failover(
                "read_led",
                "kill",
                "read, records led",
                "the same; the node also led the object's records",
            ),
            _failover("commit", "kill", "commit", "put of a name whose records the node led"),
        ),
        quick_rounds=1,
        unit="ms",
        heat="cold",
    ),
)

CASES = (*FETCHES, *PUTS, *LOCAL, *columns.CASES, *DEATHS)


@dataclass(frozen=True)
class Scaled:
    """A figure of one entry in another unit."""

    of: Median
    divisor: float

    def __call__(self, results: Results) -> float:
        return self.of(results) / self.divisor


@dataclass(frozen=True)
class ProcessorTime:
    """Seconds of processor time that all processes of a side spend on a GB."""

    case: str
    label: str
    object_bytes: int

    def __call__(self, results: Results) -> float:
        notes = results.notes.get((self.case, self.label, FREE.name), [])
        spent = [float(value) for note in notes for value in note.get("cpu_ns", [])]
        if not spent:
            raise MissingError(f"{self.label}: {self.case} was not measured")
        return median(spent) / self.object_bytes


@dataclass(frozen=True)
class Largest:
    """The largest sample of one entry."""

    case: str
    label: str

    def __call__(self, results: Results) -> float:
        return max(max(samples) for samples in results.samples(self.case, self.label))


@dataclass(frozen=True)
class Rate:
    """How many operations of one entry fit a second."""

    of: Median

    def __call__(self, results: Results) -> float:
        return 1e9 / self.of(results)


def _figure(
    name: str,
    what: str,
    unit: str,
    compute: Callable[[Results], float],
    target: Target | None = None,
) -> Figure:
    return Figure(name, what, unit, compute, target)


def _died(variant: str) -> Median:
    return Median("failover", f"{POOL} {variant}")


FIGURES = (
    _figure(
        "get_1mib_vs_tcp",
        "time of a first get of 1 MiB from another node over that of the bare bytes over TCP",
        "x",
        Ratio("get_1mib", POOL, f"{TCP} tcp"),
        at_most(1.5),
    ),
    _figure(
        "get_1mib_ratio_redis",
        "time of a GET of Redis over that of the first get",
        "x",
        Ratio("get_1mib", REDIS, POOL),
        at_least(1.3),
    ),
    _figure("get_1mib_us", "the first get of 1 MiB", "us", Scaled(Median("get_1mib", POOL), 1e3)),
    _figure("get_1kib_us", "the first get of 1 KiB", "us", Scaled(Median("get_1kib", POOL), 1e3)),
    _figure(
        "get_inline_round_trips",
        "its time over that of a bare round trip over TCP",
        "x",
        Ratio("get_1kib", POOL, f"{TCP} tcp"),
        at_most(2.5),
    ),
    _figure(
        "stream_vs_iperf",
        "bandwidth of a first get of 256 MiB over that of iperf3 -P 1",
        "x",
        Ratio("stream", IPERF, POOL),
        at_least(0.9),
    ),
    _figure("stream_gbps", "its bandwidth", "GB/s", Bandwidth("stream", POOL, STREAM_BYTES)),
    _figure(
        "stream_1gib_vs_iperf",
        "the same of 1 GiB",
        "x",
        Ratio("stream_1gib", IPERF, POOL),
        at_least(0.9),
    ),
    _figure(
        "stream4_vs_iperf",
        f"the same of {STREAMS} objects of 256 MiB at once, over iperf3 -P {STREAMS}",
        "x",
        Ratio("streams", IPERF, POOL),
        at_least(0.95),
    ),
    _figure(
        "cpu_s_per_gb",
        "processor time for each GB of first gets of 256 MiB, all processes of the pool together",
        "s",
        ProcessorTime("stream", POOL, STREAM_BYTES),
    ),
    _figure(
        "second_get_ns",
        "get and release of an object that was fetched before",
        "ns",
        Median("second_get", POOL, SAME_CORE),
        at_most(25),
    ),
    _figure(
        "bytes_moved_8_readers",
        f"bytes that came to the node of {READERS} processes that got one object at once, over its"
        " bytes, at worst",
        "x",
        Largest("readers", POOL),
        at_most(1.01),
    ),
    _figure(
        "put_free_1kib_us",
        "put of 1 KiB under a free name, two copies",
        "us",
        Scaled(Median("put_1kib", f"{POOL} 2 copies"), 1e3),
    ),
    _figure(
        "put_free_1kib_round_trips",
        "its time over that of a bare round trip over TCP",
        "x",
        Ratio("put_1kib", f"{POOL} 2 copies", f"{TCP} tcp"),
        at_most(5),
    ),
    _figure(
        "put_free_1kib_ratio_redis",
        "time of SET and WAIT of Redis over that of the put, two copies each",
        "x",
        Ratio("put_1kib", f"{REDIS} 2 copies", f"{POOL} 2 copies"),
    ),
    _figure(
        "two_copies_ratio",
        "time of a put of 1 MiB with two copies over that with one",
        "x",
        Ratio("put_1mib", f"{POOL} 2 copies", f"{POOL} 1 copy"),
        at_most(2.2),
    ),
    _figure(
        "two_copies_ratio_redis",
        "time of SET and WAIT of Redis over that of the put of 1 MiB, two copies each",
        "x",
        Ratio("put_1mib", f"{REDIS} 2 copies", f"{POOL} 2 copies"),
    ),
    _figure(
        "homed_puts_per_s",
        "puts of 1 KiB without a name, settled in batches",
        "1/s",
        Rate(Median("put_settled", POOL)),
        at_least(100_000),
    ),
    _figure(
        "homed_puts_ratio_redis",
        "time of SET in a pipeline of Redis over that of such a put",
        "x",
        Ratio("put_settled", REDIS, POOL),
    ),
    _figure(
        "read_failover_ms",
        "from kill -9 of a node with a copy until a node without one has the object",
        "ms",
        _died("read"),
        at_most(200),
    ),
    _figure(
        "read_stopped_ms",
        "the same where the node is stopped and answers nothing",
        "ms",
        _died("read, stopped"),
        at_most(700),
    ),
    _figure(
        "read_led_failover_ms",
        "the same where the killed node also led the object's records",
        "ms",
        _died("read, records led"),
    ),
    _figure(
        "commit_failover_ms",
        "from kill -9 of a node until a name whose records it led is put",
        "ms",
        _died("commit"),
        at_most(4500),
    ),
    _figure(
        "local_get_with_agent_ratio",
        "time of a get of an object of no pool in a store of a pool over that in a store without",
        "x",
        Ratio("local_get", POOL, STORE, SAME_CORE),
        at_most(1.05),
    ),
    _figure(
        "local_put_with_agent_ratio",
        "the same of a put",
        "x",
        Ratio("local_put", POOL, STORE, SAME_CORE),
        at_most(1.05),
    ),
    _figure(
        "poold_idle_mb",
        "memory of an idle pool daemon, at worst",
        "MB",
        Largest("idle", POOL),
        at_most(20),
    ),
    *columns.FIGURES,
    _figure(
        "start_ms",
        "from the start of the first node until all three serve",
        "ms",
        Median("start", POOL),
    ),
)


def _parts(results: Results) -> dict[str, str]:
    """What moving bytes costs each side, and how the deaths went, round by round."""
    costs = [["case", "side", "time", "GB/s", "processor seconds per GB"]]
    for case in FETCHES[1:5]:
        for entry in case.entries:
            size = entry.request["object_bytes"] * entry.request.get("at_once", 1)
            try:
                taken = results.median(case.name, entry.label)
            except MissingError:
                continue
            try:
                spent = f"{ProcessorTime(case.name, entry.label, size)(results):.2f}"
            except MissingError:
                spent = ""
            speed = f"{size / taken:.2f}"
            costs.append([case.name, entry.label, format_value(taken, "ns"), speed, spent])
    deaths = [["what", "rounds, ms"]]
    for entry in DEATHS[-1].entries:
        try:
            rounds = results.samples("failover", entry.label)
        except MissingError:
            continue
        times = ", ".join(f"{value:,.0f}" for samples in rounds for value in samples)
        deaths.append([entry.work, times])
    return {"costs": markdown(costs), "deaths": markdown(deaths)}


SUITE = Suite("pool", SIDES, CASES, FIGURES, page="docs/benchmarks/pool.md", parts=_parts)
