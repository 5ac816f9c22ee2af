"""`plasmon hdf5 doctor` tells what belongs to what, and advises to remove nothing.

It knew one file at a time: data of other files in the folder of that name was called data that no
dataset names, and following it lost what another file names.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from conftest import Program
from test_identity import WRITE


def _found(tool: Program, folder: str = ".") -> dict[str, set[str]]:
    ended = tool("doctor", folder, "--json", good=False)
    found: dict[str, set[str]] = {}
    for finding in json.loads(ended.out):
        path = finding["path"].split(".h5.arrow/")[0]
        found.setdefault(finding["kind"], set()).add(path)
    assert ended.code == (1 if {"damaged", "leftover", "unknown"} & set(found) else 0), ended
    return found


def test_files_that_were_rotated_are_in_order(run: Program, tool: Program) -> None:
    run(WRITE + 'write("x.h5", 1); os.rename("x.h5", "y.h5"); write("x.h5", 2)')
    for what in ("x.h5", "y.h5", "."):
        assert "everything is in order" in tool("doctor", what).out
    assert _found(tool) == {"file": {"x.h5", "y.h5"}}


def test_data_that_no_file_there_names_may_be_named_elsewhere(
    run: Program, tool: Program, tmp_path: Path
) -> None:
    run(WRITE + 'os.mkdir("a"); os.mkdir("b"); write("a/x.h5", 1); write("a/y.h5", 2)')
    (tmp_path / "a" / "x.h5").rename(tmp_path / "b" / "x.h5")
    assert _found(tool) == {"file": {"a/y.h5"}, "damaged": {"b/x.h5"}, "leftover": {"a/x"}}
    out = tool("doctor", "a", good=False).out
    assert "A file elsewhere may" in out
    assert "gc --dry-run" in out
    (tmp_path / "b" / "x.h5").rename(tmp_path / "a" / "x.h5")
    assert _found(tool) == {"file": {"a/x.h5", "a/y.h5"}}


def test_what_is_damaged_or_unknown_is_reported(
    run: Program, tool: Program, tmp_path: Path
) -> None:
    run(WRITE + 'write("x.h5", 1); write("y.h5", 2); write("z.h5", 3); write("old.h5", 4)')
    folder = tmp_path / "x.h5.arrow"
    (folder / "mine.txt").write_text("a person's")
    next((tmp_path / "y.h5.arrow").glob("*/x.arrow")).unlink()
    shutil.copy(tmp_path / "z.h5", tmp_path / "bak.h5")
    run(WRITE + 'write("z.h5", 5, "r+")')
    next((tmp_path / "old.h5.arrow").glob("*/manifest")).write_text("nonsense\\n")
    found = _found(tool)
    assert found["file"] == {"x.h5", "z.h5"}
    assert found["unknown"] == {"x"}
    assert found["damaged"] == {"y.h5", "bak.h5", "old.h5", "old"}
    assert "leftover" not in found


def test_a_file_that_hdf5_alone_writes_anew_leaves_data_that_gc_finds(
    run: Program, plain: Program, tool: Program, tmp_path: Path
) -> None:
    run(WRITE + 'write("x.h5", 1)')
    plain(WRITE + 'write("x.h5", 2)')
    assert _found(tool) == {"leftover": {"x"}}
    tool("gc", "--yes")
    assert not (tmp_path / "x.h5.arrow").exists()
    assert _found(tool) == {}
