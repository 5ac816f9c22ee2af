from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import plasmon

from .conftest import DEADLINE_S, MIB

GUIDES = Path(__file__).parents[2] / "docs" / "guides"
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


def test_every_example_of_the_columns_guide_runs(own, built_pool, tmp_path):
    guide = (GUIDES / "columns.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", guide, re.DOTALL)
    assert len(blocks) >= 5
    store = own(512 * MIB)
    found = subprocess.run(
        [sys.executable, "-W", "error", "-c", "\n".join(blocks)],
        cwd=tmp_path,
        env={
            **os.environ,
            "PLASMON_SOCKET": str(store.socket),
            "PYTHONPATH": str(Path(plasmon.__file__).parent.parent),
        },
        capture_output=True,
        text=True,
        timeout=2 * DEADLINE_S,
        check=False,
    )
    assert (found.returncode, found.stderr) == (0, "")
    names = {"trips", "sales", "dearer", "sales twice"}
    assert {info.name for info in store.list()} >= names, "it ran in this store"
