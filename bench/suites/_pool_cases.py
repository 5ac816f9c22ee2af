"""The sides and the cases of the pool's benchmark."""

from __future__ import annotations

from typing import Any

from bench.case import SAME_CORE, Case, Entry, Side
from bench.pool_nodes import cut_off_ms, failover_ms, idle_mb, moved_share, start_ms
from bench.run import ask_fresh
from bench.suites import _pool_columns as columns

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
STREAM_BYTES = 256 * MIB
READERS = 8
STREAMS = 4
#: Objects that are put before the pool is waited for.
SETTLED = 20_000

POOL, STORE, TCP, REDIS, IPERF = "plasmon-pool", "plasmon-store", "limits", "redis", "iperf3"
MEMCACHED, RAY, VINEYARD, MOONCAKE = "memcached", "ray", "vineyard", "mooncake"
#: The pool and its limits on machines of their own: namespaces, and veth between them.
VETH_POOL, VETH_IPERF = "plasmon-pool-veth", "iperf3-veth"
#: The pool whose nodes encrypt all that they say to each other.
TLS_POOL = "plasmon-pool-tls"
#: The pools whose nodes write into each other's memory, by the provider of libfabric.
SHM_POOL, NET_POOL = "plasmon-pool-shm", "plasmon-pool-net"
#: What libraries for fast networks measure themselves with.
PINGPONG, UCX = "fi_pingpong", "ucx_perftest"

#: Of each node. What moves to a node at one time is at most a quarter of it. The store without a
#: pool has as much.
START = {"capacity_bytes": 6 * GIB}
MACHINES = {"machines": "$machines"}
#: Of the rivals that store: room for what a round needs.
RIVAL_START = {"capacity_bytes": 2 * GIB}

SIDES = (
    Side(POOL, "Rust", ("pool",), "native", START, rests=False),
    Side(STORE, "Rust", ("store",), "native", START),
    Side(TCP, "Rust", ("limits",), "native"),
    Side(REDIS, "Python", ("-m", "bench.rivals.redis.worker"), "redis"),
    Side(IPERF, "-", ("-m", "bench.rivals.iperf.worker"), "iperf"),
    Side(MEMCACHED, "Python", ("-m", "bench.rivals.memcached.worker"), "memcached"),
    Side(RAY, "Python", ("-m", "bench.rivals.ray.raylets"), "ray", RIVAL_START, settle_ms=200),
    Side(VINEYARD, "Python", ("-m", "bench.rivals.vineyard.migration"), "vineyard", RIVAL_START),
    Side(MOONCAKE, "Python", ("-m", "bench.rivals.mooncake.worker"), "mooncake", RIVAL_START),
    Side(VETH_POOL, "Rust", ("pool",), "native", {**START, **MACHINES}, rests=False),
    Side(TLS_POOL, "Rust", ("pool",), "native", {**START, "encrypted": True}, rests=False),
    Side(SHM_POOL, "Rust", ("pool",), "native", {**START, "fabric": "shm"}, rests=False),
    Side(NET_POOL, "Rust", ("pool",), "native", {**START, "fabric": "net"}, rests=False),
    Side(PINGPONG, "-", ("-m", "bench.rivals.pingpong.worker", PINGPONG), "pingpong"),
    Side(UCX, "-", ("-m", "bench.rivals.pingpong.worker", UCX), "pingpong"),
    Side(VETH_IPERF, "-", ("-m", "bench.rivals.iperf.worker"), "iperf", MACHINES),
    *columns.SIDES,
)

FETCH = "the first get on the second node: find, land, move, check, seal, pin"
BARE = "eight bytes ask for as many over one connection, read into warm memory"
GET = "GET over one connection, read into warm memory"
RAY_GET = "ray.get of an array by an actor of the second raylet"
MIGRATE = "migrate of an array by a client of the second server, its metadata known"
GET_INTO = "get_into of a registered buffer that is warm"
WRITTEN = f"{FETCH}; written into its memory"
BARE_WRITE = "a byte asks for as many, which are written into one warm window over libfabric"
PING = "a message to and fro, busy polling; the time of one way"
COPY = "put under a free name, acknowledged by the pool"


def _entry(side: str, op: str, work: str, variant: str = "", **request: Any) -> Entry:
    return Entry(side, {"op": op, **request}, work, variant)


def _fetches(size: int, count: int, batch: int) -> tuple[Entry, ...]:
    return (
        _entry(POOL, "fetch", FETCH, object_bytes=size, count=count, warmups=count),
        _entry(TCP, "fetch", BARE, "tcp", object_bytes=size, count=count, batch=batch),
        _entry(REDIS, "fetch", GET, object_bytes=size, count=count, batch=batch),
    )


def _stores(size: int, count: int) -> tuple[Entry, ...]:
    """First gets from the rivals that have memory on two nodes."""
    sizes = {"object_bytes": size, "count": count}
    return (
        _entry(RAY, "fetch", RAY_GET, **sizes),
        _entry(VINEYARD, "fetch", MIGRATE, **sizes),
        _entry(MOONCAKE, "fetch", GET_INTO, **sizes),
    )


def _streams(at_once: int, pool: str = POOL, iperf: str = IPERF) -> tuple[Entry, ...]:
    size = {"object_bytes": STREAM_BYTES, "at_once": at_once}
    return (
        _entry(pool, "fetch", FETCH, **size, count=3),
        _entry(iperf, "fetch", f"a second of iperf3 -P {at_once}", **size, count=1),
    )


def _over_veth(size: int, count: int, batch: int) -> tuple[Entry, ...]:
    more = {"object_bytes": size, "count": count}
    return (
        _entry(VETH_POOL, "fetch", FETCH, **more, warmups=count),
        _entry(TCP, "fetch", BARE, "tcp, veth", **more, batch=batch, **MACHINES),
    )


def _bare_writes(*providers: str) -> tuple[Entry, ...]:
    """What endpoints of libfabric take without a pool."""
    more = {"object_bytes": MIB, "count": 40, "batch": 5}
    return tuple(
        _entry(TCP, "fabric_write", BARE_WRITE, f"fabric {provider}", provider=provider, **more)
        for provider in providers
    )


def _pings(side: str, **transports: str) -> tuple[Entry, ...]:
    """What a library's own program takes, for a few rounds: it starts two processes each time."""
    request = {"op": "fetch", "object_bytes": MIB, "count": 1, "batch": 200}
    return tuple(
        Entry(side, {**request, "transport": transport}, PING, variant, rounds=3)
        for variant, transport in transports.items()
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
        *((put(MEMCACHED, "set, answer awaited", 1),) if size <= KIB else ()),
    )


def _failover(wanted: str, fault: str, variant: str, work: str) -> Entry:
    request = {"op": "failover", "wanted": wanted, "fault": fault, "object_bytes": MIB}
    return Entry(POOL, request, work, variant, failover_ms)


VETH = (
    Case(
        "veth_get_1kib",
        "first get of 1 KiB from another machine, over veth",
        _over_veth(KIB, 50, 50),
    ),
    Case(
        "veth_get_1mib",
        "first get of 1 MiB from another machine, over veth",
        _over_veth(MIB, 40, 5),
    ),
    Case(
        "veth_stream",
        "first get of 256 MiB from another machine, over veth",
        _streams(1, VETH_POOL, VETH_IPERF),
        rounds=4,
    ),
)

FETCHES = (
    Case(
        "get_1kib",
        "first get of 1 KiB from another node",
        (
            *_fetches(KIB, 50, 50),
            _entry(MEMCACHED, "fetch", GET, object_bytes=KIB, count=50, batch=50),
        ),
        rounds=9,
    ),
    Case(
        "get_1mib",
        "first get of 1 MiB from another node",
        (*_fetches(MIB, 40, 5), *_stores(MIB, 20)),
        rounds=9,
    ),
    Case(
        "fabric_1mib",
        "first get of 1 MiB from another node of the machine, over TCP and over libfabric",
        (
            *_fetches(MIB, 40, 5),
            *(
                _entry(side, "fetch", work, object_bytes=MIB, count=40, warmups=40)
                for side, work in (
                    (NET_POOL, WRITTEN),
                    (SHM_POOL, WRITTEN),
                    (TLS_POOL, f"{FETCH}; encrypted"),
                )
            ),
            *_bare_writes("net", "shm"),
            *_pings(PINGPONG, net="net", shm="shm"),
            *_pings(UCX, tcp="tcp", shm="posix,cma,self"),
        ),
        rounds=7,
    ),
    Case(
        "stream",
        "first get of 256 MiB from another node",
        (
            *_streams(1),
            _entry(TLS_POOL, "fetch", f"{FETCH}; encrypted", object_bytes=STREAM_BYTES, count=3),
            *(
                _entry(side, "fetch", WRITTEN, object_bytes=STREAM_BYTES, count=3)
                for side in (NET_POOL, SHM_POOL)
            ),
            _entry(TCP, "fetch", BARE, "tcp", object_bytes=STREAM_BYTES, count=3),
            _entry(REDIS, "fetch", GET, object_bytes=STREAM_BYTES, count=2),
            *_stores(STREAM_BYTES, 2),
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
            Entry(
                POOL,
                {"op": "failover", "wanted": "read", "fault": "cut", "object_bytes": MIB},
                "the same; the network swallows what the holder sends and is sent",
                "read, cut off",
                cut_off_ms,
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

CASES = (*VETH, *FETCHES, *PUTS, *LOCAL, *columns.CASES, *DEATHS)
