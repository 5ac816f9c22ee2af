"""The tables that every side sorts, made alike everywhere, and how a sort is timed."""

from __future__ import annotations

import gc
import os
import resource
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from bench.rivals.protocol import Answer, UnsupportedError

#: By what each case is sorted: column, descending.
ORDERS: dict[str, list[tuple[str, bool]]] = {
    "key": [("k", False)],
    "key_payload7": [("k", False)],
    "string": [("k", False)],
    "two_keys": [("k", False), ("k2", True)],
}
#: Bytes of a row of each case, about.
ROW_BYTES = {"key": 8, "key_payload7": 64, "string": 24, "two_keys": 16}
#: Copies of the input that must fit the memory: input and result. What a side needs besides is
#: estimated from what it took at a smaller size.
COPIES = 2.0
#: Warm runs of a sort; no more are begun after this many seconds, the cold one counted.
RUNS_MAX = 3
RUNS_S = 6.0
#: A cold run of this many seconds is not followed by a warm one.
LONG_S = 15.0


def table(case: str, rows: int) -> Any:
    """An Arrow table; the same for all sides."""
    import pyarrow as pa

    need, found = ROW_BYTES[case] * rows * COPIES, _available_bytes()
    if need > found:
        raise UnsupportedError(f"needs {need / 1e9:.0f} GB of memory, {found / 1e9:.0f} are free")
    random = np.random.default_rng(42)
    if case == "string":
        # Sixteen hexadecimal digits: random, without a common beginning.
        digits = np.frombuffer(b"0123456789abcdef", np.uint8)
        data = np.empty((rows, 16), np.uint8)
        step = 1 << 20
        for at in range(0, rows, step):
            part = data[at : at + step]
            part[...] = digits[random.integers(0, 16, part.shape, np.uint8)]
        offsets = np.arange(rows + 1, dtype=np.int64) * 16
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
        return pa.table({"k": pa.Array.from_buffers(pa.large_string(), rows, buffers)})
    if case == "two_keys":
        return pa.table({"k": random.integers(0, 1000, rows), "k2": random.random(rows)})
    payload = 7 if case == "key_payload7" else 0
    columns = {"k": random.random(rows), **{f"p{at}": random.random(rows) for at in range(payload)}}
    return pa.table(columns)


def _available_bytes() -> int:
    with open("/proc/meminfo") as lines:
        found = next(line for line in lines if line.startswith("MemAvailable"))
    return int(found.split()[1]) * 1024


def measured(
    run: Callable[[], Any],
    nbytes: int,
    base_bytes: int,
    others_cpu_ns: Callable[[], float] = lambda: 0.0,
) -> Answer:
    """A sort, several times: wall and processor time in ns, peak memory, and the first run's time.

    The peak is of all memory that this process has in sight, the store's included, less what it had
    before there was an input, over the bytes of the input. The first run is cold, and counted only
    when it is so long that warm memory makes no difference; there are no others then.
    `others_cpu_ns` is the processor time so far of processes that work for this one and live on.
    """
    wall: list[float] = []
    cpu: list[float] = []
    peak: list[float] = []
    while _goes_on([1e-9 * taken for taken in wall]):
        gc.collect()
        _reset_peak()
        begin, begin_cpu = time.perf_counter_ns(), _cpu_ns() + others_cpu_ns()
        result = run()
        wall.append(time.perf_counter_ns() - begin)
        cpu.append(_cpu_ns() + others_cpu_ns() - begin_cpu)
        peak.append((_resident_bytes("VmHWM") - base_bytes) / nbytes)
        del result
    warm = slice(1 if len(wall) > 1 else 0, None)
    sort = {"wall": wall[warm], "cpu": cpu[warm], "peak": peak[warm], "cold": wall[:1]}
    sort |= {"cold_cpu": cpu[:1]}
    return {"samples": wall[warm], "sort": sort, "input_bytes": nbytes}


def _goes_on(runs_s: list[float]) -> bool:
    """Whether there is another run after these."""
    if len(runs_s) < 2:
        return sum(runs_s) < LONG_S
    return len(runs_s) <= RUNS_MAX and sum(runs_s) < RUNS_S


def _cpu_ns() -> float:
    own, children = (
        resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return 1e9 * sum(usage.ru_utime + usage.ru_stime for usage in (own, children))


def _reset_peak() -> None:
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def resident_bytes() -> int:
    """The memory that this process has in sight."""
    return _resident_bytes("VmRSS")


def _resident_bytes(line: str) -> int:
    with open(f"/proc/{os.getpid()}/status") as lines:
        found = next(text for text in lines if text.startswith(line))
    return int(found.split()[1]) * 1024
