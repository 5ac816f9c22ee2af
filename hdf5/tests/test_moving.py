"""`plasmon hdf5 mv`, `cp`, `rm`, `gc`, `pack` and `unpack`: a file and its data together."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
from conftest import Program

WRITE = """
with h5py.File("x.h5", "w") as file:
    file["g/x"] = np.arange(1000.0)
    file["r"] = np.arange(4).astype([("a", "i4"), ("b", "f8")])
    file["text"] = "stays"
    file.attrs["unit"] = "m"
"""
#: Reads a file whole, and writes into it.
USE = """
with h5py.File({name!r}, "r+") as file:
    assert file["g/x"][999] == 999 and file["r"]["b"].tolist() == [0, 1, 2, 3]
    assert file["text"].asstr()[()] == "stays" and file.attrs["unit"] == "m"
    file["g/x"][0] = 7
    file["new"] = np.arange(3)
with h5py.File({name!r}, "r") as file:
    assert file["g/x"][0] == 7 and file["new"][2] == 2
with h5py.File({name!r}, "r+") as file:
    file["g/x"][0] = 0
    del file["new"]
"""


def homes(folder: Path) -> list[Path]:
    """The folders of data below a folder."""
    return [path.parent for path in folder.rglob("manifest")]


def test_a_copy_has_data_of_its_own(run: Program, tool: Program, tmp_path: Path) -> None:
    run(WRITE)
    (tmp_path / "q").mkdir()
    assert "2 files of data" in tool("cp", "x.h5", "y.h5").out
    tool("cp", "x.h5", "q")
    for name in ("y.h5", "q/x.h5", "x.h5"):
        run(USE.format(name=name))
    assert len(homes(tmp_path)) == 3
    assert (tmp_path / "y.h5.arrow" / "latest" / "g" / "x.arrow").exists()
    (tmp_path / "x.h5").unlink()
    run(USE.format(name="y.h5"))


def test_what_exists_is_not_replaced(run: Program, tool: Program, tmp_path: Path) -> None:
    run(WRITE)
    (tmp_path / "y.h5").write_text("foreign")
    for command in ("cp", "mv", "pack"):
        assert "y.h5 exists" in tool(command, "x.h5", "y.h5", good=False).err
    assert (tmp_path / "y.h5").read_text() == "foreign"
    assert len(list(tmp_path.iterdir())) == 3


def test_a_moved_file_takes_its_data_along(run: Program, tool: Program, tmp_path: Path) -> None:
    run(WRITE)
    (tmp_path / "q").mkdir()
    tool("mv", "x.h5", "y.h5")
    run(USE.format(name="y.h5"))
    tool("mv", "y.h5", "q/z.h5")
    run(USE.format(name="q/z.h5"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["q"]
    assert (tmp_path / "q" / "z.h5.arrow" / "latest" / "r.arrow").exists()


def test_a_removed_file_takes_its_data_along(run: Program, tool: Program, tmp_path: Path) -> None:
    run(WRITE)
    notes = homes(tmp_path)[0] / "notes.txt"
    notes.write_text("foreign")
    assert "would remove x.h5" in tool("rm", "--dry-run", "x.h5").out
    run(USE.format(name="x.h5"))
    assert "2 files of data" in tool("rm", "x.h5").out
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [notes]
    run(WRITE)
    notes.unlink()
    tool("rm", "x.h5")
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_data_that_a_copied_skeleton_needs_stays(run: Program, tool: Program) -> None:
    run(WRITE)
    run("""
    import shutil
    shutil.copy("x.h5", "y.h5")""")
    tool("rm", "x.h5")
    run(USE.format(name="y.h5"))


def test_gc_removes_what_no_file_needs(run: Program, tool: Program, tmp_path: Path) -> None:
    for _ in range(3):
        run(WRITE)
        (tmp_path / "x.h5").unlink()
    run(WRITE)
    (tmp_path / "x.h5").rename(tmp_path / "y.h5")
    assert "3 folders of data" in tool("gc", "--dry-run").out
    # Without an answer nothing is removed.
    tool("gc")
    assert len(homes(tmp_path)) == 4
    assert "removed 3 folders" in tool("gc", "--yes").out
    run(USE.format(name="y.h5"))
    assert "0 folders" in tool("gc", "--yes").out


def test_gc_asks_nothing_of_a_file_that_cannot_say(
    run: Program, tool: Program, tmp_path: Path
) -> None:
    run(WRITE)
    whole = (tmp_path / "x.h5").read_bytes()
    (tmp_path / "x.h5").write_bytes(whole[:200])
    assert "x.h5 cannot be opened" in tool("gc", "--yes", good=False).err
    (tmp_path / "x.h5").write_bytes(whole)
    run(USE.format(name="x.h5"))


def test_gc_goes_on_beside_a_damaged_file_that_needs_nothing(
    run: Program, tool: Program, tmp_path: Path
) -> None:
    """Any damaged file in a folder of temporary ones made `gc` refuse all of it."""
    run(WRITE)
    (tmp_path / "bad.h5").write_bytes((tmp_path / "x.h5").read_bytes()[:48] * 20)
    run(WRITE.replace("x.h5", "y.h5"))
    # What names the data needs it, whole or not.
    (tmp_path / "torn.h5").write_bytes((tmp_path / "y.h5").read_bytes()[:-2000])
    for name in ("x.h5", "y.h5"):
        (tmp_path / name).unlink()
    told = tool("gc", "--yes", good=False)
    assert "removed 1 folders" in told.out
    assert "torn.h5 cannot be opened and may need it" in told.err
    assert [path.parent.name for path in homes(tmp_path)] == ["y.h5.arrow"]


def test_a_packed_file_travels(run: Program, tool: Program, tmp_path: Path) -> None:
    run(WRITE)
    tool("pack", "x.h5", "x.tar")
    tool("rm", "x.h5")
    tool("unpack", "x.tar", "there")
    run(USE.format(name="there/x.h5"))
    assert (tmp_path / "there" / "x.h5.arrow" / "latest" / "r.arrow").exists()
    assert "exists" in tool("unpack", "x.tar", "there", good=False).err


@pytest.mark.parametrize("name", ["../up", "x.h5.arrow/../../up", "/tmp/up", "a/b", "x.h5.arrow"])
def test_a_foreign_archive_is_refused(tool: Program, tmp_path: Path, name: str) -> None:
    (tmp_path / "up").write_text("up")
    with tarfile.open(tmp_path / "x.tar", "w") as archive:
        member = archive.gettarinfo(tmp_path / "up", name)
        member.name = name
        with (tmp_path / "up").open("rb") as file:
            archive.addfile(member, file)
    assert tool("unpack", "x.tar", "there", good=False).code == 1
    assert not list((tmp_path / "there").rglob("up"))


def test_a_file_whose_data_was_renamed_with_it_takes_it_along(
    run: Program, tool: Program, tmp_path: Path
) -> None:
    """Within its folder the data was left where the new name does not lead to."""
    run(WRITE)
    (tmp_path / "x.h5").rename(tmp_path / "y.h5")
    (tmp_path / "x.h5.arrow").rename(tmp_path / "y.h5.arrow")
    for name in ("z.h5", "x.h5", "y.h5"):
        (last,) = tmp_path.glob("*.h5")
        tool("mv", last.name, name)
        run(USE.format(name=name))


def test_a_file_with_a_block_of_the_users_keeps_its_data(
    run: Program, tool: Program, tmp_path: Path
) -> None:
    """Such a file does not begin as one of HDF5: `gc` removed its data, and so did a
    file that was made where its original had been."""
    run("""
    with h5py.File("x.h5", "w", userblock_size=1024) as file:
        file["x"] = np.arange(5.0)""")
    tool("gc", "--yes")
    run("""
    import shutil
    shutil.copy("x.h5", "bak.h5")
    with h5py.File("x.h5", "w") as file:
        file["x"] = np.zeros(5)
    with h5py.File("bak.h5", "r") as file:
        assert file["x"][4] == 4""")
    assert len(homes(tmp_path)) == 2
