"""Processes that are measured: starting, asking, pinning, freezing, ending them.

A worker is a program that reads one JSON request per line and writes one JSON answer per line. It
starts whatever server it needs itself. Every process that comes from a worker carries the worker's
mark in its environment, which is how its servers are found again: to pin them to a processor, to
read their memory, to stop them while another side is measured, and to end them.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bench.environments import ROOT, MissingError

MARK = "PLASMON_BENCH_MARK"
CALL_TIMEOUT_S = 45.0
END_TIMEOUT_S = 5.0


class UnsupportedError(Exception):
    """The side cannot answer this request; the text has the reason."""


class Worker:
    """One worker process and the servers that it started."""

    def __init__(
        self, command: list[str], directory: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self.mark = uuid.uuid4().hex
        self.directory = directory
        self._log = (directory / "worker.log").open("ab")
        self._frozen: list[int] = []
        self._tail = b""
        #: The operation that was asked for last.
        self._asked = "nothing"
        self.process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, **(environment or {}), MARK: self.mark},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
        )

    def send(self, request: Mapping[str, Any]) -> None:
        """Sends a request without waiting for its answer."""
        assert self.process.stdin is not None
        self._asked = str(request.get("op"))
        try:
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()
        except OSError as error:
            raise MissingError(self._obituary()) from error

    def receive(self, timeout_s: float = CALL_TIMEOUT_S) -> dict[str, Any]:
        """Waits for the answer to the oldest unanswered request."""
        line = self._line(timeout_s)
        answer: dict[str, Any] = json.loads(line)
        if "unsupported" in answer:
            raise UnsupportedError(answer["unsupported"])
        if "error" in answer:
            raise MissingError(answer["error"])
        return answer

    def call(self, request: Mapping[str, Any], timeout_s: float = CALL_TIMEOUT_S) -> dict[str, Any]:
        """Sends a request and waits for its answer."""
        self.send(request)
        return self.receive(timeout_s)

    def _line(self, timeout_s: float) -> bytes:
        assert self.process.stdout is not None
        descriptor = self.process.stdout.fileno()
        deadline = time.monotonic() + timeout_s
        with selectors.DefaultSelector() as selector:
            selector.register(descriptor, selectors.EVENT_READ)
            while b"\n" not in self._tail:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise MissingError(
                        f"no answer to {self._asked} within {timeout_s:g} s; the worker's log ends"
                        f" with: {self._last_words()}"
                    )
                piece = os.read(descriptor, 1 << 20)
                if not piece:
                    raise MissingError(self._obituary())
                self._tail += piece
        line, _, self._tail = self._tail.partition(b"\n")
        return line

    def _obituary(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(END_TIMEOUT_S)
        return f"worker ended with {self.process.returncode}: {self._last_words()}"

    def _last_words(self) -> str:
        lines = (self.directory / "worker.log").read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "no word"

    def marked(self) -> list[int]:
        """Every living process that came from this worker, the worker included."""
        wanted = f"{MARK}={self.mark}".encode()
        return [pid for pid in processes() if wanted in read_bytes(f"/proc/{pid}/environ")]

    def servers(self) -> list[int]:
        """The processes that the worker started."""
        return [pid for pid in self.marked() if pid != self.process.pid]

    def pin(self, server_cpu: int | None, client_cpu: int | None) -> None:
        """Moves the worker and its servers to a processor each; `None`: to all of them."""
        everywhere = set(range(os.cpu_count() or 1))
        for pid in self.marked():
            cpu = client_cpu if pid == self.process.pid else server_cpu
            for thread in threads(pid):
                with contextlib.suppress(OSError):
                    os.sched_setaffinity(thread, everywhere if cpu is None else {cpu})

    def freeze(self) -> None:
        """Stops every process of this side, so that it cannot disturb another."""
        if not self._frozen:
            self._frozen = self.marked()
            signal_all(self._frozen, signal.SIGSTOP)

    def thaw(self) -> bool:
        """Resumes a frozen side; returns whether it was frozen."""
        frozen, self._frozen = self._frozen, []
        signal_all(frozen, signal.SIGCONT)
        return bool(frozen)

    def end(self) -> None:
        """Ends the worker and everything that came from it."""
        self.thaw()
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(END_TIMEOUT_S)
        signal_all(self.servers(), signal.SIGTERM)
        deadline = time.monotonic() + END_TIMEOUT_S
        while self.servers() and time.monotonic() < deadline:
            time.sleep(0.02)
        signal_all(self.marked(), signal.SIGKILL)
        self.process.wait()
        for stream in (self.process.stdout, self._log):
            if stream is not None:
                stream.close()


def read_bytes(path: str) -> bytes:
    """A file under /proc, empty when its process is gone."""
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""


def processes() -> Iterator[int]:
    """The ids of all processes."""
    return (int(name) for name in os.listdir("/proc") if name.isdigit())


def threads(pid: int) -> list[int]:
    """The threads of a process; none when it is gone."""
    try:
        return [int(name) for name in os.listdir(f"/proc/{pid}/task")]
    except OSError:
        return []


def signal_all(pids: list[int], number: signal.Signals) -> None:
    """Signals processes, of which some may be gone."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def memory_kib(pids: list[int]) -> dict[str, int]:
    """Resident memory of processes: `Rss`, `Pss`, and the anonymous part `Pss_Anon`."""
    sums = {"Rss": 0, "Pss": 0, "Pss_Anon": 0}
    for pid in pids:
        for line in read_bytes(f"/proc/{pid}/smaps_rollup").decode().splitlines():
            key, _, rest = line.partition(":")
            if key in sums:
                sums[key] += int(rest.split()[0])
    return sums
