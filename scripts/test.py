#!/usr/bin/env python3
"""Runs the suites of tests and checks and adds up what they counted.

    test.py all              everything
    test.py check            format, lints, types, rules, licences and the quick tests
    test.py rest             what check leaves
    test.py NAME...          some suites; --list names them

A suite runs alone, unless it says that it runs beside others: of those, two run at a time, and when
one ends the next begins. Tests of several processes mostly wait.

Each suite writes to target/test-logs/NAME.log; of one that fails what the runner says of its failed
tests is shown, or else the end of the log. The last line is the sum over all suites: "N passed, N
failed".
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import re
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOGS = ROOT / "target" / "test-logs"
BIN = ROOT / ".venv" / "bin"

SUITE_TIMEOUT_S = 1200
#: How long a process that a suite has signalled may take to end.
GONE_WITHIN_S = 30
#: How many lines of a failed suite's log are shown.
SHOWN_LINES = 80

#: The process groups of the suites that run, and whether Ctrl-C has ended them.
RUNNING: set[int] = set()
STOPPED = threading.Event()

#: Crates that have a suite of their own, or whose tests an interpreter runs.
NOT_IN_WORKSPACE_SUITE = ["plasmon-python", "plasmon-capi"]
#: Whose tests are of whole nodes of a pool, all under one name.
NODES = ["plasmon-cluster-tests", "plasmon-pool-tests"]


@dataclass(frozen=True)
class Suite:
    """One thing to run."""

    name: str
    about: str
    command: list[str]
    environment: dict[str, str] = field(default_factory=dict)
    #: Whether another one of those may run at the same time.
    is_beside: bool = False


@dataclass(frozen=True)
class Counts:
    """What a suite counted."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.passed + other.passed,
            self.failed + other.failed,
            self.skipped + other.skipped,
        )

    def __str__(self) -> str:
        skipped = f", {self.skipped} skipped" if self.skipped else ""
        return f"{self.passed} passed, {self.failed} failed{skipped}"


def cargo(*arguments: str) -> list[str]:
    """A command of cargo that takes the versions in the lock file."""
    first, *rest = arguments
    return ["cargo", first, "--locked", *rest]


def python(*arguments: str) -> list[str]:
    """A command of the environment's interpreter."""
    return [str(BIN / "python"), *arguments]


def excluded(names: list[str]) -> list[str]:
    """The arguments of cargo that leave packages out."""
    return [argument for name in names for argument in ("--exclude", name)]


#: Whose tests are quick and a part of the checks.
PURE = [
    "xtask",
    *(f"plasmon-{name}" for name in ("proto", "store", "cluster", "spill", "log", "plo")),
]
#: What the other suites of the workspace do not run again.
OTHER = excluded([*NOT_IN_WORKSPACE_SUITE, *PURE])
#: What is selected decides which features packages are built with. With these it is the same in
#: every suite, so that hardly anything is built twice (see crates/features).
FEATURES_OF_PURE = ["-p", "plasmon-features", "--features", "plasmon-features/arrow"]
FEATURES_OF_OTHER = ["--features", "plasmon-testkit/directory"]
#: Its tests start many processes and mostly wait, so they are beside the others.
COMMAND = "plasmon-cli"

CHECKS = [
    Suite("tidy", "the rules of the repository", cargo("run", "-q", "-p", "xtask", "--", "tidy")),
    Suite("format", "rustfmt and ruff leave nothing to do", ["scripts/check-format.sh"]),
    Suite("lints", "clippy and ruff", ["scripts/check-lints.sh"]),
    Suite("types", "mypy, strictly", [str(BIN / "mypy")]),
    Suite(
        "licences", "what is linked in may be", cargo("run", "-q", "-p", "xtask", "--", "licences")
    ),
    Suite(
        "quick",
        "the pure crates",
        cargo(
            *("test", "-q", *FEATURES_OF_PURE),
            *(argument for name in PURE for argument in ("-p", name)),
        ),
    ),
    Suite("aarch64", "the node's crates compile for AArch64", ["scripts/aarch64.sh", "check"]),
]

REST = [
    Suite(
        "compile",
        "the tests of every other crate",
        cargo("test", "-q", "--no-run", "--workspace", *OTHER),
    ),
    Suite(
        "rust",
        "every other crate, with the stress test of several processes",
        cargo(
            *("test", "-q", "--no-fail-fast", "--workspace"),
            *(*OTHER, *excluded([*NODES, COMMAND]), *FEATURES_OF_OTHER, "--tests"),
        ),
        is_beside=True,
    ),
    Suite(
        "nodes",
        "whole nodes of a pool, killed and cut off, and the same from seeds",
        cargo("test", "-q", "--no-fail-fast", "--workspace", *OTHER, "--test", "nodes"),
        is_beside=True,
    ),
    Suite(
        "command",
        "the command",
        cargo(
            *("test", "-q", "--no-fail-fast", "--workspace", *OTHER),
            *("--bin", "plasmon", "--test", "command"),
        ),
        is_beside=True,
    ),
    Suite(
        "loom",
        "every order of the atomic protocols",
        cargo("test", "-q", "--release", "-p", "plasmon-shm", "--lib", "loom"),
        {
            "RUSTFLAGS": "--cfg loom",
            "CARGO_TARGET_DIR": "target/loom",
            "CARGO_PROFILE_RELEASE_LTO": "off",
        },
        is_beside=True,
    ),
    # These link libraries that another build, with other features, may be writing just then.
    Suite(
        "doctests",
        "the examples in the documentation of every crate",
        cargo("test", "-q", "--no-fail-fast", "--workspace", *OTHER, "--doc"),
    ),
    Suite(
        "emulated",
        "the stress test of several processes on an emulated AArch64",
        ["scripts/aarch64.sh", "stress"],
    ),
    Suite("c", "the C and C++ programs", cargo("test", "-q", "-p", "plasmon-capi")),
    Suite(
        "asan",
        "the same under AddressSanitizer, with leaks and undefined behaviour",
        ["scripts/sanitize.sh", "address"],
    ),
    # The longest first, so that the last two end at about the same time.
    Suite(
        "python",
        "the package, plasmon.plasma, the examples, the harnesses",
        python("-m", "pytest", "-q"),
        is_beside=True,
    ),
    Suite(
        "spark",
        "Spark's shuffle: the core, a few jobs and faults with 3.5 and 4.3, a pool with 4.3",
        ["scripts/spark.sh", "test", "-m", "not slow"],
        is_beside=True,
    ),
    Suite(
        "fuzz",
        "foreign bytes, for a moment",
        ["python3", "scripts/fuzz.py", "--quick", "--seconds", "8", "--seed", "1"],
        is_beside=True,
    ),
    Suite(
        "hdf5",
        "the HDF5 connector with the stock wheels",
        python("scripts/hdf5_tests.py"),
        is_beside=True,
    ),
    Suite(
        "sim",
        "daemon, keeper and clients from seeds, and the same twice",
        ["scripts/sim.sh", "--seeds", "40", "--same", "10"],
        is_beside=True,
    ),
    Suite(
        "cluster",
        "whole nodes of a pool and etcd, killed and stopped at random, for a moment",
        ["scripts/soak.sh", "cluster", "--rounds", "2", "--nodes", "3"],
        {"PROFILE": "dev"},
        is_beside=True,
    ),
    Suite(
        "foreign",
        "pandas' own tests of pickling, over ours; the others are in make test-foreign",
        python("scripts/foreign_tests.py", "--quick"),
        is_beside=True,
    ),
    Suite(
        "pyarrow",
        "pyarrow 11's own tests of its serialization, over ours",
        python("scripts/pyarrow_tests.py"),
        is_beside=True,
    ),
    Suite(
        "java", "the reader of objects for Java", ["scripts/test-reader.sh", "java"], is_beside=True
    ),
    Suite(
        "javascript",
        "the reader of objects for JavaScript",
        ["scripts/test-reader.sh", "javascript"],
        is_beside=True,
    ),
    Suite(
        "soak",
        "processes killed at random, for a moment",
        ["scripts/soak.sh", "kill", "--rounds", "60"],
        {"PROFILE": "dev"},
        is_beside=True,
    ),
    Suite(
        "log",
        "durable objects and processes killed at any moment, for a moment",
        ["scripts/soak.sh", "log", "--rounds", "20"],
        {"PROFILE": "dev"},
        is_beside=True,
    ),
    Suite(
        "pickle",
        "CPython's own tests of pickle, over ours",
        ["scripts/pickle_tests.py"],
        is_beside=True,
    ),
]

#: Run by name alone: they need what takes gigabytes to install, or minutes.
EXTRAS = [
    Suite(
        "faults",
        "every system call fails, with every error, early and late",
        cargo("run", "-q", "-p", "plasmon-faults"),
    ),
    Suite(
        "network",
        "whole nodes of a pool with every fault of the network, at length",
        cargo("test", "-q", "-p", "plasmon-cluster-tests", "--", "--include-ignored"),
    ),
    Suite("tsan", "threads, under ThreadSanitizer", ["scripts/sanitize.sh", "thread"]),
    Suite("torch", "tensors with PyTorch itself, 6 GB of it", ["scripts/test-torch.sh"]),
]


def count(output: str) -> Counts:
    """Adds up the closing lines of the runners in an output."""
    total = Counts()
    rust = r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored"
    plain = r"^(?:[\w-]+: )?(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$"
    node = r"^# pass (\d+)\n# fail (\d+)\n# cancelled \d+\n# skipped (\d+)$"
    for pattern in (rust, plain, node):
        for found in re.finditer(pattern, output, re.MULTILINE):
            total += Counts(*(int(number or 0) for number in found.groups()))
    maven = r"^\[\w+\] Tests run: (\d+), Failures: (\d+), Errors: (\d+), Skipped: (\d+)$"
    for found in re.finditer(maven, output, re.MULTILINE):
        ran, failures, errors, skipped = map(int, found.groups())
        failed = failures + errors
        total += Counts(ran - failed - skipped, failed, skipped)
    for line in re.findall(r"^=* ?(\d+ \w+.*) in [\d.]+s.*$", output, re.MULTILINE):
        words = {word: int(number) for number, word in re.findall(r"(\d+) ([a-z]+)", line)}
        failed = words.get("failed", 0) + words.get("error", 0) + words.get("errors", 0)
        total += Counts(words.get("passed", 0), failed, words.get("skipped", 0))
    return total


def what_failed(output: str) -> list[str]:
    """The lines of a failed suite's log with the failures, or its last ones."""
    cargo = r"^failures:\n\n(---- (?:.*\n)*?)test result: FAILED"
    pytest = r"^(?:(?:FAILED|ERROR) \S+::|E   |FAILED left behind).*$"
    maven = r"^\[ERROR\] .*$"
    for pattern in (cargo, pytest, maven):
        if found := re.findall(pattern, output, re.MULTILINE):
            return "\n".join(found).splitlines()[:SHOWN_LINES]
    return output.splitlines()[-SHOWN_LINES:]


def left_behind(mark: str) -> list[str]:
    """What the processes of a suite have not ended: those with its mark in their environment."""
    end = time.monotonic() + GONE_WITHIN_S
    while (left := marked(mark)) and time.monotonic() < end:
        time.sleep(0.1)
    return left


def marked(mark: str) -> list[str]:
    """The processes with this line in their environment, by number and command line."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            lines = (entry / "environ").read_bytes().split(b"\0")
            if mark.encode() in lines:
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                found.append(f"process {entry.name}: {command}"[:200])
        except OSError:
            # It has ended, or belongs to another user.
            continue
    return found


def run(suite: Suite) -> tuple[Counts, float]:
    """Runs one suite; a suite that counts nothing counts as one test."""
    started = time.monotonic()
    log = LOGS / f"{suite.name}.log"
    mark = f"PLASMON_SUITE_RUN={uuid.uuid4()}"
    environment = dict(os.environ, **suite.environment)
    # A store that a suite starts in passing does not wait ten minutes for the next program.
    environment["PLASMON_LINGER_MS"] = "2000"
    environment.update([mark.split("=")])
    environment["PATH"] = f"{BIN}:{environment.get('PATH', '')}"
    with log.open("wb") as output:
        process = subprocess.Popen(
            suite.command,
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        RUNNING.add(process.pid)
        try:
            code = process.wait(SUITE_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            output.write(f"\nstopped after {SUITE_TIMEOUT_S} s\n".encode())
            code = -1
        RUNNING.discard(process.pid)
    left = left_behind(mark)
    with log.open("ab") as output:
        output.writelines(f"\nFAILED left behind: {one}\n".encode() for one in left)
    counts = count(log.read_text(errors="replace")) + Counts(failed=len(left))
    if code != 0 and not counts.failed:
        counts += Counts(failed=1)
    if counts == Counts():
        counts = Counts(passed=1)
    return counts, time.monotonic() - started


def stop() -> None:
    """Ends the suites that run; no other begins."""
    STOPPED.set()
    for process in list(RUNNING):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process, signal.SIGKILL)


class Report:
    """Runs suites with a line before and after each, and keeps what they counted."""

    def __init__(self, suites: list[Suite]) -> None:
        self.total = Counts()
        self.failures: list[str] = []
        self._begun, self._all = 0, len(suites)
        #: Two suites do not print into each other's lines.
        self._printing = threading.Lock()

    def follow(self, suites: deque[Suite]) -> None:
        """Runs the suites, one after the other, and takes each out of the queue."""
        while not STOPPED.is_set():
            with self._printing:
                if not suites:
                    return
                suite = suites.popleft()
                self._begun += 1
                place = f"{self._begun:2}/{self._all}"
                print(f"[{place}] {suite.name:<10} {suite.about} ...", flush=True)
            counts, seconds = run(suite)
            with self._printing:
                self._close(suite, counts, seconds)

    def _close(self, suite: Suite, counts: Counts, seconds: float) -> None:
        self.total += counts
        verdict = "FAILED" if counts.failed else "ok"
        said = f"{counts} in {seconds:.1f} s".replace(",", ";")
        print(f"        {suite.name:<10} {verdict:<7} {said}", flush=True)
        if counts.failed:
            self.failures.append(suite.name)
            log = LOGS / f"{suite.name}.log"
            print("\n".join(what_failed(log.read_text(errors="replace"))), flush=True)


def run_all(suites: list[Suite]) -> int:
    """Runs suites with two lines for each; the exit code."""
    LOGS.mkdir(parents=True, exist_ok=True)
    report = Report(suites)
    for is_beside, several in itertools.groupby(suites, lambda suite: suite.is_beside):
        queue = deque(several)
        runners = 2 if is_beside else 1
        with ThreadPoolExecutor(runners) as threads:
            try:
                for runner in [threads.submit(report.follow, queue) for _ in range(runners)]:
                    runner.result()
            except KeyboardInterrupt:
                stop()
                raise
    if report.failures:
        print(f"failed: {' '.join(report.failures)} (logs: {LOGS})")
    print(report.total)
    return 1 if report.failures else 0


def main() -> int:
    """Runs what the arguments name."""
    known = {suite.name: suite for suite in CHECKS + REST + EXTRAS}
    groups = {"all": CHECKS + REST, "check": CHECKS, "rest": REST}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="all, check, rest, or suites")
    parser.add_argument("--list", action="store_true", help="name the suites")
    arguments = parser.parse_args()
    if arguments.list:
        for suite in known.values():
            print(f"{suite.name:<10} {suite.about}")
        return 0
    chosen: list[Suite] = []
    for name in arguments.names or ["all"]:
        if name not in known and name not in groups:
            parser.error(f'no suite "{name}": {", ".join([*groups, *known])}')
        chosen += groups.get(name) or [known[name]]
    return run_all(chosen)


if __name__ == "__main__":
    sys.exit(main())
