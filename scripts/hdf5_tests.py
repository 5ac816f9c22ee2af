#!/usr/bin/env python3
"""Runs the tests of the HDF5 connector with the stock wheels, in a separate environment.

    hdf5_tests.py                 all of hdf5/tests
    hdf5_tests.py api             HDF5's own tests of its interface, on both sides
    hdf5_tests.py h5py [NAME...]  h5py's own tests, with HDF5 alone and through the connector
    hdf5_tests.py all             all of this

Other arguments go to pytest. What needs HDF5's library or tools themselves takes them from
scripts/hdf5_library.sh, and is skipped when that was not run.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
from pathlib import Path

import environments
import hdf5_suites as suites
from environments import CURRENT, ROOT

REQUIREMENTS = ROOT / "hdf5" / "requirements-test.txt"
ENVIRONMENT = ROOT / ".venvs" / "hdf5"
WORK = ROOT / "target" / "hdf5"
#: What scripts/hdf5_library.sh builds.
LIBRARY = ROOT / ".hdf5" / "1.14.5"

#: How many tests run at once.
PROCESSES = "2"

TESTS_TIMEOUT_S = 900
#: With the many random sequences that `all` runs, unless the environment sets another number.
ALL_TESTS_TIMEOUT_S = 7200
MANY_SEQUENCES = {"PLASMON_HDF5_SEQUENCES": "2000", "PLASMON_HDF5_FAULTY_SEQUENCES": "300"}


def _python() -> Path:
    """The interpreter of the environment with the wheels, which is made when it is needed."""
    wanted = REQUIREMENTS.read_text()
    return environments.made(ENVIRONMENT, wanted, ["-r", REQUIREMENTS], "the wheels")


def _connector() -> Path:
    """A folder with the connector as the tree has it."""
    build = ["cargo", "build", "-q", "--locked", "-p", "plasmon-hdf5"]
    environments.run(build, "building the connector")
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
    folder = WORK / "imports"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "plasmon").symlink_to(environments.package())
    return folder


def _environment(connector: Path) -> dict[str, str]:
    environment = suites.plain_environment()
    if (LIBRARY / "serial").exists():
        environment["PLASMON_HDF5_LIBRARY"] = str(LIBRARY)
    environment["PLASMON_HDF5_PLUGIN"] = str(connector)
    environment["PYTHONPATH"] = str(_imports())
    environment.setdefault("PLASMON_DAEMON", str(CURRENT.with_name("plasmond")))
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    return environment


def own_tests(arguments: list[str], *, many: bool = False) -> int:
    """Runs our tests."""
    python, connector = _python(), _connector()
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--color=no", "-rs"]
    command += ["--rootdir", ROOT / "hdf5" / "tests", "-c", os.devnull, "-W", "ignore"]
    # Most of the tests wait for programs that they start: two at a time take half as long. Of many
    # sequences the progress is shown, which does not go together.
    at_once = [] if many else ["-p", "xdist.plugin", "-n", PROCESSES]
    command += arguments or [*at_once, ROOT / "hdf5" / "tests"]
    drawn = {"PLASMON_HDF5_SEED": str(secrets.randbelow(1_000_000)), **MANY_SEQUENCES}
    environment = {**(drawn if many else {}), **_environment(connector)}
    timeout = ALL_TESTS_TIMEOUT_S if many else TESTS_TIMEOUT_S
    done = subprocess.run(command, cwd=WORK, env=environment, check=False, timeout=timeout)
    return done.returncode


def others_tests(names: list[str]) -> list[suites.Pair]:
    """HDF5's own tests of its interface, and h5py's, on both sides."""
    python, connector = _python(), _connector()
    environment = _environment(connector)
    pairs = []
    if "api" in names:
        if not (LIBRARY / "serial").exists():
            sys.exit("HDF5 1.14.5 is not built: run scripts/hdf5_library.sh serial")
        pairs += suites.api(LIBRARY, connector, environment)
    if "h5py" in names:
        pairs.append(suites.h5py(python, connector, environment, []))
    return pairs


def compare(pairs: list[suites.Pair]) -> int:
    """Prints the results of both sides; returns the exit code."""
    print(suites.table(pairs))
    return 0 if all(pair.good for pair in pairs) else 1


def main() -> int:
    """Runs what the arguments name."""
    arguments = sys.argv[1:]
    match arguments:
        case ["all"]:
            own = own_tests([], many=True)
            return max(own, compare(others_tests(["api", "h5py"])))
        case ["api"]:
            return compare(others_tests(["api"]))
        case ["h5py"]:
            return compare(others_tests(["h5py"]))
        case ["h5py", *names]:
            connector = _connector()
            pair = suites.h5py(_python(), connector, _environment(connector), names)
            return compare([pair])
    return own_tests(arguments)


if __name__ == "__main__":
    sys.exit(main())
