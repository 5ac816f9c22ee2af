"""The demonstration, whole, on small files: its own and a user's."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from plasmon.demo import data
from plasmon.demo.__main__ import main
from plasmon.demo.tasks import plan, run, same


def test_the_made_file_is_the_same_every_time(tmp_path):
    path = tmp_path / "deep" / "sales.parquet"
    data.ensure(path, 3000, lambda _: None)
    first = pq.read_table(path)
    assert first.num_rows == 3000
    assert first["discount"].null_count > 0
    assert pa.types.is_decimal(first["price"].type)
    counts = first.group_by("store").aggregate([([], "count_all")])["count_all"].to_pylist()
    assert max(counts) > 20 * sorted(counts)[len(counts) // 2], "a few stores sell most"
    before = path.stat().st_mtime_ns
    data.ensure(path, 3000, lambda _: None)
    assert path.stat().st_mtime_ns == before, "a whole file is not made again"
    data.ensure(path, 3001, lambda _: None)
    assert pq.read_table(path).slice(0, 0).schema == first.schema
    assert data.chunk(0, 3000).equals(data.chunk(0, 3000))


def test_the_demonstration_agrees_with_pickle_and_holds_one_copy(tmp_path, capsys):
    assert main(["--rows", "200000", "--data-dir", str(tmp_path), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["one_copy"] is True
    assert document["ways"][0]["way"] == "plasmon"
    answers = [way["answers"] for way in document["ways"]]
    assert len(answers) == 3
    assert answers[0][1] == answers[1][1]
    assert document["facts"]["rows"] == 200000


def test_a_file_of_the_users_own(tmp_path, capsys):
    path = tmp_path / "mine.parquet"
    pq.write_table(pa.table({"k": ["a", "b"] * 50, "v": [1, 2] * 50}), path)
    assert main(["--input", str(path), "--without-pickle"]) == 0
    out = capsys.readouterr().out
    assert "sum and mean of v for each k" in out
    assert "one copy" in out


@pytest.mark.parametrize("case", ["missing", "empty", "texts", "rows"])
def test_what_cannot_be_run_is_named(tmp_path, capsys, case):
    path = tmp_path / "x.parquet"
    if case == "empty":
        pq.write_table(pa.table({"v": pa.array([], pa.int64())}), path)
    if case == "texts":
        pq.write_table(pa.table({"v": ["a"]}), path)
    arguments = ["--rows", "0"] if case == "rows" else ["--input", str(path)]
    assert main(arguments) != 0
    assert "plasmon run-demo: " in capsys.readouterr().err


def test_answers_differ_when_they_do():
    table = data.chunk(0, 2000)
    for task in plan(table.schema):
        answer = run(task, table)
        assert same(answer, run(task, table))
        assert not same(answer, run(task, table.slice(0, 1000)))
