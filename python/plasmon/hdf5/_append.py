"""Rows that arrive over time, added to a dataset that HDF5 and Arrow readers see grow."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from plasmon.hdf5 import _plugin

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

#: From this many rows on what was written is flushed automatically.
_ROWS_PER_FLUSH = 65536
#: How long the first and the longest pause is while another program has the file.
_PAUSES_S = (0.005, 0.1)


def append(
    path: str | os.PathLike[str],
    dataset: str,
    *,
    rows_per_flush: int = _ROWS_PER_FLUSH,
    wait_s: float = 10.0,
) -> Appender:
    """Adds rows to a dataset of an HDF5 file; both are made when the first rows come.

        with plasmon.hdf5.append("run.h5", "particles") as writer:
            for batch in stream:
                writer.write(batch)

    Rows are kept in memory until `flush`, which is called every `rows_per_flush` rows and at the
    end. Between two flushes the file is closed, so that other programs can open it; a flush waits
    for them up to `wait_s` seconds and then raises BlockingIOError, keeping the rows.
    """
    return Appender(path, dataset, rows_per_flush=rows_per_flush, wait_s=wait_s)


class Appender:
    """Adds rows to one dataset, see `append`."""

    def __init__(
        self, path: str | os.PathLike[str], dataset: str, *, rows_per_flush: int, wait_s: float
    ) -> None:
        if rows_per_flush < 1:
            raise ValueError(f"rows_per_flush is {rows_per_flush}, it must be 1 or more")
        self._path, self._name = Path(path), dataset.strip("/")
        if not self._name:
            raise ValueError("the dataset has no name")
        self._rows_per_flush, self._wait_s = rows_per_flush, wait_s
        self._waiting: list[np.ndarray[Any, Any]] = []
        self._count = 0

    @property
    def waiting(self) -> int:
        """How many rows were written and not flushed."""
        return self._count

    def write(
        self, rows: pa.Table | pa.RecordBatch | Mapping[str, Any] | np.ndarray[Any, Any]
    ) -> None:
        """Adds rows: a NumPy array, or columns as a table, a record batch or a mapping.

        Columns become the members of a compound. Rows must be of the same type as the first ones;
        others raise TypeError.
        """
        array = _rows(rows)
        if self._waiting and array.dtype != self._waiting[0].dtype:
            raise TypeError(f"rows of {array.dtype} follow rows of {self._waiting[0].dtype}")
        if self._waiting and array.shape[1:] != self._waiting[0].shape[1:]:
            raise TypeError(
                f"rows of shape {array.shape[1:]} follow rows of {self._waiting[0].shape[1:]}"
            )
        if len(array) == 0:
            return
        self._waiting.append(array)
        self._count += len(array)
        if self._count >= self._rows_per_flush:
            self.flush()

    def flush(self) -> None:
        """Adds the rows written so far to the file and closes it, so that readers find them."""
        import numpy as np

        if not self._waiting:
            return
        rows = np.concatenate(self._waiting)
        with self._opened() as file:
            target = file.get(self._name)
            if target is None:
                shape, limit = (0, *rows.shape[1:]), (None, *rows.shape[1:])
                target = file.create_dataset(self._name, shape, rows.dtype, maxshape=limit)
            self._check(target, rows)
            before = target.shape[0]
            target.resize(before + len(rows), axis=0)
            try:
                target[before:] = rows
            except BaseException:
                target.resize(before, axis=0)
                raise
        self._waiting, self._count = [], 0

    def _check(self, target: Any, rows: np.ndarray[Any, Any]) -> None:
        if target.dtype != rows.dtype or target.shape[1:] != rows.shape[1:]:
            raise TypeError(
                f"{self._path} has {self._name} as rows of {target.dtype} and shape "
                f"{target.shape[1:]}; those that were written are of {rows.dtype} and shape "
                f"{rows.shape[1:]}"
            )
        if target.maxshape[0] is not None:
            raise TypeError(
                f"{self._path} has {self._name} with a size that cannot change; it must be made "
                "with maxshape=(None, ...)"
            )

    def _opened(self) -> Any:
        """The file, open for writing; waits while another program has it."""
        import h5py

        deadline, pause = time.monotonic() + self._wait_s, _PAUSES_S[0]
        name = os.fsencode(self._path)
        while True:
            access = _plugin.access_list()
            try:
                if self._path.exists():
                    return h5py.File(h5py.h5f.open(name, h5py.h5f.ACC_RDWR, fapl=access))
                return h5py.File(h5py.h5f.create(name, h5py.h5f.ACC_EXCL, fapl=access))
            except OSError as error:
                busy = "lock" in str(error) or "already open" in str(error)
                if not busy and not isinstance(error, FileExistsError):
                    raise
                if time.monotonic() + pause > deadline:
                    raise BlockingIOError(
                        f"{self._path} is open elsewhere; {self._count} rows wait for the next "
                        "flush"
                    ) from error
            time.sleep(pause)
            pause = min(pause * 2, _PAUSES_S[1])

    def close(self) -> None:
        """Flushes."""
        self.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *error: object) -> None:
        # What was written before a mistake of the program is kept, too.
        self.close()


def _rows(rows: Any) -> np.ndarray[Any, Any]:
    """Rows as one array; columns as records."""
    import numpy as np

    if isinstance(rows, np.ndarray):
        if rows.ndim == 0:
            raise TypeError("a single value is not a row; write an array of one dimension or more")
        # A copy: the program may fill its array again.
        return rows.copy()
    if isinstance(rows, Mapping):
        columns = {name: np.asarray(values) for name, values in rows.items()}
    elif hasattr(rows, "column_names") or hasattr(rows, "schema"):
        names = rows.schema.names
        columns = {name: _column(rows.column(name)) for name in names}
    else:
        raise TypeError(
            f"rows are NumPy arrays, tables, record batches or mappings, not {type(rows).__name__}"
        )
    lengths = {len(values) for values in columns.values()}
    if len(lengths) != 1:
        raise TypeError(f"columns have {sorted(lengths)} rows; all need the same number")
    fields = [(name, values.dtype, values.shape[1:]) for name, values in columns.items()]
    records = np.empty(lengths.pop(), np.dtype(fields))
    for name, values in columns.items():
        records[name] = values
    return records


def _column(column: Any) -> np.ndarray[Any, Any]:
    """A column of Arrow as an array; those with missing values have no form in HDF5."""
    if column.null_count:
        raise TypeError("a column has missing values, which HDF5 has no form for; fill them first")
    whole = column.combine_chunks() if hasattr(column, "combine_chunks") else column
    if hasattr(whole, "chunks"):
        whole = whole.chunk(0) if whole.num_chunks else whole
    if hasattr(whole, "to_numpy_ndarray"):
        values: np.ndarray[Any, Any] = whole.to_numpy_ndarray()
        return values
    values = whole.to_numpy(zero_copy_only=False) if hasattr(whole, "type") else whole.to_numpy()
    if values.dtype == object:
        raise TypeError(f"a column of {column.type} has no fixed size in HDF5")
    return values
