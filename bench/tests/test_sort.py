"""The sort suite: one measurement for all figures, and figures for everything that is promised."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from bench.rivals.tables import made
from bench.run import Results
from bench.suites import _sort_measure, sort
from bench.worker import UnsupportedError


class Worker:
    """A side that answers with its name's length, or exceeds every timeout."""

    calls = 0

    def __init__(self, side):
        self.side = side

    def call(self, request, timeout_s):
        Worker.calls += 1
        wall = request["rows"] * len(self.side) / request.get("threads", 1)
        if self.side == "pandas" and request["case"] == "string":
            wall *= 1000
        assert 1e9 * timeout_s > wall
        return {
            "sort": {
                "wall": [wall],
                "cpu": [2 * wall],
                "peak": [2.0],
                "cold": [3 * wall],
                "cold_cpu": [4 * wall],
            },
            "input_bytes": 8 * request["rows"] if self.side != "numpy" else 1 << 60,
        }


class Context:
    """The part of a run that a measurement needs."""

    def scale(self, full, quick):
        return full

    @contextmanager
    def fresh(self, side):
        yield Worker(side), {}


@pytest.fixture
def results():
    """The results of a run with such workers."""
    Worker.calls = 0
    context, found = Context(), Results()
    for case in sort.CASES:
        for entry in case.entries:
            key = (case.name, entry.label, "free")
            try:
                found.rounds[key] = [entry.measure(context, entry)]
            except UnsupportedError as reason:
                found.missing[key] = str(reason)
    return found


def test_every_figure_of_the_issue_is_computed(results):
    values = {figure.name: figure.compute(results) for figure in sort.FIGURES}
    for case in ("key", "key_payload7", "string", "two_keys"):
        for rival in ("polars", "polars_streaming", "duckdb", "pandas", "numpy", "pyarrow"):
            wanted = len(rival) / len(sort.OURS)
            if (case, rival) == ("string", "pandas"):
                wanted *= 1000
            assert values[f"{case}_ratio_{rival}"] == pytest.approx(wanted)
    assert values["scaling_1_to_2_threads"] == pytest.approx(1)
    assert values["scaling_1_to_2_key_threads"] == pytest.approx(1)
    assert values["peak_memory_ratio"] == 2.0
    assert values["peak_memory_ratio_string"] == 2.0


def test_what_would_take_too_long_is_compared_at_the_smaller_size(results):
    remarks = {figure.name: figure.remark(results) for figure in sort.FIGURES if figure.remark}
    assert remarks["string_ratio_pandas"].startswith("at 1e7 rows; at 1e8: would take 780 s")
    assert remarks["key_ratio_pandas"] == ""


def test_what_would_not_fit_the_memory_is_compared_at_the_smaller_size(results):
    remarks = {figure.name: figure.remark(results) for figure in sort.FIGURES if figure.remark}
    assert "GB of memory" in remarks["key_ratio_numpy"]


@pytest.mark.parametrize(("times", "seconds"), [(1, 2.0), (10, 26.0), (100, 338.0)])
def test_an_estimate_grows_with_the_rows(times, seconds):
    answer = {
        "sort": {"cold": [4e9], "wall": [2e9, 3e9], "peak": [1.5, 3.0]},
        "input_bytes": 1000,
    }
    estimate = _sort_measure.Estimate.of(answer, times)
    assert estimate.seconds == pytest.approx(seconds)
    assert estimate.memory_bytes == 3000 * times
    assert (estimate.objection(1 << 40) is None) == (seconds <= _sort_measure.EXPECTED_MAX_S)


def test_each_table_is_sorted_once_by_each_side(results):
    # Wall, processor time, peak and the cold run come from one measurement.
    sides = 1 + len(sort.RIVALS)
    tables = len(sort.SIZES) * len(sort.CASES_OF)
    not_begun = 1 + len(sort.CASES_OF)
    scaling = 2 * 2
    assert Worker.calls == sides * tables - not_begun + scaling


@pytest.mark.parametrize(
    ("each_s", "runs", "counted"), [(1.0, 4, 3), (3.0, 2, 1), (11.0, 2, 1), (16.0, 1, 1)]
)
def test_long_runs_are_fewer(monkeypatch, each_s, runs, counted):
    now = [0]
    monkeypatch.setattr(made.time, "perf_counter_ns", lambda: now[0])

    def run():
        now[0] += int(each_s * 1e9)

    answer = made.measured(run, 1, made.resident_bytes())
    assert now[0] == int(runs * each_s * 1e9)
    assert len(answer["samples"]) == counted
    assert len(answer["sort"]["cold"]) == 1
