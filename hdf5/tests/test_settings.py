"""What a program's environment must be: `plugin-path`, `run`, and what `doctor` says of it.

With the folder of the connector alone in HDF5_PLUGIN_PATH, netCDF4 lost zstd, blosc and bzip2. With
a folder where no connector is, h5py ended with a segmentation fault at its import, and `doctor`
said that everything was in order, also with a wrong name and with settings that do not parse.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest
from conftest import Outcome, Program, data, plain_environment, run_command

FILTERS = """
import netCDF4
import numpy as np
with netCDF4.Dataset("x.nc", "w") as file:
    file.createDimension("n", 1000)
    for one in ("zstd", "bzip2", "blosc_lz4"):
        file.createVariable(one, "f8", ("n",), compression=one)[:] = np.arange(1000.0)
    file.createVariable("plain", "f8", ("n",), contiguous=True)[:] = np.arange(1000.0)
with netCDF4.Dataset("x.nc") as file:
    for name, one in file.variables.items():
        assert np.array_equal(one[:], np.arange(1000.0)), name
    assert file["zstd"].filters()["zstd"]
print("read")
"""


def _command(folder: Path, *arguments: str, good: bool = True, **environment: str) -> Outcome:
    """`plasmon hdf5` in an environment with more variables."""
    command: list[str | Path] = [sys.executable, "-m", "plasmon.hdf5", *arguments]
    return run_command(command, folder, plain_environment() | environment, good=good)


def test_netcdf_has_its_filters_with_the_two_variables(tmp_path: Path, tool: Program) -> None:
    environment = plain_environment()
    environment["HDF5_PLUGIN_PATH"] = tool("plugin-path").out.strip()
    environment["HDF5_VOL_CONNECTOR"] = "plasmon"
    run_command([sys.executable, "-c", FILTERS], tmp_path, environment)
    assert data(tmp_path, "x.nc") == {"plain.arrow"}


def test_the_path_keeps_folders_that_were_set(tmp_path: Path) -> None:
    """And is the same when it is made from itself."""
    found = _command(tmp_path, "plugin-path", HDF5_PLUGIN_PATH="/mine:/theirs").out.strip()
    assert found.split(":")[1:3] == ["/mine", "/theirs"]
    assert _command(tmp_path, "plugin-path", HDF5_PLUGIN_PATH=found).out.strip() == found


def test_run_sets_everything(tmp_path: Path, tool: Program) -> None:
    assert tool("run", sys.executable, "-c", FILTERS).out == "read\n"
    assert (tmp_path / "x.nc.arrow" / "latest" / "plain.arrow").exists()
    script = tmp_path / "script.py"
    script.write_text(f"#!/usr/bin/env {sys.executable}\nimport sys, h5py\nsys.exit(len(sys.argv))")
    script.chmod(0o755)
    # The program's exit code and its arguments are its own.
    assert tool("run", "--", str(script), "--json", "--settings", good=False).code == 3


def test_run_keeps_settings_that_are_there(tmp_path: Path) -> None:
    show = "import os; print(os.environ['HDF5_VOL_CONNECTOR'], os.environ['HDF5_EXTFILE_PREFIX'])"
    for more, given, wanted in (
        ([], {}, "plasmon ${ORIGIN}\n"),
        ([], {"HDF5_VOL_CONNECTOR": "plasmon sync=yes"}, "plasmon sync=yes ${ORIGIN}\n"),
        (["--settings", "sync=yes"], {"HDF5_EXTFILE_PREFIX": "/x"}, "plasmon sync=yes /x\n"),
    ):
        found = _command(tmp_path, "run", *more, sys.executable, "-c", show, **given)
        assert found.out == wanted


@pytest.mark.parametrize(
    ("arguments", "environment", "reason"),
    [
        (["--settings", "backend=tape"], {}, 'the connector has no setting "backend=tape"'),
        ([], {"HDF5_VOL_CONNECTOR": "plasmon sync"}, 'the connector has no setting "sync"'),
        ([], {"HDF5_VOL_CONNECTOR": "rest"}, "HDF5_VOL_CONNECTOR is 'rest', another connector"),
        (["--settings", "backend=store store=/no/s"], {}, "there is no store at /no/s"),
    ],
)
def test_run_says_what_is_wrong_before_the_program_starts(
    tmp_path: Path, arguments: list[str], environment: dict[str, str], reason: str
) -> None:
    program = [sys.executable, "-c", "import h5py; open('ran', 'w')"]
    ended = _command(tmp_path, "run", *arguments, *program, good=False, **environment)
    assert ended.code == 1
    assert ended.err.startswith("plasmon: ")
    assert reason in ended.err
    assert not (tmp_path / "ran").exists()


def test_run_needs_a_connector_that_loads(tmp_path: Path) -> None:
    """h5py alone would end with a segmentation fault."""
    program = ["run", sys.executable, "-c", "import h5py"]
    folder = str(tmp_path)
    absent = _command(tmp_path, *program, good=False, PLASMON_HDF5_PLUGIN=folder)
    assert "there is no libplasmon_hdf5*.so" in absent.err
    (tmp_path / "libplasmon_hdf5.so").write_text("not a library")
    broken = _command(tmp_path, *program, good=False, PLASMON_HDF5_PLUGIN=folder)
    assert absent.code == broken.code == 1
    assert "cannot load the connector in" in broken.err


def test_run_without_a_program_that_there_is(tool: Program) -> None:
    assert "no program is named" in tool("run", good=False).err
    assert "nonesuch cannot be started" in tool("run", "nonesuch", good=False).err
    # A program without HDF5 has nothing to check.
    if shutil.which("true"):
        assert tool("run", "true").out == ""


@pytest.mark.parametrize("file", [[], ["x.h5"]])
def test_doctor_tells_the_truth_about_the_settings(
    tmp_path: Path, run: Program, file: list[str]
) -> None:
    run("""
    h5py.File("x.h5", "w")["x"] = np.arange(3.0)""")
    folder = os.environ["PLASMON_HDF5_PLUGIN"]
    right = {"HDF5_PLUGIN_PATH": f"/nowhere:{folder}", "HDF5_VOL_CONNECTOR": "plasmon sync=no"}
    fine = _command(tmp_path, "doctor", *file, **right)
    assert fine.out == "everything is in order\n"
    assert "is not set here" in _command(tmp_path, "doctor", *file).out
    for wrong, reason in (
        ({"HDF5_PLUGIN_PATH": "/nowhere"}, "HDF5_PLUGIN_PATH is '/nowhere', where the connector"),
        ({"HDF5_PLUGIN_PATH": ""}, "HDF5_PLUGIN_PATH is not set"),
        ({"HDF5_VOL_CONNECTOR": "plasmonn"}, "HDF5_VOL_CONNECTOR is 'plasmonn'"),
        ({"HDF5_VOL_CONNECTOR": "plasmon backend=tape"}, 'no setting "backend=tape"'),
    ):
        ended = _command(tmp_path, "doctor", *file, good=False, **(right | wrong))
        assert ended.code == 1, reason
        assert reason in ended.out
        assert "in order" not in ended.out
