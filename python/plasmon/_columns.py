"""Building columns and tables in the store.

A builder's buffers grow in shared memory without ever moving, so :meth:`ColumnBuilder.finish` makes
an object of them without a copy. What is appended is decided here: numbers of a NumPy array go as
their bytes, Arrow data as it is, and single values are gathered and converted a thousand at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from plasmon import _native
from plasmon import _requirements as needs
from plasmon._library import library_of

if TYPE_CHECKING:
    from plasmon._native import ObjectId

#: Single values that are converted together.
_GATHERED = 1024

#: Types whose NumPy arrays hold just what Arrow's hold.
_PLAIN_KINDS = "iuf"


def _pyarrow() -> Any:
    return needs.pyarrow("building columns of anything but numbers needs pyarrow")


def _type_of(type: Any) -> Any:
    """An Arrow type from one, from a name as "int64", or from what NumPy takes for a dtype."""
    if hasattr(type, "__arrow_c_schema__"):
        return type
    pa = _pyarrow()
    if isinstance(type, str):
        try:
            return pa.type_for_alias(type)
        except ValueError:
            pass
    import numpy as np

    return pa.from_numpy_dtype(np.dtype(type))


def _schema_of(schema: Any) -> Any:
    """A schema from one, or from names with their types."""
    if hasattr(schema, "__arrow_c_schema__"):
        return schema
    pa = _pyarrow()
    fields = schema.items() if isinstance(schema, Mapping) else schema
    return pa.schema([(name, _type_of(kind)) for name, kind in fields])


def _imported(capsule: Any) -> Any:
    return _pyarrow().RecordBatchReader._import_from_c_capsule(capsule).read_all()


def _index_of(table: Any) -> list[str]:
    """The columns of a table that were the index of a pandas frame."""
    told = (table.schema.pandas_metadata or {}).get("index_columns", [])
    return [name for name in told if isinstance(name, str)]


class _Column:
    """One column of something that is built: its values as they come, and those gathered."""

    __slots__ = ("_at", "_gathered", "_native", "type")

    def __init__(self, native: _native._Columns, at: int, type: Any) -> None:
        self._native = native
        self._at = at
        self._gathered: list[Any] = []
        #: The column's Arrow type.
        self.type = type

    def append(self, value: Any) -> None:
        """Appends one value; None is a null. For lists and structs it is a list or a dict.

        Raises what pyarrow raises for a value that is not of the column's type, at once; StoreFull
        when the store is full, possibly some values later: no value is lost by that.
        """
        if value is not None:
            # Converted for good later; this tells what cannot be.
            _pyarrow().scalar(value, self.type)
        if len(self._gathered) >= _GATHERED:
            self.flush()
        self._gathered.append(value)

    def extend(self, values: Any) -> None:
        """Appends many values: a NumPy array, Arrow data of any library, or an iterable.

        What is of another type is converted, if nothing is lost by that. Each array or chunk is
        appended as a whole or, when the store is full, not at all.
        """
        self.flush()
        if library_of(type(values)) == "numpy" and hasattr(values, "dtype"):
            self._extend_numpy(values)
        elif hasattr(values, "__arrow_c_stream__"):
            self._extend_arrow(_pyarrow().chunked_array(values))
        elif hasattr(values, "__arrow_c_array__"):
            self._extend_arrow(_pyarrow().array(values))
        else:
            values = values if isinstance(values, list) else [*values]
            self._native.extend_arrow(_pyarrow().array(values, self.type), self._at)

    def _extend_arrow(self, values: Any) -> None:
        if values.type != self.type:
            values = values.cast(self.type)
        self._native.extend_arrow(values, self._at)

    def _extend_numpy(self, values: Any) -> None:
        import numpy as np

        pa = _pyarrow()
        if values.ndim != 1:
            raise ValueError(f"a column takes arrays of one dimension, found {values.ndim}")
        plain = values.dtype.kind in _PLAIN_KINDS and values.dtype.isnative
        masked = isinstance(values, np.ma.MaskedArray)
        if plain and not masked and pa.from_numpy_dtype(values.dtype) == self.type:
            if len(values):
                flat = np.ascontiguousarray(values).view(np.uint8)
                self._native.extend_raw(flat.data, self._at)
            return
        mask = np.ma.getmaskarray(values) if masked else None
        data = np.asarray(values.data if masked else values)
        self._native.extend_arrow(pa.array(data, self.type, mask=mask), self._at)

    def flush(self) -> None:
        """Appends what was gathered."""
        if self._gathered:
            gathered = _pyarrow().array(self._gathered, self.type)
            self._native.extend_arrow(gathered, self._at)
            self._gathered.clear()

    def __len__(self) -> int:
        return self._native.counts(self._at)[0] + len(self._gathered)

    @property
    def null_count(self) -> int:
        """How many of the values are null."""
        return self._native.counts(self._at)[1] + self._gathered.count(None)


class ColumnBuilder(_Column):
    """A column that is built in the store: made by :meth:`plasmon.Store.builder`.

    A context manager that gives up what was not finished. Not for several threads at once.
    """

    __slots__ = ()

    def __init__(
        self, store: _native.Store, type: Any, *, bytes_hint: int = 0, patience: float = 0.0
    ) -> None:
        kind = _type_of(type)
        native = _native._Columns(store, kind, bytes_hint=bytes_hint, patience=patience)
        super().__init__(native, 0, kind)

    def snapshot(self) -> Any:
        """A pyarrow array with a copy of what was appended so far.

        It works also when the store is full, or gone.
        """
        self.flush()
        return _imported(self._native.snapshot()).column(0).combine_chunks()

    def finish(self, **options: Any) -> ObjectId:
        """Seals the column and returns the object's id; nothing is copied.

        Takes the options of :meth:`plasmon.Store.put`. The builder is empty afterwards and may be
        used for the next column. Raises Exists, before anything is sealed, if the name is taken.
        """
        self.flush()
        return self._native.seal(**options)

    def abort(self) -> None:
        """Gives up what was appended; its memory is free again."""
        self._gathered.clear()
        self._native.abort()

    def __enter__(self) -> ColumnBuilder:
        return self

    def __exit__(self, *raised: object) -> None:
        self.abort()


class TableBuilder:
    """A table that is built in the store: made by :meth:`plasmon.Store.table_builder`.

    Rows come in batches, one by one, or column by column; at the end all columns must be equally
    long. A context manager that gives up what was not finished. Not for several threads at once.
    """

    __slots__ = ("_columns", "_native", "schema")

    def __init__(
        self, store: _native.Store, schema: Any, *, bytes_hint: int = 0, patience: float = 0.0
    ) -> None:
        #: The table's schema.
        self.schema = _pyarrow().schema(_schema_of(schema))
        self._native = _native._Columns(
            store, self.schema, table=True, bytes_hint=bytes_hint, patience=patience
        )
        types = enumerate(self.schema.types)
        self._columns = [_Column(self._native, at, kind) for at, kind in types]

    def column(self, name: str) -> _Column:
        """One column, with ``append`` and ``extend`` of its own. Raises KeyError."""
        at: int = self.schema.get_field_index(name)
        if at < 0:
            raise KeyError(f"no column {name!r}; there are {self.schema.names}")
        return self._columns[at]

    def append(self, row: Mapping[str, Any]) -> None:
        """Appends one row; columns that it does not name get a null. Raises KeyError for others."""
        unknown = row.keys() - set(self.schema.names)
        if unknown:
            raise KeyError(f"no columns {sorted(unknown)}; there are {self.schema.names}")
        scalar = _pyarrow().scalar
        for name, column in zip(self.schema.names, self._columns, strict=True):
            value = row.get(name)
            if value is not None:
                scalar(value, column.type)
        for name, column in zip(self.schema.names, self._columns, strict=True):
            column.append(row.get(name))

    def extend(self, rows: Any) -> None:
        """Appends rows: a table, a batch or a frame of any library, or a mapping of columns.

        Columns are found by their names, and converted if nothing is lost by that. KeyError, and
        nothing is appended, if one is missing or unknown. Each batch is appended as a whole or,
        when the store is full, not at all.
        """
        pa = _pyarrow()
        if isinstance(rows, Mapping):
            self._check_names(rows)
            rows = pa.table({name: rows[name] for name in self.schema.names}, self.schema)
        table = pa.table(rows)
        self._check_names(table.column_names, _index_of(table))
        table = table.select(self.schema.names)
        if table.schema != self.schema:
            table = table.cast(self.schema)
        self._flush()
        self._native.extend_arrow(table)

    def _check_names(self, given: Iterable[str], may_be_left_out: Iterable[str] = ()) -> None:
        """Refuses rows whose columns are not those of the table, in whatever order."""
        names = [*given]
        known = {*self.schema.names, *may_be_left_out}
        unknown = [name for name in names if name not in known]
        missing = [name for name in self.schema.names if name not in names]
        twice = [name for name in self.schema.names if names.count(name) > 1]
        for what, which in (("unknown", unknown), ("missing", missing), ("doubled", twice)):
            if which:
                columns = "column" if len(which) == 1 else "columns"
                text = f"{what} {columns} {', '.join(map(repr, which))}"
                raise KeyError(f"{text}; the table has {self.schema.names}")

    def _flush(self) -> None:
        for column in self._columns:
            column.flush()

    def snapshot(self) -> Any:
        """A pyarrow table with a copy of what was appended so far."""
        self._flush()
        return _imported(self._native.snapshot())

    def finish(self, **options: Any) -> ObjectId:
        """Seals the table and returns the object's id; see :meth:`ColumnBuilder.finish`."""
        self._flush()
        return self._native.seal(**options)

    def abort(self) -> None:
        """Gives up what was appended; its memory is free again."""
        for column in self._columns:
            column._gathered.clear()
        self._native.abort()

    def __len__(self) -> int:
        return min((len(column) for column in self._columns), default=0)

    def __enter__(self) -> TableBuilder:
        return self

    def __exit__(self, *raised: object) -> None:
        self.abort()
