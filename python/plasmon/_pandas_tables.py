"""Frames of pandas as Arrow tables that share their columns, and back.

pyarrow does both. What goes around it are columns that it would copy (floats, because of NaN) or
that pandas cannot name (some types of Arrow).
"""

from __future__ import annotations

import json
from typing import Any


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
    # What pandas is told of the labels depends on all of them, unless they are texts.
    if floats and frame.columns.inferred_type == "string" and frame.columns.is_unique:
        return _joined_table(frame, floats)
    table = pa.Table.from_pandas(frame)
    for at in floats:
        if table.column(at).null_count:
            array = pa.array(frame.iloc[:, at].to_numpy(), from_pandas=False)
            table = table.set_column(at, table.schema.field(at), array)
    return table


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
    if not around:
        return table.to_pandas(split_blocks=True)
    import pandas as pd

    metadata = {**table.schema.metadata, b"pandas": json.dumps(described)}
    frame = table.replace_schema_metadata(metadata).to_pandas(split_blocks=True)
    for at, column in around.items():
        frame.isetitem(at, pd.arrays.ArrowExtensionArray(column))
    return frame


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
