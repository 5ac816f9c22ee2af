"""Redis 7 on loopback: one server that sends values, and one that keeps a second copy of them."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path

from bench.rivals.protocol import Answer, UnsupportedError, fetched, payload, serve, timed
from bench.rivals.redis.client import START_WITHIN_S, Client, connected, free_port

#: Commands that are sent before their answers are read.
_PIPELINE = 500
_KEYS_AT_ONCE = 200
_COPIES = {1: (), 2: (b"WAIT", b"1", b"10000")}


class Redis:
    """A server, and another one that has copies of all that the first one has."""

    def __init__(self) -> None:
        self._servers: list[subprocess.Popen[bytes]] = []
        self._client: Client | None = None

    def op_start(self, directory: str, capacity_bytes: int) -> Answer:
        """Starts both. How much they may keep is left to the machine."""
        del capacity_bytes
        program = shutil.which("redis-server")
        if program is None:
            raise UnsupportedError("redis-server is not installed: apt-get install redis-server")
        found = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
        version = found.stdout.partition("v=")[2].split()[0]
        begin = time.perf_counter_ns()
        first, second = free_port(), free_port()
        common = [program, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        common += ["--repl-diskless-sync-delay", "0"]
        for port, more in ((first, []), (second, ["--replicaof", "127.0.0.1", str(first)])):
            folder = Path(directory) / str(port)
            folder.mkdir()
            command = [*common, "--dir", str(folder), "--port", str(port), *more]
            self._servers.append(subprocess.Popen(command, stdout=subprocess.DEVNULL))
        self._client = connected(first)
        self._wait_for_replica()
        taken = time.perf_counter_ns() - begin
        return {"address": str(first), "start_ns": taken, "versions": {"redis": version}}

    def op_stop(self) -> Answer:
        """Ends both."""
        for server in self._servers:
            server.kill()
            server.wait()
        return {}

    def op_fetch(self, object_bytes: int, count: int, batch: int = 1) -> Answer:
        """GET of a value."""
        client = self._open()
        client.send(b"SET", b"x", payload(object_bytes))
        client.line()
        into = memoryview(bytearray(object_bytes))
        into[:] = bytes(object_bytes)

        def get() -> None:
            client.send(b"GET", b"x")
            client.value(into)

        answer = fetched(get, count, batch)
        self._delete(b"x")
        return answer

    def op_put_copies(self, object_bytes: int, copies: int, count: int) -> Answer:
        """SET of a value, and WAIT until the other server has it where two copies are wanted."""
        client = self._open()
        data, wait = payload(object_bytes), _COPIES[copies]

        def put() -> None:
            client.send(b"SET", b"x", data)
            client.line()
            if wait:
                client.send(*wait)
                client.line()

        return timed(put, count, after=lambda: self._delete(b"x"))

    def op_put_settled(self, object_bytes: int, count: int, batch: int) -> Answer:
        """SET of values under keys of their own, a batch in one pipeline."""
        client, data = self._open(), payload(object_bytes)
        keys = [b"key:%012d" % number for number in range(batch)]
        commands = [
            b"*3\r\n$3\r\nSET\r\n$%d\r\n%b\r\n$%d\r\n%b\r\n" % (len(key), key, len(data), data)
            for key in keys
        ]
        pipelines = [
            (b"".join(commands[at : at + _PIPELINE]), len(commands[at : at + _PIPELINE]))
            for at in range(0, batch, _PIPELINE)
        ]

        def put() -> None:
            for pipeline, answers in pipelines:
                client.pipeline(pipeline, b"+OK\r\n" * answers)

        answer = timed(put, count, after=lambda: self._delete(*keys))
        samples = [sample / batch for sample in answer["samples"]]
        return {**answer, "samples": samples, "batch": batch}

    def _open(self) -> Client:
        assert self._client is not None, "it was started"
        return self._client

    def _delete(self, *keys: bytes) -> None:
        # A command is sent in pieces of which one call takes a thousand.
        for at in range(0, len(keys), _KEYS_AT_ONCE):
            self._open().send(b"DEL", *keys[at : at + _KEYS_AT_ONCE])
            self._open().line()

    def _wait_for_replica(self) -> None:
        """Until the second server has what the first one has."""
        end = time.monotonic() + START_WITHIN_S
        answer = b""
        while answer != b":1":
            if time.monotonic() > end:
                raise UnsupportedError("the second server does not follow the first one")
            self._open().send(b"SET", b"x", b"")
            self._open().line()
            self._open().send(b"WAIT", b"1", b"100")
            answer = self._open().line()


if __name__ == "__main__":
    serve(Redis())
