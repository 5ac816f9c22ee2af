"""Processes that are found again: all that a node started has one mark in its environment.

A store's daemon and its keeper are no children of the demo, and start each other again. So a node
is killed by its mark, until no process has it any more.
"""

from __future__ import annotations

import contextlib
import os
import platform
import secrets
import shutil
import signal
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from scripts.demo_pool.network import free_port

_MARK = "PLASMON_DEMO_POOL"
#: Stores of the demo, and not the user's.
_NOT_INHERITED = ("PLASMON_SOCKET", _MARK)
#: How long processes take to be gone after SIGKILL, with gigabytes to free.
_GONE_WITHIN_S = 30.0
_ETCD_WITHIN_S = 30.0
_POLL_S = 0.01
_LOG_LINES = 15


class DemoError(Exception):
    """The demo cannot go on; the text is for the person who runs it."""


def until(what: str, within_s: float, holds: Callable[[], Any]) -> Any:
    """Waits until something is so, and returns it."""
    end = time.monotonic() + within_s
    while not (found := holds()):
        if time.monotonic() > end:
            raise DemoError(f"{what}: it did not happen within {within_s:.0f} s")
        time.sleep(_POLL_S)
    return found


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Signals that end the demo come after the block."""
    kinds = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, kinds)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def new_mark() -> str:
    """A mark that no other process has."""
    return secrets.token_hex(8)


def environment(mark: str, **more: str) -> dict[str, str]:
    """The environment of a process with a mark."""
    own = {key: value for key, value in os.environ.items() if key not in _NOT_INHERITED}
    return {**own, **more, _MARK: mark}


def spawn(
    command: list[str], mark: str, log: Path, *, cwd: Path | None = None, **pipes: Any
) -> subprocess.Popen[str]:
    """Starts a process with a mark; what it says on its standard error is in the log."""
    with log.open("a") as errors:
        return subprocess.Popen(
            command,
            **{"stdin": subprocess.DEVNULL, "stdout": errors, **pipes},
            stderr=errors,
            env=environment(mark),
            cwd=cwd,
            text=True,
            # Ctrl-C is for the demo, which then ends the others.
            start_new_session=True,
        )


def marked(mark: str) -> list[int]:
    """The processes with a mark, except those that have ended."""
    wanted = f"{_MARK}={mark}".encode()
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if wanted in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found


def kill(mark: str) -> None:
    """Kills all processes with a mark, also those that they start meanwhile."""

    def is_gone() -> bool:
        pids = marked(mark)
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not pids

    until("ending the processes of a node", _GONE_WITHIN_S, is_gone)


def log_end(log: Path) -> str:
    """The last lines of a log, for an error."""
    if not log.exists():
        return ""
    lines = log.read_text(errors="replace").splitlines()[-_LOG_LINES:]
    return "".join(f"\n  {log.name}: {line}" for line in lines)


class Etcd:
    """An etcd of one member, which keeps the membership and the map of the pool."""

    def __init__(self, host: str, folder: Path) -> None:
        program = shutil.which("etcd")
        if program is None:
            raise DemoError(
                "a pool needs etcd, which is not installed: as root, apt-get install etcd-server"
            )
        self._mark, self._log = new_mark(), folder / "etcd.log"
        self.endpoint = f"{host}:{free_port(host)}"
        peers = f"http://127.0.0.1:{free_port('127.0.0.1')}"
        clients = f"http://{self.endpoint}"
        command = [program, "--name", "demo", "--data-dir", str(folder / "etcd")]
        command += ["--listen-client-urls", clients, "--advertise-client-urls", clients]
        command += ["--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers]
        command += ["--initial-cluster", f"demo={peers}"]
        if platform.machine() != "x86_64":
            command = ["env", f"ETCD_UNSUPPORTED_ARCH={_go_machine()}", *command]
        self._command = command
        self._process = spawn(command, self._mark, self._log)

    def restart(self) -> None:
        """Ends it and starts it again on what it has written."""
        self.close()
        self._process = spawn(self._command, self._mark, self._log)
        self.wait_until_ready()

    def wait_until_ready(self) -> None:
        """Returns once it answers."""
        until("etcd starts", _ETCD_WITHIN_S, self._is_ready)

    def _is_ready(self) -> bool:
        if self._process.poll() is not None:
            raise DemoError(f"etcd does not start:{log_end(self._log)}")
        url = f"http://{self.endpoint}/health"
        try:
            with urllib.request.urlopen(url, timeout=1) as answer:
                return b"true" in answer.read()
        except OSError:
            return False

    def close(self) -> None:
        """Ends it."""
        kill(self._mark)
        self._process.wait()


def _go_machine() -> str:
    return {"aarch64": "arm64"}.get(platform.machine(), platform.machine())
