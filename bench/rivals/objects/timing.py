"""Times one operation in processor time, with the garbage collector as a program has it, or not.

Processor time (`time.process_time`) is that of all threads of this process, so being interrupted
costs nothing and threads do not hide work. Wall-clock time is taken beside it, to show whether
something was left to another process.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from typing import Any

from bench.rivals.protocol import Answer

#: What happens to the garbage collector around an operation.
MODES = ("on", "off", "counted")


def timed(
    operation: Callable[[], Any],
    count: int,
    *,
    batch: int = 1,
    collector: str = "on",
    drop: Callable[[list[Any]], None] = list.clear,
    seconds: float | None = None,
    warmup: int = 1,
) -> Answer:
    """Times up to `count` batches; each sample is nanoseconds of processor time per operation.

    What an operation returns is freed after its time was taken. The collector is `on` as in any
    program, `off` as inside of `timeit`, or `counted`: a pass over the young generation, which a
    reader may have put off, is part of the time.
    """
    if collector not in MODES:
        raise ValueError(f"the collector is one of {MODES}, found {collector!r}")
    samples: list[float] = []
    wall: list[float] = []
    end = None if seconds is None else time.monotonic() + seconds
    for turn in range(-warmup, count):
        made: list[Any] = []
        clocks = _once(operation, made, batch, collector)
        drop(made)
        if turn >= 0:
            samples.append(clocks[0] / batch)
            wall.append(clocks[1] / batch)
            if end is not None and time.monotonic() > end:
                break
    return {"samples": samples, "batch": batch, "wall_ns": statistics.median(wall)}


def _once(
    operation: Callable[[], Any], made: list[Any], batch: int, collector: str
) -> tuple[int, int]:
    """The processor time and the wall-clock time of one batch."""
    turns = range(batch)
    keep = made.append
    if collector == "off":
        gc.disable()
    try:
        wall, begin = time.perf_counter_ns(), time.process_time_ns()
        for _ in turns:
            keep(operation())
        if collector == "counted":
            gc.collect(0)
        taken = time.process_time_ns() - begin
        return taken, time.perf_counter_ns() - wall
    finally:
        gc.enable()
