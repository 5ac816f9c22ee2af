"""RocksDB by its binding for Python: each write is synced to its log before it returns."""

from __future__ import annotations

import importlib.metadata
import itertools
from pathlib import Path
from typing import Any

import rocksdict

from bench.rivals.clients import by_threads
from bench.rivals.protocol import Answer, payload, serve, timed


class RocksDb:
    """One database, with keys and values that are plain bytes, uncompressed."""

    def __init__(self) -> None:
        self._database: Any = None
        self._synced: Any = None
        self._numbers = itertools.count()

    def op_start(self, directory: str, capacity_bytes: int, folder: str) -> Answer:
        """Opens it. Compression is off: no side compresses."""
        del directory, capacity_bytes
        path = str(Path(folder) / "rocksdb")
        options = rocksdict.Options(raw_mode=True)
        options.create_if_missing(True)
        options.set_compression_type(rocksdict.DBCompressionType.none())
        self._database = rocksdict.Rdict(path, options)
        self._synced = rocksdict.WriteOptions()
        self._synced.sync = True
        version = importlib.metadata.version("rocksdict")
        return {"address": path, "start_ns": 0, "versions": {"rocksdict": version}}

    def op_stop(self) -> Answer:
        """Closes it."""
        if self._database is not None:
            self._database.close()
        return {}

    def op_put(self, object_bytes: int, count: int) -> Answer:
        """One object, one synced write."""
        data, made = bytes(payload(object_bytes)), []

        def put() -> None:
            made.append(self._put(data))

        return timed(put, count, after=lambda: self._delete(made))

    def op_put_batch(self, object_bytes: int, count: int, batch: int) -> Answer:
        """A batch in one synced write."""
        data, made = bytes(payload(object_bytes)), []

        def put() -> None:
            writes = rocksdict.WriteBatch(raw_mode=True)
            for _ in range(batch):
                key = self._key()
                made.append(key)
                writes.put(key, data)
            self._database.write(writes, self._synced)

        answer = timed(put, count, after=lambda: self._delete(made))
        samples = [sample / batch for sample in answer["samples"]]
        return {**answer, "samples": samples, "batch": batch}

    def op_put_clients(self, object_bytes: int, clients: int, seconds: float) -> Answer:
        """Threads, whose writes RocksDB brings together into groups with one sync."""
        data, made = bytes(payload(object_bytes)), []

        def put() -> None:
            made.append(self._put(data))

        answer = by_threads(clients, seconds, lambda _: put)
        self._delete(made)
        return answer

    def _key(self) -> bytes:
        return b"key:%016d" % next(self._numbers)

    def _put(self, data: bytes) -> bytes:
        key = self._key()
        self._database.put(key, data, self._synced)
        return key

    def _delete(self, made: list[bytes]) -> None:
        for key in made:
            self._database.delete(key)
        made.clear()


if __name__ == "__main__":
    serve(RocksDb())
