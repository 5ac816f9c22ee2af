"""Notifications as Plasma delivers them: messages on a stream socket.

Each message is a length (eight bytes in the machine's order) and as many bytes::

    message: 4 bytes "PLN1" | u32 count | count x (20 bytes id | i64 data size | i64 metadata size)

A sealed object has its sizes, one that is gone has -1 and -1. There is one object in a message.

Plasmon's own subscription is a queue of notices on its own connection. A thread moves them
to the socket, so that a program can wait on it in an event loop; messages that the program has not
read wait in this process, in any number::

    daemon ──notices──► Subscription ──► Feed's thread ──messages──► socket ──► the program
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import struct
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable

from plasmon import PlasmonError, Subscription
from plasmon._info import Lost, Notice

from ._ids import ObjectID, quiet_id

MAGIC = b"PLN1"
_HEAD = struct.Struct("<4sI")
_RECORD = struct.Struct("<20sqq")
_LENGTH = struct.Struct("=q")

#: States after which an object can no longer be read. A spilled one can.
_GONE = frozenset({"deleted", "evicted", "corrupt"})

#: A sealed object: the sizes of its data and metadata.
Sizes = tuple[int, int]


def encode(binary: bytes, data_size: int, metadata_size: int) -> bytes:
    """A whole message, with its length before it."""
    body = _HEAD.pack(MAGIC, 1) + _RECORD.pack(binary, data_size, metadata_size)
    return _LENGTH.pack(len(body)) + body


def decode(message: bytes) -> tuple[list[ObjectID], list[int], list[int]]:
    """Ids, data sizes and metadata sizes in a message without its length."""
    view = memoryview(message).cast("B")
    if len(view) < _HEAD.size:
        raise ValueError(f"{len(view)} bytes are too few for a notification")
    magic, count = _HEAD.unpack_from(view)
    if magic != MAGIC or len(view) != _HEAD.size + count * _RECORD.size:
        raise ValueError(f"these {len(view)} bytes are not a notification")
    records = [*_RECORD.iter_unpack(view[_HEAD.size :])]
    ids = [quiet_id(binary) for binary, _, _ in records]
    return ids, [data for _, data, _ in records], [metadata for _, _, metadata in records]


class Ledger:
    """What a subscriber was sent, so that it can be corrected after a gap.

    A snapshot may hold objects whose notices are still on their way: those are expected, and told
    once.
    """

    def __init__(self) -> None:
        self._sent: set[bytes] = set()
        self._expected: set[bytes] = set()

    def snapshot(self, objects: Iterable[tuple[bytes, Sizes]]) -> list[bytes]:
        """Messages that bring the subscriber from what it was sent to what is there."""
        present = dict(objects)
        gone = self._sent - present.keys()
        messages = [encode(binary, -1, -1) for binary in gone]
        messages += [
            encode(binary, *sizes) for binary, sizes in present.items() if binary not in self._sent
        ]
        self._sent = set(present)
        self._expected = set(present)
        return messages

    def notice(self, binary: bytes, state: str, sizes: Sizes) -> bytes | None:
        """The message for a notice; None for what the subscriber has or does not need."""
        if state == "sealed":
            expected = binary in self._expected
            self._expected.discard(binary)
            self._sent.add(binary)
            return None if expected else encode(binary, *sizes)
        if state in _GONE:
            self._expected.discard(binary)
            self._sent.discard(binary)
            return encode(binary, -1, -1)
        return None


class Feed:
    """A subscription and the socket that it is read from."""

    def __init__(
        self,
        subscription: Subscription,
        objects: weakref.WeakMethod[Callable[[], Iterable[tuple[bytes, Sizes]]]],
    ) -> None:
        self._subscription = subscription
        self._objects = objects
        self._ledger = Ledger()
        self._unsent: deque[bytes] = deque()
        # The snapshot is taken after the subscription began: nothing falls between the two.
        self._catch_up()
        self.reader, self._writer = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self._writer.setblocking(False)
        self._stop_reader, self._stop_writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._pid = os.getpid()
        self._thread = threading.Thread(target=self._run, name="plasma-notifications", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        # The daemon is gone, or the program closed its end: the end of the socket reports it.
        with contextlib.suppress(PlasmonError, OSError, ValueError):
            while self._step():
                pass
        self._writer.close()
        self._subscription.close()
        os.close(self._stop_reader)

    def _step(self) -> bool:
        while (notification := self._subscription.next(0)) is not None:
            if isinstance(notification, Lost):
                self._catch_up()
            else:
                self._take(notification)
        # One message at a time: the kernel takes it whole or not at all, and programs rely on
        # getting the rest of a message by one read.
        with contextlib.suppress(BlockingIOError):
            while self._unsent:
                self._writer.send(self._unsent[0])
                self._unsent.popleft()
        waits = select.poll()
        waits.register(self._stop_reader, select.POLLIN)
        waits.register(self._subscription.fileno(), select.POLLIN)
        waits.register(self._writer, select.POLLOUT if self._unsent else 0)
        ready = dict(waits.poll())
        hung_up = ready.get(self._writer.fileno(), 0) & (select.POLLHUP | select.POLLERR)
        return not hung_up and self._stop_reader not in ready

    def _catch_up(self) -> None:
        objects = self._objects()
        if objects is not None:
            self._unsent += self._ledger.snapshot(objects())

    def _take(self, notice: Notice) -> None:
        sizes = notice.data_bytes, notice.metadata_bytes
        message = self._ledger.notice(notice.id.binary, notice.state, sizes)
        if message is not None:
            self._unsent.append(message)

    def _read(self, count: int) -> bytes:
        parts = bytearray()
        while len(parts) < count:
            # The program that got the socket may have made it non-blocking: wait first.
            select.select([self.reader], [], [])
            with contextlib.suppress(BlockingIOError):
                part = self.reader.recv(count - len(parts), socket.MSG_DONTWAIT)
                if not part:
                    raise OSError("Failed to read object notification from Plasma socket")
                parts += part
        return bytes(parts)

    def next(self) -> tuple[ObjectID, int, int]:
        """The next object of the next message; waits for it."""
        (length,) = _LENGTH.unpack(self._read(_LENGTH.size))
        ids, data_sizes, metadata_sizes = decode(self._read(length))
        return ids[0], data_sizes[0], metadata_sizes[0]

    def close(self) -> None:
        """Ends the subscription; a reader sees the end of the stream."""
        if self._pid == os.getpid() and self._stop_writer >= 0:
            stop, self._stop_writer = self._stop_writer, -1
            os.close(stop)
            self._thread.join()
        self.reader.close()
