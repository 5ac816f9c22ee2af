"""The Sparks that tests run with."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import closing
from typing import Any

import pytest
from submitting import FEW, JAR, OTHERS, SPARKS, Spark, submitter


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything here needs the jar and the Sparks, which scripts/spark.sh makes."""
    if not JAR.exists():
        sys.exit(f"{JAR} is missing: run scripts/spark.sh test")


@pytest.fixture(params=OTHERS or SPARKS)
def spark(request: pytest.FixtureRequest) -> Generator[Spark]:
    """Each line of Spark, with Plasmon's manager."""
    yield from submitter(request.param)


@pytest.fixture
def spark35() -> Generator[Spark]:
    """The oldest line, with Plasmon's manager."""
    yield from submitter("3.5")


@pytest.fixture
def spark4() -> Generator[Spark]:
    """The newest line, with Plasmon's manager."""
    yield from submitter("4")


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
