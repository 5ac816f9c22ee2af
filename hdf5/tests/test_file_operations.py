"""What people and their tools do with files: each file gives its own values or says what is wrong.

Copies, rotation, atomic saves and renamed pairs are in test_identity.py, archives and links in
random order in test_random_operations.py.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import Program

#: Writes ten numbers from one on, and says what a file gives: its first number or an error.
BOTH = """
def write(name, first, mode="r+"):
    with h5py.File(name, mode) as file:
        if "x" in file:
            file["x"][:] = np.arange(10.0) + first
        else:
            file["x"] = np.arange(10.0) + first

def read(name):
    with h5py.File(name, "r") as file:
        try:
            return str(file["x"][0])
        except OSError as error:
            return str(error)
"""


@pytest.fixture
def program(run: Program) -> Program:
    """Runs a program that can write and read numbers; returns what it prints."""

    def program(code: str, **options: object) -> str:
        return run(BOTH + "\n" + code, **options).out.strip()

    return program


def _replaced(source: Path, target: Path) -> None:
    """What rsync does with a file that differs: a hidden copy takes its place."""
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(f".{target.name}.rsync")
    if source.is_symlink():
        draft.symlink_to(os.readlink(source))
    else:
        shutil.copy2(source, draft)
    draft.replace(target)


@pytest.mark.parametrize("order", ["forwards", "backwards"])
def test_a_mirror_that_is_brought_up_to_date_file_by_file(
    program: Program, tmp_path: Path, order: str
) -> None:
    """rsync is stopped after any file: the mirror gives old or new values, or an error."""
    here, mirror = tmp_path / "here", tmp_path / "mirror"
    here.mkdir()
    program('write("here/x.h5", 1, "w")')
    shutil.copytree(here, mirror, symlinks=True)
    program("""
write("here/x.h5", 2)
with h5py.File("here/x.h5", "r+") as file:
    file["y"] = np.arange(3)""")
    paths = sorted(path for path in here.rglob("*") if path.is_symlink() or path.is_file())
    for path in paths if order == "forwards" else reversed(paths):
        _replaced(path, mirror / path.relative_to(here))
        said = program('print(read("mirror/x.h5"))')
        assert said in {"1.0", "2.0"} or "its own values are gone" in said, said
    assert program('print(read("mirror/x.h5"))') == "2.0"
    program('write("mirror/x.h5", 3)')
    assert program('print(read("mirror/x.h5"), read("here/x.h5"))') == "3.0 2.0"


def test_git_checks_out_another_state(program: Program, tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        settings = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        subprocess.run(
            ["git", *settings, *arguments], cwd=tmp_path, check=True, capture_output=True
        )

    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    git("init", "-q")
    for state in (1, 2):
        program(f'write("x.h5", {state}, "a")')
        git("add", "-A")
        git("commit", "-qm", str(state))
        git("branch", f"state{state}")
    for state in (1, 2, 1):
        git("checkout", "-q", f"state{state}")
        assert program('print(read("x.h5"))') == f"{state}.0"
    # Only the HDF5 file of another state: its data is not there.
    git("checkout", "-q", "state2", "--", "x.h5")
    assert "was changed after x.h5 was copied" in program('print(read("x.h5"))')
    git("checkout", "-q", "-f", "state2")
    program('write("x.h5", 7)')
    assert program('print(read("x.h5"))') == "7.0"
    git("checkout", "-q", "-f", "state1")
    assert program('print(read("x.h5"))') == "1.0"


@pytest.mark.parametrize("restored", ["x.h5", "both"])
def test_an_old_file_is_restored(program: Program, tmp_path: Path, restored: str) -> None:
    """Alone it names data that was changed since; together with its data it is as it was."""
    program('write("x.h5", 1, "w")')
    old = tmp_path / "old"
    old.mkdir()
    shutil.copy2(tmp_path / "x.h5", old)
    shutil.copytree(tmp_path / "x.h5.arrow", old / "x.h5.arrow", symlinks=True)
    program('write("x.h5", 2)')
    shutil.copy2(old / "x.h5", tmp_path / "x.h5")
    if restored == "both":
        shutil.rmtree(tmp_path / "x.h5.arrow")
        shutil.copytree(old / "x.h5.arrow", tmp_path / "x.h5.arrow", symlinks=True)
        program('assert read("x.h5") == "1.0"; write("x.h5", 3); assert read("x.h5") == "3.0"')
        return
    assert "its own values are gone" in program('print(read("x.h5"))')
    assert program('write("x.h5", 3)', good=False) == ""
    # A new run makes the file again, with its own data.
    program('write("x.h5", 4, "w"); assert read("x.h5") == "4.0"')


def test_a_clock_that_jumps_changes_nothing(program: Program, tmp_path: Path) -> None:
    program('write("x.h5", 1, "w")')
    shutil.copy2(tmp_path / "x.h5", tmp_path / "bak.h5")
    for turn, at in enumerate((0, 4_000_000_000, 1, 2**31)):
        for path in tmp_path.rglob("*"):
            if not path.is_symlink():
                os.utime(path, (at, at))
        program(f'write("x.h5", {turn + 2}); assert read("x.h5") == "{turn + 2}.0"')
        assert "its own values are gone" in program('print(read("bak.h5"))')


def test_every_name_of_a_file_gives_the_same(program: Program, tmp_path: Path) -> None:
    program('write("x.h5", 1, "w")')
    (tmp_path / "q").mkdir()
    os.link(tmp_path / "x.h5", tmp_path / "hard.h5")
    (tmp_path / "soft.h5").symlink_to("x.h5")
    (tmp_path / "q" / "far.h5").symlink_to("../x.h5")
    for value, name in enumerate(("hard.h5", "soft.h5", "q/far.h5", "x.h5"), 2):
        program(f"""
write("{name}", {value})
found = [read(name) for name in ("x.h5", "hard.h5", "soft.h5", "q/far.h5")]
assert found == ["{value}.0"] * 4, found""")
    # A hard link in another folder has no data beside it, and says so.
    os.link(tmp_path / "x.h5", tmp_path / "q" / "hard.h5")
    assert "which is not there" in program('print(read("q/hard.h5"))')
    (tmp_path / "x.h5").unlink()
    assert program('print(read("hard.h5"))') == "5.0"


def test_data_that_is_deleted_alone_is_named(program: Program, tmp_path: Path) -> None:
    program('write("x.h5", 1, "w")')
    shutil.rmtree(tmp_path / "x.h5.arrow")
    said = program('print(read("x.h5"))')
    assert "x.h5.arrow" in said
    assert "which is not there; copy or move the folder of data together" in said
    program('write("x.h5", 2, "w"); assert read("x.h5") == "2.0"')


def test_rows_whose_end_was_not_written(run: Program, tmp_path: Path) -> None:
    """A program was killed while it added rows: HDF5 reads them, and the Arrow file is made right
    by the next ones."""
    run("""
    import plasmon.hdf5
    with h5py.File("x.h5", "w") as file:
        file.create_dataset("x", data=np.arange(100), maxshape=(None,))
    path = os.path.realpath("x.h5.arrow/latest/x.arrow")
    with open(path, "r+b") as arrow:
        arrow.seek(-10, os.SEEK_END)
        arrow.write(bytes(10))
    with h5py.File("x.h5", "r") as file:
        assert file["x"][99] == 99
    with plasmon.hdf5.open("x.h5") as file:
        try:
            file["x"].array
        except OSError as error:
            assert f"{path} with the values of /x is not a complete Arrow file" in str(error), error
        else:
            sys.exit("no error")
    with h5py.File("x.h5", "r+") as file:
        file["x"].resize((101,))
        file["x"][100] = 7
    with plasmon.hdf5.open("x.h5") as file:
        assert len(file["x"].array) == 101 and file["x"].table.num_rows == 101""")
