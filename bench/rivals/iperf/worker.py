"""iperf3 on loopback or between two machines: what TCP carries when nothing is stored.

Nothing is named or checked either.
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
from typing import Any

from bench.rivals.protocol import Answer, UnsupportedError, serve

#: How long each stream is measured, in s: long enough for the windows to be open.
_SECONDS = "1"
_START_WITHIN_S = 10.0


class Iperf:
    """A server and, for each sample, a client of it."""

    def __init__(self) -> None:
        self._server: subprocess.Popen[bytes] | None = None
        self._port = 0
        self._address = "127.0.0.1"
        self._at_server: list[str] = []
        self._at_client: list[str] = []

    def op_start(
        self, directory: str, capacity_bytes: int, machines: dict[str, Any] | None = None
    ) -> Answer:
        """Starts the server, on the first machine if there are some; nothing is stored."""
        del directory, capacity_bytes
        program = shutil.which("iperf3")
        if program is None:
            raise UnsupportedError("iperf3 is not installed: apt-get install iperf3")
        found = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
        if machines is not None:
            first, second = machines["nodes"][:2]
            self._address = first["address"]
            self._at_server = ["ip", "netns", "exec", first["namespace"]]
            self._at_client = ["ip", "netns", "exec", second["namespace"]]
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            self._port = taken.getsockname()[1]
        command = [*self._at_server, program, "-s", "-B", self._address, "-p", str(self._port)]
        self._server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        return {
            "address": str(self._port),
            "start_ns": 0,
            "versions": {"iperf": found.stdout.split()[1]},
        }

    def op_stop(self) -> Answer:
        """Ends the server."""
        if self._server is not None:
            self._server.kill()
            self._server.wait()
        return {}

    def op_fetch(self, object_bytes: int, count: int, at_once: int = 1) -> Answer:
        """The time that so many streams take for so many bytes each, at their speed in a second."""
        samples: list[float] = []
        spent_ns: list[float] = []
        for _ in range(count):
            end = self._run(at_once)["end"]
            total = end["sum_received"]
            share = object_bytes * at_once / total["bytes"]
            seconds = float(total["seconds"])
            samples.append(seconds * share * 1e9)
            percent = end["cpu_utilization_percent"]
            cpus = (percent["host_total"] + percent["remote_total"]) / 100
            spent_ns.append(cpus * seconds * share * 1e9)
        return {"samples": samples, "batch": 1, "cpu_ns": spent_ns}

    def _run(self, streams: int) -> dict[str, Any]:
        command = [*self._at_client, "iperf3", "-c", self._address, "-p", str(self._port)]
        command += ["-t", _SECONDS, "-P", str(streams), "-J"]
        deadline = time.monotonic() + _START_WITHIN_S
        while True:
            found = subprocess.run(command, capture_output=True, text=True, check=False)
            answer: dict[str, Any] = json.loads(found.stdout)
            if "error" not in answer:
                return answer
            # The server has only just started, or has not ended the last test yet.
            if time.monotonic() > deadline:
                raise RuntimeError(answer["error"])
            time.sleep(0.05)


if __name__ == "__main__":
    serve(Iperf())
