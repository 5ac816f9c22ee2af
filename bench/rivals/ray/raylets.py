"""Ray with two raylets, each with an object store of its own, on one machine.

The driver puts objects into the store of the first raylet; an actor of the second one gets them,
the first time, and times that itself.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from bench.rivals.protocol import Answer, Fetches, payload, serve, spent_ns

#: Ray frees an object some time after its last reference has gone.
_FREE_PAUSE_S = 0.5
_FREE_PAUSE_BYTES_MIN = 16 << 20
#: All processes stop while other sides are measured, which must not count as a death.
_PATIENT = {"health_check_failure_threshold": 1000, "health_check_timeout_ms": 600_000}


class Getter:
    """What gets on the second raylet."""

    def fetch(self, references: list[Any]) -> int:
        """How long it takes to get objects one after the other, in ns."""
        import ray  # type: ignore[import-not-found]

        begin = time.perf_counter_ns()
        for reference in references:
            ray.get(reference)
        return time.perf_counter_ns() - begin


class Raylets:
    """The driver, at the first raylet."""

    def __init__(self) -> None:
        self._ray: Any = None
        self._cluster: Any = None
        self._getter: Any = None
        self._folder: Path | None = None

    def op_start(self, directory: str, capacity_bytes: int) -> Answer:
        """Starts both, and the actor."""
        # The paths of its sockets are long, and the kernel takes 107 bytes.
        self._folder = Path(tempfile.mkdtemp(prefix="r-"))
        (self._folder / "ray").mkdir()
        os.environ.update(
            HOME=directory,
            RAY_TMPDIR=str(self._folder),
            RAY_AUTH_MODE="disabled",
            RAY_USAGE_STATS_ENABLED="0",
            RAY_DISABLE_IMPORT_WARNING="1",
        )
        import ray
        from ray.cluster_utils import Cluster  # type: ignore[import-not-found]

        begin = time.perf_counter_ns()
        node = {"num_cpus": 1, "object_store_memory": capacity_bytes, "include_dashboard": False}
        head = {**node, "_system_config": _PATIENT}
        self._cluster = Cluster(initialize_head=True, head_node_args=head)
        self._cluster.add_node(**node, resources={"second": 1})
        self._ray = ray
        ray.init(address=self._cluster.address, log_to_driver=False, logging_level="ERROR")
        self._getter = ray.remote(Getter).options(resources={"second": 1}).remote()
        self._get([ray.put(np.zeros(1, np.uint8))])
        taken = time.perf_counter_ns() - begin
        return {
            "address": self._cluster.address,
            "start_ns": taken,
            "versions": {"ray": ray.__version__, "numpy": np.__version__},
        }

    def op_stop(self) -> Answer:
        """Ends both."""
        if self._ray is not None:
            self._ray.shutdown()
            self._cluster.shutdown()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
        return {}

    def op_fetch(self, object_bytes: int, count: int, batch: int = 1) -> Answer:
        """The first get of arrays on the raylet that does not have them."""
        array = np.frombuffer(payload(object_bytes), np.uint8)
        fetches = Fetches(batch)
        for _ in range(count + 1):
            references = [self._ray.put(array) for _ in range(batch)]
            before = spent_ns()
            taken = self._get(references)
            fetches.add(taken, spent_ns() - before)
            references.clear()
            if object_bytes >= _FREE_PAUSE_BYTES_MIN:
                time.sleep(_FREE_PAUSE_S)
        return fetches.answer()

    def _get(self, references: list[Any]) -> int:
        taken: int = self._ray.get(self._getter.fetch.remote(references))
        return taken


if __name__ == "__main__":
    serve(Raylets())
