"""A run that was interrupted goes on where it was, and loses nothing that it had measured."""

from __future__ import annotations

import sys
from argparse import Namespace
from dataclasses import replace

import pytest

from bench import __main__ as program
from bench import environments, measured
from bench.case import Case, Entry, Side, Suite
from bench.run import Results
from bench.suites import spark

PROGRAM = """
from bench.rivals.protocol import serve

class Side:
    def op_start(self, directory, capacity_bytes):
        return {"address": directory, "start_ns": 5, "versions": {"side": "1"}}
    def op_get(self, value, mark):
        open(mark, "a").write(f"{value} ")
        return {"samples": [value], "batch": 1, "told": value}

serve(Side())
"""


def _interrupt(*_):
    raise KeyboardInterrupt


def test_what_was_measured_comes_back_as_it_was(tmp_path):
    key = ("case", "side", "free")
    results = Results(
        rounds={key: [[1.0, 2.0], [3.0]]},
        missing={("case", "other", "free"): "not here"},
        failed=["case: why"],
        versions={"side": "1"},
        notes={key: [{"told": 4}]},
    )
    measured.save(tmp_path / "run.json", results, ["case"], {"seconds": 2.5})
    assert measured.load(tmp_path / "run.json") == (results, ["case"], {"seconds": 2.5})
    with pytest.raises(SystemExit, match="no run to go on with"):
        measured.load(tmp_path / "other.json")


def test_an_interrupted_run_goes_on_after_its_last_whole_case(tmp_path, monkeypatch):
    monkeypatch.setattr(environments, "rival", lambda _: sys.executable)
    monkeypatch.setattr(measured, "place", lambda *_: tmp_path / "run.json")
    mark = tmp_path / "mark"
    ask = {"op": "get", "mark": str(mark)}
    cases = [
        Case(f"case-{at}", "", (Entry("one", {**ask, "value": float(at)}, ""),), rounds=2)
        for at in range(3)
    ]
    sides = (Side("one", "Python", ("-c", PROGRAM), "one"),)
    begin = Namespace(resume=False, only=None, quick=False)

    suite = Suite("example", sides, tuple(cases), ())
    broken = replace(cases[2], entries=(replace(cases[2].entries[0], measure=_interrupt),))
    with pytest.raises(KeyboardInterrupt):
        program._measure(replace(suite, cases=(*cases[:2], broken)), lambda _: True, begin)
    again = Namespace(resume=True, only=None, quick=False)
    results, facts = program._measure(suite, lambda _: True, again)
    assert mark.read_text().split() == ["0.0", "0.0", "1.0", "1.0", "2.0", "2.0"]
    assert [key[0] for key in results.rounds] == ["case-0", "case-1", "case-2"]
    assert results.notes["case-0", "one", "free"] == [{"told": 0.0}, {"told": 0.0}]
    assert facts["seconds"] > 0


def test_each_job_of_an_application_has_a_name_of_its_own():
    """Two jobs of one kind had one name, and the second one no first run."""
    named: dict[str, list[str]] = {}
    for case in spark.LOCAL_CASES:
        for entry in case.entries:
            if "job" in entry.request:
                named.setdefault(entry.side, []).append(entry.request["name"])
    assert len(named["plasmon-3.5"]) > len(named["plasmon-4.3"]) > 1
    assert all(len(names) == len(set(names)) for names in named.values())
