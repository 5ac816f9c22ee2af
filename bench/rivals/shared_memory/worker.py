"""multiprocessing.shared_memory: no server, no seal, no wait; one file in /dev/shm per object."""

from __future__ import annotations

import platform
import time
from multiprocessing.shared_memory import SharedMemory

from bench.rivals.protocol import Answer, UnsupportedError, payload, rate, serve, timed


class Segments:
    """Creates and attaches segments."""

    def __init__(self) -> None:
        self.filled: list[SharedMemory] = []

    def op_start(self, directory: str, capacity_bytes: int) -> Answer:
        return {"address": "", "start_ns": 0, "versions": {"python": platform.python_version()}}

    def op_connect(self, address: str) -> Answer:
        return {}

    def _make(self, data: memoryview) -> SharedMemory:
        segment = SharedMemory(create=True, size=len(data))
        assert segment.buf is not None, "an open segment has a buffer"
        segment.buf[: len(data)] = data
        return segment

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
        made: list[SharedMemory] = []

        def clear() -> None:
            for segment in made:
                segment.unlink()
            made.clear()

        def put() -> None:
            segment = self._make(data)
            segment.close()
            made.append(segment)

        return timed(put, count, batch, clear, warmup=0 if cold else 1)

    def op_get(self, object_bytes: int, count: int, batch: int = 1) -> Answer:
        segment = self._make(payload(object_bytes))
        answer = timed(lambda: SharedMemory(segment.name).close(), count, batch)
        segment.close()
        segment.unlink()
        return answer

    def op_get_rate(self, object_bytes: int, seconds: float) -> Answer:
        segment = self._make(payload(object_bytes))
        answer = rate(lambda: SharedMemory(segment.name).close(), seconds)
        segment.close()
        segment.unlink()
        return answer

    def op_delete(self, object_bytes: int, count: int, batch: int) -> Answer:
        data = payload(object_bytes)
        made = [self._make(data) for _ in range(batch * (count + 1))]
        for segment in made:
            segment.close()
        return timed(lambda: made.pop().unlink(), count, batch)

    def op_fill(self, object_bytes: int, objects: int) -> Answer:
        data = payload(object_bytes)
        begin = time.perf_counter_ns()
        for _ in range(objects):
            segment = self._make(data)
            segment.close()
            self.filled.append(segment)
        return {"per_s": objects * 1e9 / (time.perf_counter_ns() - begin)}

    def op_clear(self) -> Answer:
        for segment in self.filled:
            segment.unlink()
        self.filled.clear()
        return {}

    def op_wake_wait(self, series: int, count: int) -> Answer:
        raise UnsupportedError("has no seal to wait for")


if __name__ == "__main__":
    serve(Segments())
