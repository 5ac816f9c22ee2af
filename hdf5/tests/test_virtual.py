"""Virtual datasets over Arrow sources.

HDF5 opens the sources by itself: it looked for their Arrow files from the working directory, so a
program elsewhere needed a third variable (HDF5_EXTFILE_PREFIX), compounds could not be read at all,
and a copy of a source read what was written through the original.
"""

from __future__ import annotations

from pathlib import Path

from conftest import Program

#: Makes sources and virtual datasets of every kind of mapping in the folder d.
MAKE = """
    os.makedirs("d/s")
    for at in range(3):
        with h5py.File(f"d/s/{at}.h5", "w") as f:
            f["x"] = np.arange(20.0).reshape(4, 5) + 100 * at
            f.create_dataset("n", data=np.arange(3 + at) + 10 * at, maxshape=(None,), chunks=(2,))
    with h5py.File("d/v.h5", "w") as f:
        f["own"] = np.arange(6)
        layout = h5py.VirtualLayout((4, 5, 5), "f8")
        for at in range(5):                      # two of them are not there
            layout[:, at, :] = h5py.VirtualSource(f"s/{at}.h5", "x", (4, 5))
        f.create_virtual_dataset("stack", layout, fillvalue=-1)
        f.create_virtual_dataset("stack0", layout)
        parts = h5py.VirtualLayout((9,), "f4")  # another type, strides, its own file
        parts[0:6:2] = h5py.VirtualSource(".", "own", (6,))[1::2]
        parts[6:] = h5py.VirtualSource(os.path.abspath("d/s/1.h5"), "x", (4, 5))[1:, 3]
        f.create_virtual_dataset("parts", parts, fillvalue=7)
        again = h5py.VirtualLayout((3,), "i4")   # shows a virtual dataset
        again[:] = h5py.VirtualSource(".", "parts", (9,))[4:7]
        f.create_virtual_dataset("again", again)

        def low(name, part, source, file, shape, of="x"):
            most = (h5py.h5s.UNLIMITED,) + shape[1:]
            space = h5py.h5s.create_simple(shape, most)
            dcpl = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            dcpl.set_fill_value(np.array(-5.0))
            space.select_hyperslab(*part)
            dcpl.set_virtual(space, file, of.encode(), source)
            space.select_all()
            h5py.h5d.create(f.id, name.encode(), h5py.h5t.NATIVE_DOUBLE, space, dcpl)

        E = h5py.h5s.UNLIMITED
        block = h5py.h5s.create_simple((4, 5))
        low("numbered", ((1, 0), (E, 1), (6, 1), (4, 5)), block, b"s/%b.h5", (30, 5))
        more = h5py.h5s.create_simple((3,), (E,))
        more.select_hyperslab((0,), (E,), (1,), (1,))
        low("more", ((2,), (E,), (3,), (1,)), more, b"s/2.h5", (14,), of="n")
        pairs = h5py.h5s.create_simple((3,), (E,))
        pairs.select_hyperslab((1,), (E,), (1,), (1,))
        low("pairs", ((0,), (E,), (3,), (2,)), pairs, b"s/2.h5", (6,), of="n")
"""
READ = """
    random = np.random.default_rng(5)
    with h5py.File("d/v.h5", "r") as f:
        dapl = h5py.h5p.create(h5py.h5p.DATASET_ACCESS)
        dapl.set_virtual_view(h5py.h5d.VDS_FIRST_MISSING)
        names = ["stack", "stack0", "parts", "again", "numbered", "more", "pairs"]
        for name, view in [(name, None) for name in names] + [(name, dapl) for name in names[4:]]:
            ds = None  # closed: the view is that of the first one that opens a dataset
            ds = h5py.Dataset(h5py.h5d.open(f.id, name.encode(), view))
            print(name, ds.shape, ds[...].tolist())
            for _ in range(6):
                cut = []
                for n in ds.shape:
                    a, b = sorted(random.integers(0, n + 1, 2))
                    cut.append(slice(int(a), int(b) + 1, int(random.integers(1, 4))))
                print(cut, ds[tuple(cut)].tolist())
            some = np.flatnonzero(random.random(ds.shape[0]) < 0.6)
            print(some, ds[some].tolist())
            points = random.random(ds.shape) < 0.5
            try:  # HDF5 alone takes no points where parts are missing
                assert ds[points].tolist() == ds[...][points].tolist()
            except OSError as error:
                assert "point selections" in str(error), error
            some = np.full((2, *ds.shape), 9.0)
            ds.read_direct(some, dest_sel=np.s_[1])
            print(some.tolist())
        print(f["stack"].astype("i2")[1:3, 1:4, 2].tolist(), f["stack"].dtype)
"""


def test_virtual_datasets_read_as_with_hdf5_alone(
    run: Program, plain: Program, tmp_path: Path
) -> None:
    """Every kind of mapping, from another folder, with the guide's two variables."""
    (tmp_path / "native").mkdir()
    (tmp_path / "ours").mkdir()
    native = plain(MAKE, folder="native") and plain(READ, folder="native")
    ours = run(MAKE, folder="ours") and run(READ, folder="ours")
    assert (tmp_path / "ours" / "d" / "s" / "0.h5.arrow").is_dir()
    assert ours.out == native.out
    assert "numbered (17, 5)" in native.out
    assert "numbered (19, 5)" in native.out
    assert "-1.0" in native.out


def test_sources_grow_change_and_are_written(run: Program, plain: Program) -> None:
    """What a program does with virtual datasets and their sources at the same time."""
    program = """
        os.makedirs(SIDE + "/s")
        E = h5py.h5s.UNLIMITED
        with h5py.File(SIDE + "/s/g.h5", "w", libver="latest") as g:
            g.create_dataset("n", data=np.arange(4.0), maxshape=(None,), chunks=(2,))
            g["x"] = np.arange(10.0)
        with h5py.File(SIDE + "/v.h5", "w", libver="latest") as f:
            layout = h5py.VirtualLayout((4,), "f8", maxshape=(None,))
            grown = h5py.VirtualSource("s/g.h5", "n", (4,), maxshape=(None,))
            layout[:h5py.h5s.UNLIMITED] = grown[:h5py.h5s.UNLIMITED]
            f.create_virtual_dataset("n", layout)
            layout = h5py.VirtualLayout((12,), "f8")
            layout[1:11] = h5py.VirtualSource("s/g.h5", "x", (10,))
            f.create_virtual_dataset("x", layout)
        with h5py.File(SIDE + "/s/g.h5", "r+") as g:
            g["n"].resize((7,)); g["n"][4:] = [9, 8, 7]
        with h5py.File(SIDE + "/v.h5", "r+") as f:
            print(f["n"].shape, f["n"][...].tolist())
            f["x"][3:6] = [-1, -2, -3]
            print(f["x"][...].tolist())
            try:
                f["x"][:4] = 5
                print("written")
            except OSError as error:
                print("unmapped" in str(error))
            v = f["x"]
        with h5py.File(SIDE + "/s/g.h5", "r") as g:
            print(g["x"][...].tolist(), g["n"][...].tolist())
        f = h5py.File(SIDE + "/v.h5", "r")
        x = f["x"]
        print(x[3:6].tolist())
    """
    native = plain(program.replace("SIDE", "'native'"))
    ours = run(program.replace("SIDE", "'ours'"))
    assert ours.out == native.out


def test_sources_are_checked_like_any_other_file(run: Program) -> None:
    """A copied skeleton has no values of its own once the original has changed: not those of the
    original, as HDF5 read them, and no fill values. Compounds, and sources that the program has
    open, are read."""
    ended = run(
        """
        import shutil
        record = np.dtype([("a", "<i4"), ("b", "<f8")])
        os.mkdir("d")
        with h5py.File("d/x.h5", "w") as f:
            f["t"] = np.array([(1, 0.5), (2, 1.5)], record)
        shutil.copy("d/x.h5", "d/bak.h5")
        with h5py.File("d/v.h5", "w") as f:
            for name in "x", "bak":
                layout = h5py.VirtualLayout((3,), record)
                layout[1:] = h5py.VirtualSource(name + ".h5", "t", (2,))
                f.create_virtual_dataset(name, layout, fillvalue=np.array((7, 7), record))
            loop = h5py.VirtualLayout((2,), "f8")
            loop[:] = h5py.VirtualSource(".", "loop", (2,))
            f.create_virtual_dataset("loop", loop)
        with h5py.File("d/x.h5", "r") as open_too, h5py.File("d/v.h5", "r") as v:
            assert v["x"][...].tolist() == [(7, 7.0), (1, 0.5), (2, 1.5)], v["x"][...]
            assert v["x"]["b"].tolist() == [7.0, 0.5, 1.5]
            assert v["bak"][1:].tolist() == [(1, 0.5), (2, 1.5)]
        with h5py.File("d/x.h5", "r+") as f:
            f["t"][0] = (9, 9.5)
        for folder in ".", "d":                 # from d, HDF5 finds the Arrow file
            os.chdir(folder)
            with h5py.File(os.path.join("d" if folder == "." else "", "v.h5"), "r") as v:
                assert v["x"][1].tolist() == (9, 9.5)
                for name in "bak", "loop":
                    try:
                        print(name, v[name][...].tolist())
                    except OSError as error:
                        print(name, "refused", error)
        """
    )
    lines = ended.out.splitlines()
    assert [line.split()[:2] for line in lines] == [["bak", "refused"], ["loop", "refused"]] * 2, (
        lines
    )
    assert "was changed after bak.h5 was copied" in lines[0]
    assert "show each other" in lines[1]


def test_sources_may_be_in_a_store(run: Program, daemon: object) -> None:
    """HDF5 could not open them."""
    del daemon
    make = """
        os.mkdir("d")
        with h5py.File("d/x.h5", "w") as f:
            f["x"] = np.arange(4)
        layout = h5py.VirtualLayout((6,), "i8")
        layout[:4] = h5py.VirtualSource("x.h5", "x", (4,))
        with h5py.File("d/v.h5", "w") as f:
            f.create_virtual_dataset("v", layout, fillvalue=9)
        """
    run(make, settings="backend=store")
    ended = run("""
        print(h5py.File("d/v.h5")["v"][...].tolist())
        """)
    assert ended.out == "[0, 1, 2, 3, 9, 9]\n"
