"""The demonstration, whole, on small files: its own and a user's."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from plasmon.demo import data, memory, ways
from plasmon.demo.__main__ import main
from plasmon.demo.compare import READERS, compare
from plasmon.demo.tasks import plan, run, same

from .conftest import DEADLINE_S

OTHERS = [
    "fork",
    "mapped Arrow file",
    "shared_memory",
    "joblib memmap",
    "ray",
    "pickle, needed columns",
    "pickle, whole table",
]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    """The picture goes into the folder that the demo is run in."""
    monkeypatch.chdir(tmp_path)


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


def test_every_way_agrees_and_memory_holds_one_copy(tmp_path, capsys):
    assert main(["--rows", "200000", "--data-dir", str(tmp_path), "--quick", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["one_copy"] is True
    facts, ours, *others = document["facts"], *document["ways"]
    assert facts["rows"] == 200000
    assert [way["way"] for way in others] == OTHERS
    for way in others:
        if way["way"] == "ray" and importlib.util.find_spec("ray") is None:
            assert way["missing"] == "not installed"
            continue
        assert way["missing"] == "", way["way"]
        assert way["answers"][1] == ours["answers"][1], way["way"]
        if not way["way"].endswith("columns"):
            assert [*way["readers"]] == ["1", "2", "4"], way["way"]


def test_only_memory_that_the_readers_share_is_counted_of_this_process(store):
    """Other stores that this process reads were counted with the one that is looked at."""
    held = store.get(store.put(np.ones(1 << 20)))
    assert held.sum() == 1 << 20
    assert memory.usage(os.getpid()).shared_pss >= held.nbytes
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        assert memory.total([other.pid]).shared_pss == 0
        assert memory.total([os.getpid(), other.pid]).shared_pss >= held.nbytes
        other.communicate(b"\n")


def test_sixteen_readers_hold_one_copy_and_outlive_the_daemon(tmp_path, capsys):
    arguments = ["--rows", "200000", "--data-dir", str(tmp_path), "--without-rivals", "--json"]
    assert main(arguments) == 0
    document = json.loads(capsys.readouterr().out)
    facts, [ours] = document["facts"], document["ways"]
    # All readers hold the same pages, however many they are.
    assert [int(count) for count in ours["readers"]] == [*READERS]
    pages = [usage["shared_pss"] for usage in ours["readers"].values()]
    assert max(pages) - min(pages) < facts["table_bytes"] / 10
    assert facts["table_bytes"] <= min(pages)
    # The daemon was killed, another came, and the readers went on.
    survival = facts["survival"]
    assert survival["killed"] != survival["next"]
    assert survival["readers"] == READERS[-1]
    assert survival["reads"] > 0
    assert survival["wrong"] == 0


def test_a_file_of_the_users_own(tmp_path, capsys):
    path = tmp_path / "mine.parquet"
    pq.write_table(pa.table({"k": ["a", "b"] * 50, "v": [1, float("nan")] * 50}), path)
    assert main(["--input", str(path), "--without-rivals", "--quick", "--picture", "p/x.png"]) == 0
    out, err = capsys.readouterr()
    assert "sum and mean of v for each k" in out
    assert "one copy" in out
    assert "none failed" in out
    # What a figure such as 1.95x means is said where it is printed.
    assert "Per table is that memory divided by the table's" in " ".join(out.split())
    # Progress from the first moment, and before anything large is imported.
    assert err.startswith("[  0.0 s] ")
    if importlib.util.find_spec("matplotlib"):
        assert (tmp_path / "p" / "x.png").read_bytes().startswith(b"\x89PNG")
        assert f"The picture is in {tmp_path / 'p' / 'x.png'}" in out


def test_without_matplotlib_there_is_a_word_instead_of_a_picture(tmp_path, capsys, monkeypatch):
    path = tmp_path / "mine.parquet"
    pq.write_table(pa.table({"k": ["a", "b"] * 50, "v": [1, 2] * 50}), path)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main(["--input", str(path), "--without-rivals", "--quick"]) == 0
    assert "matplotlib is not installed: pip install 'plasmon[demo]'" in capsys.readouterr().out
    assert not (tmp_path / "plasmon-demo.png").exists()


def test_the_first_line_is_there_before_the_libraries_are(tmp_path):
    """Nothing was printed for 25 seconds."""
    command = [sys.executable, "-X", "importtime", "-m", "plasmon.demo", "--input", "nothing"]
    found = subprocess.run(
        command, capture_output=True, text=True, timeout=DEADLINE_S, check=False, cwd=tmp_path
    )
    lines = found.stderr.splitlines()
    first = next(at for at, line in enumerate(lines) if line.startswith("[  0."))
    library = next(at for at, line in enumerate(lines) if line.split("|")[-1].strip() == "pyarrow")
    assert first < library


def test_what_is_impossible_in_one_way_is_a_line_beside_the_others(tmp_path, monkeypatch, capsys):
    """Such as shared memory in a container, whose /dev/shm has 64 MB: writing more is a SIGBUS."""
    table = data.chunk(0, 2000)
    monkeypatch.setattr(ways, "_free", lambda folder: 1000)
    for way in (ways.SharedMemory(), ways.MappedFile(tmp_path), ways.JoblibMemmap(tmp_path)):
        outcome = compare(way, table, plan(table.schema), print)
        assert "MB free" in outcome.missing
    assert "shared_memory: not possible here: /dev/shm has" in capsys.readouterr().out
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("case", ["missing", "empty", "texts", "rows"])
def test_what_cannot_be_run_is_named(tmp_path, capsys, case):
    path = tmp_path / "x.parquet"
    if case == "empty":
        pq.write_table(pa.table({"v": pa.array([], pa.int64())}), path)
    if case == "texts":
        pq.write_table(pa.table({"v": ["a"]}), path)
    arguments = ["--rows", "0"] if case == "rows" else ["--input", str(path)]
    assert main(arguments) != 0
    told = capsys.readouterr().err
    assert ("error: --rows" if case == "rows" else "\nplasmon: ") in f"\n{told}"


def test_answers_differ_when_they_do():
    table = data.chunk(0, 2000)
    for task in plan(table.schema):
        answer = run(task, table)
        assert same(answer, run(task, table))
        assert not same(answer, run(task, table.slice(0, 1000)))
