"""Ray's object store, through `ray.put` and `ray.get` of a driver."""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np

from bench.rivals.protocol import Answer, UnsupportedError, payload, rate, serve, timed

# Ray frees an object some time after its last reference has gone.
FREE_PAUSE_S = 0.5
FREE_PAUSE_BYTES_MIN = 16 << 20


class Ray:
    """A driver of a local cluster without a dashboard."""

    def __init__(self) -> None:
        self.ray: Any = None
        self.filled: list[Any] = []
        self.clock: Any = None

    def op_start(self, directory: str, capacity_bytes: int) -> Answer:
        os.environ.update(
            HOME=directory,
            RAY_AUTH_MODE="disabled",
            RAY_USAGE_STATS_ENABLED="0",
            RAY_DISABLE_IMPORT_WARNING="1",
        )
        import ray  # type: ignore[import-not-found]

        self.ray = ray
        begin = time.perf_counter_ns()
        context = ray.init(
            num_cpus=1,
            include_dashboard=False,
            object_store_memory=capacity_bytes,
            _temp_dir=f"{directory}/ray",
            log_to_driver=False,
            logging_level="ERROR",
        )
        taken = time.perf_counter_ns() - begin
        return {
            "address": context.address_info["gcs_address"],
            "start_ns": taken,
            "versions": {"ray": ray.__version__, "numpy": np.__version__},
        }

    def op_connect(self, address: str) -> Answer:
        os.environ.update(RAY_AUTH_MODE="disabled", RAY_USAGE_STATS_ENABLED="0")
        import ray

        self.ray = ray
        ray.init(address=address, log_to_driver=False, logging_level="ERROR")
        return {}

    def op_stop(self) -> Answer:
        if self.ray is not None:
            self.ray.shutdown()
        return {}

    def op_put(
        self,
        object_bytes: int,
        count: int,
        batch: int = 1,
        way: str = "",
        source: str | None = None,
        cold: bool = False,
    ) -> Answer:
        array = np.frombuffer(payload(object_bytes, source), np.uint8)
        made: list[Any] = []

        def clear() -> None:
            made.clear()
            if object_bytes >= FREE_PAUSE_BYTES_MIN:
                time.sleep(FREE_PAUSE_S)

        def put() -> None:
            made.append(self.ray.put(array))

        return timed(put, count, batch, clear, warmup=0 if cold else 1)

    def op_put_numpy(self, object_bytes: int, count: int, batch: int = 1) -> Answer:
        array = np.ones(object_bytes // 8)
        made: list[Any] = []
        return timed(lambda: made.append(self.ray.put(array)), count, batch, made.clear)

    def op_get_numpy(self, object_bytes: int, count: int, batch: int = 1) -> Answer:
        reference = self.ray.put(np.ones(object_bytes // 8))
        return timed(lambda: self.ray.get(reference), count, batch)

    def op_get(self, object_bytes: int, count: int, batch: int = 1) -> Answer:
        reference = self.ray.put(np.frombuffer(payload(object_bytes), np.uint8))
        return timed(lambda: self.ray.get(reference), count, batch)

    def op_get_rate(self, object_bytes: int, seconds: float) -> Answer:
        reference = self.ray.put(np.frombuffer(payload(object_bytes), np.uint8))
        return rate(lambda: self.ray.get(reference), seconds)

    def op_get_many(self, object_bytes: int, objects: int, count: int) -> Answer:
        array = np.frombuffer(payload(object_bytes), np.uint8)
        references = [self.ray.put(array) for _ in range(objects)]
        return timed(lambda: self.ray.get(references), count)

    def op_delete(self, object_bytes: int, count: int, batch: int) -> Answer:
        raise UnsupportedError("deletes when the last reference goes, asynchronously")

    def op_fill(self, object_bytes: int, objects: int) -> Answer:
        array = np.frombuffer(payload(object_bytes), np.uint8)
        begin = time.perf_counter_ns()
        self.filled += [self.ray.put(array) for _ in range(objects)]
        return {"per_s": objects * 1e9 / (time.perf_counter_ns() - begin)}

    def op_clear(self) -> Answer:
        self.filled.clear()
        return {}

    def op_list(self, count: int) -> Answer:
        raise UnsupportedError("lists at most 10,000 objects, through its state service")

    def op_wake_task(self, count: int, gap_us: float) -> Answer:
        """The nearest thing to waiting for a seal: waiting for the result of an actor's method."""
        if self.clock is None:

            class Clock:
                def after(self, gap_us: float) -> int:
                    time.sleep(gap_us / 1e6)
                    return time.monotonic_ns()

            self.clock = self.ray.remote(Clock).remote()
        samples = []
        for _ in range(count):
            began = self.ray.get(self.clock.after.remote(gap_us))
            samples.append(time.monotonic_ns() - began)
        return {"samples": samples, "batch": 1}


if __name__ == "__main__":
    serve(Ray())
