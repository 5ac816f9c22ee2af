"""What libraries for fast networks take for the same bytes: their own measuring programs.

Both send a message to and fro between two processes; a sample is the time of one way. Nothing is
asked for, named or checked.
"""

from __future__ import annotations

import os
import re
import resource
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass

from bench.rivals.protocol import Answer, UnsupportedError, serve
from bench.rivals.redis.client import free_port

_START_WITHIN_S = 10.0
_RUN_WITHIN_S = 30.0


@dataclass(frozen=True)
class _Program:
    """A measuring program: how it is called, and where its answer is."""

    name: str
    package: str
    #: Where in what the client prints the microseconds of one way are.
    answer: re.Pattern[str]
    #: The command that tells its version, and where in what that prints.
    version: tuple[str, str]

    def server(self, transport: str, port: int, size: int, turns: int) -> list[str]:
        """The side that is started first."""
        if self.name == "fi_pingpong":
            return [*self._fabric(transport, size, turns), "-B", str(port)]
        return [self.name, "-p", str(port)]

    def client(self, transport: str, port: int, size: int, turns: int) -> list[str]:
        """The side that says what it took."""
        if self.name == "fi_pingpong":
            return [*self._fabric(transport, size, turns), "-P", str(port), "127.0.0.1"]
        sizes = ["-s", str(size), "-n", str(turns), "-w", str(turns // 10)]
        return [self.name, "127.0.0.1", "-p", str(port), "-t", "tag_lat", "-f", *sizes]

    def environment(self, transport: str) -> dict[str, str]:
        """What says by what the bytes go, where that is no argument."""
        return {**os.environ, "UCX_TLS": transport, "UCX_WARN_UNUSED_ENV_VARS": "n"}

    def _fabric(self, transport: str, size: int, turns: int) -> list[str]:
        return [self.name, "-p", transport, "-e", "rdm", "-S", str(size), "-I", str(turns)]


PROGRAMS = {
    "fi_pingpong": _Program(
        "fi_pingpong",
        "libfabric-bin",
        re.compile(r"^1m\s.*\s(?P<us>[\d.]+)\s+[\d.]+\s*$", re.MULTILINE),
        ("fi_info", r"libfabric: (\S+)"),
    ),
    "ucx_perftest": _Program(
        "ucx_perftest",
        "ucx-utils",
        re.compile(r"^\s+\d+\s+[\d.]+\s+(?P<us>[\d.]+)\s", re.MULTILINE),
        ("ucx_info", r"Version (\S+)"),
    ),
}


class Pingpong:
    """Runs a measuring program, once for each sample."""

    def __init__(self, program: _Program) -> None:
        self._program = program

    def op_start(self, directory: str, capacity_bytes: int) -> Answer:
        """Nothing runs between samples."""
        del directory, capacity_bytes
        name, package = self._program.name, self._program.package
        if shutil.which(name) is None:
            raise UnsupportedError(f"{name} is not installed: apt-get install {package}")
        teller, pattern = self._program.version
        flag = "--version" if teller == "fi_info" else "-v"
        told = subprocess.run([teller, flag], capture_output=True, text=True, check=False)
        found = re.search(pattern, told.stdout)
        versions = {name: found.group(1)} if found else {}
        return {"address": "", "start_ns": 0, "versions": versions}

    def op_fetch(self, object_bytes: int, count: int, batch: int, transport: str) -> Answer:
        """The time of one way, as the mean of so many turns."""
        samples: list[float] = []
        spent_ns: list[float] = []
        for _ in range(count):
            before = _children_ns()
            microseconds = self._run(transport, object_bytes, batch)
            samples.append(microseconds * 1e3)
            # Both ways of each turn, and the start of both processes.
            spent_ns.append((_children_ns() - before) / (2 * batch))
        return {"samples": samples, "batch": batch, "cpu_ns": spent_ns}

    def _run(self, transport: str, size: int, turns: int) -> float:
        program, port = self._program, free_port()
        environment = program.environment(transport)
        server = subprocess.Popen(
            program.server(transport, port, size, turns),
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            deadline = time.monotonic() + _START_WITHIN_S
            while True:
                done = subprocess.run(
                    program.client(transport, port, size, turns),
                    env=environment,
                    capture_output=True,
                    text=True,
                    timeout=_RUN_WITHIN_S,
                    check=False,
                )
                found = program.answer.search(done.stdout)
                if done.returncode == 0 and found:
                    server.wait(_RUN_WITHIN_S)
                    return float(found.group("us"))
                # The server has only just started.
                if server.poll() is not None or time.monotonic() > deadline:
                    lines = (done.stderr or done.stdout).strip().splitlines()
                    last = lines[-1] if lines else f"it ended with {done.returncode}"
                    raise UnsupportedError(f"{program.name} over {transport}: {last}")
                time.sleep(0.05)
        finally:
            server.kill()
            server.wait()


def _children_ns() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (used.ru_utime + used.ru_stime) * 1e9


if __name__ == "__main__":
    serve(Pingpong(PROGRAMS[sys.argv[1]]))
