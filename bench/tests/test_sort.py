"""The sort suite: one measurement for all figures, and figures for everything that is promised."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from bench.rivals.tables import made
from bench.run import Results
from bench.suites import sort
from bench.worker import UnsupportedError


class Worker:
    """A side that answers with its name's length, or cannot."""

    calls = 0

    def __init__(self, side):
        self.side = side

    def call(self, request):
        Worker.calls += 1
        if self.side == "pandas" and request["rows"] == sort.SIZES["1e8"]:
            raise UnsupportedError("needs 900 GB of memory, 1 are free")
        wall = request["rows"] * len(self.side) / request.get("workers", 1)
        return {"sort": {"wall": [wall], "cpu": [2 * wall], "peak": [2.0], "cold": [3 * wall]}}


class Context:
    """What a measurement asks of a run."""

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
            # What pandas cannot at the larger size is compared at the smaller.
            assert values[f"{case}_ratio_{rival}"] == pytest.approx(wanted)
    assert values["scaling_1_to_2"] == pytest.approx(1)
    assert values["peak_memory_ratio"] == 2.0


def test_each_table_is_sorted_once_by_each_side(results):
    # Wall, processor time, peak and the cold run come from one measurement.
    sides = 1 + len(sort.RIVALS)
    tables = len(sort.SIZES) * len(sort.CASES_OF)
    workers = 2 * len(sort.SIZES) * 2
    assert Worker.calls == sides * tables + workers


def test_a_long_first_run_is_the_one_that_counts(monkeypatch):
    for longest, counted in [(made.LONG_S, made.RUNS_MAX), (0.0, 1)]:
        monkeypatch.setattr(made, "LONG_S", longest)
        runs: list[int] = []
        answer = made.measured(lambda: runs.append(1), 1, made.resident_bytes())  # noqa: B023
        assert len(answer["samples"]) == counted
        assert len(runs) == (1 if counted == 1 else 1 + counted)
        assert len(answer["sort"]["cold"]) == 1
