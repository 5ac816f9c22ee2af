"""What tests of datasets in a store share."""

from __future__ import annotations

from plasmon import Daemon, Store

WRITE = """
with h5py.File("x.h5", "w") as file:
    file["g/x"] = np.arange(1000.0)
    file["g/x"].attrs["unit"] = "m"
    file["field"] = np.arange(24, dtype="i4").reshape(2, 3, 4)
    records = np.zeros(4, dtype=[("a", "i4"), ("b", "f8")])
    records["a"] = range(4)
    file["r"] = records
    file["note"] = "stays with HDF5"
"""
READ = """
with h5py.File("x.h5", "r") as file:
    assert np.array_equal(file["g/x"][:], np.arange(1000.0))
    assert np.array_equal(file["field"][1, 2], [20, 21, 22, 23])
    assert file["r"]["a"].tolist() == [0, 1, 2, 3] and file["r"][3].tolist() == (3, 0.0)
    assert file["note"][()] == b"stays with HDF5"
"""


def settings(daemon: Daemon) -> str:
    """What a program has to say to use it."""
    return f"backend=store store={daemon.socket}"


def names(store: Store) -> set[str]:
    """The names of the objects, without what tells files of one name apart."""
    found = {str(info.name) for info in store.list("hdf5", "x.h5-")}
    return {name.split("/", 1)[1] for name in found}


def full_name(store: Store, dataset: str) -> str:
    """The whole name of a dataset's object."""
    found = [str(info.name) for info in store.list("hdf5", "x.h5-")]
    (name,) = [name for name in found if name.split("/", 1)[1] == dataset]
    return name


def count(store: Store) -> int:
    """How many objects there are, with or without a name."""
    return len(store.list())
