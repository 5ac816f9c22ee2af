"""Spark's shuffle on three machines: both managers get the same, every promise is a figure."""

from __future__ import annotations

import pytest

from bench import report
from bench.case import FREE
from bench.run import Results
from bench.suites import _spark_pool as pool
from bench.suites.spark import SUITE

#: What entries took, and what was noted of those that lose a machine.
TAKEN = {
    pool.VANILLA: 4e9,
    f"{pool.OURS} copies 1": 2e9,
    f"{pool.OURS} copies 2": 2.2e9,
    f"{pool.CELEBORN} copies 1": 5e9,
    f"{pool.CELEBORN} copies 2": 8e9,
}
NOTES = {"map_tasks_again": 0, "failed_stages": 0}
PROMISED = {
    "pool_terasort_ratio": 0.5,
    "pool_blocks400_ratio": 0.5,
    "copies2_ratio": 1.1,
    "node_kill_ratio": 0.55,
    "node_kill_reruns": 0,
    "node_kill_failed_stages": 0,
}
#: What is reported, and depends on what others have installed.
BESIDE = {
    "pool_terasort_ratio_celeborn": 0.4,
    "pool_blocks400_ratio_celeborn": 0.4,
    "node_kill_ratio_celeborn": 0.275,
}


@pytest.fixture
def results() -> Results:
    made = Results()
    for case in pool.CASES:
        for entry in case.entries:
            made.rounds[case.name, entry.label, FREE.name] = [[TAKEN[entry.label]]]
            made.notes[case.name, entry.label, FREE.name] = [NOTES]
    return made


def test_every_promised_figure_is_computed_and_has_a_target(results):
    found = {figure.name: figure.compute(results) for figure in pool.FIGURES}
    assert found == pytest.approx(PROMISED | BESIDE)
    assert {figure.name for figure in pool.FIGURES if figure.target is None} == BESIDE.keys()


def test_every_entry_is_a_row_of_the_report(results):
    rows = report.rows(SUITE, results)
    assert len(rows) == sum(len(case.entries) for case in pool.CASES)


def test_entries_of_a_case_differ_in_manager_and_copies_alone():
    for case in pool.CASES:
        requests = [{**entry.request, "copies": 0} for entry in case.entries]
        assert all(request == requests[0] for request in requests)
        assert case.entries[0].side == pool.VANILLA
        ours, theirs = (
            [entry.request["copies"] for entry in case.entries if entry.side == side]
            for side in (pool.OURS, pool.CELEBORN)
        )
        assert ours == theirs
