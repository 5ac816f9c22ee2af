"""`plasmon hdf5 gc` and the next program remove what killed programs leave, and nothing else.

A program that was killed between making a dataset and naming it left `unnamed.arrow`, and one that
copied a file a hidden part that made `gc` refuse; objects stayed in their store.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import Program, connector_environment, data, plain_environment
from in_store import settings

from plasmon import Daemon, Store

WRITE = """
with h5py.File("x.h5", "w") as file:
    file["x"] = np.arange(10.0)
"""
READ = """
with h5py.File({name!r}, "r") as file:
    assert file["x"][9] == 9
"""
#: A program that dies before its dataset has a name.
KILLED = """
import signal
file = h5py.File("x.h5", "a")
file.require_dataset("x", (10,), "f8")[:] = np.arange(10.0)
file.flush()
file.create_dataset(None, data=np.arange(5.0))
os.kill(os.getpid(), signal.SIGKILL)"""


def left(folder: Path) -> list[str]:
    """Everything below a folder."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_temporary_files_leave_nothing(run: Program, tool: Program, tmp_path: Path) -> None:
    """Thousands of folders of data stayed after PyTables' own suite, which removes its files by
    name. Files that are removed, or made again, through HDF5 take their data along at once."""
    run("""
    import ctypes, glob, tables
    (path,) = glob.glob(os.path.dirname(h5py.__file__) + ".libs/libhdf5-*.so*")
    delete = ctypes.CDLL(path).H5Fdelete
    delete.argtypes = [ctypes.c_char_p, ctypes.c_int64]
    for name in ("a.h5", "a.h5", "b.h5"):
        with h5py.File(name, "w") as file:
            file["x"] = np.arange(10.0)
    access = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
    assert delete(b"b.h5", access.id) >= 0
    homes = "*.arrow/" + "[0-9a-f]" * 16
    assert len(glob.glob(homes)) == 1 and not os.path.exists("b.h5.arrow")
    for _ in range(3):
        with tables.open_file("t.h5", "w") as file:
            rows = file.create_table("/", "x", {"id": tables.Int32Col()})
            rows.append([(1,), (2,)])
        os.remove("t.h5")
    os.remove("a.h5")
    assert len(glob.glob(homes)) == 4""")
    assert "removed 4 folders" in tool("gc", "--yes").out
    assert left(tmp_path) == []


def test_a_dataset_that_never_gets_a_name_leaves_nothing(run: Program, tmp_path: Path) -> None:
    run("""
    with h5py.File("x.h5", "w") as file:
        nameless = file.create_dataset(None, data=np.arange(5.0))
        file["x"] = np.arange(10.0)
        assert nameless[4] == 4""")
    assert data(tmp_path) == {"x.arrow"}


def test_the_next_program_that_writes_removes_what_has_no_name(
    run: Program, tmp_path: Path
) -> None:
    assert run(KILLED, good=False).code == -signal.SIGKILL
    assert data(tmp_path) == {"x.arrow", "unnamed.arrow"}
    run("""
    with h5py.File("x.h5", "r+") as file:
        file["x"][0] = 7""")
    assert data(tmp_path) == {"x.arrow"}
    run("""
    with h5py.File("x.h5", "r") as file:
        assert file["x"][:2].tolist() == [7, 1]""")


def test_gc_removes_what_no_dataset_names(run: Program, tool: Program, tmp_path: Path) -> None:
    run(KILLED, good=False)
    shutil.copy(tmp_path / "x.h5", tmp_path / "bak.h5")
    tool("gc", "--yes")
    # The copy may name it.
    assert data(tmp_path) == {"x.arrow", "unnamed.arrow"}
    (tmp_path / "bak.h5").rename(tmp_path / "bak")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "bak").rename(tmp_path / "elsewhere" / "bak.h5")
    others = tmp_path / "x.h5.arrow" / "latest" / "other.arrow"
    others.write_text("foreign")
    assert "unnamed.arrow, which no dataset of" in tool("gc", "--dry-run").out
    assert "1 leftovers" in tool("gc", "--yes").out
    assert data(tmp_path) == {"x.arrow", "other.arrow"}
    run(READ.format(name="x.h5"))
    # A copy from before takes no other data for what it may know.
    (tmp_path / "elsewhere" / "bak.h5").rename(tmp_path / "bak.h5")
    run("""
    with h5py.File("bak.h5", "r") as file:
        try:
            file["x"][0]
        except OSError as error:
            assert "its own values are gone" in str(error), error
        else:
            sys.exit("no error")
    with h5py.File("x.h5", "r+") as file:
        file["x"][:] = np.arange(10.0)
        file["y"] = np.arange(3)""")
    assert "0 folders" in tool("gc", "--yes").out


def test_gc_leaves_what_a_program_writes(run: Program, tool: Program, tmp_path: Path) -> None:
    """Also where the locks of HDF5 are off, and the file is gone by name."""
    run(WRITE)
    program = """
import os, sys
os.environ["HDF5_USE_FILE_LOCKING"] = "FALSE"
import h5py, numpy as np
file = h5py.File("x.h5", "r+")
file["x"][0] = 0
if "new" not in file:
    file["new"] = np.arange(3)
nameless = file.create_dataset(None, data=np.arange(5.0))
if "removed" in sys.argv:
    os.unlink("x.h5")
print("ready", flush=True)
sys.stdin.readline()
nameless[0] = 1
file.close()
"""
    for arguments in ([], ["removed"]):
        with subprocess.Popen(
            [sys.executable, "-c", program, *arguments],
            cwd=tmp_path,
            env=connector_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as running:
            assert running.stdout is not None
            assert running.stdout.readline() == "ready\n"
            before = data(tmp_path)
            environment = {**plain_environment(), "HDF5_USE_FILE_LOCKING": "FALSE"}
            command = [sys.executable, "-m", "plasmon.hdf5", "gc", "--yes"]
            done = subprocess.run(
                command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
            )
            if arguments:
                assert "a program writes there" in done.stderr, done.stdout + done.stderr
            assert "unnamed.arrow" in before
            assert data(tmp_path) == before
            running.communicate("\n")
        assert running.returncode == 0
    assert "removed 1 folders" in tool("gc", "--yes").out
    assert left(tmp_path) == []


#: Kills commands where they are about to do something, runs `gc`, and says what it left.
KILL = """
import shutil, signal, tarfile
from pathlib import Path
from plasmon.hdf5 import _collecting, _moving, _packing, _tools

def die(*_arguments, **_names):
    os.kill(os.getpid(), signal.SIGKILL)

def torn(source, target):
    with open(target, "wb") as file:
        file.write(Path(source).read_bytes()[:300])
    die()

def copy(module, name, kill=die, source="x.h5"):
    setattr(module, name, kill)
    _moving.copy(Path(source), Path("y.h5"))

def pack():
    tarfile.TarFile.addfile = die
    _packing.pack(Path("x.h5"), Path("y"))

def export():
    _tools._copy_attributes = die
    _tools.export(Path("x.h5"), Path("y"))

PLACES = {
    "nothing": lambda: copy(shutil, "copyfile"),
    "half of the file": lambda: copy(shutil, "copyfile", torn),
    "the file": lambda: copy(_moving, "_begin"),
    "half of the manifest": lambda: copy(Path, "rename"),
    "the manifest": lambda: copy(_moving, "_rename_data"),
    "the names": lambda: copy(_moving, "_copy_data"),
    "the data": lambda: copy(os, "link"),
    "all but a link": lambda: copy(Path, "replace"),
    "plain": lambda: copy(shutil, "copyfile", torn, "plain.h5"),
    "half of an archive": pack,
    "half of an export": export,
}

def left():
    return sorted(str(path) for path in Path().rglob("*"))

def killed(work):
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(0)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
"""


def test_gc_removes_what_killed_commands_leave(
    run: Program, plain: Program, tmp_path: Path
) -> None:
    """Wherever it was killed: the original is whole, and there is a whole copy or none."""
    run(WRITE)
    plain(WRITE.replace("x.h5", "plain.h5"))
    # Files with similar names are foreign, or belong to a program that still runs.
    for name in (".y.h5.1.part", ".plasmon-draft-notes", f".plasmon-draft-{os.getpid()}-ab"):
        (tmp_path / name).write_text("foreign")
    plain(
        KILL
        + """
before = left()
for place, work in PLACES.items():
    killed(work)
    found = _collecting.find(Path())
    assert not _collecting.collect(found)
    if place == "all but a link":
        shutil.copytree(".", "../copy", symlinks=True)
        _moving.remove(Path("y.h5"))
    assert left() == before, (place, found)"""
    )
    run(READ.format(name="x.h5"))
    run(READ.format(name="../copy/y.h5"))


def test_gc_removes_what_was_unpacked_in_part(run: Program, plain: Program, tmp_path: Path) -> None:
    run(WRITE)
    plain(
        KILL
        + """
_packing.pack(Path("x.h5"), Path("x.tar"))
os.unlink("x.h5")
shutil.rmtree("x.h5.arrow")
extract = tarfile.TarFile.extract
for members in range(3):
    def unpack():
        count = iter(range(9))
        def some(*arguments, **names):
            if next(count) == members:
                die()
            extract(*arguments, **names)
        tarfile.TarFile.extract = some
        _packing.unpack(Path("x.tar"), Path())
    killed(unpack)
    _collecting.collect(_collecting.find(Path()))
    assert left() == ["x.tar"], members"""
    )


def test_drafts_of_killed_writers_go(run: Program, tool: Program, tmp_path: Path) -> None:
    run(WRITE)
    (home,) = (path for path in (tmp_path / "x.h5.arrow").iterdir() if not path.is_symlink())
    before = left(tmp_path)
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    (home / f".plasmon-draft-{ended.pid}-0").write_bytes(b"ARROW1")
    (home / f".plasmon-draft-{ended.pid}-1.txt").write_text("foreign")
    folder = home.parent
    (folder / f".plasmon-draft-link-{home.name}").symlink_to(home.name)
    (folder / ("0" * 16)).mkdir()
    (folder / ("0" * 16) / ".plasmon-draft-manifest").write_text("# The data")
    (folder / ("1" * 16)).mkdir()
    (folder / ("2" * 16)).mkdir()
    (folder / ("2" * 16) / "notes").write_text("foreign")
    tool("gc", "--yes")
    others = [f"{home.name}/.plasmon-draft-{ended.pid}-1.txt", "2" * 16, "2" * 16 + "/notes"]
    assert left(tmp_path) == sorted([*before, *(f"x.h5.arrow/{name}" for name in others)])
    run(READ.format(name="x.h5"))


def test_gc_removes_objects_or_says_how(
    run: Program,
    tool: Program,
    tmp_path: Path,
    daemon: Daemon,
    store: Store,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The folder went, and the objects stayed in the store without any file that knew them."""
    for name in ("x.h5", "y.h5"):
        run(WRITE.replace("x.h5", name), settings=settings(daemon))
    (tmp_path / "x.h5").unlink()
    monkeypatch.setenv("PLASMON_SOCKET", str(tmp_path / "another.sock"))
    told = tool("gc", "--yes", good=False).err
    assert f"its objects are in the store {daemon.socket}, which only this data names" in told
    assert f"PLASMON_SOCKET={daemon.socket}" in told
    assert (tmp_path / "x.h5.arrow").exists()
    monkeypatch.setenv("PLASMON_SOCKET", daemon.socket)
    assert "1 objects in a store" in tool("gc", "--dry-run").out
    assert len(list(store.list("hdf5"))) == 2
    assert "removed 1 folders" in tool("gc", "--yes").out
    assert [str(info.name)[:4] for info in store.list("hdf5")] == ["y.h5"]
    assert not (tmp_path / "x.h5.arrow").exists()
    run(READ.format(name="y.h5"), settings=settings(daemon))
    # The store's end is that of its objects.
    (tmp_path / "y.h5").unlink()
    daemon.stop()
    assert "removed 1 folders" in tool("gc", "--yes").out
    assert not (tmp_path / "y.h5.arrow").exists()
