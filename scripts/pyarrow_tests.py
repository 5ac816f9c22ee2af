#!/usr/bin/env python3
"""Runs pyarrow 11's own tests of its serialization over plasmon.compat.pyarrow_serialization.

    pyarrow_tests.py            in both environments
    pyarrow_tests.py old        with pyarrow 11 and NumPy 1.26, in a separate environment
    pyarrow_tests.py current    with the pyarrow and NumPy of .venv

The tests are pyarrow's and stay out of this repository: pyarrow 11 is installed from its wheel, the
tests in it are copied below target/, changed where newer libraries want it, and run with the names
that pyarrow lost pointing to ours, in every process that they start.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import environments
from environments import CURRENT, ROOT

WORK = ROOT / "target" / "pyarrow-tests"
OLD = ROOT / ".venvs" / "pyarrow-11"

#: The last release with these tests, and what they need not to be skipped.
REQUIREMENTS = (
    "pyarrow==11.0.0",
    "numpy==1.26.4",
    "scipy==1.17.1",
    "cloudpickle==3.1.2",
    "pytest==9.2.0",
)
#: pyarrow 11 has no wheels for later ones.
OLD_PYTHON_MAX = (3, 11)

TIMEOUT_S = 600
FILES = ("test_serialization.py", "test_serialization_deprecated.py", "deserialize_buffer.py")

#: Changes that newer libraries need: a pattern, its replacement, and how often it occurs.
EDITS = {
    "test_serialization.py": (
        # NumPy 2 has no alltrue.
        (r"np\.alltrue\(", "np.all(", 1),
        # A current pyarrow has no deserialize_buffer.py beside its own tests.
        (
            r"test_util\.invoke_script\('deserialize_buffer\.py', f\.name\)",
            "subprocess.check_call([sys.executable, os.path.join(os.path.dirname(__file__), "
            "'deserialize_buffer.py'), f.name])",
            1,
        ),
    ),
}

#: Python runs this when it starts: pyarrow's names are ours then, also in the tests' children.
SITE = """
import pyarrow
from plasmon.compat import pyarrow_serialization as ours

for name in ours.__all__:
    setattr(pyarrow, name, getattr(ours, name))
    setattr(pyarrow.lib, name, getattr(ours, name))
"""


class UnavailableError(Exception):
    """The tests cannot run here; the text has the reason."""


@dataclass(frozen=True)
class Environment:
    """Libraries to run the tests with."""

    name: str
    python: Path


def _old_python() -> Path:
    """The interpreter of the environment with pyarrow 11, which is made when it is needed."""
    version = subprocess.run(
        [CURRENT, "-c", "import sys; print(*sys.version_info[:2])"],
        capture_output=True,
        text=True,
        check=True,
    )
    if tuple(map(int, version.stdout.split())) > OLD_PYTHON_MAX:
        raise UnavailableError("there is no pyarrow 11 for this Python")
    wanted = "\n".join(REQUIREMENTS)
    return environments.made(OLD, wanted, REQUIREMENTS, "pyarrow 11")


def _edited(name: str, text: str) -> str:
    for pattern, replacement, count in EDITS.get(name, ()):
        text, found = re.subn(pattern, replacement, text)
        if found != count:
            sys.exit(f"{name} is not the file that was expected: {found} times {pattern}")
    return text


def _prepare(environment: Environment) -> Path:
    """A folder with the tests, and one with what their processes import."""
    folder = WORK / environment.name
    shutil.rmtree(folder, ignore_errors=True)
    imports = folder / "imports"
    imports.mkdir(parents=True)
    (imports / "plasmon").symlink_to(environments.package())
    (imports / "sitecustomize.py").write_text(SITE)
    (source,) = OLD.glob("lib/python*/site-packages/pyarrow/tests")
    for name in FILES:
        (folder / name).write_text(_edited(name, (source / name).read_text()))
    return folder


def _test(environment: Environment) -> int:
    print(f"with {environment.name} libraries", flush=True)
    folder = _prepare(environment)
    paths = {"PYTHONPATH": str(folder / "imports"), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [environment.python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rs"]
    # Its own folder is the root: nothing of this repository's configuration holds for these tests.
    command += ["--rootdir", folder, "-c", os.devnull, "--color=no", "-W", "ignore", folder]
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **paths}, check=False, timeout=TIMEOUT_S
    )
    return done.returncode


def main() -> int:
    """Runs the tests in the environments that the arguments name."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="old or current")
    names = parser.parse_args().names or ["old", "current"]
    if not set(names) <= {"old", "current"}:
        parser.error("environments are old and current")
    try:
        pythons = {"old": _old_python(), "current": CURRENT}
    except UnavailableError as reason:
        print(f"0 passed, 0 failed, 1 skipped\n{reason}")
        return 0
    return max([_test(Environment(name, pythons[name])) for name in names])


if __name__ == "__main__":
    sys.exit(main())
