"""Plasma, as pyarrow 11 ships it."""

from __future__ import annotations

import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
from pyarrow import plasma

from bench.rivals.protocol import (
    Answer,
    UnsupportedError,
    awaited,
    payload,
    rate,
    serve,
    shared_id,
    spaced,
    timed,
)

warnings.simplefilter("ignore")


class Plasma:
    """One client of a `plasma_store`."""

    def __init__(self) -> None:
        self.client: Any = None
        self.store: subprocess.Popen[bytes] | None = None
        self.filled: list[Any] = []

    def op_start(self, directory: str, capacity_bytes: int) -> Answer:
        address = f"{directory}/plasma.sock"
        program = Path(sys.executable).with_name("plasma_store")
        begin = time.perf_counter_ns()
        self.store = subprocess.Popen([str(program), "-m", str(capacity_bytes), "-s", address])
        self.client = plasma.connect(address)
        taken = time.perf_counter_ns() - begin
        return {
            "address": address,
            "start_ns": taken,
            "versions": {"pyarrow": pyarrow.__version__, "numpy": np.__version__},
        }

    def op_connect(self, address: str) -> Answer:
        self.client = plasma.connect(address)
        return {}

    def op_stop(self) -> Answer:
        if self.client is not None:
            self.client.disconnect()
        if self.store is not None:
            self.store.terminate()
            self.store.wait()
        return {}

    def _create_seal(self, data: memoryview, identity: Any = None) -> Any:
        identity = identity or plasma.ObjectID.from_random()
        target = memoryview(self.client.create(identity, len(data))).cast("B")
        target[:] = data
        self.client.seal(identity)
        return identity

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
        if way == "create_and_seal":
            small = data.tobytes()

            def put() -> None:
                identity = plasma.ObjectID.from_random()
                self.client.create_and_seal(identity, small)
                made.append(identity)
        elif way == "put_raw_buffer":

            def put() -> None:
                made.append(self.client.put_raw_buffer(data))
        else:

            def put() -> None:
                made.append(self._create_seal(data))

        def clear() -> None:
            self.client.delete(made)
            made.clear()

        return timed(put, count, batch, clear, warmup=0 if cold else 1)

    def op_put_numpy(self, object_bytes: int, count: int, batch: int = 1) -> Answer:
        array = np.ones(object_bytes // 8)
        made: list[Any] = []

        def clear() -> None:
            self.client.delete(made)
            made.clear()

        return timed(lambda: made.append(self.client.put(array)), count, batch, clear)

    def op_get_numpy(self, object_bytes: int, count: int, batch: int = 1) -> Answer:
        identity = self.client.put(np.ones(object_bytes // 8))
        answer = timed(lambda: self.client.get(identity), count, batch)
        self.client.delete([identity])
        return answer

    def op_get(self, object_bytes: int, count: int, batch: int = 1) -> Answer:
        identity = self._create_seal(payload(object_bytes))
        answer = timed(lambda: self.client.get_buffers([identity]), count, batch)
        self.client.delete([identity])
        return answer

    def op_get_rate(self, object_bytes: int, seconds: float) -> Answer:
        identity = self._create_seal(payload(object_bytes))
        answer = rate(lambda: self.client.get_buffers([identity]), seconds)
        self.client.delete([identity])
        return answer

    def op_get_many(self, object_bytes: int, objects: int, count: int) -> Answer:
        data = payload(object_bytes)
        ids = [self._create_seal(data) for _ in range(objects)]
        answer = timed(lambda: self.client.get_buffers(ids), count)
        self.client.delete(ids)
        return answer

    def op_delete(self, object_bytes: int, count: int, batch: int) -> Answer:
        data = payload(object_bytes)
        made = [self._create_seal(data) for _ in range(batch * (count + 1))]
        return timed(lambda: self.client.delete([made.pop()]), count, batch)

    def op_fill(self, object_bytes: int, objects: int) -> Answer:
        data = payload(object_bytes).tobytes()
        begin = time.perf_counter_ns()
        for _ in range(objects):
            identity = plasma.ObjectID.from_random()
            self.client.create_and_seal(identity, data)
            self.filled.append(identity)
        return {"per_s": objects * 1e9 / (time.perf_counter_ns() - begin)}

    def op_clear(self) -> Answer:
        self.client.delete(self.filled)
        self.filled.clear()
        return {}

    def op_list(self, count: int) -> Answer:
        if not self.filled:
            raise UnsupportedError("list of an empty store")
        return timed(self.client.list, count)

    def op_wake_seal(self, series: int, count: int, gap_us: float) -> Answer:
        ids = [plasma.ObjectID(shared_id(series, turn)) for turn in range(count)]
        for identity in ids:
            self.client.create(identity, 64)
        answer = spaced(lambda turn: self.client.seal(ids[turn]), count, gap_us)
        self.client.delete(ids)
        return answer

    def op_wake_wait(self, series: int, count: int) -> Answer:
        ids = [plasma.ObjectID(shared_id(series, turn)) for turn in range(count)]
        return awaited(lambda turn: self.client.get_buffers([ids[turn]], timeout_ms=-1), count)


if __name__ == "__main__":
    serve(Plasma())
