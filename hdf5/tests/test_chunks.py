"""The chunks of a dataset that exist are reported as HDF5 alone reports them.

All chunks counted as written, also those that no program had written into: the number of chunks,
their list and the size of the storage were others than HDF5's.
"""

from __future__ import annotations

from pathlib import Path

from conftest import Program
from operations.running import SEED

#: Datasets are made, written in many ways, resized and opened again; after each step it is said
#: what chunks there are.
DRAWN = """
import random

TIMES = [h5py.h5d.ALLOC_TIME_DEFAULT, h5py.h5d.ALLOC_TIME_INCR] * 2
TIMES += [h5py.h5d.ALLOC_TIME_EARLY, h5py.h5d.ALLOC_TIME_LATE]
KINDS = ["i4", "u1", [("a", "i2"), ("b", "f8")]]

def tell(file):
    x = file["x"].id
    chunks = [x.get_chunk_info(at) for at in range(x.get_num_chunks())]
    passed = []
    x.chunk_iter(passed.append)
    assert [one.chunk_offset for one in passed] == [one.chunk_offset for one in chunks]
    draw = [[random.randrange(2 * size + 1) for size in x.shape] for _ in range(4)]
    asked = [x.get_chunk_info_by_coord(tuple(at)) for at in draw]
    # HDF5 alone has no size for a chunk that is not there: h5py takes any number for it.
    there = [len(x.read_direct_chunk(one.chunk_offset)[1]) for one in chunks]
    print(x.shape, x.get_storage_size(), x.get_space_status(), there)
    print([(one.chunk_offset, one.size) for one in [*chunks, *asked]])

def some(size):
    start = random.randrange(size)
    return slice(start, random.randint(start, size), random.choice((1, 1, 2, 3)))

def step(file, kind, most):
    x, draw = file["x"], random.random()
    if draw < 0.35:
        rows = x.shape[0] + random.randint(-9, 12)
        x.resize((min(max(rows, 0), most or 40), *x.shape[1:]))
    elif x.size == 0:
        pass
    elif draw < 0.7:
        x[tuple(some(size) for size in x.shape)] = np.ones((), kind)
    elif draw < 0.8:
        mask = np.zeros(x.shape, bool)
        mask.flat[random.sample(range(x.size), random.randint(0, min(4, x.size)))] = True
        x[mask] = np.ones(mask.sum(), kind)
    elif draw < 0.9:
        place = [random.randrange(size) for size in x.shape]
        place = tuple(at - at % chunk for at, chunk in zip(place, x.chunks))
        chunk = bytes(int(np.prod(x.chunks)) * x.dtype.itemsize)
        x.id.write_direct_chunk(place, chunk)
    else:
        # Reading makes no chunk.
        x[...]

def sequence(seed):
    random.seed(seed)
    rank, kind = random.randint(1, 3), np.dtype(random.choice(KINDS))
    shape = [random.randrange(20), *(random.randint(1, 5) for _ in range(rank - 1))]
    most = random.choice((None, 40))
    chunk = [random.randint(1, 7), *(random.randint(1, size) for size in shape[1:])]
    with h5py.File(NAME, "w", libver=random.choice(("earliest", "latest"))) as file:
        creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        creation.set_chunk(tuple(chunk))
        creation.set_alloc_time(random.choice(TIMES))
        space = h5py.h5s.create_simple(tuple(shape), (most or h5py.h5s.UNLIMITED, *shape[1:]))
        h5py.h5d.create(file.id, b"x", h5py.h5t.py_create(kind, logical=True), space, creation)
        tell(file)
    for _ in range(4):
        with h5py.File(NAME, "r+") as file:
            for _ in range(3):
                step(file, kind, most)
                tell(file)

for seed in range(SEED, SEED + COUNT):
    print("seed", seed)
    sequence(seed)
"""
COUNT = 60


def test_drawn_datasets_have_the_chunks_of_hdf5(
    run: Program, plain: Program, tmp_path: Path
) -> None:
    def told(program: Program, name: str) -> list[str]:
        return program(f"\nNAME, SEED, COUNT = {name!r}, {SEED}, {COUNT}\n{DRAWN}").out.splitlines()

    ours, native = told(run, "ours.h5"), told(plain, "native.h5")
    assert (tmp_path / "ours.h5.arrow" / "latest" / "x.arrow").exists()
    for at, (one, other) in enumerate(zip(ours, native, strict=True)):
        assert one == other, "\n".join(native[max(at - 4, 0) : at])


def test_a_copy_has_the_chunks_of_its_original(run: Program) -> None:
    run("""
    with h5py.File("x.h5", "w") as file:
        x = file.create_dataset("x", (40,), "i4", maxshape=(None,), chunks=(4,))
        x[10] = x[30] = 1
        file.copy("x", "y")
        file["z"] = np.arange(3)
        file["x"].attrs["unit"] = "m"
    with h5py.File("x.h5", "r+") as file:
        for name in ("x", "y"):
            x = file[name]
            assert x.id.get_num_chunks() == 2 and x.id.get_chunk_info(1).chunk_offset == (28,)
        x.resize((80,))
        x[79] = 1
        assert x.id.get_num_chunks() == 3 and file["x"].id.get_num_chunks() == 2
        assert x.id.get_storage_size() == 48
        try:
            x.id.read_direct_chunk((4,))
        except RuntimeError as error:
            assert "the chunk was never written" in str(error), error
        else:
            sys.exit("no error")""")


def test_very_many_separate_chunks_are_reported_as_more(run: Program) -> None:
    """The Arrow file has room for some sixty runs of chunks: of more the nearest become one."""
    run("""
    with h5py.File("x.h5", "w") as file:
        x = file.create_dataset("x", (4000,), "u1", maxshape=(None,), chunks=(2,))
        x[::6] = 1
        assert 667 <= x.id.get_num_chunks() <= 2000
        x[...] = 1
        assert x.id.get_num_chunks() == 2000""")


def test_the_layout_of_before_has_all_its_chunks(run: Program, tmp_path: Path) -> None:
    """Files of before do not say what was written, and have no number."""
    run("""
    with h5py.File("x.h5", "w") as file:
        file.create_dataset("x", (10,), "i4", maxshape=(None,), chunks=(4,))[9] = 7
    content = open("x.h5.arrow/latest/x.arrow", "rb").read()
    with open("x.h5.arrow/x.arrow", "wb") as file:
        file.write(content.replace(b"hdf5.written", b"hdf5.unknown"))
    number = os.readlink("x.h5.arrow/latest")
    long, short = f"x.h5.arrow/{number}/x.arrow".encode(), b"x.h5.arrow/x.arrow"
    content = open("x.h5", "rb").read().replace(long, short.ljust(len(long), b"\\0"))
    with open("x.h5", "wb") as file:
        file.write(content.replace(b"plasmon data x", b"plasmon dada x"))
    with h5py.File("x.h5", "r") as file:
        x = file["x"]
        assert x.id.get_num_chunks() == 3 and x.id.get_storage_size() == 48
        assert x.id.get_chunk_info(2).chunk_offset == (8,) and x[9] == 7""")
