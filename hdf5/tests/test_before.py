"""Files whose data has no number: earlier versions wrote them.

`plasmon hdf5 mv` and `cp` refused them, and `rm` removed the skeleton alone.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from before import make_before
from conftest import Program
from test_moving import USE, WRITE

#: Both kinds of data in one file: a dataset was made since there are numbers.
MORE = """
with h5py.File("x.h5", "r+") as file:
    file["more"] = np.arange(3.0)
"""


def _make(run: Program, tmp_path: Path, *, more: bool = False) -> None:
    run(WRITE)
    make_before(tmp_path / "x.h5")
    if more:
        run(MORE)


def _left(tmp_path: Path) -> set[str]:
    return {path.name for path in tmp_path.iterdir()}


def test_a_file_of_before_is_read_and_written(run: Program, tool: Program, tmp_path: Path) -> None:
    _make(run, tmp_path)
    assert "file of data" not in tool("doctor", "x.h5").out
    (found,) = json.loads(tool("doctor", ".", "--json").out)
    assert (found["kind"], found["path"]) == ("before", "x.h5")
    run(USE.format(name="x.h5"))
    # What is made from now on has a number, and the file says so.
    run(MORE)
    assert (tmp_path / "x.h5.arrow" / "latest" / "more.arrow").exists()
    assert (tmp_path / "x.h5.arrow" / "g" / "x.arrow").exists()
    assert {one["kind"] for one in json.loads(tool("doctor", ".", "--json").out)} == {"file"}
    run(USE.format(name="x.h5"))


def test_it_moves_with_its_data(run: Program, tool: Program, tmp_path: Path) -> None:
    (tmp_path / "q").mkdir()
    for more in (False, True):
        _make(run, tmp_path, more=more)
        assert "stays where it is" in tool("mv", "x.h5", "y.h5").out
        run(USE.format(name="y.h5"))
        assert f"{2 + more} files of data" in tool("mv", "y.h5", "q/z.h5").out
        assert _left(tmp_path) == {"q"}
        run(USE.format(name="q/z.h5"))
        tool("rm", "q/z.h5")
        assert _left(tmp_path / "q") == set()


def test_a_copy_has_data_of_its_own(run: Program, tool: Program, tmp_path: Path) -> None:
    _make(run, tmp_path, more=True)
    (tmp_path / "q").mkdir()
    for target in ("q", "y.h5", "another.h5"):
        assert "3 files of data" in tool("cp", "x.h5", target).out
    assert (tmp_path / "q" / "x.h5.arrow" / "g" / "x.arrow").exists()
    run("""
with h5py.File("x.h5", "r+") as file:
    file["g/x"][...] = -1
    file["more"][0] = 5""")
    for name in ("q/x.h5", "y.h5", "another.h5"):
        run(USE.format(name=name) + f"assert h5py.File({name!r})['more'][0] == 0")
        tool("rm", name)
    assert _left(tmp_path) == {"x.h5", "x.h5.arrow", "q"}
    assert _left(tmp_path / "q") == set()
    run('\nassert h5py.File("x.h5")["g/x"][5] == -1')


def test_what_another_file_names_stays(run: Program, tool: Program, tmp_path: Path) -> None:
    """A copied skeleton names the same files, and so may one that comes from elsewhere."""
    _make(run, tmp_path)
    shutil.copy(tmp_path / "x.h5", tmp_path / "bak.h5")
    (tmp_path / "q").mkdir()
    assert "shares its data with bak.h5" in tool("mv", "x.h5", "q", good=False).err
    tool("rm", "x.h5")
    run(USE.format(name="bak.h5"))
    assert "x.arrow" in tool("rm", "bak.h5", "--dry-run").out
    (tmp_path / "x.h5.arrow" / "r.arrow").rename(tmp_path / "r")
    assert "is not there" in tool("cp", "bak.h5", "q", good=False).err
    tool("rm", "bak.h5")
    assert (tmp_path / "x.h5.arrow" / "g" / "x.arrow").exists()


def test_it_travels_as_an_archive(run: Program, tool: Program, tmp_path: Path) -> None:
    _make(run, tmp_path, more=True)
    assert "3 files of data" in tool("pack", "x.h5", "x.tar").out
    tool("unpack", "x.tar", "q")
    run(USE.format(name="q/x.h5"))
