"""Two `vineyardd` with their metadata in one etcd; arrays of the first migrate to the second."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import vineyard  # type: ignore[import-not-found]

from bench.rivals.protocol import Answer, Fetches, UnsupportedError, payload, serve

_START_WITHIN_S = 20.0
_RETRY_S = 0.01


class Migration:
    """A client of each of the two servers."""

    def __init__(self) -> None:
        self._processes: list[subprocess.Popen[bytes]] = []
        self._clients: list[Any] = []

    def op_start(self, directory: str, capacity_bytes: int) -> Answer:
        """Starts an etcd and both servers."""
        if shutil.which("etcd") is None:
            raise UnsupportedError("etcd is not installed: apt-get install etcd-server")
        begin = time.perf_counter_ns()
        clients, peers = (f"http://127.0.0.1:{_free_port()}" for _ in range(2))
        command = ["etcd", "--name", "bench", "--data-dir", f"{directory}/etcd"]
        command += ["--listen-client-urls", clients, "--advertise-client-urls", clients]
        command += ["--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers]
        self._start([*command, "--initial-cluster", f"bench={peers}"], Path(directory) / "etcd.log")
        program = str(Path(vineyard.__file__).parent / "bdist" / "vineyardd")
        for name in ("first", "second"):
            server = [program, "-meta", "etcd", "-etcd_endpoint", clients, "-etcd_prefix", "bench"]
            server += ["-rpc_socket_port", str(_free_port()), "-size", str(capacity_bytes)]
            server += ["-socket", f"{directory}/{name}.sock"]
            self._start(server, Path(directory) / f"{name}.log")
            self._clients.append(self._connected(f"{directory}/{name}.sock"))
        taken = time.perf_counter_ns() - begin
        versions = {"vineyard": vineyard.__version__}
        return {"address": directory, "start_ns": taken, "versions": versions}

    def op_stop(self) -> Answer:
        """Ends all of them."""
        for process in self._processes:
            process.kill()
            process.wait()
        return {}

    def op_fetch(self, object_bytes: int, count: int, batch: int = 1) -> Answer:
        """Migrations of arrays that the second server does not have."""
        first, second = self._clients
        data = np.frombuffer(payload(object_bytes), np.uint8)
        fetches = Fetches(batch)
        for _ in range(count + 1):
            ids = [self._put(first, data) for _ in range(batch)]
            # The metadata of the other server come by a watch of etcd.
            second.get_meta(ids[-1], True)
            with fetches.sample():
                moved = [second.migrate(identity) for identity in ids]
            for client, owned in ((second, moved), (first, ids)):
                client.delete(owned)
        return fetches.answer()

    def _put(self, client: Any, data: np.ndarray[Any, Any]) -> Any:
        """An array: a blob alone cannot be seen by other servers."""
        identity = client.put(data)
        client.persist(identity)
        return identity

    def _start(self, command: list[str], log: Path) -> None:
        with log.open("w") as file:
            self._processes.append(subprocess.Popen(command, stdout=file, stderr=file))

    def _connected(self, address: str) -> Any:
        end = time.monotonic() + _START_WITHIN_S
        while True:
            try:
                return vineyard.connect(address)
            except Exception as error:
                if time.monotonic() > end:
                    raise UnsupportedError(f"vineyardd does not start here: {error}") from error
                time.sleep(_RETRY_S)


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


if __name__ == "__main__":
    serve(Migration())
