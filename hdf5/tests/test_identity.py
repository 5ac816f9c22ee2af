"""A file gives its own values or an error, whatever is done to it and to its data by name."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest
from conftest import Program, data

#: Writes ten numbers from one on.
WRITE = """
def write(name, first, mode="w"):
    with h5py.File(name, mode) as file:
        if "x" in file:
            file["x"][:] = np.arange(10.0) + first
        else:
            file["x"] = np.arange(10.0) + first

def read(name):
    with h5py.File(name, "r") as file:
        try:
            return file["x"][0]
        except OSError as error:
            return str(error)
"""


@pytest.fixture
def program(run: Program) -> Program:
    """Runs a program that can write and read numbers."""

    def program(code: str, **options: object) -> object:
        return run(WRITE + "\n" + code, **options)

    return program


def test_log_rotation_keeps_every_generation(program: Program) -> None:
    """Every generation read the newest data, and the older data was gone."""
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


def test_a_copied_skeleton_does_not_see_what_is_written_later(program: Program) -> None:
    out = program("""
import shutil
write("x.h5", 0)
shutil.copy("x.h5", "bak.h5")
assert read("bak.h5") == 0
write("x.h5", 50, "r+")
assert read("x.h5") == 50
print(read("bak.h5"))""").out
    assert "changed after bak.h5 was copied (by x.h5), and its own values are gone" in out


def test_a_copied_skeleton_is_not_written_while_its_original_is_there(program: Program) -> None:
    program("""
import shutil
write("x.h5", 0)
shutil.copy("x.h5", "bak.h5")
try:
    write("bak.h5", 50, "r+")
except OSError as error:
    assert "bak.h5 is a copy of x.h5" in str(error), error
else:
    sys.exit("no error")
assert read("x.h5") == 0
os.remove("x.h5")
write("bak.h5", 50, "r+")
assert read("bak.h5") == 50""")


def test_a_skeleton_that_is_copied_where_another_one_was(program: Program) -> None:
    """It showed the old values with the new attributes."""
    out = program("""
import shutil
os.mkdir("q")
write("x.h5", 0)
write("q/x.h5", 100)
shutil.copy("x.h5", "q/x.h5")
print(read("q/x.h5"))""").out
    assert "which is not there" in out


def test_an_atomic_save_that_dies_leaves_the_good_file(program: Program) -> None:
    program("""
write("m.h5", 1)
for save in range(2, 5):
    write("m.tmp", save)
    assert read("m.h5") == save - 1, "the good file shows its own values meanwhile"
    os.replace("m.tmp", "m.h5")
    assert read("m.h5") == save
write("m.tmp", 99)
assert read("m.h5") == 4
os.remove("m.tmp")
assert read("m.h5") == 4""")


@pytest.mark.parametrize("mode", ["w", "x", "a"])
def test_creating_a_file_removes_nothing_of_others(
    program: Program, tmp_path: Path, mode: str
) -> None:
    """Every Arrow file below the folder of that name was removed, also behind a link."""
    others = tmp_path / "w.h5.arrow"
    (others / "deep").mkdir(parents=True)
    for name in ("mine.arrow", "deep/mine.arrow", "latest"):
        (others / name).write_text("foreign")
    program(f'write("w.h5", 0, "{mode}"); assert read("w.h5") == 0; write("w.h5", 5)')
    for name in ("mine.arrow", "deep/mine.arrow"):
        assert (others / name).read_text() == "foreign"


def test_a_link_in_the_place_of_the_folder_is_not_followed(
    program: Program, tmp_path: Path
) -> None:
    (tmp_path / "others").mkdir()
    (tmp_path / "others" / "mine.arrow").write_text("foreign")
    (tmp_path / "w.h5.arrow").symlink_to("others")
    assert program('write("w.h5", 0)', good=False).code == 1
    assert [path.name for path in (tmp_path / "others").iterdir()] == ["mine.arrow"]


def test_data_that_a_copy_names_stays_when_the_file_is_made_anew(program: Program) -> None:
    program("""
import shutil
write("x.h5", 1)
shutil.copy("x.h5", "bak.h5")
write("x.h5", 2)
assert read("x.h5") == 2 and read("bak.h5") == 1
write("bak.h5", 3, "r+")
assert read("x.h5") == 2 and read("bak.h5") == 3
write("x.h5", 4)
data = [name for name in os.listdir("x.h5.arrow") if name != "latest"]
assert len(data) == 2, data""")


def test_an_archive_and_a_copied_folder_can_be_written(program: Program, tmp_path: Path) -> None:
    """Everything has another inode there."""
    program('os.mkdir("a"); write("a/x.h5", 1)')
    shutil.copytree(tmp_path / "a", tmp_path / "b", symlinks=True)
    program("""
write("b/x.h5", 2, "r+")
write("a/x.h5", 3, "r+")
assert read("a/x.h5") == 3 and read("b/x.h5") == 2""")


def test_a_renamed_pair_is_found(program: Program, tmp_path: Path) -> None:
    program('write("x.h5", 1)')
    (tmp_path / "x.h5").rename(tmp_path / "y.h5")
    (tmp_path / "x.h5.arrow").rename(tmp_path / "y.h5.arrow")
    program('assert read("y.h5") == 1; write("y.h5", 2, "r+"); assert read("y.h5") == 2')


def test_a_renamed_pair_keeps_the_data_that_it_had(program: Program, tmp_path: Path) -> None:
    """The skeleton names what was written before under the old name. After a dataset was deleted
    such data was taken for unneeded and removed, and a dataset that was made under a name that was
    free then gave its values to the renamed one as well."""
    program("""
with h5py.File("x.h5", "w") as file:
    for name in ("x", "kept", "gone"):
        file[name] = np.arange(10.0)""")
    (tmp_path / "x.h5").rename(tmp_path / "y.h5")
    (tmp_path / "x.h5.arrow").rename(tmp_path / "y.h5.arrow")
    program("""
with h5py.File("y.h5", "r+") as file:
    file.move("x", "renamed")
    del file["gone"]
    file["other"] = np.arange(10.0)
with h5py.File("y.h5", "r+") as file:
    file["x"] = np.arange(10.0) + 100
with h5py.File("y.h5", "r") as file:
    found = [file[name][3] for name in ("renamed", "kept", "x")]
    assert found == [3, 3, 103], found""")
    assert data(tmp_path, "y.h5") == {"x.arrow", "kept.arrow", "other.arrow", "x~1.arrow"}


def test_a_program_that_only_deletes_removes_the_data(program: Program, tmp_path: Path) -> None:
    program("""
write("x.h5", 0)
with h5py.File("x.h5", "r+") as file:
    file["y"] = np.arange(3.0)
with h5py.File("x.h5", "r+") as file:
    del file["x"]
assert h5py.File("x.h5")["y"][2] == 2""")
    assert data(tmp_path) == {"y.arrow"}


def test_a_kill_between_two_steps_leaves_the_file_right(program: Program, tmp_path: Path) -> None:
    """The next generation may be in the manifest, and in the skeleton: no data is changed yet."""
    program('write("x.h5", 1)')
    manifest = next((tmp_path / "x.h5.arrow").glob("*/manifest"))
    # Before the skeleton says it, and in the middle of a line.
    before = manifest.read_bytes()
    for added in (b"next 00000000000000aa\n", b"next 0000"):
        manifest.write_bytes(before + added)
        program('assert read("x.h5") == 1; write("x.h5", 2, "r+"); assert read("x.h5") == 2')
        program('write("x.h5", 1, "r+")')
        before = manifest.read_bytes()
    # After it.
    text = manifest.read_text()
    last = re.findall(r"^next (\w{16})\n", text, re.M)[-1]
    assert text.endswith(f"generation {last}\n")
    manifest.write_text(text[: -len(f"generation {last}\n")])
    program('assert read("x.h5") == 1; write("x.h5", 2, "r+"); assert read("x.h5") == 2')


def test_a_damaged_manifest_is_an_error(program: Program, tmp_path: Path) -> None:
    program('write("x.h5", 1)')
    manifest = next((tmp_path / "x.h5.arrow").glob("*/manifest"))
    whole = manifest.read_bytes()
    for wrong in (b"", b"nonsense\n", whole.replace(b"hdf5 1", b"hdf5 9"), b"\xff" * 4096):
        manifest.write_bytes(wrong)
        assert "1.0" not in program('print(read("x.h5"))').out
    manifest.unlink()
    assert "which is not there" in program('print(read("x.h5"))').out


def test_the_layout_of_before_is_read_and_gets_a_number_when_it_is_written(
    program: Program, tmp_path: Path
) -> None:
    program('write("x.h5", 1)')
    folder, skeleton = tmp_path / "x.h5.arrow", tmp_path / "x.h5"
    number = os.readlink(folder / "latest")
    (folder / number / "x.arrow").rename(folder / "x.arrow")
    shutil.rmtree(folder / number)
    (folder / "latest").unlink()
    # The marker names the file without a number, and the comment says nothing.
    long, short = f"x.h5.arrow/{number}/x.arrow".encode(), b"x.h5.arrow/x.arrow"
    content = skeleton.read_bytes().replace(long, short.ljust(len(long), b"\0"))
    skeleton.write_bytes(content.replace(b"plasmon data x", b"plasmon dada x"))
    program('assert read("x.h5") == 1')
    shutil.copy(skeleton, tmp_path / "bak.h5")
    program("""
assert read("bak.h5") == 1
write("x.h5", 2, "r+")
assert read("x.h5") == 2
write("x.h5", 3, "r+")
assert read("x.h5") == 3
with h5py.File("x.h5", "r+") as file:
    file["y"] = np.arange(3.0)""")
    assert (folder / "latest" / "y.arrow").exists()
    assert (folder / "x.arrow").exists()


def test_programs_do_not_see_the_comment(run: Program) -> None:
    run("""
    import ctypes
    from plasmon.hdf5 import _plugin
    def comment(file):
        hdf5 = ctypes.CDLL(_plugin._libhdf5())
        text = ctypes.create_string_buffer(b"?" * 200)
        hdf5.H5Oget_comment.argtypes = [ctypes.c_int64, ctypes.c_char_p, ctypes.c_size_t]
        length = hdf5.H5Oget_comment(file.id.id, text, 200)
        return length, text.value
    with h5py.File("x.h5", "w") as file:
        file["x"] = np.arange(10.0)
        assert comment(file) == (0, b""), comment(file)
        h5py.h5o.set_comment(file.id, b"the first run")
        assert comment(file) == (13, b"the first run"), comment(file)
    with h5py.File("x.h5", "r+") as file:
        file["x"][0] = 9
        assert comment(file) == (13, b"the first run"), comment(file)
    with h5py.File("x.h5", "r") as file:
        assert file["x"][0] == 9 and comment(file) == (13, b"the first run")""")
