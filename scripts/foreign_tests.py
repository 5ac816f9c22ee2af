#!/usr/bin/env python3
"""Runs other projects' own tests of pickling and of parallel work over ours.

    foreign_tests.py              all of them
    foreign_tests.py pandas       those of one project
    foreign_tests.py --quick      a part that takes seconds

The tests are those that the projects' wheels in .venv, or their sources on PyPI, bring along; they
stay out of this repository. Each suite is a plugin in scripts/foreign, which puts ours in the place
of theirs and names the tests that differ, with the reason.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import plasmon

ROOT = Path(__file__).resolve().parent.parent
PLUGINS = ROOT / "scripts" / "foreign"
WORK = ROOT / "target" / "foreign-tests"
TIMEOUT_S = 1200

#: Later releases leave their tests out.
CLOUDPICKLE_TESTS = "2.2.1"
#: Marks that the projects' own configuration declares.
CONFIGURATION = "[pytest]\nmarkers =\n    timeout: a bound\n    no_cover: of coverage\n"


@dataclass(frozen=True)
class Suite:
    """Tests of one project."""

    #: The plugin in scripts/foreign.
    plugin: str
    #: Files of tests; it is given a folder for what it makes, and whether to be quick.
    files: Callable[[Path, bool], list[Path]]
    #: Which tests of the files.
    select: str


def _package(name: str) -> Path:
    found = importlib.util.find_spec(name)
    if found is None or found.origin is None:
        sys.exit(f"{name} is not installed")
    return Path(found.origin).parent


def _pandas(_folder: Path, quick: bool) -> list[Path]:
    """Every file that mentions pickle; those of plots and of HDF5 need other libraries."""
    tests = _package("pandas") / "tests"
    if quick:
        return [tests / "io" / "test_pickle.py", tests / "arrays", tests / "tseries" / "offsets"]
    other = {"plotting", "pytables"}
    files = sorted(tests.rglob("test_*.py"))
    return [
        file
        for file in files
        if not other.intersection(file.parts) and "pickle" in file.read_text()
    ]


def _joblib(folder: Path, _quick: bool) -> list[Path]:
    """The tests of Parallel, with our backend as one more of those that start processes."""
    theirs = (_package("joblib") / "test" / "test_parallel.py").read_text()
    ours = theirs.replace('["multiprocessing", "loky"]', '["multiprocessing", "loky", "plasmon"]')
    if ours == theirs:
        sys.exit("joblib's tests are not those that were expected")
    (folder / "test_parallel.py").write_text(ours)
    return [folder / "test_parallel.py"]


def _cloudpickle(folder: Path, _quick: bool) -> list[Path]:
    """The tests of the last release whose source on PyPI has them, over the current cloudpickle."""
    package = f"cloudpickle=={CLOUDPICKLE_TESTS}"
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder]
    subprocess.run([*command, "--no-binary", "cloudpickle", package], check=True)
    (archive,) = folder.glob("cloudpickle-*.tar.gz")
    with tarfile.open(archive) as source:
        source.extractall(folder, filter="data")
    unpacked = folder / archive.name.removesuffix(".tar.gz")
    # Processes that the tests start look beside the folder of the tests.
    shutil.move(unpacked / "tests", folder / "tests")
    helpers = folder / "tests" / "cloudpickle_testpkg" / "_cloudpickle_testpkg"
    shutil.move(helpers, folder / helpers.name)
    return [folder / "tests" / "cloudpickle_test.py"]


SUITES = {
    "cloudpickle": Suite("cloudpickle_suite", _cloudpickle, "not Protocol2"),
    "pandas": Suite("pandas_suite", _pandas, "pickle or round_trip"),
    "joblib": Suite("joblib_suite", _joblib, "plasmon"),
}
QUICK = ("pandas",)


def _run(name: str, *, quick: bool) -> int:
    suite, folder = SUITES[name], WORK / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "pytest.ini").write_text(CONFIGURATION)
    # Every process that the tests start imports this.
    (folder / "sitecustomize.py").write_text((PLUGINS / f"{suite.plugin}_site.py").read_text())
    files = suite.files(folder, quick)
    with plasmon.start(capacity="512m") as store:
        environment = {
            "PYTHONPATH": f"{folder}:{PLUGINS}",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            # A store of their own, which ends with them.
            "PLASMON_SOCKET": str(store.socket),
        }
        command = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", suite.plugin, "-W", "ignore"]
        command += [
            "-p",
            "no:cacheprovider",
            "--color=no",
            "--tb=short",
            "-c",
            folder / "pytest.ini",
        ]
        command += ["--rootdir", folder, "-k", suite.select, *map(str, files)]
        done = subprocess.run(
            command, cwd=folder, env={**os.environ, **environment}, check=False, timeout=TIMEOUT_S
        )
    return done.returncode


def main() -> int:
    """Runs the suites that the arguments name."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(SUITES))
    parser.add_argument("--quick", action="store_true", help="a part that takes seconds")
    arguments = parser.parse_args()
    names = arguments.names or [*(QUICK if arguments.quick else SUITES)]
    if not set(names) <= SUITES.keys():
        parser.error(f"suites are {', '.join(SUITES)}")
    return max(_run(name, quick=arguments.quick) for name in names)


if __name__ == "__main__":
    sys.exit(main())
