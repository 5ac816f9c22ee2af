"""What the tests of the package share: a store for all of them, and stores of their own."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import plasmon
from plasmon import _memory_pool, build_memory_pool

# Longer than anything takes on a busy machine, shorter than a person's patience.
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
    """Runs Python code in a process of its own."""
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
