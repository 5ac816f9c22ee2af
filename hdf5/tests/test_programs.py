"""Real programs and libraries, unchanged, and the tools."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import pytest
from conftest import Program, connector_environment, plain_environment

import plasmon.hdf5

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "hdf5" / "unchanged.py"


@pytest.fixture
def particles(tmp_path: Path) -> Path:
    """What the example writes with the connector."""
    path = tmp_path / "particles.h5"
    command = [sys.executable, str(EXAMPLE), str(path)]
    environment = connector_environment()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert "100000 particles" in done.stdout
    return path


def test_the_unchanged_example(particles: Path) -> None:
    """pyarrow reads its columns without HDF5, and HDF5 alone the contiguous ones."""
    folder = particles.with_name("particles.h5.arrow") / "latest" / "step 0"
    energies = pa.ipc.open_file(pa.memory_map(str(folder / "energies.arrow"))).read_all()
    assert energies.num_rows == 100_000
    assert energies.column_names == ["id", "energy"]
    x = pa.ipc.open_file(pa.memory_map(str(folder / "x.arrow"))).read_all().column("x")
    # A relative name is looked for in the working directory, unless HDF5 is told otherwise.
    code = f"import h5py; print(h5py.File({str(particles)!r})['step 0/x'][:3].tolist())"
    environment = plain_environment() | {"HDF5_EXTFILE_PREFIX": "${ORIGIN}"}
    command = [sys.executable, "-c", code]
    out = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert json.loads(out.stdout) == x.slice(0, 3).to_pylist()


def test_open_gives_tables_and_arrays_in_place(particles: Path) -> None:
    with plasmon.hdf5.open(particles) as file:
        assert "step 0/x" in file
        assert len(file) == 6
        energies, field, x = (file[f"step 0/{name}"] for name in ("energies", "field", "x"))
        assert x.attributes == {"unit": "m"}
        assert x.shape == (100_000,)
        assert energies.table.column("id")[5].as_py() == 5
        assert field.array.shape == (100, 16, 16)
        assert not field.array.flags.owndata
        assert energies.array["id"][7] == 7
        assert file["step 0/note"].array == b"written by an ordinary program"
        with pytest.raises(TypeError, match="kept by HDF5"):
            _ = file["step 0/note"].table
        with pytest.raises(KeyError, match="no dataset"):
            _ = file["step 0"]
    assert x.array[0] == x.table.column(0)[0].as_py()
    with pytest.raises(FileNotFoundError):
        plasmon.hdf5.open(particles.with_name("nothing.h5"))


def test_open_says_what_is_missing(particles: Path) -> None:
    folder = particles.with_name("particles.h5.arrow")
    folder.rename(folder.with_name("elsewhere"))
    with plasmon.hdf5.open(particles) as file, pytest.raises(FileNotFoundError, match="copy or"):
        _ = file["step 0/x"].table


def test_inspect_says_which_and_why(particles: Path, tool: Program) -> None:
    out = tool("inspect", str(particles)).out
    assert "5 of 6 datasets are Arrow" in out
    assert "native: a scalar" in out
    assert "only with the connector" in out
    found = {
        one["dataset"]: one for one in json.loads(tool("inspect", str(particles), "--json").out)
    }
    assert found["/step 0/x"]["storage"] == "arrow"
    assert found["/step 0/x"]["plain"]
    assert not found["/step 0/energies"]["plain"]
    assert tool("inspect", "nothing.h5", good=False).code == 1


def test_export_needs_nothing_else(particles: Path, tool: Program) -> None:
    with plasmon.hdf5.open(particles) as file:
        energies = file["step 0/energies"].array
    tool("export", str(particles), "out.h5")
    exists = tool("export", str(particles), "out.h5", good=False)
    assert exists.code == 1
    assert "exists" in exists.err
    particles.with_name("particles.h5.arrow").rename(particles.with_name("gone"))
    with h5py.File(particles.with_name("out.h5")) as file:
        assert np.array_equal(file["step 0/energies"], energies)
        assert file["step 0/x"].attrs["unit"] == "m"
        assert file["step 0/x"].external is None


def test_import_makes_what_can_be_arrow(tool: Program, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "old.h5", "w") as file:
        file["g/x"] = np.arange(5.0)
        file["g/x"].attrs["unit"] = "m"
        file["soft"], file["hard"] = h5py.SoftLink("/g/x"), file["g/x"]
        file["text"] = ["a", "bc"]
        file.create_dataset("z", data=np.arange(100), chunks=(10,), compression="gzip")
        file.attrs["title"] = "a title"
    tool("import", "old.h5", "new.h5")
    out = tool("inspect", "new.h5").out
    assert "/g/x (5,) float64  arrow" in out
    assert "native: compressed" in out
    with h5py.File(tmp_path / "new.h5") as file:
        assert file.attrs["title"] == "a title"
        assert file["hard"].attrs["unit"] == "m"
        assert file["hard"] == file["g/x"]
        assert list(file["text"].asstr()) == ["a", "bc"]
        assert isinstance(file.get("soft", getlink=True), h5py.SoftLink)
        assert np.array_equal(file["z"], np.arange(100))
        assert file["z"].compression == "gzip"
    with h5py.File(tmp_path / "old.h5", "r+") as file:
        file.attrs["pointer"] = file["g"].ref
    refused = tool("import", "old.h5", "newer.h5", good=False)
    assert refused.code == 1
    assert "references" in refused.err


def test_doctor(particles: Path, tool: Program) -> None:
    assert "in order" in tool("doctor").out
    assert "in order" in tool("doctor", str(particles)).out
    folder = particles.with_name("particles.h5.arrow") / "latest" / "step 0"
    (folder / "x.arrow").rename(folder / "stray.arrow")
    found = tool("doctor", str(particles), good=False)
    assert found.code == 1
    assert "/step 0/x" in found.out
    assert "stray.arrow: no dataset of" in found.out


def test_three_copies_of_hdf5_in_one_process(run: Program) -> None:
    """The wheels bring a libhdf5 each; every one loads the connector and gets its own answers."""
    run("""
    import tables, netCDF4
    versions = {h5py.version.hdf5_version, tables.hdf5_version, netCDF4.__hdf5libversion__}
    assert len(versions) == 3, versions
    for _ in range(2):
        with h5py.File("h.h5", "w") as file:
            file["x"] = np.arange(5.0)
        with tables.open_file("t.h5", "w") as file:
            file.create_array("/", "x", np.arange(5.0))
            columns = {"a": tables.Int32Col(), "b": tables.Float64Col()}
            rows = file.create_table("/", "rows", columns)
            rows.append([(1, 2.0), (3, 4.0)])
            file.create_earray("/", "grows", obj=np.arange(5))
        with netCDF4.Dataset("n.nc", "w") as file:
            file.createDimension("x", 5)
            file.createDimension("t", None)
            file.createVariable("x", "f8", ("x",), contiguous=True)[:] = np.arange(5.0)
            file.createVariable("t", "f4", ("t", "x"))[0:3] = 1.5
            file["x"].units = "m"
    for name in ("h.h5", "t.h5", "n.nc"):
        assert os.path.exists(f"{name}.arrow/latest/x.arrow"), name
        with h5py.File(name, "r") as file:
            assert np.array_equal(file["x"][:], np.arange(5.0)), name
    with tables.open_file("t.h5") as file:
        assert file.root.rows[1]["b"] == 4 and file.root.x[2] == 2 and file.root.grows.nrows == 5
        assert [row["a"] for row in file.root.rows.where("b > 3")] == [3]
    with netCDF4.Dataset("n.nc") as file:
        assert file["x"].units == "m" and file["t"].shape == (3, 5) and file["x"][4] == 4""")


def test_pandas_and_xarray_on_top(run: Program) -> None:
    run("""
    import pandas, xarray
    frame = pandas.DataFrame({"a": range(5), "b": list("vwxyz"), "c": np.arange(5) / 2})
    for form in ("fixed", "table"):
        frame.to_hdf("p.h5", key=form, format=form, mode="a")
    for form in ("fixed", "table"):
        pandas.testing.assert_frame_equal(pandas.read_hdf("p.h5", form), frame)
    data = xarray.Dataset({"v": (("t", "x"), np.arange(12.0).reshape(3, 4))}, {"x": np.arange(4)})
    data.to_netcdf("x.nc", engine="netcdf4")
    assert xarray.open_dataset("x.nc", engine="netcdf4").load().equals(data)""")


def test_errors_have_their_names(run: Program) -> None:
    """h5py makes exceptions from the words of HDF5's errors, which must get through."""
    run("""
    for mode, kind in (("r", FileNotFoundError), ("r+", FileNotFoundError)):
        try:
            h5py.File("nothing.h5", mode)
        except kind:
            continue
        sys.exit("no error")
    h5py.File("x.h5", "w").close()
    try:
        h5py.File("x.h5", "x")
    except FileExistsError:
        sys.exit(0)
    sys.exit("no error")""")


def test_the_plugin_can_be_elsewhere(tool: Program) -> None:
    first = tool("plugin-path").out.strip().split(":")[0]
    assert first == os.path.realpath(os.environ["PLASMON_HDF5_PLUGIN"])
