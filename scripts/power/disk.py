"""A disk with a volatile cache, served over NBD on a Unix socket.

::

    write ──> cache (what reads see) ── flush ──> medium
                                     └─ power cut: any part of it, in any order

A virtual machine that is killed loses nothing of what it had written to a file of its host, synced
or not: the host's page cache has it. So the disk is a process of its own. What was written since
the last flush is in its cache alone, and at a power cut each sector of each of these writes
gets to the medium or does not, by chance. That is all that a disk promises.

A lying disk answers a flush and does not do it: the account must then find losses.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import random
import socket
import struct
import threading
from pathlib import Path

SECTOR_BYTES = 512
_MAGIC, _OPTION_MAGIC = 0x4E42444D41474943, 0x49484156454F5054
_REPLY_MAGIC, _REQUEST_MAGIC, _ANSWER_MAGIC = 0x0003E889045565A9, 0x25609513, 0x67446698
_OPTION_EXPORT_NAME, _OPTION_ABORT, _OPTION_GO = 1, 2, 7
_REPLY_ACK, _REPLY_INFO, _REPLY_UNSUPPORTED = 1, 3, (1 << 31) + 1
_INFO_EXPORT, _NO_ZEROES = 0, 2
_READ, _WRITE, _DISCONNECT, _FLUSH, _TRIM = 0, 1, 2, 3, 4
#: Has flags; flushes; takes FUA, a write that is on the medium when it is answered; trims.
_FLAGS = 1 | 1 << 2 | 1 << 3 | 1 << 5
_FUA = 1
_INVALID = 22
_OPTION_BYTES_MAX = 1 << 16
_REQUEST_BYTES_MAX = 64 << 20


class Medium:
    """The bytes of the disk: what is durable, and what is not yet."""

    def __init__(self, path: Path, size: int, lies: bool = False) -> None:
        with path.open("r+b") as file:
            self._durable = mmap.mmap(file.fileno(), size)
        self._seen = mmap.mmap(-1, size)
        self._seen[:] = self._durable[:]
        #: Writes since the last flush, the oldest first.
        self._cached: list[tuple[int, bytes]] = []
        self._lies = lies
        self._cut = False
        self._lock = threading.Lock()
        self.size = size
        self.writes = self.flushes = 0

    def read(self, offset: int, length: int) -> bytes:
        """What was written last, flushed or not."""
        with self._lock:
            return self._seen[offset : offset + length]

    def write(self, offset: int, data: bytes) -> None:
        """Into the cache."""
        with self._lock:
            if not self._cut:
                self._seen[offset : offset + len(data)] = data
                self._cached.append((offset, data))
                self.writes += 1

    def flush(self) -> None:
        """Everything that was written before is durable now."""
        with self._lock:
            self.flushes += 1
            if not self._cut and not self._lies:
                for offset, data in self._cached:
                    self._durable[offset : offset + len(data)] = data
                self._cached.clear()

    def cut(self, chance: random.Random) -> int:
        """The power is gone: nothing counts any more. How many cached writes there were.

        Each of their sectors is durable or lost. How likely either is differs from cut to cut, so
        that nothing, nearly nothing, half, and all of it is kept at times.
        """
        with self._lock:
            self._cut = True
            likelihood = chance.choice([0.0, 0.05, 0.5, 0.95, 1.0])
            whole = chance.random() < 0.3
            for offset, data in self._cached:
                if whole:
                    if chance.random() < likelihood:
                        self._durable[offset : offset + len(data)] = data
                    continue
                for at in range(0, len(data), SECTOR_BYTES):
                    if chance.random() < likelihood:
                        piece = data[at : at + SECTOR_BYTES]
                        self._durable[offset + at : offset + at + len(piece)] = piece
            found = len(self._cached)
            self._cached.clear()
            return found

    def close(self) -> None:
        """Writes the durable bytes to their file."""
        with self._lock:
            self._cut = True
            self._durable.flush()
            self._durable.close()
            self._seen.close()


class Server:
    """Serves a medium to one virtual machine after the other."""

    def __init__(self, medium: Medium, path: Path) -> None:
        self._medium = medium
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Takes no more connections; the one that there is ends with its machine."""
        # Closing alone would not wake the thread.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection, contextlib.suppress(OSError, EOFError):
                if _greet(connection, self._medium.size):
                    _answer_all(connection, self._medium)


def _exactly(connection: socket.socket, length: int) -> bytes:
    read = bytearray()
    while len(read) < length:
        piece = connection.recv(min(1 << 20, length - len(read)))
        if not piece:
            raise EOFError
        read += piece
    return bytes(read)


def _greet(connection: socket.socket, size: int) -> bool:
    """Agrees on the one export that there is; whether the client goes on."""
    fixed_newstyle = 1
    connection.sendall(struct.pack(">QQH", _MAGIC, _OPTION_MAGIC, fixed_newstyle | _NO_ZEROES))
    (flags,) = struct.unpack(">I", _exactly(connection, 4))
    while True:
        magic, option, length = struct.unpack(">QII", _exactly(connection, 16))
        if magic != _OPTION_MAGIC or length > _OPTION_BYTES_MAX:
            return False
        _exactly(connection, length)
        if option == _OPTION_GO:
            export = struct.pack(">HQH", _INFO_EXPORT, size, _FLAGS)
            _reply(connection, option, _REPLY_INFO, export)
            _reply(connection, option, _REPLY_ACK)
            return True
        if option == _OPTION_EXPORT_NAME:
            rest = b"" if flags & _NO_ZEROES else bytes(124)
            connection.sendall(struct.pack(">QH", size, _FLAGS) + rest)
            return True
        if option == _OPTION_ABORT:
            _reply(connection, option, _REPLY_ACK)
            return False
        _reply(connection, option, _REPLY_UNSUPPORTED)


def _reply(connection: socket.socket, option: int, kind: int, data: bytes = b"") -> None:
    connection.sendall(struct.pack(">QIII", _REPLY_MAGIC, option, kind, len(data)) + data)


def _answer_all(connection: socket.socket, medium: Medium) -> None:
    while True:
        head = _exactly(connection, 28)
        magic, flags, kind, handle, offset, length = struct.unpack(">IHHQQI", head)
        if magic != _REQUEST_MAGIC or kind == _DISCONNECT or length > _REQUEST_BYTES_MAX:
            return
        data = _exactly(connection, length) if kind == _WRITE else b""
        error, answer = 0, b""
        if offset + length > medium.size:
            error = _INVALID
        elif kind == _READ:
            answer = medium.read(offset, length)
        elif kind == _WRITE:
            medium.write(offset, data)
        elif kind == _FLUSH:
            medium.flush()
        elif kind != _TRIM:
            error = _INVALID
        if flags & _FUA and kind in {_WRITE, _TRIM}:
            medium.flush()
        connection.sendall(struct.pack(">IIQ", _ANSWER_MAGIC, error, handle) + answer)


def sparse(path: Path, size: int) -> None:
    """A file of a size, without blocks."""
    with path.open("wb") as file:
        os.truncate(file.fileno(), size)
