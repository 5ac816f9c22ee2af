"""Files that HDF5 alone replaces, and files in memory."""

from __future__ import annotations

from pathlib import Path

from conftest import Program
from in_store import settings

from plasmon import Daemon, Store


def test_a_file_that_hdf5_alone_writes_anew_leaves_data_for_gc(
    run: Program, plain: Program, tool: Program, tmp_path: Path
) -> None:
    """No connector was there to take the earlier file's data along."""
    make = """
        with h5py.File("x.h5", "w") as file:
            file["x"] = np.arange({rows}.0)
        """
    run(make.format(rows=3))
    home = (tmp_path / "x.h5.arrow" / "latest").resolve() / "manifest"
    plain(make.format(rows=5))
    assert "1 folders of data" in tool("gc", "--dry-run").out
    assert home.exists()
    tool("gc", "--yes")
    assert not home.exists()
    read = '\nassert h5py.File("x.h5")["x"].shape == (5,)'
    plain(read)
    run(read)


def test_a_file_in_memory_keeps_its_values_although_a_store_is_set(
    run: Program, daemon: Daemon, store: Store
) -> None:
    """Nothing is beside such a file that could say which objects are its: all stays with HDF5."""
    ended = run(
        """
        import io
        memory = io.BytesIO()
        with h5py.File(memory, "w") as file:
            file["x"] = np.arange(1000.0)
            file["r"] = np.arange(4).astype([("a", "i4"), ("b", "f8")])
        with h5py.File(memory, "r+") as file:
            file["x"][0] = 7
            file["y"] = np.arange(3)
        with h5py.File(io.BytesIO(memory.getvalue()), "r") as file:
            print(file["x"][:2].tolist(), file["r"]["b"].tolist(), file["y"][2], os.listdir())
        with h5py.File("x.h5", "w") as file:
            file["x"] = np.arange(10.0)
        try:
            with h5py.File(io.BytesIO(open("x.h5", "rb").read()), "r") as file:
                print(file["x"][...])
        except OSError as error:
            print("opened through an object that has no path" in str(error))
        """,
        settings=settings(daemon),
    )
    assert ended.out == "[7.0, 1.0] [0.0, 1.0, 2.0, 3.0] 2 []\nTrue\n"
    assert all(str(info.name).startswith("x.h5-") for info in store.list("hdf5"))
