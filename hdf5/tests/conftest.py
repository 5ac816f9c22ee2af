"""Programs that use HDF5, each in a separate process: HDF5 reads its environment only once."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import plasmon
from plasmon import Daemon, Store

TIMEOUT_S = 120

#: What every program begins with.
PREAMBLE = """
import os, sys
import numpy as np
import h5py"""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a program."""

    code: int
    out: str
    err: str


Program = Callable[..., Outcome]


def connector_environment(settings: str = "") -> dict[str, str]:
    """The environment of an unchanged program that is to use the connector."""
    environment = plain_environment()
    environment["HDF5_PLUGIN_PATH"] = os.environ["PLASMON_HDF5_PLUGIN"]
    environment["HDF5_VOL_CONNECTOR"] = f"plasmon {settings}".strip()
    return environment


def plain_environment() -> dict[str, str]:
    """An environment where HDF5 knows nothing of the connector."""
    return {key: text for key, text in os.environ.items() if not key.startswith("HDF5_")}


def _run(code: str, folder: Path, environment: dict[str, str], *, good: bool) -> Outcome:
    command: list[str | Path] = [sys.executable, "-c", PREAMBLE + textwrap.dedent(code)]
    return run_command(command, folder, environment, good=good)


@pytest.fixture
def run(tmp_path: Path) -> Program:
    """Runs a program with the connector; `good=False` lets it fail."""

    def program(code: str, *, settings: str = "", good: bool = True, folder: str = ".") -> Outcome:
        environment = connector_environment(settings)
        return _run(code, tmp_path / folder, environment, good=good)

    return program


@pytest.fixture
def plain(tmp_path: Path) -> Program:
    """Runs a program with HDF5 alone."""

    def program(code: str, *, good: bool = True, folder: str = ".") -> Outcome:
        return _run(code, tmp_path / folder, plain_environment(), good=good)

    return program


@pytest.fixture
def tool(tmp_path: Path) -> Program:
    """Runs `plasmon hdf5` with arguments."""

    def program(*arguments: str, good: bool = True) -> Outcome:
        command: list[str | Path] = [sys.executable, "-m", "plasmon.hdf5", *arguments]
        return run_command(command, tmp_path, plain_environment(), good=good)

    return program


@pytest.fixture(scope="session")
def library() -> Path:
    """HDF5 1.14.5 as scripts/hdf5_library.sh builds it: folders `serial` and `parallel`."""
    known = os.environ.get("PLASMON_HDF5_LIBRARY")
    if known is None:
        pytest.skip("HDF5 1.14.5 is not built (make test-hdf5 does it)")
    return Path(known)


def run_command(
    command: list[str | Path], folder: Path, environment: dict[str, str], *, good: bool = True
) -> Outcome:
    """Runs a program to its end."""
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    if good and done.returncode != 0:
        pytest.fail(f"{command} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return Outcome(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch) -> Iterator[Daemon]:
    """A store of the test's own, which is the user's own for what the test runs."""
    daemon = plasmon.start("64m")
    monkeypatch.setenv("PLASMON_SOCKET", daemon.socket)
    yield daemon
    daemon.stop()


@pytest.fixture
def store(daemon: Daemon) -> Iterator[Store]:
    """A connection to it."""
    store = daemon.connect(reconnect_timeout=2)
    yield store
    store.disconnect()


def data(tmp_path: Path, skeleton: str = "x.h5") -> set[str]:
    """The files of data of a skeleton, whose folder has no other data."""
    folder = tmp_path / f"{skeleton}.arrow"
    (home,) = (path for path in folder.iterdir() if not path.is_symlink())
    assert (folder / "latest").readlink() == Path(home.name)
    found = {str(file.relative_to(home)) for file in home.rglob("*") if file.is_file()}
    return found - {"manifest"}
