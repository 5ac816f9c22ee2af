"""Frames of pandas as Arrow tables that share their columns, and back.

pyarrow does both, except for columns that it would copy (floats, because of NaN) or that pandas
cannot name (some types of Arrow). ``_pandas_kept`` decides which frames a table gives back
unchanged.
"""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

from plasmon._arrow_forms import is_rounded, pandas_of


def table_of_frame(frame: Any) -> Any:
    """An Arrow table of a pandas frame that shares its columns.

    pyarrow makes nulls of NaN, which costs a pass and a copy here and another copy at every read.
    NaN stays NaN: it is what the column holds.
    """
    import numpy as np
    import pyarrow as pa

    floats = [
        at
        for at, dtype in enumerate(frame.dtypes)
        if isinstance(dtype, np.dtype) and dtype.kind == "f"
    ]
    # What pandas is told of the labels depends on all of them, unless they are strings.
    if floats and frame.columns.inferred_type == "string" and frame.columns.is_unique:
        return _joined_table(frame, floats)
    table = pa.Table.from_pandas(frame)
    for at in floats:
        if table.column(at).null_count:
            array = pa.array(frame.iloc[:, at].to_numpy(), from_pandas=False)
            table = table.set_column(at, table.schema.field(at), array)
    return table


def checked_table(frame: Any) -> Any:
    """An Arrow table of a frame, for a caller that accepts a different frame when it is read.

    Labels that a table cannot have are refused, and so is what pyarrow cannot convert.
    """
    columns = frame.columns
    if not columns.is_unique:
        twice = columns[columns.duplicated()][0]
        raise TypeError(f"cannot keep the frame as an Arrow table: two columns are named {twice!r}")
    for label in columns:
        if type(label) not in {str, int}:
            text = "columns of an Arrow table have strings as names"
            raise TypeError(f"cannot keep the column {label!r} as Arrow: {text}, rename it")
    import pyarrow as pa

    try:
        return table_of_frame(frame)
    except (pa.ArrowException, TypeError, ValueError) as error:
        # pyarrow names the column.
        detail = ". ".join(str(part) for part in error.args)
        raise TypeError(f"cannot keep the frame as an Arrow table: {detail}") from error


def _joined_table(frame: Any, floats: list[int]) -> Any:
    """The table of a frame whose columns of floats are taken as they are.

    pyarrow converts the others, and says of all of them what pandas will want to know.
    """
    import pandas as pd
    import pyarrow as pa

    def some(places: list[int]) -> Any:
        # Taken by a list of places, columns would be copied.
        columns = {at: frame.iloc[:, at] for at in places}
        part = pd.DataFrame(columns, index=frame.index, copy=False)
        part.columns = frame.columns[places]
        return part

    rest = sorted(set(range(frame.shape[1])) - set(floats))
    others = pa.Table.from_pandas(some(rest))
    of_floats = pa.Schema.from_pandas(some(floats))
    metadata = json.loads(others.schema.metadata[b"pandas"])
    told = json.loads(of_floats.metadata[b"pandas"])["columns"]
    fields, arrays = list(others.schema), list(others.columns)
    for number, at in enumerate(floats):
        fields.insert(at, of_floats.field(number))
        metadata["columns"].insert(at, told[number])
        arrays.insert(at, pa.array(frame.iloc[:, at].to_numpy(), from_pandas=False))
    schema = pa.schema(fields, {**others.schema.metadata, b"pandas": json.dumps(metadata).encode()})
    return pa.Table.from_arrays(arrays, schema=schema)


def frame_of_table(table: Any) -> Any:
    """A pandas frame on the table's memory.

    pandas cannot read its own names of some Arrow types (``list<item: int64>[pyarrow]``), and takes
    one for another, so columns of those go around it.
    """
    known = (table.schema.metadata or {}).get(b"pandas")
    described = json.loads(known) if known else {"columns": []}
    around: dict[int, Any] = {}
    for column in described["columns"]:
        at = table.schema.get_field_index(column.get("field_name") or "")
        if at >= 0 and str(column.get("numpy_type")).endswith("[pyarrow]") and _is_unknown(column):
            around[at] = table.column(at)
            column["numpy_type"] = "object"
            table = table.set_column(at, table.schema.names[at], _nulls(table.num_rows))
    if around:
        metadata = {**table.schema.metadata, b"pandas": json.dumps(described)}
        table = table.replace_schema_metadata(metadata)
    frame = _frame(table)
    if around:
        import pandas as pd

        for at, column in around.items():
            frame.isetitem(at, pd.arrays.ArrowExtensionArray(column))
    return _with_utc(frame) if _mentions_utc(table.schema) else frame


def _frame(table: Any) -> Any:
    """Pyarrow's frame of a table, with integers with nulls that are too large for floats."""
    rounded = [at for at, column in enumerate(table.columns) if is_rounded(column)]
    if not rounded:
        return table.to_pandas(split_blocks=True)
    exact = {}
    for at in rounded:
        name = table.schema.names[at]
        if table.schema.names.count(name) > 1:
            raise TypeError(f"two columns are named {name!r}: integers of one would be rounded")
        exact[name] = pandas_of(table.column(at), f"the column {name!r}").array
        table = table.set_column(at, table.schema.field(at), _nulls_of(table.column(at)))
    frame = table.to_pandas(split_blocks=True)
    for name, column in exact.items():
        if name not in frame.columns:
            raise TypeError(f"the index {name!r} has nulls, and integers that floats would round")
        frame[name] = column
    return frame


def _nulls_of(column: Any) -> Any:
    import pyarrow as pa

    return pa.nulls(len(column), column.type)


def _mentions_utc(schema: Any) -> bool:
    return any(getattr(kind, "tz", None) == "UTC" for kind in schema.types)


def _with_utc(frame: Any) -> Any:
    """The frame with what pandas makes of the name UTC, where pyarrow makes a ZoneInfo of it."""
    for at, dtype in enumerate(frame.dtypes):
        if _is_other_utc(dtype):
            frame.isetitem(at, frame.iloc[:, at].dt.tz_convert(dt.UTC))
    if _is_other_utc(frame.index.dtype):
        frame.index = frame.index.tz_convert(dt.UTC)
    return frame


def _is_other_utc(dtype: Any) -> bool:
    zone = getattr(dtype, "tz", None)
    return zone is not None and zone is not dt.UTC and str(zone) == "UTC"


def _is_unknown(column: dict[str, Any]) -> bool:
    import pandas as pd

    if column["numpy_type"] == "string[pyarrow]":
        # pandas takes this name of an Arrow type for one of its own string types.
        return True
    try:
        pd.api.types.pandas_dtype(column["numpy_type"])
    except (TypeError, NotImplementedError):
        return True
    return False


def _nulls(count: int) -> Any:
    import pyarrow as pa

    return pa.nulls(count)
