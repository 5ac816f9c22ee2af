"""Datasets in a store: seen by others once closed or flushed."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from conftest import Program, data
from in_store import READ, WRITE, count, full_name, names, settings

from plasmon import Daemon, Store


def test_what_is_written_is_a_table_of_the_store(
    run: Program, plain: Program, tmp_path: Path, daemon: Daemon, store: Store
) -> None:
    run(WRITE, settings=settings(daemon))
    assert data(tmp_path) == set(), "nothing but the manifest"
    assert names(store) == {"g/x", "field", "r"}
    table: Any = store.get(full_name(store, "r"), namespace="hdf5")
    assert table.to_pydict() == {"a": [0, 1, 2, 3], "b": [0.0] * 4}
    column: Any = store.get(full_name(store, "g/x"), namespace="hdf5")
    assert column.column_names == ["x"]
    assert column["x"][7].as_py() == 7.0
    assert column.schema.metadata[b"hdf5.attribute.unit"] == b"m"
    # The skeleton says where the data is: readers need no settings.
    run(READ)
    run(READ, settings=settings(daemon))
    ended = plain(READ, good=False)
    assert "unable to open external raw data file" in ended.err


def test_python_gets_the_tables_without_a_copy(
    run: Program, plain: Program, daemon: Daemon, store: Store
) -> None:
    run(WRITE, settings=settings(daemon))
    for program in (run, plain):
        out = program("""
        import plasmon.hdf5
        with plasmon.hdf5.open("x.h5") as file:
            assert file["r"].table["a"].to_pylist() == [0, 1, 2, 3]
            assert file["field"].array.shape == (2, 3, 4) and file["field"].array[1, 2, 3] == 23
            assert not file["field"].array.flags.owndata
            assert file["g/x"].attributes == {"unit": "m"} and file["g/x"].file is None
            assert file["note"].array == b"stays with HDF5"
            print(file["g/x"].object)""").out
        assert full_name(store, "g/x") in out
        assert daemon.socket in out
    store.delete(full_name(store, "r"), namespace="hdf5")
    out = plain("""
    import plasmon.hdf5
    with plasmon.hdf5.open("x.h5") as file:
        try:
            file["r"].table
        except FileNotFoundError as error:
            print(error)""").out
    assert "which does not have it (deleted)" in out


def test_others_see_a_dataset_when_it_is_closed_or_flushed(
    run: Program, daemon: Daemon, store: Store
) -> None:
    run(
        f"""
    import plasmon
    store = plasmon.connect({daemon.socket!r})
    def seen():
        return sorted(info.name.split("/")[1] for info in store.list(namespace="hdf5"))
    with h5py.File("x.h5", "w") as file:
        whole = file.create_dataset("whole", (10,), "f4")
        whole[:] = 1
        assert seen() == [] and whole[3] == 1
        del whole
        assert seen() == ["whole"]
        part = file.create_dataset("part", (10,), "f4")
        part[:4] = 2
        del part
        # A program that writes it in pieces would have a version for each.
        assert seen() == ["whole"]
        assert file["part"][:5].tolist() == [2, 2, 2, 2, 0]
        file["part"][4:] = 3
        assert seen() == ["part", "whole"]
        held = file.create_dataset("held", (3, 2), "i8")
        held[1] = 5
        file.flush()
        assert seen() == ["held", "part", "whole"]
        held[0] = 4
        held.flush()
        empty = file.create_dataset("empty", (5,), "u2", fillvalue=9)
        del empty
        assert seen() == ["held", "part", "whole"]
        file["empty"][1] = 3
        assert seen() == ["held", "part", "whole"]
    assert seen() == ["empty", "held", "part", "whole"]""",
        settings=settings(daemon),
    )
    held: Any = store.get(full_name(store, "held"), namespace="hdf5")
    assert held.column(0).to_pylist() == [[4, 4], [5, 5], [0, 0]]
    empty: Any = store.get(full_name(store, "empty"), namespace="hdf5")
    assert empty.column(0).to_pylist() == [9, 3, 9, 9, 9]


def test_memory_that_was_used_before_reads_as_zeros(
    run: Program, daemon: Daemon, store: Store
) -> None:
    for _ in range(4):
        store.put(b"\xff" * (2 << 20), name="dirt")
        store.delete("dirt")
    run(
        """
    with h5py.File("x.h5", "w") as file:
        data = file.create_dataset("x", (1 << 18,), "f8")
        data[100:200] = 1
        assert data[:].sum() == 100
        other = file.create_dataset("y", (1 << 18,), "f8", fillvalue=0)
        other[::4096] = 1
    with h5py.File("x.h5", "r") as file:
        assert file["x"][:].sum() == 100 and file["y"][:].sum() == 64""",
        settings=settings(daemon),
    )


def test_a_dataset_that_is_written_over_is_a_new_version(
    run: Program, daemon: Daemon, store: Store
) -> None:
    run(WRITE, settings=settings(daemon))
    before: Any = store.get(full_name(store, "g/x"), namespace="hdf5")
    objects = count(store)
    run("""
    with h5py.File("x.h5", "r+") as file:
        for at in range(5):
            file["g/x"][at] = -1
        assert file["g/x"][:7].tolist() == [-1, -1, -1, -1, -1, 5, 6]
    with h5py.File("x.h5", "r+") as file:
        file["g/x"][-1] = 0
        file["g/x"].attrs["more"] = 3""")
    assert before["x"][:6].to_pylist() == [0, 1, 2, 3, 4, 5], "what is read stays"
    after: Any = store.get(full_name(store, "g/x"), namespace="hdf5")
    assert after["x"][4:6].to_pylist() == [-1, 5]
    assert after["x"][999].as_py() == 0
    assert after.schema.metadata[b"hdf5.attribute.more"] == b"3"
    del before, after
    assert names(store) == {"g/x", "field", "r"}
    deadline = time.monotonic() + 10
    while count(store) != objects and time.monotonic() < deadline:
        time.sleep(0.01)
    assert count(store) == objects


def test_names_copies_and_deletions(run: Program, daemon: Daemon, store: Store) -> None:
    run(WRITE, settings=settings(daemon))
    run(
        """
    with h5py.File("x.h5", "r+") as file:
        file.copy("g/x", "x2")
        file["x2"][0] = 7
        file.move("r", "moved")
        file["link"] = file["field"]
        del file["field"]
        file.copy("g", "h")
        assert file["g/x"][0] == 0 and file["x2"][:2].tolist() == [7, 1]
        del file["g"]
        file["r"] = np.arange(3)
    with h5py.File("x.h5", "r") as file:
        assert file["h/x"][5] == 5 and file["link"][0, 0, 1] == 1 and file["moved"]["a"][2] == 2
        assert file["r"][2] == 2""",
        settings=settings(daemon),
    )
    assert names(store) == {"field", "r", "r~1", "x2", "h/x"}
    # Another file of the same name takes its objects away, and so does h5py's way of deleting.
    run(WRITE, settings=settings(daemon))
    assert names(store) == {"g/x", "field", "r"}


def test_files_of_one_name_do_not_meet(
    run: Program, tmp_path: Path, daemon: Daemon, store: Store
) -> None:
    run(WRITE, settings=settings(daemon))
    (tmp_path / "x.h5").rename(tmp_path / "old.h5")
    run(WRITE.replace("1000.0", "10.0"), settings=settings(daemon))
    run("""
    with h5py.File("old.h5", "r") as old, h5py.File("x.h5", "r") as new:
        assert len(old["g/x"]) == 1000 and old["g/x"][999] == 999 and len(new["g/x"]) == 10""")
    assert names(store) == {"g/x", "field", "r"}
    assert len({str(info.name) for info in store.list("hdf5")}) == 6, "each has its own"


def test_from_one_backend_to_the_other(run: Program, tmp_path: Path, daemon: Daemon) -> None:
    run(WRITE.replace("x.h5", "files.h5"))
    run(
        """
    with h5py.File("files.h5", "r") as source, h5py.File("x.h5", "w") as sink:
        for name in source:
            source.copy(name, sink)""",
        settings=settings(daemon),
    )
    assert data(tmp_path) == set()
    run(READ)
    run("""
    with h5py.File("x.h5", "r") as source, h5py.File("again.h5", "w") as sink:
        for name in source:
            source.copy(name, sink)""")
    assert (tmp_path / "again.h5.arrow" / "latest" / "field.arrow").exists()
    run(READ.replace("x.h5", "again.h5"))


def test_the_tools_know_objects(
    run: Program, tool: Program, plain: Program, daemon: Daemon, store: Store
) -> None:
    run(WRITE, settings=settings(daemon))
    out = tool("inspect", "x.h5").out
    assert f"arrow: hdf5:{full_name(store, 'g/x')} in the store {daemon.socket}" in out
    assert "3 of 4 datasets are Arrow" in out
    assert '"storage": "store"' in tool("--json", "inspect", "x.h5").out
    assert "in order" in tool("doctor", "x.h5").out
    tool("export", "x.h5", "plain.h5")
    plain(READ.replace("x.h5", "plain.h5"))
    tool("import", "plain.h5", "again.h5", "--backend", "store", "--store", daemon.socket)
    run(READ.replace("x.h5", "again.h5"))
    store.put(b"", name=f"{full_name(store, 'r').split('/')[0]}/lost", namespace="hdf5")
    store.delete(full_name(store, "field"), namespace="hdf5")
    ended = tool("doctor", "x.h5", good=False)
    assert ended.code == 1
    assert "/field: " in ended.out
    assert "/lost" in ended.out


def test_forked_children_read_what_is_sealed(run: Program, daemon: Daemon) -> None:
    out = run(
        """
    file = h5py.File("x.h5", "w")
    file["x"] = np.arange(100.0)
    file.flush()
    held = file["x"]
    assert held[1] == 1
    open_one = file.create_dataset("y", (10,), "f8")
    open_one[:] = 1
    if os.fork() == 0:
        try:
            assert held[:].sum() == 4950
            print("child reads", flush=True)
            open_one[0]
        except OSError as error:
            print(error, flush=True)
        os._exit(0)
    os.wait()
    open_one[0] = 2
    file.close()
    with h5py.File("x.h5", "r") as file:
        assert file["y"][:2].tolist() == [2, 1]""",
        settings=settings(daemon),
    ).out
    assert "child reads" in out
    assert "is being written by the parent process" in out


def test_another_process_sees_a_closed_dataset_at_once(
    run: Program, daemon: Daemon, store: Store
) -> None:
    """Whatever its size: what is closed is there, and nothing of it is copied or read."""
    run(
        """
    with h5py.File("x.h5", "w") as file:
        file["small"], file["large"] = np.zeros(8), np.zeros(4 << 20)""",
        settings=settings(daemon),
    )
    best = {}
    for dataset in ("small", "large"):
        name = full_name(store, dataset)
        times = []
        for _ in range(20):
            start = time.perf_counter()
            table: Any = store.get(name, namespace="hdf5")
            times.append(time.perf_counter() - start)
            assert table.num_rows > 0
        best[dataset] = min(times)
    assert best["large"] < 10 * best["small"] + 0.001, best


def test_three_copies_of_hdf5_share_a_store(run: Program, daemon: Daemon, store: Store) -> None:
    run(
        """
    import tables, netCDF4, xarray, pandas
    with tables.open_file("t.h5", "w") as file:
        file.create_array("/", "x", np.arange(10.0))
    with netCDF4.Dataset("n.nc", "w") as file:
        file.createDimension("i", 10)
        file.createVariable("x", "f8", ("i",), contiguous=True)[:] = np.arange(10.0)
    with h5py.File("h.h5", "w") as file:
        file["x"] = np.arange(10.0)
    # Each reads what another wrote, while it is open there.
    with h5py.File("t.h5", "r") as one, h5py.File("n.nc", "r") as other:
        assert one["x"][9] == 9 and other["x"][9] == 9
        with tables.open_file("h.h5") as third:
            assert third.root.x[9] == 9
    assert xarray.open_dataset("n.nc", engine="netcdf4")["x"].values[3] == 3""",
        settings=settings(daemon),
    )
    found = sorted(str(info.name) for info in store.list("hdf5"))
    assert [name.split("-")[0] for name in found] == ["h.h5", "n.nc", "t.h5"], found


def test_every_kind_is_a_table_of_the_store(
    run: Program, plain: Program, daemon: Daemon, store: Store
) -> None:
    run(
        """
    kinds = {
        "bool": np.array([True, False, True]),
        "text": np.array([b"a", b"bcd", b""]),
        "big": np.array([1, 2, 3], ">i4"),
        "cells": np.zeros(
            3, [("id", "i4"), ("at", "f8", (2, 2)), ("in", [("x", "f4"), ("ok", "?")])]
        ),
    }
    kinds["cells"]["at"][1] = 5
    kinds["cells"]["in"]["x"] = [1, 2, 3]
    level = h5py.enum_dtype({"low": 0, "high": 1}, basetype="u1")
    with h5py.File("x.h5", "w") as file:
        for name, values in kinds.items():
            file[name] = values
        file.create_dataset("level", data=[0, 1, 0], dtype=level)
        file.create_dataset("grows", data=[1.0, 2.0], maxshape=(None,))
        file["grows"].resize((3,))
    with h5py.File("x.h5", "r") as file:
        for name, values in kinds.items():
            assert np.array_equal(file[name][:], values), name
        assert h5py.check_enum_dtype(file["level"].dtype) == {"low": 0, "high": 1}
        assert file["level"][:].tolist() == [0, 1, 0] and file["grows"][:].tolist() == [1, 2, 0]
        assert file["cells"]["in"]["x"].tolist() == [1, 2, 3]""",
        settings=settings(daemon),
    )
    # Rows that change stay with HDF5: an object has the size that it was made with.
    assert names(store) >= {"bool", "text", "cells", "level"}
    assert "grows" not in names(store)
    cells: Any = store.get(full_name(store, "cells"), namespace="hdf5")
    assert cells["in"].to_pylist()[1] == {"x": 2.0, "ok": 0}
    plain("""
    import plasmon.hdf5
    with plasmon.hdf5.open("x.h5") as file:
        assert file["cells"].array["at"][1].tolist() == [[5, 5], [5, 5]]
        assert file["text"].array.tolist() == [b"a", b"bcd", b""]
        assert file["bool"].array.tolist() == [True, False, True]""")
