"""vineyard with its metadata in the server (``-meta local``), objects as blobs."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import vineyard  # type: ignore[import-not-found]

from bench.rivals.protocol import Answer, awaited, payload, rate, serve, spaced, timed

CONNECT_TIMEOUT_S = 20.0
CONNECT_RETRY_S = 0.001


class Vineyard:
    """One client of a `vineyardd`."""

    def __init__(self) -> None:
        self.client: Any = None
        self.daemon: subprocess.Popen[bytes] | None = None
        self.filled: list[Any] = []

    def op_start(self, directory: str, capacity_bytes: int) -> Answer:
        address = f"{directory}/vineyard.sock"
        program = Path(vineyard.__file__).parent / "bdist" / "vineyardd"
        command = [str(program), "-meta", "local", "-rpc=false", "-size", str(capacity_bytes)]
        begin = time.perf_counter_ns()
        self.daemon = subprocess.Popen(
            [*command, "-socket", address], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self._connect(address)
        taken = time.perf_counter_ns() - begin
        return {
            "address": address,
            "start_ns": taken,
            "versions": {"vineyard": vineyard.__version__, "numpy": np.__version__},
        }

    def _connect(self, address: str) -> None:
        deadline = time.monotonic() + CONNECT_TIMEOUT_S
        while True:
            try:
                self.client = vineyard.connect(address)
                return
            except Exception:
                if time.monotonic() > deadline:
                    raise
                time.sleep(CONNECT_RETRY_S)

    def op_connect(self, address: str) -> Answer:
        self._connect(address)
        return {}

    def op_stop(self) -> Answer:
        if self.client is not None:
            self.client.close()
        if self.daemon is not None:
            self.daemon.terminate()
            self.daemon.wait()
        return {}

    def _blob(self, data: memoryview) -> Any:
        builder = self.client.create_blob(len(data))
        memoryview(builder).cast("B")[:] = data
        return builder.seal(self.client).id

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
        if way == "copy":
            array = np.frombuffer(data, np.uint8)

            def put() -> None:
                builder = self.client.create_blob(object_bytes)
                builder.copy(0, array)
                made.append(builder.seal(self.client).id)
        else:

            def put() -> None:
                made.append(self._blob(data))

        return timed(put, count, batch, lambda: self._delete(made), warmup=0 if cold else 1)

    def _delete(self, ids: list[Any]) -> None:
        self.client.delete(ids)
        ids.clear()

    def op_put_numpy(self, object_bytes: int, count: int, batch: int = 1) -> Answer:
        array = np.ones(object_bytes // 8)
        made: list[Any] = []

        def put() -> None:
            made.append(self.client.put(array))

        return timed(put, count, batch, lambda: self._delete(made))

    def op_get_numpy(self, object_bytes: int, count: int, batch: int = 1) -> Answer:
        identity = self.client.put(np.ones(object_bytes // 8))
        answer = timed(lambda: self.client.get(identity), count, batch)
        self.client.delete(identity)
        return answer

    def op_get(self, object_bytes: int, count: int, batch: int = 1) -> Answer:
        identity = self._blob(payload(object_bytes))
        answer = timed(lambda: self.client.get_blob(identity), count, batch)
        self.client.delete(identity)
        return answer

    def op_get_rate(self, object_bytes: int, seconds: float) -> Answer:
        identity = self._blob(payload(object_bytes))
        answer = rate(lambda: self.client.get_blob(identity), seconds)
        self.client.delete(identity)
        return answer

    def op_get_many(self, object_bytes: int, objects: int, count: int) -> Answer:
        data = payload(object_bytes)
        ids = [self._blob(data) for _ in range(objects)]
        answer = timed(lambda: self.client.get_blobs(ids), count)
        self._delete(ids)
        return answer

    def op_delete(self, object_bytes: int, count: int, batch: int) -> Answer:
        data = payload(object_bytes)
        made = [self._blob(data) for _ in range(batch * (count + 1))]
        return timed(lambda: self.client.delete(made.pop()), count, batch)

    def op_fill(self, object_bytes: int, objects: int) -> Answer:
        data = payload(object_bytes)
        begin = time.perf_counter_ns()
        self.filled += [self._blob(data) for _ in range(objects)]
        return {"per_s": objects * 1e9 / (time.perf_counter_ns() - begin)}

    def op_clear(self) -> Answer:
        self._delete(self.filled)
        return {}

    def op_wake_seal(self, series: int, count: int, gap_us: float) -> Answer:
        made = [self.client.put(turn) for turn in range(count)]
        # Only a persistent object may have a name, and a name is all that can be waited for.
        for identity in made:
            self.client.persist(identity)

        def name(turn: int) -> None:
            self.client.put_name(made[turn], f"{series}/{turn}")

        return spaced(name, count, gap_us)

    def op_wake_wait(self, series: int, count: int) -> Answer:
        return awaited(lambda turn: self.client.get_name(f"{series}/{turn}", True), count)


if __name__ == "__main__":
    serve(Vineyard())
