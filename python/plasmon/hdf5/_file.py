"""Files of the connector, read without it: tables and arrays on the mapped Arrow files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from plasmon.hdf5 import _identity, _plugin
from plasmon.hdf5._objects import ObjectPlace
from plasmon.hdf5._plugin import Storage

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

#: The end of a name in the skeleton whose values HDF5 cannot read without the connector.
_NEEDS = " (needs the plasmon connector)"
_ARROW = ".arrow"


def open(path: str | os.PathLike[str], store: str | os.PathLike[str] | None = None) -> File:
    """Opens an HDF5 file for reading as a mapping of dataset paths to `Dataset`.

    Needs h5py, for the skeleton; the values of Arrow datasets are mapped, not read: files, and
    objects of a store, which is this user's own, or the one whose socket is `store`. Raises
    FileNotFoundError when the file is not there and OSError when it is not HDF5.
    """
    return File(path, store)


class Dataset:
    """One dataset: Arrow data where it is, NumPy values where HDF5 keeps them."""

    def __init__(
        self,
        dataset: Any,
        storage: Storage,
        store: str | None = None,
        locate: Callable[[], Path | None] | None = None,
    ) -> None:
        self._dataset = dataset
        self._storage = storage
        self._locate = locate
        self._store = store
        # Asked for now: tables and arrays are to be had when the file is closed, too.
        self._name, self._shape = str(dataset.name), tuple(dataset.shape or ())
        self._dtype = dataset.dtype
        self._table: pa.Table | None = None

    @property
    def name(self) -> str:
        """The path in the file, such as "/run 1/x"."""
        return self._name

    @property
    def shape(self) -> tuple[int, ...]:
        """The dimensions."""
        return self._shape

    @property
    def file(self) -> Path | None:
        """The Arrow file, or None when the values are elsewhere."""
        return self._storage.file

    @property
    def object(self) -> tuple[str, str] | None:
        """The object's name in the namespace "hdf5", and its store's socket.

        None when the values are elsewhere.
        """
        place = self._storage.object
        return (place.name, place.socket) if place else None

    @property
    def attributes(self) -> dict[str, Any]:
        """The attributes, as h5py gives them."""
        return dict(self._dataset.attrs)

    @property
    def table(self) -> pa.Table:
        """The values as a table where they are: a column, or one for each member of a compound.

        Values that HDF5 keeps are read and copied, numbers of one dimension only; others raise
        TypeError.
        """
        import pyarrow as pa

        if self._table is None and self._storage.file is not None:
            self._table = self._mapped(self._existing())
        if self._table is None and self._storage.object is not None:
            if self._locate is not None:
                self._locate()
            self._table = self._storage.object.table(self.name, self._store)
        if self._table is None:
            if len(self._shape) != 1 or self._dtype.kind not in "iuf":
                raise TypeError(
                    f"{self.name} has no Arrow table: it is kept by HDF5 "
                    f"({self._storage.reason or 'not Arrow'}); use .array"
                )
            name = self.name.rsplit("/", 1)[-1]
            self._table = pa.table({name: self._dataset[()]})
        return self._table

    @property
    def array(self) -> np.ndarray[Any, Any]:
        """The values as an array.

        It is where the values are for what is one column, and a copy for compounds, for values that
        HDF5 keeps, and where rows lie in several pieces.
        """
        import numpy as np

        if not self._storage.is_arrow:
            kept: np.ndarray[Any, Any] = self._dataset[()]
            return kept
        table = self.table
        is_complex = self._dtype.kind == "c"
        if self._dtype.names is None or is_complex:
            values = _values(table.column(0), self._dtype)
            return values.reshape(self._shape + tuple(self._dtype.shape))
        records = np.empty(self._shape, self._dtype)
        for name in self._dtype.names:
            _fill(records[name], table.column(name))
        return records

    def _mapped(self, path: Path) -> pa.Table:
        import pyarrow as pa

        try:
            table = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
        except pa.ArrowInvalid as error:
            raise OSError(
                f"{path} with the values of {self.name} is not a complete Arrow file ({error}): a "
                "program may have been stopped while it added rows, or HDF5 without the connector "
                "has added them. HDF5 with the connector reads the dataset, and puts the end of "
                "the file right when it adds rows"
            ) from error
        # Rows are in the file before the HDF5 file counts them.
        return table.slice(0, self._shape[0]) if self._shape else table

    def _existing(self) -> Path:
        file = self._locate() if self._locate is not None else self._storage.file
        assert file is not None
        if not file.exists():
            raise FileNotFoundError(
                f"the values of {self.name} should be in {file}, which is not there; copy or "
                "move the folder of data together with the HDF5 file"
            )
        if not file.is_file() or os.path.realpath(file) != os.fspath(file):
            raise OSError(
                f"the values of {self.name} should be in {file}, which is a link, a pipe or a "
                "device; the folder of data must lie beside the HDF5 file"
            )
        return file

    def __repr__(self) -> str:
        return f"<plasmon.hdf5.Dataset {self.name} {self.shape} in {self._storage.where}>"


class File(Mapping[str, Dataset]):
    """An HDF5 file as a mapping of dataset paths, such as "run 1/x", to `Dataset`.

    Tables and arrays stay valid when the file is closed.
    """

    def __init__(
        self, path: str | os.PathLike[str], store: str | os.PathLike[str] | None = None
    ) -> None:
        import h5py

        self._path = Path(os.path.realpath(path))
        if not self._path.exists():
            raise FileNotFoundError(f"{path} does not exist")
        self._file = h5py.File(self._path, "r")
        self._found: dict[str, Dataset] = {}
        self._store = None if store is None else os.fspath(store)

    @property
    def attributes(self) -> dict[str, Any]:
        """The attributes of the file's root, as h5py gives them."""
        return dict(self._file.attrs)

    def __getitem__(self, name: str) -> Dataset:
        import h5py

        key = name.strip("/")
        if key not in self._found:
            found = self._file.get(key)
            if not isinstance(found, h5py.Dataset):
                raise KeyError(f"{self._path} has no dataset {name}")
            storage = _storage(found)
            self._found[key] = Dataset(found, storage, self._store, self._locator(found, storage))
        return self._found[key]

    def _locator(self, dataset: Any, storage: Storage) -> Callable[[], Path | None] | None:
        """Finds the file of data of a dataset, and refuses one that is not its own."""
        if storage.file is None and storage.object is None:
            return None
        if _plugin.is_active():
            return lambda: _right(storage)
        # A link may have led into another file.
        skeleton = Path(os.path.realpath(dataset.file.filename))
        identity = _identity.identity_of(dataset.file)
        if storage.object is not None:
            name = storage.object.name
            return lambda: _identity.check_object(skeleton, identity, name)
        assert storage.file is not None
        within = str(storage.file.relative_to(skeleton.parent))
        return lambda: _identity.located(skeleton, identity, within)

    def __iter__(self) -> Iterator[str]:
        import h5py

        names: list[str] = []

        def remember(name: str, found: object) -> None:
            if isinstance(found, h5py.Dataset):
                names.append(name)

        self._file.visititems(remember)
        return iter(names)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def close(self) -> None:
        """Closes the HDF5 file. What was mapped stays until the last table is gone."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _values(column: Any, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """The elements of a column that is one buffer in each of its pieces, in the form of HDF5."""
    import numpy as np

    element = dtype.base
    pieces = []
    for chunk in column.chunks:
        parts = chunk.storage if hasattr(chunk, "storage") else chunk
        count, start = len(parts), parts.offset
        while hasattr(parts, "values") and hasattr(parts.type, "list_size"):
            size = parts.type.list_size
            count, start, parts = count * size, start * size, parts.values
        data = parts.buffers()[-1]
        width = parts.type.bit_width // 8
        whole = np.frombuffer(data, np.uint8)[start * width : (start + count) * width]
        pieces.append(whole.view(element) if len(whole) else np.empty(0, element))
    if len(pieces) == 1:
        return pieces[0]
    return np.concatenate([np.empty(0, element), *pieces])


def _fill(records: np.ndarray[Any, Any], column: Any) -> None:
    """Copies a column into a member of records; a column of structures into its members."""
    if records.dtype.names is None:
        records[...] = _values(column, records.dtype).reshape(records.shape)
        return
    import pyarrow as pa

    for at, name in enumerate(records.dtype.names):
        inside = [chunk.field(at) for chunk in column.chunks]
        _fill(records[name], pa.chunked_array(inside, column.type[at].type))


def _right(storage: Storage) -> Path | None:
    """The file of data, if there is one; an error if that data belongs to another file."""
    if storage.wrong:
        raise OSError(storage.wrong)
    return storage.file


def _storage(dataset: Any) -> Storage:
    """Where the values of an h5py.Dataset are, with or without the connector in this process."""
    if _plugin.is_active():
        return _plugin.explain(dataset)
    creation = dataset.id.get_create_plist()
    if creation.get_external_count() == 1:
        name, _, _ = creation.get_external(0)
        relative = os.fsdecode(name)
        plain = not relative.endswith(_NEEDS)
        relative = relative.removesuffix(_NEEDS)
        place = ObjectPlace.of_text(relative)
        if place is not None and not plain:
            return Storage(None, "", plain=False, object=place)
        parts = relative.split("/")
        inside = len(parts) > 1 and not {"", ".."} & set(parts)
        if inside and parts[0].endswith(_ARROW) and relative.endswith(_ARROW):
            beside = Path(os.path.realpath(dataset.file.filename)).parent
            return Storage(beside / relative, "", plain)
    return Storage(None, "not written through the connector as Arrow", plain=True)
