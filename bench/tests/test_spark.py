"""The suite of Spark's shuffle: both managers get the same, and every promise is a figure."""

from __future__ import annotations

import pytest

from bench.rivals.spark.settings import FIXED_PLANS, conf
from bench.run import Results
from bench.suites import _spark_pool, _spark_sides, _spark_tpch, spark

#: What both sides took or counted, by whose side it is.
TAKEN = {spark.VANILLA: 4e9, spark.OURS: 2e9}
#: What ours takes when its store's memory is taken from its executors.
TAKEN_EQUAL = 3e9
TOLD = {
    spark.VANILLA: {
        "told": 8,
        "write_ns": 8e8,
        "fetch_wait_ms": 400,
        "spilled_bytes": 7,
        "cold_ns": 9e9,
    },
    spark.OURS: {
        "told": 0,
        "cold_ns": 6e9,
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
    "tpch_geomean_ratio": 0.5,
    "tpch_sum_ratio": 0.5,
    "tpch_worst_ratio": 0.5,
    "tpch_different_results": 0,
}
#: Figures of jobs, each with a first run and with equal memory besides.
JOBS = (
    *(f"{job}_ratio{at}" for job in ("terasort", "blocks400", "tpc", "executor_kill")
      for at in ("", "_43")),
    *(f"{job}_ratio" for job in ("group", "blocks1000", "spill", "spill_sort", "small_store",
                                 "throttled", "tpch_geomean", "tpch_sum")),
)  # fmt: skip


@pytest.fixture
def results() -> Results:
    made = Results()
    for case in spark.LOCAL_CASES:
        for entry in case.entries:
            manager = entry.side.split("-")[0]
            taken = TAKEN_EQUAL if entry.side.endswith(_spark_sides.EQUAL) else TAKEN[manager]
            made.rounds[case.name, entry.label, "free"] = [[taken]]
            told = TOLD[manager]
            if case in _spark_tpch.CASES:
                told = told | {"told": {"rows": 1, "digest": "d1"}}
            made.notes[case.name, entry.side, "free"] = [told]
    return made


def test_every_promised_figure_is_computed(results):
    figures = {figure.name: figure for figure in spark.FIGURES}
    found = {name: figures[name].compute(results) for name in PROMISED}
    assert found == pytest.approx(PROMISED)
    pool = _spark_pool.FIGURES
    assert all(figure.compute(results) is not None for figure in set(spark.FIGURES) - set(pool))
    # The design promises nothing for these two.
    assert {name for name in PROMISED if figures[name].target is None} == {"tpc_ratio"}


def test_every_job_has_a_first_run_and_a_run_with_equal_memory(results):
    figures = {figure.name: figure for figure in spark.FIGURES}
    found = {job: figures[f"{job}_cold"].compute(results) for job in JOBS}
    assert found == pytest.approx(dict.fromkeys(JOBS, 6 / 9))
    found = {job: figures[f"{job}_equal_memory"].compute(results) for job in JOBS}
    assert found == pytest.approx(dict.fromkeys(JOBS, 3 / 4))
    pool = {figure.name for figure in _spark_pool.FIGURES}
    ratios = {name for name in figures if "_ratio" in name and "fetch_wait" not in name} - pool
    assert ratios == {f"{job}{kind}" for job in JOBS for kind in ("", "_cold", "_equal_memory")} | {
        "tpch_worst_ratio",
        "tpch_worst_ratio_equal_memory",
    }


def test_the_page_has_a_row_for_each_job_with_its_first_run(results):
    assert spark.SUITE.parts is not None
    head, _, *rows = spark.SUITE.parts(results)["jobs"].splitlines()
    assert head.count("first run") == 4
    assert len(rows) == len(spark.LOCAL_CASES) - 1
    cells = "9.00 s | 4.00 s | 6.00 s | 2.00 s | 6.00 s | 3.00 s | 0.67 | 0.50 | 0.75"
    assert rows[0] == f"| terasort_3.5 | {cells} |"


def test_a_query_with_other_rows_is_counted_and_the_slowest_is_named(results):
    figures = {figure.name: figure for figure in spark.FIGURES}
    case = _spark_tpch.CASES[3].name
    results.notes[case, "plasmon-3.5-tpch-equal", "free"][0]["told"] = {"rows": 1, "digest": "d2"}
    assert figures["tpch_different_results"].compute(results) == 1
    results.rounds[case, "plasmon-3.5-tpch", "free"] = [[8e9]]
    worst = figures["tpch_worst_ratio"]
    assert worst.compute(results) == 2
    assert worst.remark is not None
    assert worst.remark(results) == "query 4"


@pytest.mark.parametrize(
    ("executor_mb", "expected"),
    [
        (1024, {"executor_mb": 768, "store_bytes": 512 << 20}),
        # Spark starts no executor that is smaller.
        (512, {"executor_mb": 464, "store_bytes": 96 << 20}),
    ],
)
def test_executors_and_their_store_have_the_memory_of_sparks_executors(executor_mb, expected):
    assert _spark_sides.split(executor_mb) == expected


def test_sides_with_equal_memory_have_what_sparks_have():
    starts = {side.name: {"executor_mb": 1024, **side.start} for side in spark.SIDES}
    for name, start in starts.items():
        if name.endswith(_spark_sides.EQUAL):
            theirs = starts[name.removesuffix("-equal").replace(spark.OURS, spark.VANILLA)]
            store = start.get("store_bytes", spark.EXCHANGE["store_bytes"])
            both = 2 * start["executor_mb"] + store / (1 << 20)
            assert both == pytest.approx(2 * theirs["executor_mb"], rel=0.001)


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
    named -= {name for name in named if name.endswith(("_cold", "_equal_memory"))}
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
    assert FIXED_PLANS.items() <= vanilla.items()
    assert not FIXED_PLANS.keys() & conf("sort", "", 512, adaptive=True).keys()
