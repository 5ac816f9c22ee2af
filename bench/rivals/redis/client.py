"""A connection to a Redis server.

It is a bare socket, because a library for Redis would copy what it reads once more: a value is read
into memory that is warm, as the limit of the machine does it.
"""

from __future__ import annotations

import socket
import time

START_WITHIN_S = 10.0
_LINE_BYTES_MAX = 64


class Client:
    """A connection that speaks the Redis protocol."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, *words: bytes | memoryview) -> None:
        """Sends one command."""
        parts: list[bytes | memoryview] = [b"*%d\r\n" % len(words)]
        for word in words:
            parts += [b"$%d\r\n" % len(word), word, b"\r\n"]
        left = [memoryview(part) for part in parts]
        while left:
            sent = self._socket.sendmsg(left)
            while left and sent >= len(left[0]):
                sent -= len(left.pop(0))
            if left:
                left[0] = left[0][sent:]

    def line(self) -> bytes:
        """The next line of an answer, which nothing follows that is needed."""
        read = self._socket.recv(_LINE_BYTES_MAX)
        while not read.endswith(b"\r\n"):
            read += self._socket.recv(_LINE_BYTES_MAX)
        if read.startswith(b"-"):
            raise RuntimeError(read.decode())
        return read[:-2]

    def pipeline(self, commands: bytes, answers: bytes) -> None:
        """Sends several commands at once, and reads their answers, which are these."""
        self._socket.sendall(commands)
        read = self._socket.recv(len(answers), socket.MSG_WAITALL)
        if read != answers:
            raise RuntimeError(read[:_LINE_BYTES_MAX].decode())

    def value(self, into: memoryview) -> None:
        """Reads the value of an answer: its length, as many bytes as there is room for, an end."""
        head = b"$%d\r\n" % len(into)
        for part in (memoryview(bytearray(len(head))), into, memoryview(bytearray(2))):
            if self._socket.recv_into(part, len(part), socket.MSG_WAITALL) != len(part):
                raise RuntimeError("the server ended")


def free_port() -> int:
    """A port that nothing listens at."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


def connected(port: int) -> Client:
    """A connection to a server that starts."""
    end = time.monotonic() + START_WITHIN_S
    while True:
        try:
            return Client(port)
        except ConnectionRefusedError:
            if time.monotonic() > end:
                raise
            time.sleep(0.01)
