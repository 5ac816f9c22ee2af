"""Files that a program opens through a Python object.

HDF5 knows such a file as `<_io.BufferedReader name='x.h5'>`, so its data was looked for in the
working directory: not there, or in the folder of another file of this name.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from conftest import Program

WRITE = """
    with h5py.File("x.h5", "w") as file:
        file["x"] = np.full(3, VALUE)
        file["r"] = np.zeros(3, dtype=[("a", "i4"), ("b", "f8")])
        file.create_dataset("z", data=np.arange(3), compression="gzip")"""

#: Opens a file through OBJECT and prints what is read.
READ = """
    import io

    class Local:  # as fsspec has one
        def __init__(self, path):
            self.path, self._file = path, open(path, "rb")

        def __getattr__(self, name):
            return getattr(self._file, name)

    class Remote(io.BytesIO):
        name = path = "../x.h5"

    content = open("../x.h5", "rb").read()
    with h5py.File(OBJECT, "r") as file:
        assert file["z"][:].tolist() == [0, 1, 2]
        for name in ("x", "r"):
            try:
                print(name, file[name][0])
            except OSError as error:
                print(name, error)"""


@pytest.fixture
def elsewhere(run: Program, tmp_path: Path) -> str:
    """A folder beside the file, with another file of its name and other data."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    run(WRITE.replace("VALUE", "7.0"))
    run(WRITE.replace("VALUE", "8.0"), folder="elsewhere")
    return folder.name


@pytest.mark.parametrize(
    "opened",
    [
        "open('../x.h5', 'rb')",
        "open('../x.h5', 'rb', buffering=0)",
        "Local('../x.h5')",
        "open(os.open('../x.h5', os.O_RDONLY), 'rb')",
    ],
)
def test_an_object_with_a_descriptor_has_its_data(
    run: Program, elsewhere: str, opened: str
) -> None:
    out = run(READ.replace("OBJECT", opened), folder=elsewhere).out
    assert out == "x 7.0\nr (0, 0.0)\n"


@pytest.mark.parametrize("opened", ["io.BytesIO(content)", "Remote(content)"])
def test_an_object_without_one_says_what_it_needs(
    run: Program, elsewhere: str, opened: str
) -> None:
    """It read 8, the value in the working directory's file."""
    lines = run(READ.replace("OBJECT", opened), folder=elsewhere).out.splitlines()
    for line, name in zip(lines, ("x", "r"), strict=True):
        assert line.startswith(f"{name} Can't")
        assert "x.h5.arrow" in line
        assert "has no path" in line
        assert "plasmon hdf5 export" in line


def test_a_removed_file_has_no_path(run: Program, elsewhere: str, tmp_path: Path) -> None:
    opened = "open('../x.h5', 'rb')"
    program = READ.replace("OBJECT", "held").replace(
        "    with h5py", f"    held = {opened}; os.remove('../x.h5')\n    with h5py"
    )
    assert "has no path" in run(program, folder=elsewhere).out
    assert not os.path.exists(tmp_path / "x.h5")


def test_an_object_is_written_natively(run: Program) -> None:
    """A new file behind an object keeps everything, and needs no connector."""
    run("""
    import io
    memory = io.BytesIO()
    with h5py.File(memory, "w") as file:
        file["x"] = np.arange(3.0)
    with h5py.File(memory, "r") as file:
        assert file["x"][:].tolist() == [0, 1, 2]
    with open("y.h5", "w+b") as opened, h5py.File(opened, "w") as file:
        file["x"] = np.arange(3.0)
    assert h5py.File("y.h5")["x"][:].tolist() == [0, 1, 2]
    assert os.listdir() == ["y.h5"]""")
