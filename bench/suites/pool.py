"""The pool: three nodes with a real etcd, beside bare TCP, iperf3 and other stores.

Objects are put on the first node and fetched on the second one, first on machines with veth between
them, then on loopback. All nodes and all rivals share the processors of one machine, so every
figure that compares is a ratio of the same run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bench.case import (
    FREE,
    SAME_CORE,
    Bandwidth,
    Figure,
    Median,
    Ratio,
    Suite,
    Target,
    at_least,
    at_most,
)
from bench.environments import MissingError
from bench.report import format_value, markdown
from bench.run import Results
from bench.stats import median
from bench.suites import _pool_columns as columns
from bench.suites._pool_cases import (
    CASES,
    DEATHS,
    FETCHES,
    IPERF,
    MEMCACHED,
    MIB,
    MOONCAKE,
    NET_POOL,
    POOL,
    RAY,
    READERS,
    REDIS,
    SHM_POOL,
    SIDES,
    STORE,
    STREAM_BYTES,
    STREAMS,
    TCP,
    TLS_POOL,
    VETH,
    VETH_IPERF,
    VETH_POOL,
    VINEYARD,
)


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


#: What writing into the memory of another node comes to.
FABRICS = (
    _figure(
        "fabric_shm_1mib_ratio_redis",
        "time of a GET of Redis over that of a first get of 1 MiB that libfabric's shm writes",
        "x",
        Ratio("fabric_1mib", REDIS, SHM_POOL),
        at_least(3),
    ),
    _figure(
        "fabric_net_1mib_ratio_tcp",
        "time of a first get of 1 MiB over the pool's TCP over that of one that net writes",
        "x",
        Ratio("fabric_1mib", POOL, NET_POOL),
        at_least(1.3),
    ),
    _figure(
        "fabric_shm_1mib_bare_ratio_redis",
        "time of a GET of Redis over that of a bare write of 1 MiB over shm that is asked for",
        "x",
        Ratio("fabric_1mib", REDIS, f"{TCP} fabric shm"),
    ),
    _figure(
        "fabric_net_1mib_bare_ratio_tcp",
        "time of 1 MiB over bare TCP over that of a bare write of it over net",
        "x",
        Ratio("fabric_1mib", f"{TCP} tcp", f"{TCP} fabric net"),
    ),
    *(
        _figure(
            f"{name}_1mib_cpu_s_per_gb",
            f"processor time for each GB of first gets of 1 MiB, {what}",
            "s",
            ProcessorTime("fabric_1mib", side, MIB),
        )
        for name, side, what in (
            ("tcp", POOL, "over TCP"),
            ("tls", TLS_POOL, "encrypted"),
            ("fabric_net", NET_POOL, "written over net"),
            ("fabric_shm", SHM_POOL, "written over shm"),
        )
    ),
    *(
        _figure(
            f"fabric_{name}_cpu_s_per_gb",
            f"processor time for each GB of first gets of 256 MiB, written over {name}",
            "s",
            ProcessorTime("stream", side, STREAM_BYTES),
        )
        for name, side in (("net", NET_POOL), ("shm", SHM_POOL))
    ),
)

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
    _figure(
        "get_1kib_ratio_memcached",
        "time of a get of 1 KiB of memcached over that of the first get",
        "x",
        Ratio("get_1kib", MEMCACHED, POOL),
    ),
    _figure(
        "get_1mib_vs_tcp_veth",
        "time of a first get of 1 MiB over that of the bare bytes over TCP, both over veth",
        "x",
        Ratio("veth_get_1mib", VETH_POOL, f"{TCP} tcp, veth"),
        at_most(1.5),
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
        "get_inline_round_trips_veth",
        "the same of the first get of 1 KiB and a round trip over veth",
        "x",
        Ratio("veth_get_1kib", VETH_POOL, f"{TCP} tcp, veth"),
        at_most(2.5),
    ),
    _figure(
        "stream_vs_iperf_veth",
        "bandwidth of a first get of 256 MiB over that of iperf3 -P 1, both over veth",
        "x",
        Ratio("veth_stream", VETH_IPERF, VETH_POOL),
        at_least(0.9),
    ),
    _figure(
        "stream_vs_iperf",
        "bandwidth of a first get of 256 MiB over that of iperf3 -P 1",
        "x",
        Ratio("stream", IPERF, POOL),
        at_least(0.9),
    ),
    _figure(
        "stream_ratio_ray",
        "time of a first ray.get of 256 MiB from another raylet over that of the first get",
        "x",
        Ratio("stream", RAY, POOL),
        at_least(4),
    ),
    _figure(
        "stream_ratio_vineyard",
        "the same of vineyard's migration",
        "x",
        Ratio("stream", VINEYARD, POOL),
    ),
    _figure(
        "stream_ratio_mooncake",
        "the same of Mooncake's get over TCP",
        "x",
        Ratio("stream", MOONCAKE, POOL),
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
        "tls_stream_vs_plain",
        "bandwidth of a first get of 256 MiB that is encrypted over that of one that is not",
        "x",
        Ratio("stream", POOL, TLS_POOL),
        at_least(0.5),
    ),
    _figure(
        "tls_cpu_s_per_gb",
        "processor time for each GB of such gets, all processes of the pool together",
        "s",
        ProcessorTime("stream", TLS_POOL, STREAM_BYTES),
    ),
    *FABRICS,
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
        "read_blackhole_ms",
        "the same where the network swallows all that the node sends and is sent, on machines with"
        " veth between them",
        "ms",
        _died("read, cut off"),
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
    for case in (*VETH[1:], *FETCHES[1:6]):
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
