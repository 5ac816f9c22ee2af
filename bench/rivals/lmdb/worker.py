"""LMDB by its binding for Python: a write transaction for each put, synced when it commits."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import lmdb

from bench.rivals.clients import by_threads
from bench.rivals.protocol import Answer, payload, serve, timed

#: The most that the database may grow to; its file is as long as what is in it.
_MAP_BYTES = 16 << 30


class Lmdb:
    """One database."""

    def __init__(self) -> None:
        self._database: Any = None
        self._numbers = itertools.count()

    def op_start(self, directory: str, capacity_bytes: int, folder: str) -> Answer:
        """Opens it with its defaults: data and the page of the root are synced at each commit."""
        del directory, capacity_bytes
        path = str(Path(folder) / "lmdb")
        self._database = lmdb.open(path, map_size=_MAP_BYTES, sync=True, metasync=True)
        version = ".".join(str(part) for part in lmdb.version())
        return {"address": path, "start_ns": 0, "versions": {"lmdb": version}}

    def op_stop(self) -> Answer:
        """Closes it."""
        if self._database is not None:
            self._database.close()
        return {}

    def op_put(self, object_bytes: int, count: int) -> Answer:
        """One object in a transaction of its own."""
        return self._series(object_bytes, count, 1)

    def op_put_batch(self, object_bytes: int, count: int, batch: int) -> Answer:
        """A batch in one transaction."""
        return self._series(object_bytes, count, batch)

    def op_put_clients(self, object_bytes: int, clients: int, seconds: float) -> Answer:
        """Threads: LMDB has one writer at a time, so each put has a sync of its own."""
        data, made = payload(object_bytes), []

        def put() -> None:
            key = self._key()
            made.append(key)
            with self._database.begin(write=True) as transaction:
                transaction.put(key, data)

        answer = by_threads(clients, seconds, lambda _: put)
        self._delete(made)
        return answer

    def _series(self, object_bytes: int, count: int, batch: int) -> Answer:
        data, made = payload(object_bytes), []

        def put() -> None:
            with self._database.begin(write=True) as transaction:
                for _ in range(batch):
                    key = self._key()
                    made.append(key)
                    transaction.put(key, data)

        answer = timed(put, count, after=lambda: self._delete(made))
        samples = [sample / batch for sample in answer["samples"]]
        return {**answer, "samples": samples, "batch": batch}

    def _key(self) -> bytes:
        return b"key:%016d" % next(self._numbers)

    def _delete(self, made: list[bytes]) -> None:
        with self._database.begin(write=True) as transaction:
            for key in made:
                transaction.delete(key)
        made.clear()


if __name__ == "__main__":
    serve(Lmdb())
