"""Rows that arrive over time: HDF5 readers and Arrow readers see them after a flush."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from conftest import Program

import plasmon.hdf5


def test_readers_see_rows_after_a_flush(tmp_path: Path, run: Program, plain: Program) -> None:
    path = tmp_path / "x.h5"
    look = """
    with h5py.File("x.h5", "r") as file:
        print(len(file["g/x"]), file["g/x"][-1])"""
    with plasmon.hdf5.append(path, "g/x") as writer:
        writer.write(np.arange(10.0))
        assert not path.exists()
        assert writer.waiting == 10
        writer.flush()
        assert run(look).out.split() == plain(look).out.split() == ["10", "9.0"]
        writer.write(np.arange(5.0))
        assert run(look).out.split() == ["10", "9.0"]
    assert plain(look).out.split() == ["15", "4.0"]
    found = pa.ipc.open_file(
        pa.memory_map(str(tmp_path / "x.h5.arrow" / "latest" / "g" / "x.arrow"))
    )
    assert found.read_all().column("x").to_pylist()[8:12] == [8, 9, 0, 1]


def test_columns_are_records(tmp_path: Path, run: Program) -> None:
    path = tmp_path / "x.h5"
    with plasmon.hdf5.append(path, "r", rows_per_flush=1000) as writer:
        for step in range(5):
            ids = np.arange(700) + step * 700
            writer.write({"id": ids, "energy": ids / 2})
            writer.write(pa.table({"id": ids, "energy": ids / 2}))
            writer.write(pa.record_batch({"id": ids[:0], "energy": ids[:0] / 2}))
    run("""
    with h5py.File("x.h5", "r") as file:
        assert file["r"].shape == (7000,) and file["r"].maxshape == (None,)
        assert file["r"][6999]["id"] == 3499 and file["r"]["energy"][1] == 0.5""")
    with plasmon.hdf5.open(path) as file:
        assert file["r"].table.num_rows == 7000
        assert file["r"].array["id"][6999] == 3499


def test_rows_of_another_kind_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    with plasmon.hdf5.append(path, "x") as writer:
        writer.write(np.arange(3.0))
        with pytest.raises(TypeError, match="follow rows of float64"):
            writer.write(np.arange(3))
        with pytest.raises(TypeError, match="single value"):
            writer.write(np.array(3.0))
        with pytest.raises(TypeError, match="missing values"):
            writer.write(pa.table({"a": [1, None]}))
        with pytest.raises(TypeError, match="not list"):
            writer.write([1])  # type: ignore[arg-type]
    other = plasmon.hdf5.append(path, "x")
    other.write(np.arange(3))
    with pytest.raises(TypeError, match="as rows of float64"):
        other.flush()
    with pytest.raises(ValueError, match="no name"):
        plasmon.hdf5.append(path, "/")


def test_a_reader_makes_a_flush_wait(tmp_path: Path) -> None:
    import h5py

    path = tmp_path / "x.h5"
    with plasmon.hdf5.append(path, "x", wait_s=0.05) as writer:
        writer.write(np.arange(3.0))
        writer.flush()
        writer.write(np.arange(4.0))
        with h5py.File(path, "r"), pytest.raises(BlockingIOError, match="4 rows wait"):
            writer.flush()
    with plasmon.hdf5.open(path) as file:
        assert len(file["x"].array) == 7
