"""Datasets whose first dimension changes are Arrow at every moment, with or without the plugin."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import pytest
from conftest import Program

RECORD = '[("id", "i4"), ("energy", "f8"), ("flag", "u1")]'


def table(path: Path) -> pa.Table:
    """An Arrow file, mapped and checked."""
    found = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
    found.validate(full=True)
    return found


def test_rows_that_are_added_are_arrow_and_plain(
    run: Program, plain: Program, tmp_path: Path
) -> None:
    run("""
    with h5py.File("x.h5", "w") as file:
        x = file.create_dataset("x", (0,), "f8", maxshape=(None,), chunks=(100,))
        t = file.create_dataset("t", (2, 3), "i4", maxshape=(None, 3))
        for step in range(200):
            x.resize((x.shape[0] + 70,))
            x[-70:] = np.arange(70.0) + step * 70
        assert np.array_equal(x[:], np.arange(14_000.0))
        t.resize((4, 3))
        t[3] = [7, 8, 9]
        # The program sees the chunks that it asked for.
        assert x.chunks == (100,) and x.maxshape == (None,) and x.external is None
        assert t.chunks is not None and x.id.get_storage_size() == 14_000 * 8""")
    for program in (run, plain):
        program("""
    with h5py.File("x.h5", "r") as file:
        assert np.array_equal(file["x"][:], np.arange(14_000.0)) and file["x"].maxshape == (None,)
        assert file["t"][:].tolist() == [[0] * 3, [0] * 3, [0] * 3, [7, 8, 9]]""")
    run("""
    assert h5py.File("x.h5")["x"].chunks == (100,)""")
    found = table(tmp_path / "x.h5.arrow" / "latest" / "x.arrow")
    assert np.array_equal(found.column("x"), np.arange(14_000.0))
    assert found.schema.metadata[b"hdf5.chunk"] == b"100"
    assert table(tmp_path / "x.h5.arrow" / "latest" / "t.arrow").num_rows == 4
    # The room for more rows is given back when the dataset is closed.
    assert (tmp_path / "x.h5.arrow" / "latest" / "x.arrow").stat().st_size < 14_000 * 8 + 4096


def test_readers_of_arrow_follow_a_writer(run: Program, tmp_path: Path) -> None:
    """Between two additions every reader finds the file whole."""
    run(f"""
    import pyarrow as pa
    def look(name):
        source = pa.memory_map(f"x.h5.arrow/latest/{{name}}.arrow")
        found = pa.ipc.open_file(source).read_all()
        found.validate(full=True)
        return found
    with h5py.File("x.h5", "w") as file:
        x = file.create_dataset("x", (0,), "i8", maxshape=(None,))
        r = file.create_dataset("r", (0,), {RECORD}, maxshape=(None,))
        rows = 0
        for step in (1, 10, 5000, 7, 20_000, 1, 70_000):
            for dataset in (x, r):
                dataset.resize((rows + step,))
            x[rows:] = np.arange(rows, rows + step)
            records = np.zeros(step, r.dtype)
            records["id"] = np.arange(rows, rows + step)
            records["energy"] = records["id"] / 2
            r[rows:] = records
            rows += step
            found = look("x")
            assert found.num_rows == rows and found["x"][-1].as_py() == rows - 1
            found = look("r")
            assert np.array_equal(found["id"], np.arange(rows))
            assert np.array_equal(found["energy"], np.arange(rows) / 2)
            x.attrs["rows"] = rows""")
    assert table(tmp_path / "x.h5.arrow" / "latest" / "r.arrow").num_rows == 95_019


def test_fewer_rows_and_more_again(run: Program, plain: Program, tmp_path: Path) -> None:
    run(f"""
    with h5py.File("x.h5", "w") as file:
        x = file.create_dataset("x", data=np.arange(9000), maxshape=(None,))
        seven = file.create_dataset("seven", (3,), "i2", maxshape=(1000,), fillvalue=7)
        r = file.create_dataset("r", (20_000,), {RECORD}, maxshape=(None,))
        records = np.ones(20_000, r.dtype)
        r[:] = records
        for dataset in (x, r):
            dataset.resize((5000,))
            dataset.resize((9000,))
        assert np.array_equal(x[:5000], np.arange(5000)) and not x[5000:].any()
        assert (r[:5000] == records[:5000]).all() and not r["energy"][5000:].any()
        seven[:] = 1
        seven.resize((900,))
        seven.resize((1,))
        seven.resize((5,))
        assert seven[:].tolist() == [1, 7, 7, 7, 7]
        try:
            seven.resize((1001,))
        except Exception as error:
            print(error)
        else:
            sys.exit("beyond the most rows that it may have")
        r.resize((0,))
        assert r.shape == (0,)""")
    plain("""
    with h5py.File("x.h5", "r") as file:
        assert file["seven"][:].tolist() == [1, 7, 7, 7, 7]
        assert not file["x"][5000:].any() and file["x"][4999] == 4999""")
    assert table(tmp_path / "x.h5.arrow" / "latest" / "r.arrow").num_rows == 0
    assert table(tmp_path / "x.h5.arrow" / "latest" / "seven.arrow").column(0).to_pylist() == [
        1,
        7,
        7,
        7,
        7,
    ]


def test_two_handles_and_two_programs_agree(run: Program) -> None:
    run(f"""
    with h5py.File("x.h5", "w") as file:
        file.create_dataset("r", (10,), {RECORD}, maxshape=(None,))
        one, other = file["r"], file["r"]
        one.resize((6000,))
        other["energy"] = np.arange(6000.0)
        assert np.array_equal(one["energy"], np.arange(6000.0))
        other.resize((9000,))
        one[8999] = (1, 2.5, 3)
        assert other[8999]["energy"] == 2.5""")
    run("""
    with h5py.File("x.h5", "r+") as file:
        r = file["r"]
        r.resize((9001,))
        r[9000] = (4, 5.5, 6)
        assert r[8999]["energy"] == 2.5 and r[9000]["id"] == 4 and r["energy"][5999] == 5999""")


def test_rows_that_hdf5_alone_adds_are_found(run: Program, plain: Program, tmp_path: Path) -> None:
    """HDF5 alone writes over Arrow's foot; the connector puts it back when it writes."""
    run("""
    with h5py.File("x.h5", "w") as file:
        file.create_dataset("x", data=np.arange(1000), maxshape=(None,))""")
    plain("""
    with h5py.File("x.h5", "r+") as file:
        # For h5py it is not chunked, so its own method refuses.
        file["x"].id.set_extent((3000,))
        file["x"][1000:] = np.arange(1000, 3000)""")
    run("""
    with h5py.File("x.h5", "r") as file:
        assert np.array_equal(file["x"][:], np.arange(3000))
    with h5py.File("x.h5", "r+") as file:
        file["x"].resize((3500,))
        assert np.array_equal(file["x"][:3000], np.arange(3000)) and not file["x"][3000:].any()""")
    found = table(tmp_path / "x.h5.arrow" / "latest" / "x.arrow").column("x")
    assert np.array_equal(found[:3000], np.arange(3000))
    assert len(found) == 3500


def test_copies_and_late_names_grow_too(run: Program, tmp_path: Path) -> None:
    run(f"""
    with h5py.File("x.h5", "w") as file, h5py.File("other.h5", "w") as other:
        file.create_dataset("x", data=np.arange(50), maxshape=(None,), chunks=(7,))
        file.create_dataset("r", (5000,), {RECORD}, maxshape=(None,))
        file.copy("x", other, name="copied")
        file.copy("r", "again")
        with h5py.File("memory", "w", driver="core", backing_store=False) as memory:
            file.copy("x", memory, name="x")
            assert memory["x"].chunks == (7,)
            memory["x"].resize((60,))
        for dataset in (other["copied"], file["again"]):
            assert dataset.chunks is not None and dataset.maxshape == (None,)
            dataset.resize((9000,))
        assert other["copied"].chunks == (7,) and other["copied"][49] == 49
        assert file["x"].shape == (50,) and file["r"].shape == (5000,)
        late = file.create_dataset(None, data=np.arange(5), maxshape=(None,))
        file["late"] = late
        late.resize((8,))
        late[7] = 7""")
    assert (
        table(tmp_path / "x.h5.arrow" / "latest" / "late.arrow").column("late").to_pylist()[7] == 7
    )
    assert table(tmp_path / "other.h5.arrow" / "latest" / "copied.arrow").num_rows == 9000


def test_other_dimensions_do_not_change(run: Program) -> None:
    run("""
    with h5py.File("x.h5", "w") as file:
        x = file.create_dataset("x", (4, 6), "f8", maxshape=(None, 6), chunks=(2, 2))
        x[:] = 1
        try:
            x.resize((4, 3))
        except Exception as error:
            assert "only the first dimension" in str(error), error
        else:
            sys.exit("no error")
        assert x.shape == (4, 6) and (x[:] == 1).all()
        try:
            file.create_dataset("fixed", data=np.arange(5)).id.set_extent((3,))
        except Exception as error:
            assert "contiguous" in str(error), error
        else:
            sys.exit("no error")
        assert file["fixed"].shape == (5,)""")


def test_what_may_shrink_in_every_dimension_is_native(run: Program, tmp_path: Path) -> None:
    run("""
    with h5py.File("x.h5", "w") as file:
        x = file.create_dataset("x", data=np.ones((4, 6)), chunks=(2, 2))
        x.resize((3, 5))
        assert x.shape == (3, 5) and (x[:] == 1).all()""")
    assert not (tmp_path / "x.h5.arrow").exists()


@pytest.mark.parametrize("settings", ["", "sync=yes"])
def test_killed_while_rows_are_added(run: Program, settings: str) -> None:
    """What was flushed is whole, and rows can be added again."""
    ended = run(
        f"""
    import signal
    file = h5py.File("x.h5", "w")
    for name, kind in (("x", "i8"), ("r", {RECORD})):
        dataset = file.create_dataset(name, (0,), kind, maxshape=(None,))
    x, r = file["x"], file["r"]
    for rows in (100, 6000):
        x.resize((rows,)), r.resize((rows,))
        x[:], r["id"] = np.arange(rows), np.arange(rows)
        if rows == 100:
            file.flush()
    os.kill(os.getpid(), signal.SIGKILL)""",
        settings=settings,
        good=False,
    )
    assert ended.code == -9
    run("""
    with h5py.File("x.h5", "r+") as file:
        for name, column in (("x", lambda d: d[:]), ("r", lambda d: d["id"])):
            dataset = file[name]
            assert np.array_equal(column(dataset), np.arange(100))
            dataset.resize((7000,))
            assert np.array_equal(column(dataset)[:100], np.arange(100))
            # Rows that were never flushed are gone, not back.
            assert not column(dataset)[100:].any()""")


def test_pytables_and_netcdf_append(run: Program, tmp_path: Path) -> None:
    run("""
    import tables, netCDF4
    with tables.open_file("t.h5", "w") as file:
        grows = file.create_earray("/", "grows", obj=np.arange(5))
        rows = file.create_table("/", "rows", {"a": tables.Int32Col(), "b": tables.Float64Col()})
        for step in range(50):
            rows.append([(step, step / 2)] * 300)
            grows.append(np.arange(100))
        assert rows.nrows == 15_000 and grows.nrows == 5005
        rows.remove_rows(0, 300)
        assert rows[0]["a"] == 1
    with netCDF4.Dataset("n.nc", "w") as file:
        file.createDimension("t", None)
        file.createDimension("x", 3)
        file.createVariable("v", "f4", ("t", "x"))
        for step in range(20):
            file["v"][step] = step
        assert file["v"].chunking() != "contiguous"
    with netCDF4.Dataset("n.nc", "a") as file:
        assert file["v"].shape == (20, 3)
        file["v"][25] = 1
        assert file["v"][24].mask.all()""")
    found = table(tmp_path / "t.h5.arrow" / "latest" / "rows.arrow")
    assert found.num_rows == 14_700
    assert found["b"][-1].as_py() == 24.5
    assert table(tmp_path / "n.nc.arrow" / "latest" / "v.arrow").num_rows == 26
    assert h5py.File(tmp_path / "t.h5")["grows"].shape == (5005,)


def test_chunks_can_be_moved_whole(run: Program) -> None:
    run("""
    with h5py.File("x.h5", "w") as file:
        x = file.create_dataset("x", (5, 7), "i4", maxshape=(None, 7), chunks=(2, 3))
        x[:] = np.arange(35).reshape(5, 7)
        assert x.id.get_num_chunks() == 9
        mask, data = x.id.read_direct_chunk((2, 3))
        assert mask == 0 and np.frombuffer(data, "i4").tolist() == [17, 18, 19, 24, 25, 26]
        mask, data = x.id.read_direct_chunk((4, 6))
        assert np.frombuffer(data, "i4").tolist() == [34, 0, 0, 0, 0, 0]
        x.id.write_direct_chunk((0, 3), np.arange(6, dtype="i4").tobytes())
        assert x[:2, 2:7].tolist() == [[2, 0, 1, 2, 6], [9, 3, 4, 5, 13]]
        info = x.id.get_chunk_info(4)
        # Its address leads nowhere: reading there is an error.
        assert info.size == 24 and info.byte_offset >= 2**63
        seen = []
        x.id.chunk_iter(lambda chunk: seen.append(chunk.chunk_offset))
        assert len(seen) == 9
        for place in ((1, 3), (6, 0)):
            try:
                x.id.read_direct_chunk(place)
            except Exception as error:
                assert "not that of a chunk" in str(error), error
            else:
                sys.exit("no error")""")


CHUNK = """
import ctypes, glob
hdf5 = h5py.version.hdf5_version_tuple
if hdf5 < (2, 0, 0):
    sys.exit()
(path,) = glob.glob(os.path.dirname(h5py.__file__) + ".libs/libhdf5-*.so*")
read = ctypes.CDLL(path).H5Dread_chunk2
read.argtypes = [ctypes.c_int64] * 2 + [ctypes.c_void_p] * 4
with h5py.File("x.h5", "w") as file:
    data = file.create_dataset("x", data=np.arange(10.0), chunks=(4,), maxshape=(None,))
    offset, mask = (ctypes.c_uint64 * 1)(4), ctypes.c_uint32(9)

    def asked(buffer, size):
        size = ctypes.c_size_t(size)
        done = read(data.id.id, 0, offset, ctypes.byref(mask), buffer, ctypes.byref(size))
        return done >= 0, size.value

    assert asked(None, 0) == (True, 32)
    short = ctypes.create_string_buffer(b"\\x55" * 64, 64)
    assert asked(short, 16) == (True, 32), "the program is told what it needs"
    assert short.raw == b"\\x55" * 64, "nothing was written"
    assert asked(short, 32) == (True, 32) and mask.value == 0
    assert np.frombuffer(short.raw[:32]).tolist() == [4, 5, 6, 7]
    assert short.raw[32:] == b"\\x55" * 32
"""


CHUNKS = """
with h5py.File(sys.argv[1], "w") as file:
    for name, shape, chunk in (("x", (10,), (4,)), ("y", (10, 3), (4, 2)), ("none", (0,), (4,))):
        x = file.create_dataset(name, shape, "i4", maxshape=(None, *shape[1:]), chunks=chunk)
        x[...] = 1
        found = [x.id.get_num_chunks()]
        found += [x.id.get_chunk_info(at) for at in range(found[0])]
        x.id.chunk_iter(found.append)
        for row in (0, 1, 4, 10, 11, 12, 40):
            one = x.id.get_chunk_info_by_coord((row, *(1 for _ in shape[1:])))
            found.append(one if one.chunk_offset else "no chunk")
        for one in found:
            print(one if isinstance(one, (int, str)) else (one.chunk_offset, one[1], one.size))
        try:
            x.id.get_chunk_info(99)
        except ValueError as error:
            print(error)"""


def test_chunks_are_reported_as_hdf5_tells_them(
    tmp_path: Path, run: Program, plain: Program
) -> None:
    """h5py gave no place for a chunk without an address, and none for a place within a chunk."""
    ours = run(CHUNKS.replace("sys.argv[1]", "'ours.h5'"))
    assert (tmp_path / "ours.h5.arrow" / "latest" / "x.arrow").exists()
    assert ours.out == plain(CHUNKS.replace("sys.argv[1]", "'native.h5'")).out


def test_a_chunk_is_read_into_a_buffer_that_is_long_enough(run: Program, plain: Program) -> None:
    """HDF5 2 says how long the buffer is; a shorter one was overrun by the rest of the chunk."""
    plain(CHUNK)
    run(CHUNK)
