"""The harness from declaration to results, with sides that are small programs."""

import sys
from pathlib import Path

import pytest

from bench import environments
from bench.__main__ import main
from bench.case import CROSS_CORE, FREE, SAME_CORE, Case, Entry, Side
from bench.run import Context, Results, ask, ask_fresh, filled, run
from bench.suites import store

PROGRAM = """
import os, sys
from bench.rivals.protocol import UnsupportedError, serve

class Clock:
    turns = 0
    def op_start(self, directory, capacity_bytes, settings=None):
        return {"address": directory, "start_ns": 5, "versions": {sys.argv[1]: "1"}}
    def op_connect(self, address):
        return {}
    def op_get(self, value):
        Clock.turns += 1
        return {"samples": [value, Clock.turns], "batch": 1}
    def op_where(self):
        return {"samples": [float(len(os.sched_getaffinity(0)))], "batch": 1}
    def op_die(self):
        os._exit(1)

serve(Clock())
"""


@pytest.fixture
def context(tmp_path, monkeypatch):
    monkeypatch.setattr(environments, "rival", _interpreter)
    sides = tuple(
        Side(name, "Python", ("-c", PROGRAM, name), name) for name in ("one", "two", "broken")
    )
    context = Context(sides, tmp_path, quick=False)
    yield context
    context.end()


def _interpreter(name):
    if name == "broken":
        raise environments.MissingError("cannot be installed")
    return sys.executable


def _suite(*cases):
    return store.Suite("example", (), cases, ())


def _everything(name):
    return True


def test_sides_take_turns_and_the_broken_one_is_reported(context):
    entries = tuple(
        Entry(name, {"op": "get", "value": float(at)}, "")
        for at, name in enumerate(("one", "two", "broken"))
    )
    case = Case("get", "", entries, (FREE,), rounds=3)
    results = run(_suite(case), context, _everything)
    assert results.samples("get", "one") == [[0.0, 1.0], [0.0, 2.0], [0.0, 3.0]]
    assert results.samples("get", "two") == [[1.0, 1.0], [1.0, 2.0], [1.0, 3.0]]
    assert results.missing == {("get", "broken", "free"): "cannot be installed"}
    assert results.versions == {"one": "1", "two": "1"}
    with pytest.raises(environments.MissingError, match="cannot be installed"):
        results.median("get", "broken")


def test_a_side_ends_after_the_last_case_that_needs_it(context):
    living: list[set[str]] = []

    def look(context, entry):
        ask(context, entry)
        living.append(set(context._workers))
        return [1.0]

    cases = tuple(
        Case(f"case-{at}", "", tuple(Entry(side, {"op": "get", "value": 1.0}, "", measure=look)
                                     for side in sides), rounds=1)
        for at, sides in enumerate((("one", "two"), ("two",), ("two",)))
    )  # fmt: skip
    run(_suite(*cases), context, _everything)
    assert living == [{"one"}, {"one", "two"}, {"two"}, {"two"}]
    assert context._workers == {}


def test_a_side_that_ends_is_started_again_for_the_next_case(context):
    cases = (
        Case("die", "", (Entry("one", {"op": "die"}, ""),)),
        Case("get", "", (Entry("one", {"op": "get", "value": 2.0}, ""),), rounds=1),
    )
    results = run(_suite(*cases), context, _everything)
    assert "ended with 1" in results.missing["die", "one", "free"]
    assert results.samples("get", "one") == [[2.0, 1.0]]


def test_what_a_side_lacks_costs_it_only_that_row(context):
    lacking = Case("fly", "", (Entry("one", {"op": "fly"}, ""),))
    asked = Case("get", "", (Entry("one", {"op": "get", "value": 2.0}, ""),), rounds=1)
    results = run(_suite(asked, lacking, asked), context, _everything)
    assert results.missing == {("fly", "one", "free"): "has no fly"}
    # The second time it counted on: it was not started again.
    assert results.samples("get", "one") == [[2.0, 1.0], [2.0, 2.0]]


def test_an_error_of_our_own_code_fails_the_run_and_one_of_a_rival_does_not(tmp_path, monkeypatch):
    """Our side of `wake` had no figure: its row said so, and the run passed."""
    monkeypatch.setattr(environments, "our_package", lambda: Path(sys.executable))
    monkeypatch.setattr(environments, "rival", _interpreter)
    sides = tuple(
        Side(name, "Python", ("-c", PROGRAM, name), environment)
        for name, environment in (("we", "ours"), ("rival", "one"))
    )
    context = Context(sides, tmp_path, quick=False)
    entries = (Entry("we", {"op": "die"}, ""), Entry("rival", {"op": "die"}, ""))
    try:
        results = run(_suite(Case("die", "", entries, (FREE,), rounds=1)), context, _everything)
    finally:
        context.end()
    assert len(results.missing) == len(entries)
    (failure,) = results.failed
    assert failure.startswith("die, free, we: ")


def test_only_chosen_cases_run(context):
    cases = tuple(
        Case(name, "", (Entry("one", {"op": "get", "value": 1.0}, ""),), rounds=1)
        for name in ("put_one", "get_one")
    )
    results = run(_suite(*cases), context, lambda name: name.startswith("get"))
    assert list(results.rounds) == [("get_one", "one", "free")]


def test_clients_run_where_the_pinning_has_them(context):
    case = Case("where", "", (Entry("one", {"op": "where"}, ""),), (SAME_CORE,), rounds=1)
    results = run(_suite(case), context, _everything)
    assert results.median("where", "one", "same-core") == 1.0


def test_a_machine_with_one_processor_says_so(context, monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    case = Case("where", "", (Entry("one", {"op": "where"}, ""),), (CROSS_CORE,), rounds=1)
    results = run(_suite(case), context, _everything)
    assert "one processor" in results.missing["where", "one", "cross-core"]


def test_a_fresh_side_is_a_process_of_its_own(context):
    entry = Entry("one", {"op": "get", "value": 1.0}, "")
    assert ask(context, entry) == [1.0, 1.0]
    assert ask(context, entry) == [1.0, 2.0]
    assert ask_fresh(context, entry) == [1.0, 1.0]
    assert ask(context, entry) == [1.0, 3.0]


def test_requests_are_filled_with_what_the_run_knows(context):
    context.pinning = CROSS_CORE
    request = filled(context, {"op": "x", "server_cpu": "$server_cpu", "way": "$unknown"})
    assert request == {"op": "x", "server_cpu": 0, "way": "$unknown"}
    context.pinning = FREE
    assert filled(context, {"server_cpu": "$server_cpu"}) == {"server_cpu": -1}


def test_the_stores_suite_names_entries_that_exist():
    sides = {side.name for side in store.SIDES}
    labels = set()
    for case in store.CASES:
        names = [entry.label for entry in case.entries]
        assert len(names) == len(set(names)), f"{case.name} has two entries of one name"
        assert {entry.side for entry in case.entries} <= sides
        labels |= {(case.name, label, at.name) for label in names for at in case.pinnings}
    for figure in store.FIGURES:
        if figure.row is not None:
            assert figure.row in labels, figure.name
        with pytest.raises(environments.MissingError):
            figure.compute(Results())
    assert len({figure.name for figure in store.FIGURES}) == len(store.FIGURES)


def test_an_unknown_suite_is_refused(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["bench", "nothing"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "invalid choice" in capsys.readouterr().err
