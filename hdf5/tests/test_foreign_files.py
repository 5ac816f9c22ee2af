"""HDF5 files of another author: what they name is neither connected to nor destroyed."""

from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path

import pytest
from conftest import Program
from in_store import READ, WRITE, full_name, names, settings

from plasmon import Daemon, Store

#: Reads one dataset and prints why it cannot.
TRY = """
with h5py.File("x.h5", "r") as file:
    try:
        file["g/x"][0]
        print("read")
    except OSError as error:
        print(error)
"""


def test_a_file_does_not_choose_the_store(run: Program, tmp_path: Path, daemon: Daemon) -> None:
    """The connector connected to any socket that a file named, and trusted what it said."""
    named = tmp_path / "named.sock"
    named.symlink_to(daemon.socket)
    run(WRITE, settings=f"backend=store store={named}")
    named.unlink()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as trap:
        trap.bind(str(named))
        trap.listen()
        trap.setblocking(False)
        out = run(TRY).out
        assert "only this file names that store" in out
        assert f"store={named}" in out
        python = """
        import plasmon.hdf5
        with plasmon.hdf5.open("x.h5") as file:
            try:
                file["g/x"].table
            except PermissionError as error:
                print(error)"""
        assert "only this file names that store" in run(python).out
        # Deleting and overwriting need no store either.
        run("""
        with h5py.File("x.h5", "r+") as file:
            del file["g/x"]""")
        with pytest.raises(BlockingIOError):
            trap.accept()


def test_the_user_may_let_a_file_choose_the_store(
    run: Program, daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(WRITE, settings=settings(daemon))
    run(READ)
    monkeypatch.delenv("PLASMON_SOCKET")
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/nowhere")
    assert "only this file names that store" in run(TRY).out
    run(READ, settings=f"store={daemon.socket}")
    run(f"""
    import plasmon.hdf5
    with plasmon.hdf5.open("x.h5", store={daemon.socket!r}) as file:
        assert file["r"].table["a"].to_pylist() == [0, 1, 2, 3]""")


def test_a_file_deletes_only_its_own_objects(
    run: Program, tmp_path: Path, daemon: Daemon, store: Store
) -> None:
    """A file could name any object, which was deleted when the file was overwritten."""
    run(WRITE, settings=settings(daemon))
    own = {full_name(store, one) for one in ("g/x", "field", "r")}
    shutil.copy(tmp_path / "x.h5", tmp_path / "gift.h5")
    run(
        """
        with h5py.File("gift.h5", "r+") as gift:
            assert gift["g/x"][7] == 7
            del gift["g/x"]
            gift.move("r", "renamed")
        h5py.File("gift.h5", "w").close()""",
        settings=settings(daemon),
    )
    found = {str(info.name) for info in store.list("hdf5", "x.h5-")}
    assert own <= found
    run(READ, settings=settings(daemon))
    # Its own objects go, as ever.
    run(
        """
        with h5py.File("x.h5", "r+") as file:
            del file["g/x"]""",
        settings=settings(daemon),
    )
    assert "g/x" not in names(store)
    run(
        """
        h5py.File("x.h5", "w").close()""",
        settings=settings(daemon),
    )
    assert not names(store)


def test_data_of_another_file_is_only_read(run: Program, tmp_path: Path) -> None:
    """A file could name the data of the one beside it, which was written and renamed then."""
    run(WRITE)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.arrow") if path.is_file()}
    shutil.copy(tmp_path / "x.h5", tmp_path / "gift.h5")
    out = run("""
    with h5py.File("gift.h5", "r+") as gift:
        assert gift["g/x"][7] == 7
        try:
            gift["g/x"][7] = 8
        except OSError as error:
            print(error)
        gift.move("r", "renamed")
        del gift["field"]
    h5py.File("gift.h5", "w").close()""").out
    assert "gift.h5 is a copy of x.h5" in out
    assert before == {path: path.read_bytes() for path in before}
    run(READ)


def test_a_renamed_file_keeps_its_data(run: Program, tmp_path: Path) -> None:
    run(WRITE)
    (tmp_path / "x.h5").rename(tmp_path / "y.h5")
    run("""
    with h5py.File("y.h5", "r+") as file:
        file["g/x"][7] = 8
    with h5py.File("y.h5", "r") as file:
        assert file["g/x"][7] == 8 and file["r"]["a"].tolist() == [0, 1, 2, 3]""")


@pytest.mark.parametrize("link", [".", "g", "g/x.arrow"])
def test_links_are_not_followed(run: Program, tmp_path: Path, link: str) -> None:
    run(WRITE)
    elsewhere = tmp_path / "elsewhere"
    place = (tmp_path / "x.h5.arrow" / "latest").resolve() / link
    place.rename(elsewhere)
    place.symlink_to(elsewhere)
    assert "symbolic link" in run(TRY).out
    python = """
    import plasmon.hdf5
    try:
        plasmon.hdf5.open("x.h5")["g/x"].table
    except OSError as error:
        print(error)"""
    assert "link" in run(python).out
    ended = run(
        """
        with h5py.File("x.h5", "r+") as file:
            file["g/new"] = np.arange(1000.0)
            del file["g/x"]
        """,
        good=False,
    )
    kept = [path for path in elsewhere.rglob("*") if path.is_file()] or [elsewhere]
    assert any(path.name in ("x.arrow", "elsewhere") for path in kept), ended
    assert not [path for path in kept if path.name == "new.arrow"]


def test_a_pipe_is_not_waited_for(run: Program, tmp_path: Path) -> None:
    run(WRITE)
    data = tmp_path / "x.h5.arrow" / "latest" / "g" / "x.arrow"
    data.unlink()
    os.mkfifo(data)
    assert "a pipe or a device" in run(TRY).out


def test_any_number_of_rows_is_refused_by_the_size_of_the_file(
    run: Program, plain: Program, tmp_path: Path
) -> None:
    """A file of 2 KB said it had 2^50 rows; a list of all its extents was made before its size was
    looked at."""
    plain("""
    kind = h5py.h5t.py_create(np.dtype([("a", "i8"), ("b", "f8")]))
    space = h5py.h5s.create_simple((1 << 50,), (h5py.h5s.UNLIMITED,))
    creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    name = b"x.h5.arrow/x.arrow (needs the plasmon connector)"
    creation.set_external(name, 2048, h5py.h5f.UNLIMITED)
    with h5py.File("x.h5", "w") as file:
        h5py.h5d.create(file.create_group("g").id, b"x", kind, space, dcpl=creation)""")
    (tmp_path / "x.h5.arrow").mkdir()
    (tmp_path / "x.h5.arrow" / "x.arrow").write_bytes(b"ARROW1\0\0" + bytes(2040))
    limited = "\nimport resource\nresource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))\n"
    assert "is not the file that was written" in run(limited + TRY.strip()).out


def test_the_connector_is_not_unloaded(run: Program) -> None:
    """HDF5 unloads plugins; threads of the connector's client went on in memory without code."""
    run("""
    import _ctypes, ctypes, glob
    (path,) = glob.glob(os.environ["HDF5_PLUGIN_PATH"] + "/*.so")
    library = ctypes.CDLL(path)
    for _ in range(8):
        try:
            _ctypes.dlclose(library._handle)
        except OSError:
            break
    assert os.path.basename(path) in open("/proc/self/maps").read()""")
