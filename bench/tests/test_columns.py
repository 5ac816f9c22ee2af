"""The columns' suite: what it promises, and what it counts."""

import pyarrow as pa
import pytest

from bench.case import FREE
from bench.environments import ROOT, MissingError
from bench.ours.columns_worker import copied_bytes
from bench.report import document, insert, pages
from bench.rivals.plasma.sharing import Readers
from bench.run import Results
from bench.suites import columns
from bench.tests.test_report import FACTS

TARGETS = {
    "builder_recycled_gbps": 9, "builder_fresh_gbps": 1.3, "builder_ratio_jemalloc": 8,
    "builder_ratio_mimalloc": 2, "growth_moves": 0, "put_table_bytes_copied": 0,
}  # fmt: skip
COUNTED = {
    "resident_bytes": 1 << 29, "resident_after_bytes": 1 << 20, "growths": 9, "moves": 3,
    "moved_bytes": 1 << 28,
}  # fmt: skip
SHARED = {"copied_bytes": 0, "table_bytes": 5, "read_ns": [2.0], "share_ns": [1.0]}


def test_entries_and_figures_name_what_exists():
    sides = {side.name for side in columns.SIDES}
    for case in columns.CASES:
        labels = [entry.label for entry in case.entries]
        assert len(labels) == len(set(labels)), f"{case.name} has two entries of one name"
        assert {entry.side for entry in case.entries} <= sides
    for figure in columns.FIGURES:
        with pytest.raises(MissingError):
            figure.compute(Results())


def test_the_designs_figures_and_targets_are_there():
    limits = {figure.name: figure.target.limit for figure in columns.FIGURES if figure.target}
    assert limits.items() >= TARGETS.items()
    names = {figure.name for figure in columns.FIGURES}
    assert {"builder_ratio_system", "parquet_share_ratio_plasma"} <= names


def test_results_become_figures_and_a_page():
    results = Results()
    for case in columns.CASES:
        for entry in case.entries:
            key = (case.name, entry.label, FREE.name)
            slow = entry.side in columns.RIVALS
            results.rounds[key] = [[4e9 if slow else 1e9]] * 3
            results.notes[key] = [SHARED if case.name == "share_parquet" else COUNTED]
    content = document(columns.SUITE, results, FACTS)
    figures = content["figures"]
    assert figures["builder_recycled_gbps"] == pytest.approx((512 << 20) / 1e9)
    assert figures["builder_ratio_jemalloc"] == 4
    assert (figures["growth_moves"], figures["put_table_bytes_copied"]) == (3, 0)
    page = (ROOT / columns.SUITE.page).read_text()
    filled = insert(page, pages(content))
    assert "| append_recycled | jemalloc | 512 MiB | 1 MiB | 9 | 3 | 256 MiB |" in filled


def test_copies_are_told_by_what_the_kernel_maps():
    table = pa.table({"x": [1, 2, 3], "y": ["a", None, "c"]})
    assert copied_bytes(table, table) == 0
    buffers = [column.chunk(0).buffers() for column in table.columns]
    copy = pa.table([pa.concat_arrays([pa.array([1, 2, 3])]), table["y"]], names=["x", "y"])
    assert copied_bytes(table, copy) == 24
    assert sum(buffer.size for group in buffers for buffer in group if buffer) > 24


def test_readers_answer_and_end(tmp_path, monkeypatch):
    program = tmp_path / "reader.py"
    program.write_text("from bench.rivals.plasma.sharing import answer\nanswer(len)\n")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{ROOT}")
    readers = Readers("reader", "unused", 2)
    assert readers.ask("abc") == [3.0, 3.0]
    readers.end()
