"""Values go in through HDF5 and come out as Arrow, and the other way."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import pytest
from conftest import Program

NUMBERS = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"]


def table(path: Path) -> pa.Table:
    """An Arrow file, mapped and checked."""
    found = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
    found.validate(full=True)
    return found


def test_every_number_is_a_column(run: Program, tmp_path: Path) -> None:
    run(f"""
    with h5py.File("x.h5", "w") as file:
        for name in {NUMBERS}:
            file[f"all/{{name}}"] = np.arange(100).astype(name)""")
    for name in NUMBERS:
        found = table(tmp_path / "x.h5.arrow" / "latest" / "all" / f"{name}.arrow")
        assert found.column(0).chunk(0).to_numpy().dtype == np.dtype(name)
        assert np.array_equal(found.column(0), np.arange(100).astype(name))


def test_buffers_are_aligned_in_the_file(run: Program, tmp_path: Path) -> None:
    run("""
    records = np.zeros(33, dtype=[("a", "u1"), ("b", "f8"), ("c", "i2")])
    with h5py.File("x.h5", "w") as file:
        file["r"] = records
        file["x"] = np.arange(33.0)""")
    for name in ("r", "x"):
        source = pa.memory_map(str(tmp_path / "x.h5.arrow" / "latest" / f"{name}.arrow"))
        start = pa.py_buffer(source.read_buffer()).address
        batch = pa.ipc.open_file(source).get_batch(0)
        for column in batch.columns:
            assert (column.buffers()[1].address - start) % 64 == 0


def test_more_dimensions_are_tensors(run: Program, tmp_path: Path) -> None:
    run("""
    with h5py.File("x.h5", "w") as file:
        file["field"] = np.arange(24.0).reshape(2, 3, 4)""")
    column = table(tmp_path / "x.h5.arrow" / "latest" / "field.arrow").column("field")
    assert column.type == pa.fixed_shape_tensor(pa.float64(), [3, 4])
    values = column.chunk(0).to_numpy_ndarray()
    assert np.array_equal(values, np.arange(24.0).reshape(2, 3, 4))


def test_a_compound_is_a_column_for_each_member(run: Program, tmp_path: Path) -> None:
    run("""
    kind = np.dtype({"names": ["x", "id", "k"], "formats": ["f4", "i8", "u1"],
                     "offsets": [25, 1, 0], "itemsize": 40})
    records = np.zeros(70_000, dtype=kind)
    records["x"], records["id"] = np.arange(70_000), np.arange(70_000) * 3
    records["k"] = np.arange(70_000) % 251
    with h5py.File("x.h5", "w") as file:
        file.create_dataset("r", data=records)
        assert np.array_equal(file["r"][:], records)
        assert np.array_equal(file["r"]["id"], records["id"])
        assert np.array_equal(file["r"][5:60_000:7], records[5:60_000:7])
        part = np.zeros(10, dtype=[("k", "i4")])
        part["k"] = 9
        file["r"].write_direct(part, dest_sel=np.s_[100:110])
        records["k"][100:110] = 9
        assert np.array_equal(file["r"][:], records)
    np.savez("records.npz", **{name: records[name] for name in records.dtype.names})""")
    records = np.load(tmp_path / "records.npz")
    found = table(tmp_path / "x.h5.arrow" / "latest" / "r.arrow")
    assert set(found.column_names) == {"x", "id", "k"}
    for name in found.column_names:
        assert np.array_equal(found.column(name), records[name])


def test_selections_read_and_write_what_numpy_does(run: Program) -> None:
    run("""
    random = np.random.default_rng(8317)
    def piece(size):
        start, stop = sorted(random.integers(0, size + 1, 2))
        return slice(int(start), int(stop), int(random.integers(1, 5)))
    wanted = random.integers(0, 1000, (40, 30, 20))
    flat = random.integers(0, 1000, 100_000).astype("i4")
    with h5py.File("x.h5", "w") as file:
        cube, line = file.create_dataset("cube", data=wanted), file.create_dataset("l", data=flat)
        for _ in range(150):
            where = tuple(piece(size) for size in wanted.shape)
            assert np.array_equal(cube[where], wanted[where]), where
            values = random.integers(0, 1000, wanted[where].shape)
            cube[where] = values
            wanted[where] = values
            where = piece(flat.size)
            assert np.array_equal(line[where], flat[where]), where
            line[where] = -7
            flat[where] = -7
        picked = np.sort(random.choice(flat.size, 500, replace=False))
        assert np.array_equal(line[picked], flat[picked])
        mask = wanted > 500
        assert np.array_equal(cube[mask], wanted[mask])
        assert np.array_equal(cube[3, [1, 4, 9], ::2], wanted[3, [1, 4, 9], ::2])
        assert np.array_equal(cube[:], wanted) and np.array_equal(line[:], flat)""")


def test_types_are_converted_both_ways(run: Program) -> None:
    run("""
    values = np.arange(-500, 70_000, dtype="i4")
    with h5py.File("x.h5", "w") as file:
        data = file.create_dataset("x", data=values)
        assert np.array_equal(data.astype("f8")[:], values.astype("f8"))
        assert np.array_equal(data.astype(">i8")[::3], values[::3])
        data[:] = values.astype(">f4") + 1
        assert np.array_equal(data[:], values + 1)
        data[10:30:2] = np.full(10, 300, dtype="i8")
        assert np.array_equal(data[10:30:2], np.full(10, 300))""")


def test_fill_values(run: Program, tmp_path: Path) -> None:
    run("""
    with h5py.File("x.h5", "w") as file:
        made = file.create_dataset("seven", (100_000,), "i2", fillvalue=7)
        assert (made[:] == 7).all() and made.fillvalue == 7
        assert (file.create_dataset("none", (5,), "f8")[:] == 0).all()
        kind = np.dtype([("a", "i4"), ("b", "f8")])
        fill = np.array((3, 0.5), kind)
        made = file.create_dataset("r", (4,), kind, fillvalue=fill)
        assert (made[:] == fill).all()""")
    assert table(tmp_path / "x.h5.arrow" / "latest" / "seven.arrow").column(
        0
    ).unique().to_pylist() == [7]


def test_hdf5_alone_reads_numbers_and_refuses_compounds(
    run: Program, plain: Program, tmp_path: Path
) -> None:
    run("""
    with h5py.File("x.h5", "w") as file:
        file["g/x"] = np.arange(10.0)
        file["g/t"] = np.arange(6).reshape(2, 3)
        file["r"] = np.zeros(4, dtype=[("a", "i4"), ("b", "f8")])
        # The program sees its own creation properties.
        assert file["g/x"].external is None and file["g/x"].chunks is None""")
    plain("""
    with h5py.File("x.h5", "r+") as file:
        assert np.array_equal(file["g/x"][:], np.arange(10.0))
        assert file["g/t"][1, 2] == 5
        file["g/x"][3] = -1
        try:
            print(file["r"][:])
        except OSError as error:
            assert "external" in str(error)
        else:
            sys.exit("a compound must not read as anything else")""")
    assert table(tmp_path / "x.h5.arrow" / "latest" / "g" / "x.arrow").column(0)[3].as_py() == -1
    with h5py.File(tmp_path / "x.h5") as file:
        name, _, _ = file["r"].id.get_create_plist().get_external(0)
        assert b"needs the plasmon connector" in name


def test_what_arrow_has_no_form_for_stays_native(run: Program, plain: Program) -> None:
    code = """
    with h5py.File("x.h5", "r") as file:
        assert file["text"][0] == b"a" and file["chunks"][5] == 5 and file["scalar"][()] == 3
        assert file["big"][3] == 3
        assert file["both"].shape == (2, 3) and file["empty"].shape == (0,)"""
    run(
        """
    with h5py.File("x.h5", "w") as file:
        file["text"] = ["a", "b"]
        file.create_dataset("chunks", data=np.arange(10), maxshape=(None,), compression="gzip")
        file["scalar"] = 3
        file["big"] = np.arange(5, dtype=">i4")
        file.create_dataset("both", (2, 3), maxshape=(None, None))
        file["empty"] = np.zeros(0)
    assert not os.path.exists("x.h5.arrow")"""
        + code
    )
    plain(code)


@pytest.mark.parametrize("side", ["connector", "alone"])
def test_a_file_of_hdf5_alone_opens_as_it_is(
    side: str, run: Program, plain: Program, tmp_path: Path
) -> None:
    plain("""
    with h5py.File("x.h5", "w") as file:
        file["x"] = np.arange(10.0)""")
    (run if side == "connector" else plain)("""
    with h5py.File("x.h5", "r+") as file:
        assert np.array_equal(file["x"][:], np.arange(10.0))
        file["x"][2] = 5""")
    assert not (tmp_path / "x.h5.arrow").exists()


def test_attributes_are_mirrored_into_the_schema(run: Program, tmp_path: Path) -> None:
    code = """
    with h5py.File("x.h5", "a") as file:
        for name in ("x", "r"):
            file[name].attrs.update({"unit": "m", "scale": 2.5, "steps": [1, 2], "n": 7})
            file[name].attrs["names"] = ["a", "bc"]
            file[name].attrs["fixed"] = np.bytes_(b"abc")
            file[name].attrs["pointer"] = file.ref"""
    run("""
    with h5py.File("x.h5", "w") as file:
        file["x"] = np.arange(5.0)
        file["r"] = np.zeros(3, dtype=[("a", "i4"), ("b", "f8")])""")
    run(code)
    for name, first in (("x", "x"), ("r", "a")):
        found = table(tmp_path / "x.h5.arrow" / "latest" / f"{name}.arrow")
        assert found.column_names[0] == first
        mirrored = {
            key.decode().removeprefix("hdf5.attribute."): value.decode()
            for key, value in found.schema.metadata.items()
            if key.startswith(b"hdf5.attribute.")
        }
        assert mirrored == {
            "unit": "m",
            "scale": "2.5",
            "steps": "[1, 2]",
            "n": "7",
            "names": "[a, bc]",
            "fixed": "abc",
        }
    run("""
    with h5py.File("x.h5", "a") as file:
        attributes = file["x"].attrs
        for name in list(attributes):
            del attributes[name]
        assert file["x"][4] == 4""")
    found = table(tmp_path / "x.h5.arrow" / "latest" / "x.arrow")
    assert list(found.schema.metadata) == [b"plasmon.hdf5.version"]
    assert found.column("x").to_pylist() == [0, 1, 2, 3, 4]


def test_attributes_that_are_made_by_name_are_mirrored(run: Program, tmp_path: Path) -> None:
    run("""
    with h5py.File("x.h5", "w") as file:
        file["g/x"] = np.arange(5.0)
        for place, name in ((file.id, b"g/x"), (file["g"].id, b"x")):
            key = b"by " + name
            kind, space = h5py.h5t.NATIVE_INT64, h5py.h5s.create(h5py.h5s.SCALAR)
            made = h5py.h5a.create(place, key, kind, space, obj_name=name)
            made.write(np.array(7))
    with h5py.File("x.h5", "r+") as file:
        h5py.h5a.rename(file.id, b"by x", b"other", obj_name=b"/g/x")""")
    metadata = table(tmp_path / "x.h5.arrow" / "latest" / "g" / "x.arrow").schema.metadata
    assert metadata[b"hdf5.attribute.by g/x"] == metadata[b"hdf5.attribute.other"] == b"7"
    assert b"hdf5.attribute.by x" not in metadata
