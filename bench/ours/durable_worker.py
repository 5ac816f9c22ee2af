"""Our Python client and durable objects: a put returns when the object is in the log, synced."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import plasmon
from bench.rivals.clients import by_processes
from bench.rivals.protocol import Answer, payload, serve, timed

#: Lets a folder in memory stand for persistent memory; what it measures is the processor's part.
FORCE_DAX = "PLASMON_LOG_FORCE_DAX"
#: How many objects each of several clients keeps before it deletes them.
_KEPT = 64


class Durable:
    """A store with a log."""

    def __init__(self) -> None:
        self._store: Any = None
        self._address = ""

    def op_start(
        self, directory: str, capacity_bytes: int, folder: str, forced: bool = False
    ) -> Answer:
        """Starts it, with its log in a folder of the harness. `forced`: as on a DAX device."""
        self._address = f"{directory}/plasmon.sock"
        settings = {"capacity_bytes": str(capacity_bytes), "durable_dir": str(Path(folder) / "log")}
        if forced:
            # The daemon inherits it.
            os.environ[FORCE_DAX] = "1"
            settings["durable_device"] = "dax"
        begin = time.perf_counter_ns()
        self._store = plasmon.connect(self._address, start=True, settings=settings)
        taken = time.perf_counter_ns() - begin
        versions = {"plasmon": plasmon.__version__}
        return {"address": self._address, "start_ns": taken, "versions": versions}

    def op_stop(self) -> Answer:
        """Leaves it; the harness ends the daemon."""
        if self._store is not None:
            self._store.disconnect()
        return {}

    def op_put(self, object_bytes: int, count: int) -> Answer:
        """One object, its answer awaited."""
        data, made = payload(object_bytes), []

        def put() -> None:
            made.append(self._store.put(data, durable=True))

        return timed(put, count, after=lambda: self._delete(made))

    def op_put_batch(self, object_bytes: int, count: int, batch: int) -> Answer:
        """Objects that are put with one call, the answers to all awaited."""
        data, made = [bytes(payload(object_bytes))] * batch, []

        def put() -> None:
            made.extend(self._store.put_many(data, durable=True))

        answer = timed(put, count, after=lambda: self._delete(made))
        samples = [sample / batch for sample in answer["samples"]]
        return {**answer, "samples": samples, "batch": batch}

    def op_put_clients(self, object_bytes: int, clients: int, seconds: float) -> Answer:
        """Processes with a client each; each awaits the answer to its put."""
        data, address = payload(object_bytes), self._address

        def connect(number: int) -> Callable[[], None]:
            del number
            store = plasmon.connect(address, start=False)
            turns = itertools.count()
            made: list[Any] = []

            def put() -> None:
                made.append(store.put(data, durable=True))
                # Deletes are part of the log's work, as setting a key again is of Redis's.
                if next(turns) % _KEPT == _KEPT - 1:
                    store.delete(made)
                    made.clear()

            return put

        return by_processes(clients, seconds, connect)

    def _delete(self, made: list[Any]) -> None:
        self._store.delete(made)
        made.clear()


if __name__ == "__main__":
    serve(Durable())
