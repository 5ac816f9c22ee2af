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
from plasmon._column_arrays import converted, plain_type
from plasmon._column_values import Misfit, Values, text_of
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


#: How many distinct values a dictionary with narrow keys may have, by the bits of its keys.
_NARROW_BITS = 16


class _Column:
    """One column of something that is built: its values as they come, and those gathered.

    A gathered value was checked, and cannot change any more: it is a number, text or bytes, or else
    a pyarrow scalar, which has a copy.
    """

    __slots__ = (
        "_at",
        "_field",
        "_gathered",
        "_known",
        "_may_be_lone",
        "_native",
        "_plain",
        "_values",
        "type",
    )

    def __init__(self, native: _native._Columns, at: int, field: Any) -> None:
        pa = _pyarrow()
        self._native = native
        self._at = at
        self._field = field
        self._gathered: list[Any] = []
        #: The column's Arrow type.
        self.type = field.type
        # What pyarrow makes of single values.
        self._plain = plain_type(field.type)
        self._values = Values(field.type)
        # The values of a dictionary whose keys may not suffice for the next one.
        self._known: set[Any] | None = None
        if pa.types.is_dictionary(self._plain):
            narrow = self._plain.index_type.bit_width <= _NARROW_BITS
            self._known = set() if narrow else None
        self._may_be_lone = self._known is not None or self._values.nested

    def append(self, value: Any) -> None:
        """Appends one value; None is a null. For lists and structs it is a list or a dict.

        The value is taken at once: a later change of it by the caller does not change the column.
        A value that the type cannot hold without a loss raises ArrowInvalid, a ValueError, or
        ArrowTypeError, a TypeError, and leaves the builder unchanged. When the store is full,
        StoreFull may be raised some values later; no value is lost by that.
        """
        self._gather(self._taken(value))

    def _taken(self, value: Any) -> Any:
        """A value that is checked and cannot change any more."""
        rule = self._values.quick.get(type(value))
        if rule is True or (callable(rule) and rule(value)):
            if value is not None or self._field.nullable:
                return value
        elif self._values.nested:
            try:
                return self._values.copied(value)
            except LookupError:
                pass
        return self._scalar(value)

    def _scalar(self, value: Any) -> Any:
        try:
            if value is None and not self._field.nullable:
                raise Misfit("the column may have no nulls")
            self._values.check(value)
            if self._values.nested and value is not None:
                # pyarrow does not make an array of all such scalars.
                return _pyarrow().array([value], self._plain)
            scalar = _pyarrow().scalar(value, self._plain)
        except _misfits() as error:
            raise self._refused(error, len(self), value) from error
        return scalar if scalar.is_valid else None

    def _is_lone(self, value: Any) -> bool:
        """Whether a taken value is appended separately.

        So are arrays, and what a dictionary may have no key left for.
        """
        if self._values.nested:
            return isinstance(value, _pyarrow().Array)
        if self._known is None or value is None:
            return False
        # Floats that are equal may have different bits.
        return type(value) is float or value not in self._known

    def _gather(self, value: Any) -> None:
        if self._may_be_lone and self._is_lone(value):
            self.flush()
            self._append_arrow(self._lone(value))
            self._add_known(value)
            return
        if len(self._gathered) >= _GATHERED:
            self.flush()
        self._gathered.append(value)

    def _lone(self, value: Any) -> Any:
        """A taken value as an array."""
        pa = _pyarrow()
        return value if isinstance(value, pa.Array) else pa.array([value], self._plain)

    def extend(self, values: Any) -> None:
        """Appends many values: a NumPy array, Arrow data of any library, or an iterable.

        Values of another type are converted if nothing is lost by that; else ArrowInvalid or
        ArrowTypeError names the row and the value, and nothing is appended. Floats are rounded to
        the precision of the column. Each array or chunk is appended as a whole or, when the store
        is full, not at all.
        """
        self.flush()
        if self._is_plain_numpy(values):
            import numpy as np

            if len(values):
                flat = np.ascontiguousarray(values).view(np.uint8)
                self._native.extend_raw(flat.data, self._at)
            return
        self._append_arrow(self._arrow(values))

    def _append_arrow(self, values: Any) -> None:
        self._native.extend_arrow(values, self._at)

    def _is_plain_numpy(self, values: Any) -> bool:
        """Whether the bytes of a NumPy array are those of the column's values."""
        if library_of(type(values)) != "numpy" or not hasattr(values, "dtype"):
            return False
        import numpy as np

        if values.ndim != 1:
            raise ValueError(f"a column takes arrays of one dimension, found {values.ndim}")
        plain = values.dtype.kind in _PLAIN_KINDS and values.dtype.isnative
        masked = isinstance(values, np.ma.MaskedArray)
        return bool(plain and not masked and _pyarrow().from_numpy_dtype(values.dtype) == self.type)

    def _arrow(self, values: Any) -> Any:
        """Many values as Arrow data of the column's type, or of what it is stored as."""
        pa = _pyarrow()
        if library_of(type(values)) == "numpy" and hasattr(values, "dtype"):
            values = _array_of_numpy(values)
        elif hasattr(values, "__arrow_c_stream__"):
            values = pa.chunked_array(values)
        elif hasattr(values, "__arrow_c_array__"):
            values = pa.array(values)
        if not isinstance(values, pa.Array | pa.ChunkedArray):
            return self._arrow_of_list(values if type(values) is list else [*values])
        try:
            made = converted(values, self.type)
        except _misfits() as error:
            raise self._refused(error, *self._misfit_row(values)) from error
        self._check_nulls(made)
        return made

    def _arrow_of_list(self, values: list[Any]) -> Any:
        try:
            self._values.check_all(values)
            made = _pyarrow().array(values, self._plain)
        except _misfits():
            # The value is named; if each fits, they are of kinds that pyarrow does not mix.
            made = self._arrow_of_scalars(values)
        self._check_nulls(made)
        return made

    def _arrow_of_scalars(self, values: list[Any]) -> Any:
        pa = _pyarrow()
        scalars = []
        for at, value in enumerate(values):
            try:
                self._values.check(value)
                scalars.append(pa.scalar(value, self._plain))
            except _misfits() as error:
                raise self._refused(error, len(self) + at, value) from error
        return pa.array(scalars, self._plain)

    def _check_nulls(self, values: Any) -> None:
        if not self._field.nullable and values.null_count:
            at = _pyarrow().compute.index(values.is_null(), True).as_py()
            raise self._refused(Misfit("the column may have no nulls"), len(self) + at, None)

    def _misfit_row(self, values: Any) -> tuple[int | None, Any]:
        """The first value that cannot be converted; None when it is the type that cannot."""
        low, high = 0, len(values)
        if _is_misfit(values[:0], self.type) or not high:
            return None, values.type
        while high - low > 1:
            middle = (low + high) // 2
            if _is_misfit(values[low:middle], self.type):
                high = middle
            else:
                low = middle
        return len(self) + low, values[low].as_py()

    def _refused(self, error: BaseException, row: int | None, value: Any) -> Exception:
        pa = _pyarrow()
        column = f"column {self._field.name!r}" if self._field.name else "the column"
        what = f"values of {value}" if row is None else text_of(value)
        place = column if row is None else f"{column}, row {row}"
        reason = str(error).partition("\n")[0].replace(what, "it", 1)
        text = f"{place}: {what} cannot be taken as {self.type}: {reason}"
        typed = isinstance(error, TypeError | NotImplementedError)
        refused: Exception = (pa.ArrowTypeError if typed else pa.ArrowInvalid)(text)
        return refused

    def flush(self) -> None:
        """Appends what was gathered."""
        if self._gathered:
            self._append_arrow(_pyarrow().array(self._gathered, self._plain))
            self._gathered.clear()

    def _add_known(self, value: Any) -> None:
        """Notes a value that was just appended, to a record batch of its own perhaps."""
        if self._known is not None:
            if self._native.counts(self._at)[2] == 1:
                self._known.clear()
            if value is not None:
                self._known.add(value)

    def _forget(self) -> None:
        """Starts again with no values."""
        self._gathered.clear()
        if self._known is not None:
            self._known.clear()

    def __len__(self) -> int:
        return self._native.counts(self._at)[0] + len(self._gathered)

    @property
    def null_count(self) -> int:
        """How many of the values are null."""
        gathered = sum(value is None for value in self._gathered)
        return self._native.counts(self._at)[1] + gathered


def _misfits() -> tuple[type[BaseException], ...]:
    """The exceptions of pyarrow for values that do not fit."""
    pa = _pyarrow()
    return (pa.ArrowException, Misfit, ValueError, TypeError, OverflowError)


def _is_misfit(values: Any, type: Any) -> bool:
    try:
        converted(values, type)
    except _misfits():
        return True
    return False


def _array_of_numpy(values: Any) -> Any:
    """A NumPy array as Arrow data of its own type, or as a list if it holds objects."""
    import numpy as np

    masked = isinstance(values, np.ma.MaskedArray)
    if values.dtype.hasobject:
        return values.tolist()
    mask = np.ma.getmaskarray(values) if masked else None
    return _pyarrow().array(np.asarray(values.data if masked else values), mask=mask)


class ColumnBuilder(_Column):
    """A column that is built in the store: made by :meth:`plasmon.Store.builder`.

    A context manager that gives up what was not finished. Not for several threads at once.
    """

    __slots__ = ()

    def __init__(
        self, store: _native.Store, type: Any, *, bytes_hint: int = 0, timeout: float = 0.0
    ) -> None:
        kind = _type_of(type)
        native = _native._Columns(store, kind, bytes_hint=bytes_hint, timeout=timeout)
        super().__init__(native, 0, _pyarrow().field("", kind))

    def snapshot(self) -> Any:
        """A pyarrow array with a copy of what was appended so far.

        It also works when the store is full or has ended.
        """
        self.flush()
        return _imported(self._native.snapshot()).column(0).combine_chunks()

    def finish(self, **options: Any) -> ObjectId:
        """Seals the column and returns the object's id; nothing is copied.

        Takes the options of :meth:`plasmon.Store.put`. The builder is empty afterwards and may be
        used for the next column. Raises Exists, before anything is sealed, if the name is taken.
        An object of a pool, whose name begins with @, is one piece, so the column is copied into
        it.
        """
        self.flush()
        sealed = self._native.seal(**options)
        self._forget()
        return sealed

    def abort(self) -> None:
        """Gives up what was appended; its memory is free again."""
        self._forget()
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

    __slots__ = ("_columns", "_may_be_lone", "_names", "_native", "schema")

    def __init__(
        self, store: _native.Store, schema: Any, *, bytes_hint: int = 0, timeout: float = 0.0
    ) -> None:
        #: The table's schema.
        self.schema = _pyarrow().schema(_schema_of(schema))
        self._native = _native._Columns(
            store, self.schema, table=True, bytes_hint=bytes_hint, timeout=timeout
        )
        fields = enumerate(self.schema)
        self._columns = [_Column(self._native, at, field) for at, field in fields]
        self._names = frozenset(self.schema.names)
        self._may_be_lone = any(column._may_be_lone for column in self._columns)

    def column(self, name: str) -> _Column:
        """One column, with ``append`` and ``extend`` of its own. Raises KeyError."""
        at: int = self.schema.get_field_index(name)
        if at < 0:
            raise KeyError(f"no column {name!r}; there are {self.schema.names}")
        return self._columns[at]

    def append(self, row: Mapping[str, Any]) -> None:
        """Appends one row; columns that it does not name get a null. Raises KeyError for others."""
        if not row.keys() <= self._names:
            unknown = sorted(row.keys() - self._names)
            raise KeyError(f"no columns {unknown}; there are {self.schema.names}")
        # All are checked, and there is room to gather all, before one is gathered.
        taken = [column._taken(row.get(column._field.name)) for column in self._columns]
        self._append_taken(taken)

    def extend(self, rows: Any) -> None:
        """Appends rows: a table, a batch or a frame of any library, or a mapping of columns.

        Columns are found by their names, and converted as by a column's ``extend``. KeyError, and
        nothing is appended, if one is missing or unknown. Each batch is appended as a whole or,
        when the store is full, not at all.
        """
        pa = _pyarrow()
        names = self.schema.names
        if isinstance(rows, Mapping):
            self._check_names(rows)
            given = [rows[name] for name in names]
        else:
            table = pa.table(rows)
            self._check_names(table.column_names, _index_of(table))
            given = table.select(names).columns
        self._flush()
        for column in self._columns:
            # The rows may begin another record batch, with other dictionaries.
            column._forget()
        pairs = zip(self._columns, given, strict=True)
        self._append_arrays([column._arrow(values) for column, values in pairs])

    def _check_names(self, given: Iterable[str], may_be_left_out: Iterable[str] = ()) -> None:
        """Refuses rows whose columns are not those of the table; the order does not matter."""
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

    def _append_taken(self, row: list[Any]) -> None:
        """Gathers a row, or appends it separately if a value of it is."""
        pairs = [*zip(self._columns, row, strict=True)]
        if self._may_be_lone and any(column._is_lone(value) for column, value in pairs):
            self._flush()
            self._append_arrays([column._lone(value) for column, value in pairs])
            for column, value in pairs:
                column._add_known(value)
            return
        if any(len(column._gathered) >= _GATHERED for column in self._columns):
            self._flush()
        for column, value in pairs:
            column._gathered.append(value)

    def _append_arrays(self, arrays: list[Any]) -> None:
        """Appends rows: where a type can count no more, they begin the next record batch."""
        self._native.extend_arrow(_pyarrow().Table.from_arrays(arrays, names=self.schema.names))

    def _flush(self) -> None:
        columns = self._columns
        if not any(column._gathered for column in columns):
            return
        counts = {(len(it._gathered), self._native.counts(it._at)[0]) for it in columns}
        if len(counts) == 1:
            arrays = [_pyarrow().array(it._gathered, it._plain) for it in columns]
            self._append_arrays(arrays)
            for column in columns:
                column._gathered.clear()
            return
        for column in columns:
            column.flush()

    def snapshot(self) -> Any:
        """A pyarrow table with a copy of what was appended so far."""
        self._flush()
        return _imported(self._native.snapshot())

    def finish(self, **options: Any) -> ObjectId:
        """Seals the table and returns the object's id; see :meth:`ColumnBuilder.finish`."""
        self._flush()
        sealed = self._native.seal(**options)
        for column in self._columns:
            column._forget()
        return sealed

    def abort(self) -> None:
        """Gives up what was appended; its memory is free again."""
        for column in self._columns:
            column._forget()
        self._native.abort()

    def __len__(self) -> int:
        return min((len(column) for column in self._columns), default=0)

    def __enter__(self) -> TableBuilder:
        return self

    def __exit__(self, *raised: object) -> None:
        self.abort()
