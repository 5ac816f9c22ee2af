"""Values in a store are a file's own, or an error, whatever is done to the file by name.

Objects were called after the path of the file: a copied or moved skeleton named the same objects,
read what was written later, and a new file in the place of an old one met its objects.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from conftest import Program
from in_store import settings
from test_identity import WRITE

from plasmon import Daemon, Store


@pytest.fixture
def program(run: Program, daemon: Daemon) -> Program:
    """Runs a program whose new values go into the store."""

    def program(code: str, **options: object) -> object:
        return run(WRITE + "\n" + code, settings=settings(daemon), **options)

    return program


def _names(store: Store) -> set[str]:
    return {str(info.name) for info in store.list("hdf5")}


def test_log_rotation_keeps_every_generation(program: Program, store: Store) -> None:
    program("""
for run in range(4):
    for old in range(run - 2, -1, -1):
        os.rename(f"out.{old}.h5", f"out.{old + 1}.h5")
    if run:
        os.rename("out.h5", "out.0.h5")
    write("out.h5", 100 * run)
assert [read(name) for name in ("out.h5", "out.0.h5", "out.1.h5", "out.2.h5")] == [300, 200, 100, 0]
write("out.1.h5", 7, "r+")
assert read("out.1.h5") == 7 and read("out.0.h5") == 200""")
    assert len(_names(store)) == 4
    assert all(re.fullmatch(r"out\.h5-[0-9a-f]{16}/x@?", name) for name in _names(store))


def test_a_copied_skeleton_does_not_see_what_is_written_later(
    program: Program, plain: Program
) -> None:
    out = program("""
import shutil
write("x.h5", 0)
shutil.copy("x.h5", "bak.h5")
assert read("bak.h5") == 0
try:
    write("bak.h5", 50, "r+")
except OSError as error:
    assert "bak.h5 is a copy of x.h5" in str(error), error
else:
    sys.exit("no error")
write("x.h5", 50, "r+")
assert read("x.h5") == 50
print(read("bak.h5"))""").out
    assert "changed after bak.h5 was copied (by x.h5), and its own values are gone" in out
    out = plain("""
import plasmon.hdf5
with plasmon.hdf5.open("x.h5") as file:
    assert file["x"].array[0] == 50
with plasmon.hdf5.open("bak.h5") as file:
    try:
        file["x"].array
    except OSError as error:
        print(error)""").out
    assert "changed after bak.h5 was copied" in out


def test_a_name_that_is_free_again_is_not_read_by_a_copy(program: Program) -> None:
    out = program("""
import shutil
write("x.h5", 0)
shutil.copy("x.h5", "bak.h5")
with h5py.File("x.h5", "r+") as file:
    del file["x"]
write("x.h5", 70, "r+")
assert read("x.h5") == 70
print(read("bak.h5"))""").out
    assert "its own values are gone" in out


def test_a_copied_folder_does_not_have_the_objects(program: Program, tmp_path: Path) -> None:
    """The folder of data is copied along, and the objects are not."""
    program('os.mkdir("a"); write("a/x.h5", 1)')
    shutil.copytree(tmp_path / "a", tmp_path / "b", symlinks=True)
    out = program("""
print(read("b/x.h5"))
for mode in ("r+", "a"):
    try:
        write("b/x.h5", 2, mode)
    except OSError as error:
        print(error)
    else:
        sys.exit("no error")
with h5py.File("b/x.h5", "r+") as file:
    try:
        file["y"] = np.arange(3.0)
    except (OSError, ValueError) as error:
        print(error)
    else:
        sys.exit("no error")
    del file["x"]
write("a/x.h5", 3, "r+")
assert read("a/x.h5") == 3
write("b/x.h5", 4)
assert read("a/x.h5") == 3 and read("b/x.h5") == 4""").out
    assert out.count("the values in the store are the original's") == 4


def test_a_moved_pair_has_its_values(program: Program, tool: Program, tmp_path: Path) -> None:
    program('write("x.h5", 1); os.mkdir("there")')
    (tmp_path / "x.h5").rename(tmp_path / "there" / "x.h5")
    assert "which is not there" in program('print(read("there/x.h5"))').out
    (tmp_path / "x.h5.arrow").rename(tmp_path / "there" / "x.h5.arrow")
    program('assert read("there/x.h5") == 1; write("there/x.h5", 2, "r+")')
    tool("mv", "there/x.h5", "y.h5")
    program('assert read("y.h5") == 2; write("y.h5", 3, "r+"); assert read("y.h5") == 3')


def test_an_atomic_save_leaves_the_values_of_both(program: Program, store: Store) -> None:
    program("""
write("m.h5", 1)
for save in range(2, 5):
    write("m.tmp", save)
    assert read("m.h5") == save - 1
    os.replace("m.tmp", "m.h5")
    assert read("m.h5") == save""")
    store.put(b"foreign", name="m.h5-0000000000000001/x", namespace="hdf5")
    program('write("m.h5", 9); assert read("m.h5") == 9')
    assert "m.h5-0000000000000001/x" in _names(store)


def test_a_new_file_removes_its_own_objects_only(program: Program, store: Store) -> None:
    program("""
import shutil
write("x.h5", 1)
shutil.copy("x.h5", "bak.h5")
write("x.h5", 2)
assert read("x.h5") == 2 and read("bak.h5") == 1
write("bak.h5", 3, "r+")
assert read("x.h5") == 2 and read("bak.h5") == 3""")
    assert len(_names(store)) == 2
    program('write("x.h5", 4)')
    assert len(_names(store)) == 2


def test_the_tools_copy_no_objects_and_remove_those_of_a_file(
    program: Program, tool: Program, store: Store
) -> None:
    program('write("x.h5", 1); write("y.h5", 2)')
    assert "values in a store" in tool("cp", "x.h5", "z.h5", good=False).err
    assert "values in a store" in tool("pack", "x.h5", "x.tar", good=False).err
    assert "in the store" in tool("rm", "--dry-run", "x.h5").out
    assert len(_names(store)) == 2
    tool("rm", "x.h5")
    assert [name[:4] for name in _names(store)] == ["y.h5"]
    program('assert read("y.h5") == 2')


def test_a_file_that_names_the_objects_of_another_one(program: Program, tmp_path: Path) -> None:
    program('write("x.h5", 1); write("y.h5", 2)')
    numbers = [
        re.findall(rb"hdf5:..h5-([0-9a-f]{16})/", (tmp_path / name).read_bytes())[0]
        for name in ("x.h5", "y.h5")
    ]
    content = (tmp_path / "y.h5").read_bytes()
    old, new = (b"hdf5:%s.h5-%s/" % pair for pair in ((b"y", numbers[1]), (b"x", numbers[0])))
    (tmp_path / "y.h5").write_bytes(content.replace(old, new))
    assert "which was written for another file" in program('print(read("y.h5"))').out
    program('write("y.h5", 5); assert read("x.h5") == 1')
