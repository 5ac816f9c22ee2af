"""Which pandas frames and series an Arrow table gives back as they were.

Only those are stored as tables. The others are Python objects of their blocks, which keeps
everything. The answer depends on the labels and each column's type, never on the elements. Where
the form of a type after Arrow depends on versions, it is tried out once.
"""

from __future__ import annotations

import datetime as dt
import functools
import re
from collections.abc import Callable
from typing import Any

from plasmon._pandas_tables import frame_of_table, table_of_frame

#: The names that pyarrow gives to labels of rows which have none.
_NAME_OF_ROWS = re.compile(r"__index_level_\d+__")


def is_kept(value: Any) -> bool:
    """Whether a table gives back this very frame or series."""
    import pandas as pd

    if type(value) not in {pd.DataFrame, pd.Series} or value.attrs:
        return False
    if not value.flags.allows_duplicate_labels:
        return False
    if type(value) is pd.Series:
        name = "values" if value.name is None else value.name
        return (
            _is_name(name) and _are_rows_kept(value.index, (name,)) and _is_array_kept(value.array)
        )
    columns = value.columns
    try:
        arrays = [block.values for block in value._mgr.blocks]
    except AttributeError:
        return False
    return (
        _are_names(columns)
        and _are_rows_kept(value.index, columns)
        and all(_is_array_kept(array) for array in arrays)
    )


def _is_name(name: Any) -> bool:
    return type(name) is str and name.isprintable() and not _NAME_OF_ROWS.fullmatch(name)


def _are_names(columns: Any) -> bool:
    """Whether the labels of columns are strings, each another, of the type that is read."""
    import pandas as pd

    return (
        type(columns) is pd.Index
        and len(columns) > 0
        and (columns.name is None or _is_name(columns.name))
        and _is_text_kept(columns)
        and columns.is_unique
        and all(_is_name(name) for name in columns)
    )


def _are_rows_kept(index: Any, columns: Any) -> bool:
    import pandas as pd

    if index.name is not None and (not _is_name(index.name) or index.name in columns):
        return False
    if type(index) is pd.RangeIndex:
        return True
    if type(index) is pd.DatetimeIndex:
        return index.freq is None and not index.hasnans and _is_array_kept(index.array)
    if type(index) is not pd.Index:
        return False
    return bool(index.dtype.kind in "iu") if _is_plain(index.dtype) else _is_text_kept(index)


def _is_plain(dtype: Any) -> bool:
    """Whether a type is NumPy's in the machine's order, and Arrow has it."""
    import numpy as np

    return isinstance(dtype, np.dtype) and dtype.isnative and dtype.itemsize <= 8


def _is_array_kept(array: Any) -> bool:
    """Whether a column of this type comes back as it is."""
    import pandas as pd

    dtype = array.dtype
    if _is_plain(dtype):
        return bool(dtype.kind in "biufmM")
    for kind, kept in _KEPT.items():
        if isinstance(dtype, getattr(pd, kind)):
            return kept(dtype)
    if isinstance(dtype, pd.CategoricalDtype):
        # Without rows there is no place for categories.
        return len(array) > 0 and _are_categories_kept(dtype.categories)
    return type(array).__name__ in {"BooleanArray", "IntegerArray"}


def _are_categories_kept(categories: Any) -> bool:
    import pandas as pd

    if type(categories) is not pd.Index or categories.name is not None:
        return False
    return len(categories) > 0 and _is_text_kept(categories)


def _is_text_kept(index: Any) -> bool:
    """Whether an index of strings comes back as one of the same type."""
    import pandas as pd

    dtype = index.dtype
    return isinstance(dtype, pd.StringDtype) and _are_texts_kept(dtype) and not index.hasnans


def _are_texts_kept(dtype: Any) -> bool:
    import pandas as pd

    return _is_text_type_kept(dtype.storage, dtype.na_value is pd.NA)


@functools.cache
def _is_text_type_kept(storage: str, missing_is_na: bool) -> bool:
    """Whether strings of this type come back as such, with this version of pandas."""
    import pandas as pd

    given: dict[str, Any] = {} if missing_is_na else {"na_value": float("nan")}
    dtype: Any = pd.StringDtype(storage, **given)
    strings = pd.array(["a"], dtype=dtype)
    frame = pd.DataFrame({"a": strings}, index=pd.Index(strings))
    back = frame_of_table(table_of_frame(frame))
    return repr(back.dtypes.iloc[0]) == repr(dtype) == repr(back.index.dtype)


@functools.lru_cache(64)
def _is_arrow_type_kept(kind: Any) -> bool:
    """Whether a column of this type of Arrow comes back as one, with this version of pandas."""
    import pandas as pd
    import pyarrow as pa

    try:
        nothing = pd.arrays.ArrowExtensionArray(pa.nulls(1, kind))
        back = frame_of_table(table_of_frame(pd.DataFrame({"a": nothing})))
        found: Any = back.dtypes.iloc[0]
        return bool(found.pyarrow_dtype.equals(kind, check_metadata=True))
    except (pa.ArrowException, AttributeError, NotImplementedError, TypeError, ValueError):
        return False


def _is_zone_kept(zone: Any) -> bool:
    """Whether a zone comes back as an object of the same type."""
    if zone is dt.UTC:
        return True
    import pyarrow as pa

    try:
        back = pa.lib.string_to_tzinfo(pa.lib.tzinfo_to_string(zone))
    except (pa.ArrowException, ValueError):
        return False
    # What is called UTC comes back as what pandas takes for it.
    return type(back) is type(zone) and bool(back == zone) and str(zone) != "UTC"


#: The deciding function, by the name of the type's class.
_KEPT: dict[str, Callable[[Any], bool]] = {
    "DatetimeTZDtype": lambda dtype: _is_zone_kept(dtype.tz),
    "StringDtype": _are_texts_kept,
    "ArrowDtype": lambda dtype: _is_arrow_type_kept(dtype.pyarrow_dtype),
}
