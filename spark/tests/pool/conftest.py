"""Where these tests can run, and the table after them."""

from __future__ import annotations

import shutil
import signal

import pytest
from machines import DAEMON
from submitting import SPARKS, Spark
from table import ROWS, lines

from bench.machines import machines
from bench.worker import UnsupportedError


def obstacle() -> str | None:
    """Why the machines cannot be made here, if they cannot."""
    if shutil.which("etcd") is None:
        return "etcd is not installed: as root, apt-get install etcd-server"
    if shutil.which("tc") is None:
        return "tc is not installed: as root, apt-get install iproute2"
    for program in (DAEMON, DAEMON.with_name("plasmon-poold")):
        if not program.exists():
            return f"{program} is not built: scripts/spark.sh pool builds it"
    for line in SPARKS:
        if not Spark(line, DAEMON).python.exists():
            return f"there is no environment with Spark {line}: scripts/spark.sh environments"
    try:
        with machines(1):
            return None
    except UnsupportedError as error:
        return str(error)


@pytest.fixture(scope="session", autouse=True)
def _possible() -> None:
    # A test that is ended leaves no machines, nor what runs on them.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if (reason := obstacle()) is not None:
        pytest.skip(reason)


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Prints what was tested."""
    if ROWS:
        terminalreporter.section("Spark on a pool of three machines")
        terminalreporter.write("\n".join([*lines(), ""]))


@pytest.fixture(params=SPARKS)
def line(request: pytest.FixtureRequest) -> str:
    """Each line of Spark."""
    return request.param
