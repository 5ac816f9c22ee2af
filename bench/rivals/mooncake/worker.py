"""Mooncake Store over TCP: a master, a client that holds objects, and one that gets them.

The client that holds is a process of its own and gives all the memory; the one that gets gives
none, so what it gets comes over the network, into a registered buffer that is warm.
"""

from __future__ import annotations

import ctypes
import json
import os
import socket
import subprocess
import sys
import time
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bench.rivals.protocol import Answer, Fetches, UnsupportedError, payload, serve

PACKAGE = "mooncake-transfer-engine-non-cuda"
_START_WITHIN_S = 20.0
_BUFFER_BYTES = 512 << 20
#: For so long what was read cannot be removed.
_LEASE_MS = 1000
#: Every process finds the others by their addresses, without a server of metadata.
_METADATA = "P2PHANDSHAKE"


def connect(master: str, segment_bytes: int) -> Any:
    """A client that gives so much memory."""
    # The other client is on this machine, but what is measured is the network.
    os.environ["MC_STORE_MEMCPY"] = "0"
    try:
        from mooncake.store import (  # type: ignore[import-not-found]
            MooncakeDistributedStore,
        )
    except (ImportError, OSError) as error:
        raise UnsupportedError(f"does not load here: {error}") from error
    store = MooncakeDistributedStore()
    address = f"127.0.0.1:{_free_port()}"
    code = store.setup(address, _METADATA, segment_bytes, _BUFFER_BYTES, "tcp", "", master)
    if code:
        raise RuntimeError(f"a client of Mooncake does not start: {code}")
    return store


class Mooncake:
    """The client that gets."""

    def __init__(self) -> None:
        self._processes: list[subprocess.Popen[str]] = []
        self._store: Any = None
        self._into = bytearray()
        self._keys = 0

    def op_start(self, directory: str, capacity_bytes: int) -> Answer:
        """Starts the master and both clients."""
        found = find_spec("mooncake")
        if found is None or found.origin is None:
            raise UnsupportedError("the package is not installed")
        program = Path(found.origin).parent / "mooncake_master"
        begin = time.perf_counter_ns()
        port, metrics = _free_port(), _free_port()
        command = [str(program), f"--rpc_port={port}", f"--metrics_port={metrics}"]
        command += ["--rpc_address=127.0.0.1", f"--default_kv_lease_ttl={_LEASE_MS}"]
        with (Path(directory) / "master.log").open("w") as log:
            master = subprocess.Popen(command, stdout=log, stderr=log, cwd=directory, text=True)
        self._processes.append(master)
        _wait_for(port)
        address = f"127.0.0.1:{port}"
        self._store = connect(address, 0)
        holder = subprocess.Popen(
            [sys.executable, "-m", "bench.rivals.mooncake.holder", address, str(capacity_bytes)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._processes.append(holder)
        self._line()
        taken = time.perf_counter_ns() - begin
        return {"address": address, "start_ns": taken, "versions": {"mooncake": version(PACKAGE)}}

    def op_stop(self) -> Answer:
        """Ends all of them."""
        for process in self._processes:
            process.kill()
            process.wait()
        return {}

    def op_fetch(self, object_bytes: int, count: int, batch: int = 1) -> Answer:
        """The first get of objects that the other client holds."""
        place = self._buffer(object_bytes)
        fetches = Fetches(batch)
        read: list[str] = []
        for _ in range(count + 1):
            keys = [self._put(object_bytes) for _ in range(batch)]
            with fetches.sample():
                for key in keys:
                    found = self._store.get_into(key, place, object_bytes)
                    if found != object_bytes:
                        raise RuntimeError(f"a get ended with {found}")
            read += keys
        time.sleep(1.1 * _LEASE_MS / 1000)
        for key in read:
            self._store.remove(key)
        return fetches.answer()

    def _buffer(self, object_bytes: int) -> int:
        """Registered memory of at least so many bytes, in which every page was written."""
        if len(self._into) < object_bytes:
            self._into = bytearray(payload(object_bytes))
            place = ctypes.addressof(ctypes.c_char.from_buffer(self._into))
            code = self._store.register_buffer(place, len(self._into))
            if code:
                raise RuntimeError(f"a buffer is not registered: {code}")
        return ctypes.addressof(ctypes.c_char.from_buffer(self._into))

    def _put(self, object_bytes: int) -> str:
        self._keys += 1
        key = f"bench-{self._keys}"
        holder = self._processes[-1]
        assert holder.stdin is not None
        holder.stdin.write(json.dumps({"key": key, "bytes": object_bytes}) + "\n")
        holder.stdin.flush()
        self._line()
        return key

    def _line(self) -> None:
        """An answer of the client that holds."""
        holder = self._processes[-1]
        assert holder.stdout is not None
        line = holder.stdout.readline()
        if line != "ok\n":
            raise RuntimeError(f"the client that holds objects says {line!r}")


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


def _wait_for(port: int) -> None:
    end = time.monotonic() + _START_WITHIN_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except ConnectionRefusedError:
            if time.monotonic() > end:
                raise
            time.sleep(0.02)


if __name__ == "__main__":
    serve(Mooncake())
