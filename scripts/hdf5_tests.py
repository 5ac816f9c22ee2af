#!/usr/bin/env python3
"""Runs the tests of the HDF5 connector with the stock wheels, in an environment of their own.

    hdf5_tests.py                 all of hdf5/tests
    hdf5_tests.py h5py [NAME...]  h5py's own tests, with HDF5 alone and through the connector

Other arguments go to pytest.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REQUIREMENTS = ROOT / "hdf5" / "requirements-test.txt"
ENVIRONMENT = ROOT / ".venvs" / "hdf5"
CURRENT = ROOT / ".venv" / "bin" / "python"
WORK = ROOT / "target" / "hdf5"

INSTALL_TIMEOUT_S = 900
TESTS_TIMEOUT_S = 900


def _run(command: list[str | Path], what: str) -> None:
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=INSTALL_TIMEOUT_S
    )
    if done.returncode != 0:
        sys.exit(f"{what} failed: {(done.stderr or done.stdout).strip()}")


def _python() -> Path:
    """The interpreter of the environment with the wheels, which is made when it is needed."""
    python, stamp = ENVIRONMENT / "bin" / "python", ENVIRONMENT / "made-from"
    wanted = REQUIREMENTS.read_text()
    if not stamp.exists() or stamp.read_text() != wanted:
        shutil.rmtree(ENVIRONMENT, ignore_errors=True)
        _run([CURRENT, "-m", "venv", ENVIRONMENT], "the environment with the wheels")
        install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        _run([python, *install, "-r", REQUIREMENTS], "installing the wheels")
        stamp.write_text(wanted)
    return python


def _connector() -> Path:
    """A folder with the connector as the tree has it."""
    _run(["cargo", "build", "-q", "--locked", "-p", "plasmon-hdf5"], "building the connector")
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    folder = WORK / "connector"
    folder.mkdir(parents=True, exist_ok=True)
    # Replaced, not written over: a process may have the old one loaded.
    fresh = folder / ".fresh"
    shutil.copy2(target / "debug" / "libplasmon_hdf5.so", fresh)
    fresh.rename(folder / "libplasmon_hdf5.so")
    return folder


def _imports() -> Path:
    """A folder that holds the package of the current environment and nothing else of it."""
    where = "import pathlib, plasmon; print(pathlib.Path(plasmon.__file__).parent)"
    # From elsewhere, so that no folder of the working tree is taken for an installed package.
    found = subprocess.run(
        [CURRENT, "-c", where], cwd="/", capture_output=True, text=True, check=False
    )
    if found.returncode != 0:
        sys.exit("the package is not installed in .venv: run scripts/setup.sh")
    folder = WORK / "imports"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "plasmon").symlink_to(found.stdout.strip())
    return folder


def _environment(connector: Path) -> dict[str, str]:
    environment = {key: text for key, text in os.environ.items() if not key.startswith("HDF5_")}
    environment["PLASMON_HDF5_PLUGIN"] = str(connector)
    environment["PYTHONPATH"] = str(_imports())
    environment.setdefault("PLASMON_DAEMON", str(CURRENT.with_name("plasmond")))
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    return environment


def own_tests(arguments: list[str]) -> int:
    """Runs our tests."""
    python, connector = _python(), _connector()
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--color=no", "-rs"]
    command += ["--rootdir", ROOT / "hdf5" / "tests", "-c", os.devnull, "-W", "ignore"]
    command += arguments or [ROOT / "hdf5" / "tests"]
    environment = _environment(connector)
    done = subprocess.run(command, cwd=WORK, env=environment, check=False, timeout=TESTS_TIMEOUT_S)
    return done.returncode


def h5py_tests(names: list[str]) -> int:
    """Runs h5py's tests with and without the connector and compares what passed."""
    python, connector = _python(), _connector()
    environment = _environment(connector)
    outcomes = {}
    sides = {
        "native": {},
        "connector": {
            "HDF5_PLUGIN_PATH": str(connector),
            "HDF5_VOL_CONNECTOR": "plasmon",
            "HDF5_EXTFILE_PREFIX": "${ORIGIN}",
        },
    }
    for side, more in sides.items():
        command = [python, "-m", "pytest", "-p", "no:cacheprovider", "-W", "ignore"]
        command += ["-rA", "--tb=no", "-q", "--color=no", "--pyargs", *(names or ["h5py"])]
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                command,
                cwd=folder,
                env=environment | more,
                capture_output=True,
                text=True,
                check=False,
                timeout=TESTS_TIMEOUT_S,
            )
        outcomes[side] = set(re.findall(r"^PASSED (\S+)", done.stdout, re.MULTILINE))
        if done.returncode not in (0, 1):
            print(f"{side}: the tests ended with {done.returncode}\n{done.stdout[-2000:]}")
            return 1
    native, ours = outcomes["native"], outcomes["connector"]
    kept = native & ours
    print(f"h5py: native {len(native)} passed, connector {len(ours)} passed")
    for name in sorted(native - ours):
        print(f"  only native: {name}")
    share = len(kept) / max(len(native), 1)
    print(f"h5py: {100 * share:.2f} % of what passes with HDF5 alone passes through the connector")
    return 0


def main() -> int:
    """Runs what the arguments name."""
    arguments = sys.argv[1:]
    if arguments[:1] == ["h5py"]:
        return h5py_tests(arguments[1:])
    return own_tests(arguments)


if __name__ == "__main__":
    sys.exit(main())
