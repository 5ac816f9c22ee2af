"""HDF5's own tools, unchanged: h5dump, h5ls, h5diff, h5repack of 1.14.5."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest
from conftest import Outcome, Program, connector_environment, plain_environment, run_command

FILES = """
    with h5py.File(NAME, "w") as file:
        group = file.create_group("g")
        group["x"] = np.arange(6.0)
        group["x"].attrs["unit"] = "m"
        group["grid"] = np.arange(12, dtype="i4").reshape(3, 4)
        records = np.zeros(4, dtype=[("id", "i8"), ("energy", "f4")])
        records["id"], records["energy"] = range(4), [0.5, 1, 1.5, 2]
        group["records"] = records
        file["soft"], file["hard"] = h5py.SoftLink("/g/x"), group["x"]
        file["text"] = "abc"
        file.create_dataset("z", data=np.arange(100), chunks=(10,), compression="gzip")"""


#: The datasets above that are Arrow when they are written with the connector.
ARROW = ["g/grid.arrow", "g/records.arrow", "g/x.arrow"]


class Tools:
    """The tools, in a folder with the same content in ours.h5 and in native.h5."""

    def __init__(self, library: Path, folder: Path) -> None:
        self.folder = folder
        self._bin = library / "serial" / "bin"

    def ours(self, name: str, *arguments: str, good: bool = True) -> Outcome:
        """Runs a tool with the connector."""
        command: list[str | Path] = [self._bin / name, *arguments]
        return run_command(command, self.folder, connector_environment(), good=good)

    def plain(self, name: str, *arguments: str, good: bool = True) -> Outcome:
        """Runs a tool with HDF5 alone."""
        command: list[str | Path] = [self._bin / name, *arguments]
        return run_command(command, self.folder, plain_environment(), good=good)

    def arrow(self, name: str) -> list[str]:
        """The datasets of a file that are Arrow."""
        folder = self.folder / f"{name}.arrow" / "latest"
        return sorted(str(path.relative_to(folder)) for path in folder.rglob("*.arrow"))


@pytest.fixture
def tools(library: Path, tmp_path: Path, run: Program, plain: Program) -> Tools:
    """The tools with their files."""
    run(FILES.replace("NAME", "'ours.h5'"))
    plain(FILES.replace("NAME", "'native.h5'"))
    return Tools(library, tmp_path)


def test_h5ls_lists_the_same(tools: Tools) -> None:
    assert tools.ours("h5ls", "-r", "ours.h5").out == tools.plain("h5ls", "-r", "native.h5").out


@pytest.mark.parametrize("dataset", ["/g/x", "/g/grid", "/g/records", "/text", "/z"])
def test_h5dump_prints_the_same(tools: Tools, dataset: str) -> None:
    """With HDF5 alone, too, but for columns: those it refuses."""
    found = tools.ours("h5dump", "-d", dataset, "ours.h5").out.splitlines()[1:]
    assert found == tools.plain("h5dump", "-d", dataset, "native.h5").out.splitlines()[1:]
    alone = tools.plain("h5dump", "-d", dataset, "ours.h5", good=False)
    if dataset == "/g/records":
        assert alone.code != 0
        assert "unable to print data" in alone.out + alone.err
    else:
        assert alone.out.splitlines()[1:] == found


def test_h5diff_finds_what_differs_and_nothing_else(tools: Tools) -> None:
    assert tools.ours("h5diff", "-v", "ours.h5", "native.h5").code == 0
    with h5py.File(tools.folder / "native.h5", "r+") as file:
        file["g/records"][2] = (2, 1.75)
    differs = tools.ours("h5diff", "ours.h5", "native.h5", "/g/records", good=False)
    assert differs.code == 1
    assert "1 differences found" in differs.out
    assert tools.plain("h5diff", "ours.h5", "native.h5", "/g/x").code == 0
    assert tools.plain("h5diff", "ours.h5", "native.h5", "/g/records", good=False).code == 2


def test_h5repack_copies_arrow_as_arrow_and_native_as_native(tools: Tools) -> None:
    """It copies with `H5Ocopy` what it need not change."""
    for name, wanted in (("ours.h5", ARROW), ("native.h5", [])):
        tools.ours("h5repack", name, f"again-{name}")
        assert tools.arrow(f"again-{name}") == wanted
        assert tools.ours("h5diff", f"again-{name}", "native.h5").code == 0


def test_h5repack_makes_arrow_of_what_it_writes_anew(tools: Tools) -> None:
    tools.ours("h5repack", "-l", "CONTI", "native.h5", "new.h5")
    assert tools.arrow("new.h5") == [*ARROW, "z.arrow"]
    assert tools.ours("h5diff", "new.h5", "native.h5").code == 0


def test_h5repack_takes_the_data_into_the_file(tools: Tools) -> None:
    tools.ours("h5repack", "-f", "GZIP=1", "ours.h5", "packed.h5")
    assert tools.arrow("packed.h5") == []
    assert tools.plain("h5diff", "packed.h5", "native.h5").code == 0
    with h5py.File(tools.folder / "packed.h5") as file:
        assert file["g/x"].compression == "gzip"
        assert np.array_equal(file["g/records"]["id"], range(4))


def test_h5stat_counts_the_same(tools: Tools) -> None:
    found = tools.ours("h5stat", "-f", "ours.h5").out.splitlines()[1:]
    wanted = tools.plain("h5stat", "-f", "native.h5").out.splitlines()[1:]
    counts = [line for line in wanted if "# of" in line]
    assert len(counts) > 3
    assert [line for line in found if "# of" in line] == counts
