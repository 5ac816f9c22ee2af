"""Arrow data that others wrote, as read-only HDF5."""

from __future__ import annotations

import datetime
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import Program
from pyarrow import feather

import plasmon

ROWS = 1000


def table() -> pa.Table:
    """A column of each kind, in two chunks."""
    numbers = np.arange(ROWS)
    tensor = pa.fixed_shape_tensor(pa.float32(), (2, 3))
    cells = pa.array(np.arange(ROWS * 6, dtype="f4"))
    rows = pa.FixedSizeListArray.from_arrays(cells, 6)
    start = datetime.datetime(2026, 1, 1)
    whole = pa.table(
        {
            "i": pa.array(numbers, pa.int64()),
            "f": pa.array(numbers / 2, pa.float32()),
            "gaps": pa.array([None if at % 10 == 3 else at for at in range(ROWS)], pa.float64()),
            "holes": pa.array([None if at == 3 else at for at in range(ROWS)], pa.int32()),
            "yes": pa.array(numbers % 3 == 0),
            "time": pa.array([start] * ROWS, pa.timestamp("ms")),
            "cells": pa.ExtensionArray.from_storage(tensor, rows),
            "a/b c%": pa.array(numbers, pa.uint8(), safe=False),
            "text": pa.array(["x"] * ROWS),
            "nested": pa.array([[1]] * ROWS),
        }
    )
    return pa.concat_tables([whole.slice(0, 400), whole.slice(400)])


CHECK = """
def check(group):
    numbers = np.arange(1000)
    assert np.array_equal(group["i"][:], numbers) and group["i"].dtype == "i8"
    assert np.array_equal(group["f"][::7], (numbers / 2)[::7].astype("f4"))
    assert np.isnan(group["gaps"][3]) and group["gaps"][998] == 998
    assert group["yes"][:4].tolist() == [1, 0, 0, 1] and group["yes"].dtype == "u1"
    assert group["time"][999] == 1767225600000
    assert group["time"].attrs["plasmon.type"] == "timestamp[ms]"
    assert group["cells"].shape == (1000, 2, 3)
    assert group["cells"][500, 1].tolist() == [3003, 3004, 3005]
    assert np.array_equal(group["a%2Fb c%25"][:], numbers.astype("u1"))
    assert set(group) == {"i", "f", "gaps", "yes", "time", "cells", "a%2Fb c%25"}
    assert [text.split(":")[0] for text in group.attrs["plasmon.left_out"]] == [
        "holes", "text", "nested"]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The table as files of all kinds, deep in a folder."""
    data = tmp_path / "others" / "deep"
    data.mkdir(parents=True)
    with pa.ipc.new_file(data / "plain.arrow", table().schema) as writer:
        writer.write_table(table())
    feather.write_feather(table(), data / "small.feather", compression="lz4")
    with pa.ipc.new_stream(data / "stream.arrows", table().schema) as writer:
        writer.write_table(table())
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_file(data / "dense.ipc", table().schema, options=options) as writer:
        writer.write_table(table())
    pq.write_table(table(), data / "columns.parquet", row_group_size=300)
    (data / "broken.arrow").write_bytes(b"ARROW1 and no more")
    (data / "notes.txt").write_text("not data")
    return tmp_path / "others"


def test_files_of_all_kinds(run: Program, plain: Program, tool: Program, folder: Path) -> None:
    out = tool("view", "others", "--out", "view.h5").out
    assert "deep/plain: 7 columns, 5 of them also without the connector" in out
    assert "deep/small: 7 columns, 0 of them" in out
    assert "deep/broken: left out: all of it" in out
    assert "text: string" in out
    assert os.stat(folder.parent / "view.h5").st_size < 100_000
    run(
        CHECK
        + """
os.makedirs("elsewhere")
os.chdir("elsewhere")
with h5py.File("../view.h5", "r") as file:
    assert set(file["deep"]) == {"plain", "small", "stream", "dense", "columns", "broken"}
    for name in ("plain", "small", "stream", "dense", "columns"):
        check(file["deep"][name])"""
    )
    # What lies in a file as HDF5 reads it needs no connector; the rest fails and is never wrong.
    plain("""
    with h5py.File("view.h5", "r") as file:
        group = file["deep/plain"]
        assert group["i"][999] == 999 and group["cells"][999, 1, 2] == 5999
        assert group["time"][0] == 1767225600000
        for name in ("deep/plain/yes", "deep/columns/i", "deep/small/f"):
            try:
                file[name][0]
            except OSError as error:
                assert "unable to open external raw data file" in str(error), error
            else:
                sys.exit(name)""")
    assert 'view: column "i" of file ' in tool("inspect", "view.h5").out


def test_views_are_read_only(run: Program, tool: Program, folder: Path) -> None:
    before = (folder / "deep" / "plain.arrow").read_bytes()
    tool("view", "others/deep/plain.arrow", "--out", "view.h5")
    run("""
    os.chmod("view.h5", 0o644)
    for mode in ("r+", "a"):
        try:
            h5py.File("view.h5", mode)
        except OSError as error:
            assert "a view of existing Arrow data" in str(error), error
        else:
            sys.exit("no error")
    with h5py.File("view.h5", "r") as file:
        try:
            file["plain/yes"][0] = 1
        except OSError as error:
            assert "no write intent on file" in str(error), error
        else:
            sys.exit("no error")""")
    assert (folder / "deep" / "plain.arrow").read_bytes() == before
    ended = tool("view", "others", "--out", "view.h5", good=False)
    assert ended.code == 1
    assert "exists" in ended.err
    ended = tool("view", "nothing", "--out", "other.h5", good=False)
    assert "neither a file nor a folder" in ended.err


def test_what_changes_is_reported(run: Program, tool: Program, folder: Path) -> None:
    tool("view", "others", "--out", "view.h5")
    deep = folder / "deep"
    pq.write_table(table().slice(0, 10), deep / "columns.parquet")
    feather.write_feather(table().drop(["f"]), deep / "small.feather", compression="lz4")
    (deep / "stream.arrows").unlink()
    (deep / "dense.ipc").write_bytes((deep / "dense.ipc").read_bytes()[:2000])
    out = run("""
    with h5py.File("view.h5", "r") as file:
        for name in ("columns/i", "small/f", "stream/yes", "dense/i"):
            try:
                file["deep"][name][0]
                print("no error")
            except OSError as error:
                print(error)""").out
    facts = ("has 80 bytes of values", "has no column", "stream.arrows", "dense.ipc")
    for fact, line in zip(facts, out.splitlines(), strict=True):
        assert fact in line, out
    assert "no error" not in out


def test_objects_of_a_store_are_read_in_place(run: Program, tool: Program) -> None:
    daemon = plasmon.start("64m")
    try:
        with daemon.connect() as store:
            store.put(table(), name="run 1/table", namespace="lab")
            store.put(np.arange(12.0).reshape(3, 4), name="array", namespace="lab")
            store.put(np.asfortranarray(np.ones((3, 4))), name="turned", namespace="lab")
            store.put({"a": 1}, name="dict", namespace="lab")
            arguments = ["--store", daemon.socket, "--namespace", "lab", "--out", "view.h5"]
            out = tool("view", "store:", *arguments).out
            assert "run 1/table: 7 columns" in out
            assert "array: an array" in out
            assert "turned: left out: all of it" in out
            assert "dict: left out: all of it" in out
            code = """
with h5py.File("view.h5", "r") as file:
    check(file["run 1/table"])
    assert file["array"].shape == (3, 4) and file["array"][2, 3] == 11
"""
            run(CHECK + code, settings=f"store={daemon.socket}")
            store.delete("array", namespace="lab")
            ended = run(CHECK + code, settings=f"store={daemon.socket}", good=False)
            assert "object lab:array in the store" in ended.err
            assert "deleted" in ended.err
        daemon.stop()
        ended = run(CHECK + code, settings=f"store={daemon.socket}", good=False)
        assert "there is no store at" in ended.err
    finally:
        daemon.stop()


def test_what_is_no_arrow_data_is_refused(tool: Program, tmp_path: Path) -> None:
    """A view of /etc/passwd was made, with nothing in it."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "x.arrow").write_text("root:x:0:0:root:/root:/bin/sh\n" * 40)
    for source, message in (
        ("/etc/passwd", "/etc/passwd is not an Arrow, Feather or Parquet file"),
        ("folder", "no Arrow, Feather or Parquet data is in folder"),
    ):
        ended = tool("view", source, "--out", "view.h5", good=False)
        assert ended.code == 1
        assert message in ended.err
        assert not (tmp_path / "view.h5").exists()
