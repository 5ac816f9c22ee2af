import json

import pytest

from bench import report
from bench.case import (
    FREE,
    SAME_CORE,
    Bandwidth,
    Case,
    Entry,
    Figure,
    Median,
    Ratio,
    Side,
    Suite,
    at_least,
    at_most,
)
from bench.report import document, everything, format_value, insert, pages, table, write
from bench.run import Results

SIDES = (
    Side("plasmon-python", "Python", (), "ours"),
    Side("plasmon-rust", "Rust", (), "native"),
    Side("rival", "Python", (), "rival"),
    Side("gone", "Python", (), "gone"),
)
CASE = Case(
    "get",
    "get of an object",
    tuple(Entry(side.name, {"op": "get"}, f"what {side.name} does") for side in SIDES),
    (SAME_CORE,),
)
COPY = Case("put", "put of 1 MiB", (Entry("rival", {"op": "put", "object_bytes": 1 << 20}, ""),))
FIGURES = (
    Figure("get_ns", "a get", "ns", Median("get", "plasmon-rust", SAME_CORE), at_most(20)),
    Figure("ratio", "a ratio", "x", Ratio("get", "rival", "plasmon-python", SAME_CORE),
           at_least(30)),
    Figure("gone_ns", "a rival that is not there", "ns", Median("get", "gone", SAME_CORE),
           at_most(1)),
    Figure("gbps", "a bandwidth without target", "GB/s", Bandwidth("put", "rival", 1 << 20)),
)  # fmt: skip
SUITE = Suite("example", SIDES, (CASE, COPY), FIGURES)
FACTS = {
    "cpu": "a processor",
    "cpus": 2,
    "hypervisor": True,
    "kernel": "6.1",
    "huge_pages": "madvise",
    "huge_pages_shmem": "never",
    "load_before": [0.1],
    "load_after": [0.2],
    "seconds": 3.0,
}


@pytest.fixture
def content():
    results = Results()
    results.rounds = {
        ("get", "plasmon-python", "same-core"): [[500.0, 510.0], [490.0]],
        ("get", "plasmon-rust", "same-core"): [[25.0]],
        ("get", "rival", "same-core"): [[20_000.0], [19_600.0]],
        ("put", "rival", "free"): [[float(1 << 20)]],
    }
    results.missing = {("get", "gone", "same-core"): "its package is not there"}
    results.versions = {"rival": "1.2"}
    return document(SUITE, results, FACTS)


def test_figures_are_numbers_and_missing_ones_are_reported(content):
    figures = content["figures"]
    assert set(figures) == {"get_ns", "ratio", "gbps"}
    assert figures["get_ns"] == 25.0
    assert figures["ratio"] == pytest.approx((20_000 / 505 + 19_600 / 490) / 2)
    assert figures["gbps"] == 1.0


def test_targets_are_hit_missed_or_missing(content):
    targets = content["targets"]
    assert targets["get_ns"]["hit"] is False
    assert targets["get_ns"]["target"] == "<= 20"
    assert targets["ratio"]["hit"] is True
    assert targets["gone_ns"]["hit"] is False
    assert "its package is not there" in targets["gone_ns"]["missing"]
    assert "hit" not in targets["gbps"]


def test_every_entry_has_a_row(content):
    rows = {row["label"]: row for row in content["rows"] if row["case"] == "get"}
    assert set(rows) == {"plasmon-python", "plasmon-rust", "rival", "gone"}
    ours = rows["plasmon-python"]
    assert ours["pinned"] == "same-core"
    assert (ours["repetitions"], ours["samples"]) == (2, 3)
    assert ours["min"] <= ours["p10"] <= ours["median"] <= ours["p90"]
    assert "ratio_to_ours" not in ours
    assert rows["plasmon-rust"]["hit"] is False
    # A rival in Python stands beside our Python client, not beside our Rust one.
    assert rows["rival"]["ratio_to_ours"] == pytest.approx(39.8, abs=0.1)
    assert rows["gone"]["missing"] == "its package is not there"


def test_bandwidth_is_told_where_bytes_are_moved(content):
    assert [row["gb_per_s"] for row in content["rows"] if "gb_per_s" in row] == [1.0]


def test_the_content_is_json_and_written_whole(content, tmp_path):
    path = tmp_path / "results" / "example.json"
    write(path, content)
    assert json.loads(path.read_text()) == content
    assert [file.name for file in path.parent.iterdir()] == ["example.json"]


def test_figures_machine_and_versions_are_kept_and_rows_are_not(content):
    assert content.keys() - report.kept(content).keys() == {"rows"}
    assert {"figures", "targets", "machine", "versions"} <= report.kept(content).keys()


def test_the_table_shows_hits_misses_and_what_is_missing(content):
    text = table(content)
    assert "<= 20 MISS" in text
    assert "missing: its package is not there" in text
    hit = next(line for line in text.splitlines() if line.strip().startswith("ratio"))
    assert "hit" in hit
    assert all(line == line.rstrip() for line in text.splitlines())


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        (7.456, "ns", "7.46 ns"),
        (0.0, "ns", "0.00 ns"),
        (999.9, "ns", "1000 ns"),
        (15_200.0, "ns", "15.2 us"),
        (2.5e9, "ns", "2.50 s"),
        (5_300_000.0, "1/s", "5.30 M/s"),
        (12_800.0, "1/s", "12.8 k/s"),
        (1.234, "x", "1.23 x"),
        (160.0, "B", "160 B"),
    ],
)
def test_values_have_three_digits_and_a_unit(value, unit, expected):
    assert format_value(value, unit) == expected


def test_a_page_keeps_its_words_and_gets_new_tables(content):
    names = ("machine", "figures")
    page = "before\n" + "".join(
        f"<!-- bench:{name} -->\nold\n<!-- /bench:{name} -->\nafter\n" for name in names
    )
    text = insert(page, pages(content))
    assert text.startswith("before\n<!-- bench:machine -->\n| fact |")
    assert "old" not in text
    assert text.count("after\n") == 2
    assert insert(text, pages(content)) == text


def test_every_row_is_on_a_page_of_its_own_with_what_each_side_does(content):
    text = everything(content)
    for row in content["rows"]:
        assert f"## {row['case']}\n" in text
        assert f"{row['label']} ({row['language']})" in text
        assert f"- {row['label']}: {row['work']}." in text


def test_a_page_without_markers_is_refused(content):
    with pytest.raises(ValueError, match="bench:machine"):
        insert("no markers", pages(content))


def test_ratios_of_one_case_need_both_entries():
    figure = Figure("ratio", "", "x", Ratio("get", "rival", "absent", FREE))
    assert document(Suite("s", SIDES, (), (figure,)), Results(), FACTS)["figures"] == {}
