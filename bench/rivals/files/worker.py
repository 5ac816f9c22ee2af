"""`pwrite` and `fdatasync` in this process: no store, no checksum, no name."""

from __future__ import annotations

import mmap
import os
import threading
from pathlib import Path

from bench.rivals.clients import by_threads
from bench.rivals.protocol import Answer, payload, serve, timed

_BLOCK = 4096


class Files:
    """A file that is written from front to back, and again from the front when it is full."""

    def __init__(self) -> None:
        self._folder = Path()

    def op_start(self, directory: str, capacity_bytes: int, folder: str) -> Answer:
        """Nothing to start."""
        del directory, capacity_bytes
        self._folder = Path(folder)
        return {"address": folder, "start_ns": 0, "versions": {}}

    def op_put(self, object_bytes: int, count: int, way: str = "preallocated") -> Answer:
        """One object, one sync."""
        return self._series(way, object_bytes, count, 1)

    def op_put_batch(self, object_bytes: int, count: int, batch: int) -> Answer:
        """A batch of writes, one sync."""
        return self._series("preallocated", object_bytes, count, batch)

    def op_put_clients(self, object_bytes: int, clients: int, seconds: float) -> Answer:
        """Threads with a file each: the file system alone brings their syncs together."""
        data = payload(object_bytes)
        files = [_File(self._folder / f"client-{n}", 256 << 20, "preallocated") for n in
                 range(clients)]  # fmt: skip

        def connect(number: int) -> _Put:
            return _Put(files[number], data, 1)

        try:
            return by_threads(clients, seconds, connect)
        finally:
            for file in files:
                file.remove()

    def _series(self, way: str, object_bytes: int, count: int, batch: int) -> Answer:
        file = _File(self._folder / "log", object_bytes * batch * (count + 1), way)
        try:
            put = _Put(file, payload(object_bytes), batch)
            answer = timed(put, count)
        finally:
            file.remove()
        samples = [sample / batch for sample in answer["samples"]]
        return {**answer, "samples": samples, "batch": batch}


class _File:
    """A file as a log of a fixed size is, before anything is written to it.

    appended: empty, so each sync also writes the file's new length.
    preallocated: with its blocks, which the file system marks as written at the first sync.
    overwritten: written before, so a sync writes the bytes and nothing else.
    direct: as overwritten, past the page cache.
    """

    def __init__(self, path: Path, size: int, way: str) -> None:
        self._path = path
        self._lock = threading.Lock()
        self.size = max(_BLOCK, -(-size // _BLOCK) * _BLOCK)
        self._at = 0
        self.direct = way == "direct"
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC
        self.descriptor = os.open(path, flags)
        if way != "appended":
            os.posix_fallocate(self.descriptor, 0, self.size)
        if way in {"overwritten", "direct"}:
            piece = bytes(1 << 20)
            for at in range(0, self.size, len(piece)):
                os.pwrite(self.descriptor, piece[: self.size - at], at)
        os.fsync(self.descriptor)
        if self.direct:
            os.posix_fadvise(self.descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(self.descriptor)
            self.descriptor = os.open(path, os.O_RDWR | os.O_DIRECT)

    def place(self, size: int) -> int:
        """Where the next write goes."""
        with self._lock:
            if self._at + size > self.size:
                self._at = 0
            at, self._at = self._at, self._at + size
            return at

    def remove(self) -> None:
        """Closes and removes it."""
        os.close(self.descriptor)
        self._path.unlink()


class _Put:
    """A batch of writes and a sync."""

    def __init__(self, file: _File, data: memoryview, batch: int) -> None:
        self._file, self._data, self._batch = file, data, batch
        if file.direct:
            # Memory of a mapping lies at pages, as writing past the page cache demands.
            aligned = mmap.mmap(-1, len(data))
            aligned.write(data)
            self._data = memoryview(aligned)

    def __call__(self) -> None:
        file, data = self._file, self._data
        for _ in range(self._batch):
            at, left = file.place(len(data)), data
            while left:
                written = os.pwrite(file.descriptor, left, at)
                at, left = at + written, left[written:]
        os.fdatasync(file.descriptor)


if __name__ == "__main__":
    serve(Files())
