"""Plasma with tables: pyarrow reads a file, and one copy puts it where all processes see it."""

from __future__ import annotations

import time
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import plasma

from bench.rivals.plasma.sharing import Readers
from bench.rivals.plasma.worker import Plasma
from bench.rivals.protocol import Answer, serve

#: As the documentation of Plasma has it for large tables.
COPY_THREADS = 4


class Tables(Plasma):
    """A client that puts tables the way Plasma's documentation says."""

    def __init__(self) -> None:
        super().__init__()
        self._address = ""
        self._readers: Readers | None = None

    def op_start(self, directory: str, capacity_bytes: int) -> Answer:
        answer = super().op_start(directory, capacity_bytes)
        self._address = answer["address"]
        return answer

    def op_stop(self) -> Answer:
        if self._readers is not None:
            self._readers.end()
        return super().op_stop()

    def _put(self, table: Any) -> Any:
        counting = pa.MockOutputStream()
        with pa.ipc.new_stream(counting, table.schema) as writer:
            writer.write_table(table)
        identity = plasma.ObjectID.from_random()
        sink = pa.FixedSizeBufferWriter(self.client.create(identity, counting.size()))
        sink.set_memcopy_threads(COPY_THREADS)
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        self.client.seal(identity)
        return identity

    def op_share_parquet(self, path: str, readers: int, count: int, warmups: int) -> Answer:
        if self._readers is None:
            self._readers = Readers("bench.rivals.plasma.reader", self._address, readers)
        told: dict[str, Any] = {"samples": [], "batch": 1, "read_ns": [], "share_ns": []}
        for turn in range(-warmups, count):
            begin = time.perf_counter_ns()
            table = pq.read_table(path)
            middle = time.perf_counter_ns()
            identity = self._put(table)
            shared = time.perf_counter_ns()
            sums = self._readers.ask(identity.binary().hex())
            end = time.perf_counter_ns()
            if turn >= 0:
                told["samples"].append(end - begin)
                told["read_ns"].append(middle - begin)
                told["share_ns"].append(shared - middle)
            told["copied_bytes"] = told["table_bytes"] = table.nbytes
            told["sums"] = sorted(set(sums))
            del table
            self.client.delete([identity])
        return told


if __name__ == "__main__":
    serve(Tables())
