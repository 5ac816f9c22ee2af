"""Arrow's own builder and buffers on one pool, and tables read into the store.

columns_worker system|jemalloc|mimalloc|plasmon
"""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import plasmon
from bench.ours.columns_library import Pool
from bench.ours.worker import Plasmon
from bench.rivals.plasma.sharing import Readers, write_parquet
from bench.rivals.protocol import Answer, serve

#: The notes of a run besides its time, the largest of all turns.
COUNTS = ("resident_bytes", "resident_after_bytes", "growths", "moves", "moved_bytes")


def _series(run: Callable[[], dict[str, float]], count: int, warmups: int) -> Answer:
    """`count` samples of the whole time of a run, and what the runs did."""
    for _ in range(warmups):
        run()
    found = [run() for _ in range(count)]
    counts = {name: max(int(one[name]) for one in found) for name in COUNTS}
    build_ns = [one["build_ns"] for one in found]
    samples = [one["total_ns"] for one in found]
    return {"samples": samples, "batch": 1, "build_ns": build_ns, **counts}


class Grower(Plasmon):
    """A pool, in a store or not, and what is built on it in C++."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name
        self._made: Pool | None = None
        self._readers: Readers | None = None

    def op_start(
        self, directory: str, capacity_bytes: int, settings: list[list[str]] | None = None
    ) -> Answer:
        if self._name == "plasmon":
            answer = super().op_start(directory, capacity_bytes, settings)
        else:
            answer = {"address": directory, "versions": {}}
        answer["versions"]["pyarrow of columns"] = pa.__version__
        return answer

    def op_stop(self) -> Answer:
        if self._readers is not None:
            self._readers.end()
        return super().op_stop()

    @property
    def _pool(self) -> Pool:
        if self._made is None:
            ours = self._name == "plasmon"
            capsule = plasmon._native._Pool(self.store).api() if ours else None
            self._made = Pool(self._name, capsule)
        return self._made

    def op_append_int64(
        self, total_bytes: int, chunk_bytes: int, count: int, warmups: int
    ) -> Answer:
        pool = self._pool
        return _series(lambda: pool.append_int64(total_bytes, chunk_bytes), count, warmups)

    def op_double_buffer(
        self, from_bytes: int, to_bytes: int, touched: bool, count: int, warmups: int
    ) -> Answer:
        pool = self._pool
        return _series(lambda: pool.double_buffer(from_bytes, to_bytes, touched), count, warmups)

    def op_write_parquet(self, path: str, rows: int) -> Answer:
        return {"bytes": write_parquet(path, rows)}

    def op_share_parquet(
        self, path: str, readers: int, count: int, warmups: int, way: str = "pool"
    ) -> Answer:
        if self._readers is None:
            self._readers = Readers("bench.ours.columns_reader", str(self.store.socket), readers)
        read = self._read_pooled if way == "pool" else pq.read_table
        told: dict[str, Any] = {"samples": [], "batch": 1, "read_ns": [], "share_ns": []}
        for turn in range(-warmups, count):
            begin = time.perf_counter_ns()
            table = read(path)
            middle = time.perf_counter_ns()
            id = self.store.put(table)
            shared = time.perf_counter_ns()
            sums = self._readers.ask(id.hex())
            end = time.perf_counter_ns()
            if turn >= 0:
                told["samples"].append(end - begin)
                told["read_ns"].append(middle - begin)
                told["share_ns"].append(shared - middle)
            told["copied_bytes"] = copied_bytes(table, self.store.get(id))
            told["table_bytes"] = table.nbytes
            told["sums"] = sorted(set(sums))
            del table
            self.store.delete(id)
            gc.collect()
        return told

    def _read_pooled(self, path: str) -> Any:
        with self.store.pooled() as pool:
            if pool.backend_name != "plasmon":
                raise RuntimeError("the memory pool is not built for the installed pyarrow")
            return pq.read_table(path)


def copied_bytes(one: Any, other: Any) -> int:
    """Bytes of another table's buffers that lie in other memory than those of the one.

    Told by the kernel, not by us: file and offset that each address is mapped from. A buffer of the
    other may be a part of one of the first, whose chunks may be slices.
    """
    ranges = _mappings()
    places: dict[str, list[tuple[int, int]]] = {}
    for buffer in _buffers(one):
        file, begin = _origin(ranges, buffer.address)
        places.setdefault(file, []).append((begin, begin + buffer.size))
    copied = 0
    for buffer in _buffers(other):
        file, begin = _origin(ranges, buffer.address)
        end = begin + buffer.size
        within = (low <= begin and end <= high for low, high in places.get(file, []))
        copied += 0 if any(within) else buffer.size
    return copied


def _buffers(table: Any) -> list[Any]:
    chunks = [chunk for column in table.columns for chunk in column.chunks]
    found = [buffer for chunk in chunks for buffer in chunk.buffers()]
    return [buffer for buffer in found if buffer is not None and buffer.size > 0]


def _mappings() -> list[tuple[int, int, int, str]]:
    """Begin, end, offset and file of what is mapped here."""
    found = []
    with open(f"/proc/{os.getpid()}/maps") as lines:
        for line in lines:
            addresses, _, offset, device, inode, *_ = line.split()
            begin, _, end = addresses.partition("-")
            found.append((int(begin, 16), int(end, 16), int(offset, 16), f"{device} {inode}"))
    return found


def _origin(ranges: list[tuple[int, int, int, str]], address: int) -> tuple[str, int]:
    for begin, end, offset, file in ranges:
        if begin <= address < end:
            # Anonymous memory has no file: then the address is what tells.
            named = file.endswith(" 0")
            return file, address if named else address - begin + offset
    raise ValueError(f"nothing is mapped at {address:#x}")


if __name__ == "__main__":
    serve(Grower(sys.argv[1]))
