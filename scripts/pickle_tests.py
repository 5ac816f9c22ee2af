#!/usr/bin/env python3
"""Runs CPython's own tests of pickle, of the interpreter of .venv, over plasmon's objects.

What differs, and why, is in docs/pickle-suites.md, which this reads: a test that fails without
being named there is a failure, and so is one that is named there and passes.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHON = ROOT / ".venv" / "bin" / "python"
DIFFERENCES = ROOT / "docs" / "pickle-suites.md"
TIMEOUT_S = 300

#: Runs in the interpreter of .venv and prints each test that fails, and how many there were.
PICKLE = """
import io, sys, unittest
try:
    from test import pickletester
except ImportError:
    sys.exit(77)
from plasmon import SerializationContext

_context = SerializationContext("std")

class Ours(pickletester.AbstractPickleTests, unittest.TestCase):
    def dumps(self, value, protocol=None, **options):
        return _context.dumps(value)

    def loads(self, data, **options):
        return _context.loads(data)

tests = unittest.defaultTestLoader.loadTestsFromTestCase(Ours)
result = unittest.TextTestRunner(stream=io.StringIO()).run(tests)
for test, error in result.failures + result.errors:
    test = getattr(test, "test_case", test)
    print("failed", test.id().rpartition(".")[2], error.strip().splitlines()[-1][:160])
print("ran", result.testsRun)
"""

SUITES = {"pickle": PICKLE}


def _differences(suite: str) -> set[str]:
    rows = re.findall(r"^\| (\w+) \| (\w+) \|", DIFFERENCES.read_text("utf-8"), re.MULTILINE)
    return {test for of, test in rows if of == suite}


def _test(suite: str) -> tuple[int, int]:
    """How many tests passed and failed; what failed is printed."""
    done = subprocess.run(
        [PYTHON, "-W", "ignore", "-c", SUITES[suite]],
        # From elsewhere, so that no folder of the working tree is taken for an installed package.
        cwd="/",
        env={**os.environ, "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    if done.returncode == 77:
        print(f"0 passed, 0 failed, 1 skipped\nthis Python has no tests of {suite}")
        return 0, 0
    ran = re.search(r"^ran (\d+)$", done.stdout, re.MULTILINE)
    if ran is None:
        sys.exit(f"the tests of {suite} ended early: {(done.stderr or done.stdout)[-2000:]}")
    failed = dict(re.findall(r"^failed (\w+) (.*)$", done.stdout, re.MULTILINE))
    known = _differences(suite)
    for name in sorted(failed.keys() - known):
        print(f"FAILED {suite}::{name} {failed[name]}")
    for name in sorted(known - failed.keys()):
        print(f"FAILED {suite}::{name} is a difference in {DIFFERENCES.name}, and passes")
    wrong = len(failed.keys() ^ known)
    return int(ran[1]) - len(failed), wrong


def main() -> int:
    """Runs the suites."""
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    counts = [_test(name) for name in SUITES]
    print(
        f"{sum(passed for passed, _ in counts)} passed, {sum(wrong for _, wrong in counts)} failed"
    )
    return 1 if any(wrong for _, wrong in counts) else 0


if __name__ == "__main__":
    sys.exit(main())
