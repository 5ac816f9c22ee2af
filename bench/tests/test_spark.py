"""The suite of Spark's shuffle: both managers get the same, and every promise is a figure."""

from __future__ import annotations

import pytest

from bench.rivals.spark.settings import conf
from bench.run import Results
from bench.suites import spark

#: What both sides took or counted, by whose side it is.
TAKEN = {spark.VANILLA: 4e9, spark.OURS: 2e9}
TOLD = {
    spark.VANILLA: {"told": 8, "write_ns": 8e8, "fetch_wait_ms": 400, "spilled_bytes": 7},
    spark.OURS: {
        "told": 0,
        "write_ns": 4e8,
        "fetch_wait_ms": 4,
        "spilled_bytes": 0,
        "p99_ns": 3e3,
        "written_bytes": 1e9,
        "tier_written_bytes": 1e9,
        "tier_read_bytes": 8e8,
    },
}
PROMISED = {
    "terasort_ratio": 0.5,
    "blocks400_ratio": 0.5,
    "blocks1000_fetch_wait_ratio": 0.01,
    "map_commit_ms": 1,
    "spill_ratio": 0.5,
    "spill_local_bytes": 0,
    "small_store_ratio": 0.5,
    "small_store_written_share": 1,
    "small_store_read_share": 0.8,
    "throttled_ratio": 0.5,
    "executor_kill_reruns": 0,
    "executor_kill_ratio": 0.5,
    "tpc_ratio": 0.5,
    "block_read_p99_us": 3,
}


@pytest.fixture
def results() -> Results:
    made = Results()
    for case in spark.CASES:
        for entry in case.entries:
            manager = entry.side.split("-")[0]
            made.rounds[case.name, entry.label, "free"] = [[TAKEN[manager]]]
            made.notes[case.name, entry.side, "free"] = [TOLD[manager]]
    return made


def test_every_promised_figure_is_computed(results):
    figures = {figure.name: figure for figure in spark.FIGURES}
    found = {name: figures[name].compute(results) for name in PROMISED}
    assert found == pytest.approx(PROMISED)
    assert all(figure.compute(results) is not None for figure in spark.FIGURES)
    # The design promises nothing for these two.
    assert {name for name in PROMISED if figures[name].target is None} == {"tpc_ratio"}


def test_the_bytes_of_the_spill_tier_are_figures_of_their_own(results):
    figures = {figure.name: figure for figure in spark.FIGURES}
    assert figures["small_store_written_bytes"].compute(results) == 1e9
    assert figures["small_store_read_bytes"].compute(results) == 8e8


@pytest.mark.parametrize("request_", [spark.EXCHANGE, spark.EXCHANGE | spark.EXCHANGE["quick"]])
def test_the_small_store_holds_a_quarter_of_what_is_shuffled(request_):
    shuffled = request_["rows"] * spark.EXCHANGED_ROW_BYTES
    assert request_["store_bytes"] == pytest.approx(shuffled / 4, rel=0.1)


def test_the_newest_line_has_the_figures_of_the_oldest_with_a_suffix(results):
    named = {figure.name for figure in spark.FIGURES}
    assert {name for name in named if name.endswith("_43")} == {
        f"{name}_43"
        for name in (
            "terasort_ratio",
            "blocks400_ratio",
            "map_commit_ms",
            "tpc_ratio",
            "executor_kill_ratio",
            "executor_kill_reruns",
        )
    }


def test_only_the_manager_differs():
    ours, vanilla = conf("plasmon", "the.jar", 512), conf("sort", "", 512)
    assert vanilla.items() <= ours.items()
    added = {"spark.shuffle.manager", "spark.shuffle.sort.io.plugin.class"}
    paths = {"spark.driver.extraClassPath", "spark.executor.extraClassPath"}
    assert ours.keys() - vanilla.keys() == added | paths
    small = conf("plasmon", "the.jar", 512, 1 << 20)
    assert small == ours | {"spark.plasmon.store.bytes": "1048576"}
    assert conf("sort", "", 512, 1 << 20) == vanilla
