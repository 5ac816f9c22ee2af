"""The Sparks that tests run with."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Generator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from submitting import FEW, JAR, SPARKS, Spark


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything here needs the jar and the Sparks, which scripts/spark.sh makes."""
    if not JAR.exists():
        sys.exit(f"{JAR} is missing: run scripts/spark.sh test")


def submitter(version: str, plasmon: bool = True) -> Generator[Spark]:
    """One line of Spark with a temporary directory of its own, whose path is short: sockets are."""
    with tempfile.TemporaryDirectory(prefix="spark-", ignore_cleanup_errors=True) as scratch:
        made = Spark(version, Path(scratch), plasmon)
        yield made
        made.stop()


@pytest.fixture(params=SPARKS)
def spark(request: pytest.FixtureRequest) -> Generator[Spark]:
    """Each line of Spark, with Plasmon's manager."""
    yield from submitter(request.param)


@pytest.fixture
def spark35() -> Generator[Spark]:
    """The oldest line, with Plasmon's manager."""
    yield from submitter("3.5")


def vanilla(*jobs: str) -> dict[str, Any]:
    """What Spark's own manager gives for some jobs, or all."""
    with closing(submitter("3.5", plasmon=False)) as sparks:
        return next(sparks).run("local[2]", "jobs.py", *jobs).results()


@pytest.fixture(scope="session")
def expected() -> dict[str, Any]:
    """What Spark's own manager gives for all jobs."""
    return vanilla()


@pytest.fixture(scope="session")
def expected_few() -> dict[str, Any]:
    """What Spark's own manager gives for the jobs of `make test`."""
    return vanilla(*FEW)
