"""What the tests of the package share: a store for all of them, and stores of their own."""

from __future__ import annotations

import atexit
import contextlib
import os
import subprocess
import sys
import tempfile
import textwrap
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import plasmon
from plasmon import _memory_pool, build_memory_pool

# Longer than anything takes on a busy machine.
DEADLINE_S = 30.0
MIB = 1 << 20

# `RESIDENT_SLACK_*` of `plasmon_proto::limits`.
SLACK_PER_CAPACITY = 8
SLACK_BYTES_MIN = MIB

# Processes that multiprocessing spawns import the test that they run by its name. At the end, so
# that the installed package is found before its sources, which have no compiled half.
sys.path.append(str(Path(__file__).parent.parent))

# A child gets what it needs to find the package and the daemon, and no store of the user's.
os.environ.pop("PLASMON_SOCKET", None)

# A store that a program under test starts in passing does not wait ten minutes for the next one.
os.environ["PLASMON_LINGER_MS"] = "2000"

#: What every process that these tests start has in its environment, and no other.
MARK = f"PLASMON_TEST_RUN={uuid.uuid4()}"
os.environ.update([MARK.split("=")])

#: Where stores without a socket of their own make their folders, and nothing else does. Pytest's
#: own folders stay where they were.
os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
FOLDERS = Path(tempfile.mkdtemp(prefix="plt-"))
tempfile.tempdir = os.environ["TMPDIR"] = str(FOLDERS)


@atexit.register
def remove_folders() -> None:
    """At the very end: multiprocessing removes a folder of its own in it before."""
    with contextlib.suppress(OSError):
        FOLDERS.rmdir()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Nothing of ours is left: no daemon, no keeper, no worker, no folder.

    Daemons that tests did not stop stayed for good, five of them for each run of the suite.
    """
    if not leftovers_after(DEADLINE_S):
        return
    for left in leftovers():
        print(f"\nleft behind: {left}", file=sys.stderr)
    session.exitstatus = pytest.ExitCode.TESTS_FAILED


def leftovers_after(seconds: float) -> bool:
    """Whether something is still left after this time: what ends by itself may take a while."""
    end = time.monotonic() + seconds
    while leftovers():
        if time.monotonic() > end:
            return True
        time.sleep(0.05)
    return False


def leftovers() -> list[str]:
    """Processes that were started here and lost their parent, and folders of stores."""
    found = [str(path) for path in FOLDERS.glob("plasmon-*")]
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if int(entry.name) == os.getpid():
                continue
            if MARK.encode() not in (entry / "environ").read_bytes().split(b"\0"):
                continue
            name, rest = (entry / "stat").read_text().rsplit(")", 1)
            state, parent = rest.split()[:2]
            # A child of this process ends with it; what has no parent any more does not.
            if state != "Z" and int(parent) != os.getpid():
                found.append(f"process {name} ...), child of {parent}")
    return found


@pytest.fixture(scope="session")
def daemon() -> Iterator[plasmon.Daemon]:
    """One store for the tests that only need some store."""
    daemon = plasmon.start(capacity=512 * MIB)
    yield daemon
    memory_is_within_bounds(daemon.socket)
    daemon.stop()


@pytest.fixture
def store(daemon: plasmon.Daemon) -> Iterator[plasmon.Store]:
    """A connection of the test's own to the shared store."""
    store = daemon.connect()
    yield store
    store.disconnect()


@pytest.fixture
def other(daemon: plasmon.Daemon) -> Iterator[plasmon.Store]:
    """A second client of the same store."""
    store = daemon.connect()
    yield store
    store.disconnect()


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Callable[..., plasmon.Store]]:
    """Starts stores of the test's own."""
    daemons: list[plasmon.Daemon] = []
    stores: list[plasmon.Store] = []

    def start(capacity: int = 16 * MIB, **settings: Any) -> plasmon.Store:
        socket = tmp_path / f"{len(daemons)}.sock"
        daemons.append(plasmon.start(capacity=capacity, socket=socket, settings=settings))
        stores.append(daemons[-1].connect())
        return stores[-1]

    yield start
    for one in stores:
        one.disconnect()
    for one in daemons:
        memory_is_within_bounds(one.socket)
        one.stop()


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An environment with a user's store of its own, which is stopped at the end."""
    runtime = tmp_path / "runtime"
    runtime.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    monkeypatch.delenv("PLASMON_SOCKET", raising=False)
    monkeypatch.delenv("PLASMON_LINGER_MS")
    yield runtime
    with contextlib.suppress(plasmon.Disconnected):
        plasmon.connect(runtime / "plasmon" / "store.sock", start=False).shutdown()


def memory_is_within_bounds(socket: Path | str) -> None:
    """The capacity is a bound: what all objects take of the machine's memory does not exceed it by
    more than the stated slack, whatever a test did."""
    try:
        store = plasmon.connect(socket, start=False)
    except plasmon.PlasmonError:
        # The test has ended its store itself.
        return
    with store:
        status = store.status()
        slack = max(status.capacity_bytes // SLACK_PER_CAPACITY, SLACK_BYTES_MIN)
        # What was dropped last is given back by a thread of the daemon's.
        settles(lambda: extents_bytes(status.pid) <= status.capacity_bytes + slack)


def extents_bytes(daemon: int) -> int:
    """What the extents of a daemon take of the machine's memory."""
    found: dict[int, int] = {}
    for entry in Path(f"/proc/{daemon}/fd").iterdir():
        with contextlib.suppress(OSError):
            if "memfd:plasmon-extent" in os.readlink(entry):
                stat = entry.stat()
                found[stat.st_ino] = stat.st_blocks * 512
    return sum(found.values())


def settles(holds: Callable[[], bool]) -> None:
    """Waits until something that another process does is done."""
    end = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.005)


def child(code: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs Python code in a separate process."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )


@pytest.fixture(scope="session")
def built_pool() -> None:
    """The memory pool's extension, built for the pyarrow of the tests if it is not there yet."""
    try:
        _memory_pool.find()
    except ImportError:
        build_memory_pool.build()
