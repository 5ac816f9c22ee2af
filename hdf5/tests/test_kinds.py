"""What is not a plain number has a form in Arrow with the same bytes."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from conftest import Program

import plasmon.hdf5

MAKE = """
colour = h5py.enum_dtype({"red": -1, "green": 300, 'a "quoted" one': 5}, basetype="i2")
nested = np.dtype([("id", "i4"), ("at", [("x", "f8"), ("y", "f4"), ("tag", "S3")]), ("ok", "?")])
pair = np.dtype([("a", "i4"), ("b", "f8", (2, 3))])
made = {
    "flags": np.arange(10) % 3 == 0,
    "plane": (np.arange(12) % 2 == 0).reshape(3, 4),
    "text": np.array([b"one", b"three", b""], "S5"),
    "opaque": np.array([b"\\x00\\x01\\x02", b"abc"], "V3"),
    "z": np.arange(5) * (1 + 2j),
    "z32": (np.arange(6) * (1 + 2j)).astype("c8").reshape(2, 3),
    "nested": np.zeros(50, nested),
    "grid": np.zeros((4, 5), pair),
    "rows": np.zeros(9, pair),
}
made["nested"]["at"]["x"], made["nested"]["at"]["tag"] = np.arange(50) / 4, b"ab"
made["nested"]["ok"], made["nested"]["id"] = np.arange(50) % 2 == 1, np.arange(50)
made["grid"]["b"] = np.arange(120.0).reshape(4, 5, 2, 3)
made["rows"]["b"], made["rows"]["a"] = np.arange(54).reshape(9, 2, 3), np.arange(9)
with h5py.File("x.h5", "w") as file:
    for name, values in made.items():
        file[name] = values
    file.create_dataset("colours", data=[-1, 300, 5, 300], dtype=colour)
    file.create_dataset("triples", (4,), np.dtype(("i2", (3,))))[:] = np.arange(12).reshape(4, 3)
    file.create_dataset("grows", (2,), nested, maxshape=(None,))
    file["grows"].resize((5000,))
    file["grows"][4999] = made["nested"][49]
"""
CHECK = """
with h5py.File("x.h5", "r") as file:
    for name, values in made.items():
        if name in WITHOUT:
            continue
        found = file[name][:]
        assert found.dtype == values.dtype and found.tobytes() == values.tobytes(), name
    assert file["colours"][:].tolist() == [-1, 300, 5, 300]
    assert h5py.check_enum_dtype(file["colours"].dtype)["green"] == 300
    assert file["triples"][2].tolist() == [6, 7, 8]
"""


def table(path: Path) -> pa.Table:
    """An Arrow file, mapped and checked."""
    found = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
    found.validate(full=True)
    return found


@pytest.fixture
def kinds(run: Program, tmp_path: Path) -> Path:
    """A file with all kinds, and the folder of its data."""
    run(MAKE + CHECK.replace("WITHOUT", "()"))
    return tmp_path / "x.h5.arrow" / "latest"


def test_kinds_that_are_one_column_are_read_by_hdf5_alone(kinds: Path, plain: Program) -> None:
    make = MAKE.partition("with h5py.File")[0]
    plain(make + CHECK.replace("WITHOUT", '("nested", "grid", "rows")'))


def test_kinds_have_their_types_in_arrow(kinds: Path) -> None:
    assert table(kinds / "flags.arrow").column(0).type == pa.bool8()
    assert table(kinds / "flags.arrow").column(0).to_pylist()[:4] == [True, False, False, True]
    text = table(kinds / "text.arrow")
    assert text.column(0).to_pylist()[1] == b"three"
    assert text.schema.field(0).metadata[b"hdf5.string"] == b"ascii, filled with zero bytes"
    colours = table(kinds / "colours.arrow")
    assert colours.column(0).to_pylist() == [-1, 300, 5, 300]
    names = json.loads(colours.schema.field(0).metadata[b"hdf5.enumeration"])
    assert names == {"red": -1, "green": 300, 'a "quoted" one': 5}
    assert table(kinds / "opaque.arrow").column(0).to_pylist() == [b"\x00\x01\x02", b"abc"]
    assert table(kinds / "z.arrow").column(0).chunk(0).to_numpy_ndarray()[3].tolist() == [3, 6]
    assert table(kinds / "triples.arrow").column(0).type == pa.fixed_shape_tensor(pa.int16(), [3])
    grid = table(kinds / "grid.arrow")
    assert grid.schema.field("b").type == pa.fixed_shape_tensor(pa.float64(), [5, 2, 3])
    nested = table(kinds / "nested.arrow")
    assert nested.column("at").chunk(0).field("x").to_pylist()[3] == 0.75
    assert nested.column("at").to_pylist()[7] == {"x": 1.75, "y": 0.0, "tag": b"ab\0"}
    assert table(kinds / "grows.arrow").column("at").to_pylist()[4999]["x"] == 12.25


def test_kinds_are_opened_in_python(kinds: Path) -> None:
    with plasmon.hdf5.open(kinds.parent.with_name("x.h5")) as file:
        assert file["flags"].array.tolist()[:4] == [True, False, False, True]
        assert file["plane"].array.shape == (3, 4)
        assert file["text"].array.tolist() == [b"one", b"three", b""]
        assert file["z"].array[3] == 3 + 6j
        assert not file["z32"].array.flags.owndata
        assert file["triples"].array.tolist()[2] == [6, 7, 8]
        nested = file["nested"].array
        assert nested["at"]["x"][3] == 0.75
        assert nested["at"]["tag"][4] == b"ab"
        assert nested["ok"].tolist()[:2] == [False, True]
        assert file["grid"].array["b"][3, 4, 1, 2] == 119
        assert file["rows"].array["b"][8].tolist() == [[48, 49, 50], [51, 52, 53]]
        assert file["grows"].array["id"][4999] == 49


def test_parts_and_conversions(kinds: Path, run: Program) -> None:
    run("""
    with h5py.File("x.h5", "r+") as file:
        assert np.array_equal(file["nested"]["id"], np.arange(50))
        part = np.zeros(50, [("at", [("x", "f4")]), ("id", "i8")])
        file["nested"].read_direct(part)
        assert part["at"]["x"][3] == 0.75 and part["id"][9] == 9
        part["at"]["x"] = 5
        file["nested"].write_direct(part)
        found = file["nested"][:]
        assert (found["at"]["x"] == 5).all() and (found["at"]["tag"] == b"ab").all()
        assert np.array_equal(file["nested"][3:40:4]["id"], np.arange(50)[3:40:4])
        assert file["z"].astype("c8")[3] == 3 + 6j
        file["z"][1] = np.complex64(7 - 1j)
        assert file["z"][1] == 7 - 1j and file["z"][3] == 3 + 6j
        file["text"][2] = b"longer than five"
        assert file["text"][2] == b"longe"
        assert file["colours"].astype("i8")[1] == 300
        file["flags"][1:3] = [True, True]
        assert file["flags"][:4].all()
        assert np.array_equal(file["grid"][1:3, 2]["b"][1], np.arange(72, 78).reshape(2, 3))""")


def test_inspect_says_what_is_native_and_why(run: Program, tool: Program) -> None:
    run("""
    with h5py.File("x.h5", "w") as file:
        file["words"] = ["of", "any", "length"]
        file["big"] = np.arange(3, dtype=">f8")
        file["to"] = np.array([file.ref], h5py.ref_dtype)
        file.create_dataset("lists", (2,), h5py.vlen_dtype("i4"))
        file.create_dataset("mixed", (2,), [("a", "i4"), ("b", h5py.string_dtype())])
        file.create_dataset("packed", data=np.arange(9), compression="gzip")
        file.create_dataset("both", (2, 3), maxshape=(None, None))
        file["flag"] = np.array([True])""")
    found = {
        one["dataset"]: one["reason"] for one in json.loads(tool("inspect", "x.h5", "--json").out)
    }
    assert found == {
        "/words": "strings of variable length",
        "/big": "numbers of another byte order, size or format than Arrow has",
        "/to": "references",
        "/lists": "sequences of variable length",
        "/mixed": "strings of variable length",
        "/packed": "compressed or filtered",
        "/both": "of a size that may change in another dimension than the first",
        "/flag": None,
    }
