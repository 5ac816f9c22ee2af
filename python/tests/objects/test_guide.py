"""The guide's examples run as they stand.

They are parts of one program, in order; one with ``if __name__`` is a program of its own, because
processes import it. The one for PyTorch runs in its own tests, with PyTorch or its stand-in.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ..conftest import DEADLINE_S

PAGE = Path(__file__).parents[3] / "docs" / "guides" / "python-objects.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
PROGRAMS = [text for text in EXAMPLES if "__name__" in text]
WITH_TORCH = [text for text in EXAMPLES if "import torch" in text]
PARTS = [text for text in EXAMPLES if text not in PROGRAMS and text not in WITH_TORCH]


def run(text, tmp_path):
    """Runs a program with a store of its own."""
    path = tmp_path / "example.py"
    path.write_text(text, "utf-8")
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}
    found = subprocess.run(
        [sys.executable, path],
        capture_output=True,
        text=True,
        timeout=2 * DEADLINE_S,
        check=False,
        env=environment,
    )
    assert found.returncode == 0, found.stderr


def test_the_examples_are_found():
    assert (len(PROGRAMS), len(WITH_TORCH)) == (2, 1)
    assert len(PARTS) > 5


def test_the_parts_are_one_program(tmp_path):
    run("\n".join(PARTS), tmp_path)


@pytest.mark.parametrize("at", range(len(PROGRAMS)))
def test_programs(at, tmp_path):
    pytest.importorskip("joblib" if "joblib" in PROGRAMS[at] else "multiprocessing")
    run(PROGRAMS[at], tmp_path)
