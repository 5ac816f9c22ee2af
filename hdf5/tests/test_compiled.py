"""Programs in C and Fortran that are linked to HDF5 1.14.5, and programs of several processes."""

from __future__ import annotations

import shutil
from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import pytest
from conftest import Program, connector_environment, plain_environment, run_command

HERE = Path(__file__).resolve().parent
EXAMPLES = HERE.parents[1] / "examples" / "hdf5"
RANKS = HERE / "programs" / "ranks.c"
#: What each process of the program with MPI writes of each dataset.
ROWS = 1000


def compiled(library: Path, source: Path, folder: Path, compiler: str, kind: str) -> Path:
    """A program made from a source; it finds its libhdf5 by itself."""
    if shutil.which(compiler) is None or not (library / kind).exists():
        pytest.skip(f"there is no {compiler}, or no HDF5 that was built for it")
    place = library / kind
    program = folder / source.stem
    libraries = ["-lhdf5_fortran", "-lhdf5"] if compiler == "gfortran" else ["-lhdf5"]
    command: list[str | Path] = [compiler, "-O1", f"-I{place}/include", f"-I{place}/mod"]
    command += ["-o", program, source, f"-L{place}/bin", *libraries, f"-Wl,-rpath,{place}/bin"]
    run_command(command, folder, plain_environment())
    return program


def column(path: Path, name: str = "") -> np.ndarray:
    """A column of an Arrow file: the one of this name, or the only one."""
    table = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
    return table.column(name or 0).to_numpy()


def test_the_example_in_c(library: Path, tmp_path: Path) -> None:
    """It names the library's variables, so that it has copies of them: those count."""
    program = compiled(library, EXAMPLES / "particles.c", tmp_path, "gcc", "serial")
    plain = run_command([program, "native.h5"], tmp_path, plain_environment())
    ours = run_command([program, "ours.h5"], tmp_path, connector_environment())
    assert ours.out.replace("ours", "native") == plain.out
    folder = tmp_path / "ours.h5.arrow" / "latest" / "step"
    assert sorted(path.stem for path in folder.iterdir()) == ["field", "particles", "x"]
    assert np.array_equal(column(folder / "particles.arrow", "energy"), np.arange(1000) / 4)
    with h5py.File(tmp_path / "native.h5") as file:
        assert np.array_equal(column(folder / "x.arrow"), file["step/x"])


def test_the_example_in_fortran(library: Path, tmp_path: Path) -> None:
    program = compiled(library, EXAMPLES / "particles.f90", tmp_path, "gfortran", "serial")
    plain = run_command([program, "native.h5"], tmp_path, plain_environment())
    ours = run_command([program, "ours.h5"], tmp_path, connector_environment())
    assert ours.out.replace("ours", "native") == plain.out
    table = pa.ipc.open_file(tmp_path / "ours.h5.arrow" / "latest" / "field.arrow").read_all()
    with h5py.File(tmp_path / "native.h5") as file:
        rows = table.column(0).combine_chunks().to_numpy_ndarray()
        assert np.array_equal(rows, file["field"])


def together(library: Path, folder: Path, mpi: str, processes: int) -> list[str | Path]:
    """The command that runs the program with MPI as a number of processes."""
    kind = {"mpich": "parallel", "openmpi": "openmpi"}[mpi]
    program = compiled(library, RANKS, folder, f"mpicc.{mpi}", kind)
    # Open MPI wants to be told that there may be more processes than processors, and a superuser.
    flags = ["--oversubscribe", "--allow-run-as-root"] if mpi == "openmpi" else []
    return [f"mpiexec.{mpi}", *flags, "-n", str(processes), program]


@pytest.mark.parametrize("mpi", ["mpich", "openmpi"])
@pytest.mark.parametrize("processes", [2, 4])
@pytest.mark.parametrize("manner", ["collective", "independent"])
def test_processes_write_one_file(
    library: Path, tmp_path: Path, plain: Program, mpi: str, processes: int, manner: str
) -> None:
    """Each checks what its neighbour wrote; then everything is read as Arrow, and by HDF5 alone."""
    command = [*together(library, tmp_path, mpi, processes), "x.h5", manner]
    ended = run_command(command, tmp_path, connector_environment())
    assert ended.out == f"{processes} processes agree\n"
    assert ended.err == ""
    folder, rows = tmp_path / "x.h5.arrow" / "latest", ROWS * processes
    wanted = ["matrix", "particles", "spread", "x"]
    assert sorted(path.stem for path in folder.glob("*.arrow")) == wanted
    for name in ("x", "spread"):
        assert np.array_equal(column(folder / f"{name}.arrow"), np.arange(rows, dtype="f4"))
    particles = folder / "particles.arrow"
    assert np.array_equal(column(particles, "id"), np.arange(rows))
    assert np.array_equal(column(particles, "x"), np.arange(rows) / 2)
    schema = pa.ipc.open_file(folder / "x.arrow").schema
    assert schema.metadata[b"hdf5.attribute.unit"] == b"42"
    code = "\nprint(h5py.File('x.h5')['matrix'][-1, -1])"
    assert plain(code).out == f"{(rows - 1) * 10 + 6}.0\n"


@pytest.mark.parametrize("mpi", ["mpich", "openmpi"])
def test_what_processes_flushed_survives_their_end(
    library: Path, tmp_path: Path, plain: Program, mpi: str
) -> None:
    command = [*together(library, tmp_path, mpi, 2), "x.h5", "independent", "killed"]
    ended = run_command(command, tmp_path, connector_environment(), good=False)
    assert ended.code != 0
    assert "failed" not in ended.err
    folder = tmp_path / "x.h5.arrow" / "latest"
    assert np.array_equal(column(folder / "particles.arrow", "id"), np.arange(2 * ROWS))
    assert np.array_equal(column(folder / "x.arrow"), np.arange(2 * ROWS))
    code = "\nf = h5py.File('x.h5'); print(f['matrix'][-1, -1], f['grows'][-1], sorted(f))"
    listed = "['grows', 'matrix', 'particles', 'spread', 'x']"
    assert plain(code).out == f"{(2 * ROWS - 1) * 10 + 6}.0 {2 * ROWS - 1}.0 {listed}\n"


@pytest.mark.parametrize("mpi", ["mpich", "openmpi"])
def test_one_process_that_cannot_make_the_data_stops_all(
    library: Path, tmp_path: Path, mpi: str
) -> None:
    """A file is where the folder of data should be: all processes get the error, and none waits."""
    command = [*together(library, tmp_path, mpi, 4), "x.h5", "independent"]
    (tmp_path / "x.h5.arrow").write_text("in the way")
    ended = run_command(command, tmp_path, connector_environment(), good=False)
    assert ended.code != 0
    assert "H5Dcreate failed" in ended.err
    assert "x.h5.arrow" in ended.err
