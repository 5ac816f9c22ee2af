"""Datasets in a store that is full, gone or started again, and writers that are killed."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import Program
from in_store import WRITE, count, full_name, names, settings

import plasmon
from plasmon import Daemon, Store


def test_a_full_store_is_an_error_and_the_old_data_stays(
    run: Program, daemon: Daemon, store: Store
) -> None:
    out = run(
        """
    with h5py.File("x.h5", "w") as file:
        file["x"] = np.full(5 << 20, 1.0)
        try:
            file.create_dataset("y", data=np.zeros(4 << 20))
        except (OSError, ValueError) as error:
            print("create:", error)
        assert "y" not in file
        try:
            file["x"][0] = 2
        except OSError as error:
            print("write:", error)
        assert file["x"][0] == 1""",
        settings=settings(daemon),
    ).out
    for what in ("create", "write"):
        (line,) = [line for line in out.splitlines() if line.startswith(what)]
        assert "the store is full" in line, out
        assert "in the store" in line, out
    table: Any = store.get(full_name(store, "x"), namespace="hdf5")
    assert table["x"][0].as_py() == 1


def test_objects_are_spilled_and_not_lost(run: Program, tmp_path: Path) -> None:
    (tmp_path / "spill").mkdir()
    daemon = plasmon.start("16m", settings={"spill_dir": str(tmp_path / "spill")})
    try:
        run(
            """
        with h5py.File("x.h5", "w") as file:
            for at in range(8):
                file[f"d{at}"] = np.full(1 << 19, at, dtype="f8")
        with h5py.File("x.h5", "r") as file:
            for at in range(8):
                assert (file[f"d{at}"][:] == at).all()""",
            settings=settings(daemon),
        )
    finally:
        daemon.stop()


def test_what_is_not_there_is_reported(run: Program, daemon: Daemon, store: Store) -> None:
    run(WRITE, settings=settings(daemon))
    store.delete(full_name(store, "g/x"), namespace="hdf5")
    code = """
    with h5py.File("x.h5", "r") as file:
        try:
            file["g/x"][0]
        except OSError as error:
            print(error)"""
    out = run(code).out
    assert "which does not have it (deleted)" in out
    assert daemon.socket in out
    store.put(
        b"something else", name=f"{full_name(store, 'r').split('/')[0]}/g/x", namespace="hdf5"
    )
    assert "is not the data that was written for this dataset" in run(code).out
    out = run(code, settings="store=/nowhere/s.sock").out
    assert "there is no store at /nowhere/s.sock" in out
    ended = run(WRITE, settings="backend=store store=/nowhere/s.sock", good=False)
    assert "there is no store at /nowhere/s.sock" in ended.err
    daemon.stop()
    assert f"there is no store at {daemon.socket}" in run(code).out


KILLED = """
import plasmon, signal
store = plasmon.connect({socket!r})
file = h5py.File("x.h5", "w")
file["flushed"] = np.arange(5.0)
file.flush()
data = file.create_dataset("x", (1 << 20,), "f8")
data[:] = 1
os.kill(store.status().pid, signal.SIGKILL)
del data
try:
    file.close()
except Exception as error:
    print("told:", error)
"""


def test_a_store_that_is_gone_is_an_error_of_the_close(run: Program) -> None:
    daemon = plasmon.start("64m", settings={"keeper": "false"})
    try:
        ended = run(KILLED.format(socket=daemon.socket), settings=settings(daemon), good=False)
    finally:
        daemon.stop()
    assert "told:" in ended.out, (ended.out, ended.err)
    assert "object hdf5:x.h5-" in ended.out


def test_a_store_that_is_started_again_has_the_data(
    run: Program, daemon: Daemon, store: Store
) -> None:
    """Its keeper starts it again, and neither what is sealed nor what is written is lost."""
    ended = run(KILLED.format(socket=daemon.socket), settings=settings(daemon))
    assert ended.out == "", ended.out
    run("""
    with h5py.File("x.h5", "r") as file:
        assert file["flushed"][4] == 4 and (file["x"][:] == 1).all()""")


def test_a_killed_writer_leaves_what_was_flushed_and_nothing_else(
    run: Program, daemon: Daemon, store: Store
) -> None:
    run(WRITE, settings=settings(daemon))
    objects = count(store)
    ended = run(
        """
    import signal
    file = h5py.File("x.h5", "r+")
    file["new"] = np.arange(100.0)
    file.flush()
    file["g/x"][:10] = -1
    lost = file.create_dataset("lost", (1 << 18,), "f8")
    lost[:] = 3
    file["field"][0] = 0
    os.kill(os.getpid(), signal.SIGKILL)""",
        settings=settings(daemon),
        good=False,
    )
    assert ended.code == -signal.SIGKILL
    deadline = time.monotonic() + 10
    # The composite of the new dataset and its member.
    while count(store) != objects + 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert count(store) == objects + 2
    assert names(store) == {"g/x", "field", "r", "new"}
    run(
        """
    with h5py.File("x.h5", "r") as file:
        assert file["new"][99] == 99 and file["g/x"][0] == 0 and file["field"][0, 0, 1] == 1"""
    )


@pytest.mark.parametrize("seed", range(6))
def test_a_writer_that_is_killed_at_any_moment_leaves_whole_versions(
    run: Program, daemon: Daemon, store: Store, seed: int
) -> None:
    """Each version has one value throughout, and the newest that was reported, or a later one."""
    run(
        """
    with h5py.File("x.h5", "w") as file:
        file["x"] = np.zeros(1 << 16)""",
        settings=settings(daemon),
    )
    ended = run(
        f"""
    import random, signal, threading
    delay = random.Random({seed}).uniform(0.0, 0.2)
    file = h5py.File("x.h5", "r+")
    data = file["x"]
    threading.Timer(delay, lambda: os.kill(os.getpid(), signal.SIGKILL)).start()
    for value in range(1, 1_000_000):
        data[:] = value
        data.flush()
        os.write(1, b"%d\\n" % value)""",
        settings=settings(daemon),
        good=False,
    )
    assert ended.code == -signal.SIGKILL
    told = int(ended.out.split()[-1]) if ended.out.split() else 0
    out = run("""
    with h5py.File("x.h5", "r+") as file:
        values = set(file["x"][:].tolist())
        assert len(values) == 1, values
        print(int(values.pop()))
        file["x"][0] = -5
        file.flush()
        assert file["x"][0] == -5""").out
    assert told <= int(out) <= told + 1
    assert names(store) == {"x"}
