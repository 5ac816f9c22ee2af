"""The sums of `make test` are those of the runners."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest


def load(name: str) -> ModuleType:
    """A script as a module."""
    path = Path(__file__).resolve().parent.parent / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"plasmon_script_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


SCRIPT = load("test")


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("", "0 passed, 0 failed"),
        (
            (
                "test result: ok. 34 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out\n"
                "test result: FAILED. 2 passed; 3 failed; 0 ignored; 0 measured; 0 filtered out\n"
            ),
            "36 passed, 3 failed, 1 skipped",
        ),
        ("===== 2 failed, 12 passed, 1 skipped in 0.31s =====\n", "12 passed, 2 failed, 1 skipped"),
        ("12 passed, 1 error in 3.00s\n", "12 passed, 1 failed"),
        ("fuzz: 9 passed, 1 failed\n", "9 passed, 1 failed"),
        (
            "sim-node: 119 passed, 1 failed\nsim-same: 40 passed, 0 failed\n",
            "159 passed, 1 failed",
        ),
        (
            "# tests 9\n# suites 0\n# pass 6\n# fail 2\n# cancelled 0\n# skipped 1\n# todo 0\n",
            "6 passed, 2 failed, 1 skipped",
        ),
        (
            (
                "[ERROR] Tests run: 3, Failures: 0, Errors: 3, Skipped: 0, Time elapsed: 0.1 s\n"
                "[ERROR] Tests run: 9, Failures: 1, Errors: 2, Skipped: 1\n"
            ),
            "5 passed, 3 failed, 1 skipped",
        ),
        ("it was said that 3 passed, 1 failed of them\n", "0 passed, 0 failed"),
    ],
)
def test_closing_lines_are_added_up(output: str, expected: str) -> None:
    assert str(SCRIPT.count(output)) == expected


CARGO_FAILS = """
running 2 tests
.F
failures:

---- waiting::it_wakes stdout ----
thread 'waiting::it_wakes' panicked at crates/store/src/wait_requests.rs:7:5:
not woken


failures:
    waiting::it_wakes

test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out

running 0 tests

test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out
"""


def test_what_is_shown_names_the_failed_tests() -> None:
    """A failed test of Cargo's stands in the middle of its log, before those that passed."""
    shown = SCRIPT.what_failed(CARGO_FAILS)
    assert "not woken" in shown
    assert "    waiting::it_wakes" in shown
    assert "running 0 tests" not in shown
    pytest_says = (
        "E   assert 1 == 2\nFAILED a/test_b.py::test_c[1] - assert 1 == 2\n1 failed in 1s\n"
    )
    assert SCRIPT.what_failed(pytest_says) == pytest_says.splitlines()[:2]
    assert SCRIPT.what_failed("no runner that is known\n") == ["no runner that is known"]


def test_a_suite_that_fails_without_a_count_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SCRIPT, "LOGS", tmp_path)
    failing = SCRIPT.Suite("failing", "exits with 3", [sys.executable, "-c", "raise SystemExit(3)"])
    silent = SCRIPT.Suite("silent", "says nothing", [sys.executable, "-c", ""])
    assert SCRIPT.run(failing)[0] == SCRIPT.Counts(failed=1)
    assert SCRIPT.run(silent)[0] == SCRIPT.Counts(passed=1)
    assert SCRIPT.run_all([silent, failing]) == 1
    assert SCRIPT.run_all([silent]) == 0


def test_two_suites_run_side_by_side_and_the_next_begins_when_one_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two suites that wait for each other both pass; a third waits for a place, the last for it."""
    monkeypatch.setattr(SCRIPT, "LOGS", tmp_path)
    meet = (
        "import os, sys, time; own, other = sys.argv[1:]; open(own, 'w').close()\n"
        "end = time.monotonic() + 60\n"
        "while not os.path.exists(other) and time.monotonic() < end: time.sleep(0.01)\n"
        "sys.exit(not os.path.exists(other))"
    )
    follow = "import os, sys; before, own = sys.argv[1:]; os.stat(before); open(own, 'w').close()"
    a, b, c, d = (str(tmp_path / name) for name in "abcd")

    def suite(name: str, *program: str, is_beside: bool) -> object:
        command = [sys.executable, "-c", *program]
        return SCRIPT.Suite(name, "one of four", command, is_beside=is_beside)

    suites = [
        suite("first", meet, a, b, is_beside=True),
        suite("second", meet, b, a, is_beside=True),
        suite("third", follow, a, c, is_beside=True),
        suite("last", follow, c, d, is_beside=False),
    ]
    assert SCRIPT.run_all(suites) == 0
    said = capsys.readouterr().out
    assert said.splitlines()[-1] == "4 passed, 0 failed"
    assert said.index(" ok ") < said.index("[ 3/4] third") < said.index("[ 4/4] last")
