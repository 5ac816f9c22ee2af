"""Redis 7 on loopback with `appendfsync always`: a SET is answered when its log is synced."""

from __future__ import annotations

import itertools
import shutil
import subprocess
import time
from collections.abc import Callable

from bench.rivals.clients import by_processes
from bench.rivals.protocol import Answer, UnsupportedError, payload, serve, timed
from bench.rivals.redis.client import Client, connected, free_port

_KEYS_AT_ONCE = 200


class DurableRedis:
    """One server. Its log is not rewritten meanwhile, which would only cost it."""

    def __init__(self) -> None:
        self._server: subprocess.Popen[bytes] | None = None
        self._client: Client | None = None
        self._port = 0
        self._numbers = itertools.count()

    def op_start(self, directory: str, capacity_bytes: int, folder: str) -> Answer:
        """Starts it. How much it may keep is left to the machine."""
        del directory, capacity_bytes
        program = shutil.which("redis-server")
        if program is None:
            raise UnsupportedError("redis-server is not installed: apt-get install redis-server")
        found = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
        version = found.stdout.partition("v=")[2].split()[0]
        self._port = free_port()
        command = [program, "--bind", "127.0.0.1", "--port", str(self._port), "--dir", folder]
        command += ["--save", "", "--appendonly", "yes", "--appendfsync", "always"]
        command += ["--auto-aof-rewrite-percentage", "0"]
        begin = time.perf_counter_ns()
        self._server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        self._client = connected(self._port)
        taken = time.perf_counter_ns() - begin
        return {"address": str(self._port), "start_ns": taken, "versions": {"redis": version}}

    def op_stop(self) -> Answer:
        """Ends it."""
        if self._server is not None:
            self._server.kill()
            self._server.wait()
        return {}

    def op_put(self, object_bytes: int, count: int) -> Answer:
        """One SET, its answer awaited."""
        client, data = self._open(), payload(object_bytes)
        made: list[bytes] = []
        put = self._setter(client, data, made)
        return timed(put, count, after=lambda: self._delete(made))

    def op_put_batch(self, object_bytes: int, count: int, batch: int) -> Answer:
        """SETs in one pipeline, which Redis takes and syncs in pieces of its own choice."""
        client, data = self._open(), bytes(payload(object_bytes))
        made: list[bytes] = []

        value = b"$%d\r\n%b\r\n" % (len(data), data)

        def put() -> None:
            keys = [self._key() for _ in range(batch)]
            made.extend(keys)
            heads = (b"*3\r\n$3\r\nSET\r\n$%d\r\n%b\r\n" % (len(key), key) for key in keys)
            client.pipeline(b"".join(head + value for head in heads), b"+OK\r\n" * batch)

        answer = timed(put, count, after=lambda: self._delete(made))
        samples = [sample / batch for sample in answer["samples"]]
        return {**answer, "samples": samples, "batch": batch}

    def op_put_clients(self, object_bytes: int, clients: int, seconds: float) -> Answer:
        """Processes with a connection each; each awaits the answer to its SET."""
        data, port = payload(object_bytes), self._port

        def connect(number: int) -> Callable[[], None]:
            client, turns = connected(port), itertools.count()

            def put() -> None:
                # A few keys for each client: what it sets again is deleted by that.
                client.send(b"SET", b"client:%d:%d" % (number, next(turns) % 64), data)
                client.line()

            return put

        return by_processes(clients, seconds, connect)

    def _setter(self, client: Client, data: memoryview, made: list[bytes]) -> Callable[[], None]:
        def put() -> None:
            key = self._key()
            made.append(key)
            client.send(b"SET", key, data)
            client.line()

        return put

    def _key(self) -> bytes:
        return b"key:%016d" % next(self._numbers)

    def _open(self) -> Client:
        assert self._client is not None, "it was started"
        return self._client

    def _delete(self, made: list[bytes]) -> None:
        for at in range(0, len(made), _KEYS_AT_ONCE):
            self._open().send(b"DEL", *made[at : at + _KEYS_AT_ONCE])
            self._open().line()
        made.clear()


if __name__ == "__main__":
    serve(DurableRedis())
