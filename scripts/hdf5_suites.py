"""HDF5's and h5py's own tests, run with HDF5 alone and through the connector, compared."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

TESTS_TIMEOUT_S = 900

#: The parts of HDF5's tests of its interface (`h5_api_test`).
INTERFACES = ("file", "group", "dataset", "datatype", "attribute", "link", "object", "misc")
#: h5py's tests that pass with HDF5 alone only; hdf5/DIFFERENCES.md has the reasons.
H5PY_DIFFERENCES = frozenset(
    f"tests/{test}"
    for test in (
        "test_file.py::test_reproducible_file",
        "test_file_alignment.py::TestFileAlignment::test_alignment_set_above_threshold",
        "test_file_alignment.py::TestFileAlignment::test_alignment_set_below_threshold",
        "test_file_alignment.py::TestFileAlignment::test_no_alignment_set",
        "test_group.py::TestCopy::test_copy_refs",
        "test_vds/test_highlevel_vds.py::VDSUnlimitedTestCase::test_unlimited_axis",
    )
)
#: Tests of h5py that set the folder of plugins themselves, where no connector is: not compared.
HIDES_CONNECTORS = "tests/test_h5pl.py"
#: A plugin of pytest that looks at the datasets that h5py's tests make.
CONFIRM = Path(__file__).resolve().parent.parent / "hdf5" / "tests" / "programs" / "confirm.py"
#: The processes of HDF5's tests for several.
RANKS = 2


@dataclass(frozen=True)
class Outcome:
    """The result of one run of a suite."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    #: The names of the tests that passed, where the suite prints them.
    names: frozenset[str] = frozenset()
    #: Why the run does not count: it crashed or ran too long.
    broken: str = ""

    def __str__(self) -> str:
        return self.broken or f"{self.passed:6} {self.failed:6} {self.skipped:7}"


@dataclass(frozen=True)
class Pair:
    """A suite with HDF5 alone and through the connector."""

    name: str
    native: Outcome
    ours: Outcome
    #: The names of the tests that pass with HDF5 alone only, where the suite prints names.
    lost: tuple[str, ...] = field(default=())
    #: Those of them that are known, and written down.
    differences: frozenset[str] = frozenset()
    #: What was seen of the datasets that the tests made.
    confirmed: tuple[str, ...] = field(default=())

    @property
    def unknown(self) -> tuple[str, ...]:
        """The tests that pass with HDF5 alone only, and that are no known difference."""
        return tuple(name for name in self.lost if name not in self.differences)

    @property
    def good(self) -> bool:
        """Whether the connector keeps what HDF5 alone can do."""
        whole = not self.native.broken and not self.ours.broken and self.native.passed > 0
        whole &= not any(line.startswith("NOT ") for line in self.confirmed)
        if self.native.names:
            return whole and not self.unknown
        kept = self.ours.passed >= self.native.passed
        return whole and kept and self.ours.failed <= self.native.failed


def api_outcome(output: str, code: int) -> Outcome:
    """What `h5_api_test` counted."""
    found = {
        what: int(number)
        for number, what in re.findall(
            r"(\d+)/\d+ \([\d.]+%\) API tests (passed|did not pass|were skipped)", output
        )
    }
    if len(found) != len(("passed", "did not pass", "were skipped")):
        return Outcome(broken=f"ended with {code}")
    return Outcome(found["passed"], found["did not pass"], found["were skipped"])


def pytest_outcome(output: str, code: int) -> Outcome:
    """The result of pytest with `-rA`."""
    if code not in (0, 1):
        return Outcome(broken=f"ended with {code}")
    names = frozenset(re.findall(r"^PASSED (\S+)", output, re.MULTILINE))
    failed = len(re.findall(r"^(?:FAILED|ERROR) ", output, re.MULTILINE))
    skipped = sum(map(int, re.findall(r"^SKIPPED \[(\d+)\]", output, re.MULTILINE)))
    return Outcome(len(names), failed, skipped, names)


def run(command: Sequence[str | Path], environment: Mapping[str, str]) -> tuple[str, int]:
    """Runs a suite in its own folder; its words and its exit code."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            done = subprocess.run(
                command,
                cwd=folder,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                check=False,
                timeout=TESTS_TIMEOUT_S,
            )
        except subprocess.TimeoutExpired:
            return "", -1
    return done.stdout.decode(errors="replace"), done.returncode


def through(connector: Path) -> dict[str, str]:
    """The settings of a program that uses the connector."""
    return {"HDF5_PLUGIN_PATH": str(connector), "HDF5_VOL_CONNECTOR": "plasmon"}


def api(library: Path, connector: Path, environment: Mapping[str, str]) -> list[Pair]:
    """HDF5's tests of its interface, one pair for each part, and those for several processes."""
    serial, parallel = (library / kind / "bin" for kind in ("serial", "parallel"))
    commands: dict[str, list[str | Path]] = {
        f"api {name}": [serial / "h5_api_test", name] for name in INTERFACES
    }
    program = parallel / "h5_api_test_parallel"
    if program.exists():
        commands[f"api, {RANKS} processes"] = ["mpiexec.mpich", "-n", str(RANKS), program]
    pairs = []
    for name, command in commands.items():
        native, ours = (
            api_outcome(*run(command, {**environment, **more})) for more in ({}, through(connector))
        )
        pairs.append(Pair(name, native, ours))
    return pairs


def h5py(
    python: Path, connector: Path, environment: Mapping[str, str], names: Sequence[str]
) -> Pair:
    """h5py's tests."""
    command = [python, "-m", "pytest", "-p", "no:cacheprovider", "-W", "ignore"]
    command += ["-rA", "--tb=no", "-q", "--color=no", "--pyargs", *(names or ["h5py"])]
    # The pytest that some tests start must not take the settings of this repository.
    settled = {**environment, "PYTEST_ADDOPTS": f"-c {os.devnull}"}
    native = comparable(pytest_outcome(*run(command, settled)))
    imports = {"PYTHONPATH": f"{environment['PYTHONPATH']}:{CONFIRM.parent}"}
    output, code = run([*command, "-p", CONFIRM.stem], {**settled, **through(connector), **imports})
    ours = comparable(pytest_outcome(output, code))
    lost = tuple(sorted(native.names - ours.names))
    found = confirmed(output)
    return Pair("h5py", native, ours, lost, H5PY_DIFFERENCES, found)


def comparable(outcome: Outcome) -> Outcome:
    """The same without the passes that a connector cannot have."""
    names = frozenset(name for name in outcome.names if HIDES_CONNECTORS not in name)
    return replace(outcome, passed=len(names), names=names)


def confirmed(output: str) -> tuple[str, ...]:
    """What the plugin for h5py's tests saw: its last line, or those of what is not as it should."""
    missed = re.findall(r"^NOT ARROW .*$", output, re.MULTILINE)
    return tuple(missed or re.findall(r"^ARROW \d+ of \d+ .*$", output, re.MULTILINE))


def table(pairs: Iterable[Pair]) -> str:
    """Both sides of every suite, side by side."""
    head = f"{'passed':>6} {'failed':>6} {'skipped':>7}"
    lines = [f"{'':18} {'HDF5 alone':^21}   {'through the connector':^21}"]
    lines.append(f"{'':18} {head}   {head}")
    for pair in pairs:
        verdict = "" if pair.good else "   NOT GOOD"
        lines.append(f"{pair.name:18} {pair.native}   {pair.ours}{verdict}")
        for name in pair.lost:
            known = "known" if name in pair.differences else "UNKNOWN"
            lines.append(f"    only with HDF5 alone, {known}: {name}")
        lines += [f"    {line}" for line in pair.confirmed]
    return "\n".join(lines)


def plain_environment() -> dict[str, str]:
    """The environment of this process without settings of HDF5."""
    return {key: text for key, text in os.environ.items() if not key.startswith("HDF5_")}
