"""What the tests of the package share: a store for all of them, and stores of their own."""

from __future__ import annotations

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
        one.stop()


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
