from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import DEADLINE_S

EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "python").glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_run(path):
    found = subprocess.run(
        [sys.executable, "-W", "error", path],
        capture_output=True,
        text=True,
        timeout=2 * DEADLINE_S,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    assert found.stdout
    assert found.stderr == ""


def test_there_are_examples():
    assert any(path.stem == "quickstart" for path in EXAMPLES)
