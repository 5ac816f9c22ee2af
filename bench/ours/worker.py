"""Our Python client."""

from __future__ import annotations

import statistics
import threading
import time
from typing import Any

import numpy as np

import plasmon
from bench.ours.residency import peak_share
from bench.rivals.protocol import Answer, awaited, payload, rate, serve, shared_id, spaced, timed

CONNECT_TIMEOUT_S = 10.0
#: In how long the objects end that are to end at once: enough to put them.
EXPIRING_S = 3.0


class Plasmon:
    """One client of a store."""

    def __init__(self) -> None:
        self.store: Any = None
        self.address = ""
        self.filled: list[Any] = []

    def op_start(
        self, directory: str, capacity_bytes: int, settings: list[list[str]] | None = None
    ) -> Answer:
        address = self.address = f"{directory}/plasmon.sock"
        given = {"capacity_bytes": str(capacity_bytes), **dict(settings or [])}
        begin = time.perf_counter_ns()
        self.store = plasmon.connect(address, start=True, settings=given)
        taken = time.perf_counter_ns() - begin
        return {
            "address": address,
            "start_ns": taken,
            "versions": {"plasmon": plasmon.__version__, "numpy": np.__version__},
        }

    def op_connect(self, address: str) -> Answer:
        self.store = plasmon.connect(address, start=False)
        return {}

    def op_stop(self) -> Answer:
        if self.store is not None:
            self.store.disconnect()
        return {}

    def _delete(self, ids: list[Any]) -> None:
        self.store.delete(ids)
        ids.clear()

    def op_put(
        self,
        object_bytes: int,
        count: int,
        batch: int = 1,
        way: str = "",
        source: str | None = None,
        cold: bool = False,
    ) -> Answer:
        data = payload(object_bytes, source)
        made: list[Any] = []
        store = self.store
        if way == "in_place":

            def put() -> None:
                writer = store.create(object_bytes)
                writer.write(data)
                made.append(writer.seal())
        elif way == "user_id":

            def put() -> None:
                made.append(store.put(data, id=store.new_id()))
        else:

            def put() -> None:
                made.append(store.put(data))

        return timed(put, count, batch, lambda: self._delete(made), warmup=0 if cold else 1)

    def op_put_numpy(self, object_bytes: int, count: int, batch: int = 1) -> Answer:
        array = np.ones(object_bytes // 8)
        made: list[Any] = []

        def put() -> None:
            made.append(self.store.put(array))

        return timed(put, count, batch, lambda: self._delete(made))

    def op_get_numpy(self, object_bytes: int, count: int, batch: int = 1) -> Answer:
        identity = self.store.put(np.ones(object_bytes // 8))
        answer = timed(lambda: self.store.get(identity), count, batch)
        self.store.delete([identity])
        return answer

    def op_get(self, object_bytes: int, count: int, batch: int = 1) -> Answer:
        identity = self._hot(object_bytes)
        get = self.store.get_buffer
        answer = timed(lambda: get(identity), count, batch)
        self.store.delete([identity])
        return answer

    def _hot(self, object_bytes: int) -> Any:
        identity = self.store.put(payload(object_bytes))
        self.store.flush()
        return identity

    def op_get_rate(self, object_bytes: int, seconds: float) -> Answer:
        identity = self._hot(object_bytes)
        get = self.store.get_buffer
        answer = rate(lambda: get(identity), seconds, batch=1024)
        self.store.delete([identity])
        return answer

    def _make(self, object_bytes: int, objects: int) -> list[Any]:
        data = payload(object_bytes)
        put = self.store.put
        made = [put(data) for _ in range(objects)]
        self.store.flush()
        return made

    def op_get_many(self, object_bytes: int, objects: int, count: int) -> Answer:
        ids = self._make(object_bytes, objects)
        answer = timed(lambda: self.store.get_buffers(ids), count)
        self._delete(ids)
        return answer

    def op_delete(self, object_bytes: int, count: int, batch: int) -> Answer:
        made = self._make(object_bytes, batch * (count + 1))
        return timed(lambda: self.store.delete(made.pop()), count, batch)

    def op_insert_rate(self, object_bytes: int, objects: int) -> Answer:
        self._delete(self._make(object_bytes, objects))
        begin = time.perf_counter_ns()
        made = self._make(object_bytes, objects)
        taken = time.perf_counter_ns() - begin
        self._delete(made)
        return {"per_s": objects * 1e9 / taken}

    def op_fill(self, object_bytes: int, objects: int) -> Answer:
        self.filled += self._make(object_bytes, objects)
        return {}

    def op_clear(self) -> Answer:
        self._delete(self.filled)
        return {}

    def op_list(self, count: int) -> Answer:
        return timed(self.store.list, count)

    def op_wake_seal(self, series: int, count: int, gap_us: float) -> Answer:
        ids = [plasmon.ObjectId(shared_id(series, turn)) for turn in range(count)]
        writers = [self.store.create(64, id=identity) for identity in ids]
        return spaced(lambda turn: writers[turn].seal(), count, gap_us)

    def op_wake_wait(self, series: int, count: int) -> Answer:
        ids = [plasmon.ObjectId(shared_id(series, turn)) for turn in range(count)]
        return awaited(lambda turn: self.store.get_buffer(ids[turn], wait=True), count)

    def op_request_beside_idle(self, clients: int, count: int) -> Answer:
        """The time of a small request beside idle clients over that without them."""
        identity = self.store.put(b"here")
        self.store.flush()

        def request_ns() -> float:
            answer = timed(lambda: self.store.states([identity]), count, warmup=count // 4)
            return statistics.median(answer["samples"])

        alone = request_ns()
        idle = [plasmon.connect(self.address, start=False) for _ in range(clients)]
        beside = request_ns()
        for store in idle:
            store.disconnect()
        return {"samples": [beside / alone]}

    def op_longest_turn(self, objects: int, expiring: int, clients: int, count: int) -> Answer:
        """The daemon's longest turn with many objects and many connections, in ms.

        The connections are of this process: their cost to the daemon does not depend on the
        process that has them. One pins all objects, and some more expire at once. The others
        put, read and delete while most idle, and some of them come and go.
        """
        many = [plasmon.connect(self.address, start=False) for _ in range(clients)]
        pinned = self.store.get_buffers(self._make(100, objects))
        end = time.monotonic() + EXPIRING_S
        for _ in range(expiring):
            self.store.put(b"short", ttl=max(0.001, end - time.monotonic()))
        self.store.flush()
        time.sleep(max(0.0, end - time.monotonic()))
        for turn in range(count):
            store = many[turn % clients]
            made = [store.put(payload(size)) for size in (100, 10_000, 1_000_000)]
            self.store.get_buffers(made)
            store.delete(made)
            if turn % 10 == 0:
                store.disconnect()
                many[turn % clients] = plasmon.connect(self.address, start=False)
                self.store.status()
        longest_us = self.store.status().longest_turn_us
        del pinned
        for store in many:
            store.disconnect()
        return {"samples": [longest_us / 1e3]}

    def op_residency(self, level: str, seconds: float, busy: int, idle: int) -> Answer:
        """The most memory that all extents took at once, over the capacity."""
        return {"samples": [peak_share(self.address, level, seconds, busy, idle)]}

    def op_put_behind_create(self, create_bytes: int, object_bytes: int, count: int) -> Answer:
        """A first put, which needs a lease, while another client creates a large object."""
        samples: list[float] = []
        for _ in range(count):
            creator = plasmon.connect(self.address, start=False)
            putter = plasmon.connect(self.address, start=False)
            asked = threading.Event()

            def create(store: Any = creator, asked: threading.Event = asked) -> None:
                asked.set()
                store.create(create_bytes).abort()
                store.flush()

            thread = threading.Thread(target=create)
            thread.start()
            asked.wait()
            time.sleep(0.02)
            begin = time.perf_counter_ns()
            putter.put(bytes(object_bytes))
            putter.flush()
            samples.append((time.perf_counter_ns() - begin) / 1e6)
            thread.join()
            creator.disconnect()
            putter.disconnect()
        return {"samples": samples}


if __name__ == "__main__":
    serve(Plasmon())
