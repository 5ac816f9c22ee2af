"""memcached on loopback: one server that sends values. It has no second copy of anything.

The client is a bare socket that reads values into warm memory, as the one for Redis does.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import time

from bench.rivals.protocol import Answer, UnsupportedError, fetched, payload, serve, timed

_START_WITHIN_S = 10.0
_LINE_BYTES_MAX = 64
#: The largest value; the server's own limit is 1 MiB with all that it adds.
_VALUE_BYTES_MAX = "8m"
_END = b"\r\nEND\r\n"


class _Client:
    """A connection that speaks memcached's text protocol."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, *parts: bytes | memoryview) -> None:
        """Sends one command."""
        left = [memoryview(part) for part in parts]
        while left:
            sent = self._socket.sendmsg(left)
            while left and sent >= len(left[0]):
                sent -= len(left.pop(0))
            if left:
                left[0] = left[0][sent:]

    def expect(self, answer: bytes) -> None:
        """The next line of an answer, which nothing follows that is needed."""
        read = self._socket.recv(_LINE_BYTES_MAX)
        while read and not read.endswith(b"\r\n"):
            read += self._socket.recv(_LINE_BYTES_MAX)
        if read != answer + b"\r\n":
            raise RuntimeError(f"memcached answers {read!r}")

    def value(self, into: memoryview) -> None:
        """Reads the value of an answer: what it is, as many bytes as there is room for, an end."""
        head = b"VALUE x 0 %d\r\n" % len(into)
        for part in (memoryview(bytearray(len(head))), into, memoryview(bytearray(len(_END)))):
            if self._socket.recv_into(part, len(part), socket.MSG_WAITALL) != len(part):
                raise RuntimeError("the server ended")


class Memcached:
    """One server."""

    def __init__(self) -> None:
        self._server: subprocess.Popen[bytes] | None = None
        self._client: _Client | None = None

    def op_start(self, directory: str, capacity_bytes: int) -> Answer:
        """Starts it."""
        del directory
        program = shutil.which("memcached")
        if program is None:
            raise UnsupportedError("memcached is not installed: apt-get install memcached")
        found = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
        begin = time.perf_counter_ns()
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            port = taken.getsockname()[1]
        command = [program, "-l", "127.0.0.1", "-p", str(port), "-u", "root"]
        command += ["-I", _VALUE_BYTES_MAX, "-m", str(max(64, capacity_bytes >> 20))]
        self._server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        self._client = self._connected(port)
        return {
            "address": str(port),
            "start_ns": time.perf_counter_ns() - begin,
            "versions": {"memcached": found.stdout.split()[-1]},
        }

    def op_stop(self) -> Answer:
        """Ends it."""
        if self._server is not None:
            self._server.kill()
            self._server.wait()
        return {}

    def op_fetch(self, object_bytes: int, count: int, batch: int = 1) -> Answer:
        """The value of a key."""
        client = self._open()
        self._set(payload(object_bytes))
        into = memoryview(bytearray(object_bytes))
        into[:] = bytes(object_bytes)

        def get() -> None:
            client.send(b"get x\r\n")
            client.value(into)

        answer = fetched(get, count, batch)
        self._delete()
        return answer

    def op_put_copies(self, object_bytes: int, copies: int, count: int) -> Answer:
        """Sets a value."""
        if copies != 1:
            raise UnsupportedError("keeps one copy")
        data = payload(object_bytes)
        return timed(lambda: self._set(data), count, after=self._delete)

    def _set(self, data: memoryview) -> None:
        self._open().send(b"set x 0 0 %d\r\n" % len(data), data, b"\r\n")
        self._open().expect(b"STORED")

    def _delete(self) -> None:
        self._open().send(b"delete x\r\n")
        self._open().expect(b"DELETED")

    def _open(self) -> _Client:
        assert self._client is not None, "it was started"
        return self._client

    def _connected(self, port: int) -> _Client:
        """A connection to the server, which starts."""
        end = time.monotonic() + _START_WITHIN_S
        while True:
            try:
                return _Client(port)
            except ConnectionRefusedError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.01)


if __name__ == "__main__":
    serve(Memcached())
