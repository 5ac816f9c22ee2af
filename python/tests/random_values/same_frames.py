"""Whether two objects of pandas, polars, pyarrow or Python are the same in all that shows.

Stricter than the libraries' own comparisons: the types of names, labels and elements, None against
NaN, NA and NaT, zones by their type, byte order, frequencies, flags, attributes, metadata.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
import struct
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa


def difference(one: Any, other: Any, place: str = "value") -> str | None:
    """The first difference, as a place and what is there; None if there is none."""
    if type(one) is not type(other):
        return f"{place}: {type(one)} and {type(other)}"
    for kind, compare in _COMPARE:
        if isinstance(one, kind):
            return compare(one, other, place)
    return None if _is_equal(one, other) else f"{place}: {one!r} and {other!r}"


def _is_equal(one: Any, other: Any) -> bool:
    return one is other or bool(one == other)


def _each(one: Any, other: Any, place: str) -> str | None:
    if len(one) != len(other):
        return f"{place}: {len(one)} and {len(other)} long"
    for at, (left, right) in enumerate(zip(one, other, strict=True)):
        found = difference(left, right, f"{place}[{at}]")
        if found:
            return found
    return None


def _attributes(one: Any, other: Any, place: str, names: str) -> str | None:
    for name in names.split():
        absent = object()
        left, right = getattr(one, name, absent), getattr(other, name, absent)
        if left is absent and right is absent:
            continue
        found = difference(left, right, f"{place}.{name}")
        if found:
            return found
    return None


def _floats(one: float, other: float, place: str) -> str | None:
    alike = struct.pack("<d", one) == struct.pack("<d", other) or (
        math.isnan(one) and math.isnan(other)
    )
    return None if alike else f"{place}: {one!r} and {other!r}"


def _complexes(one: complex, other: complex, place: str) -> str | None:
    return _floats(one.real, other.real, place) or _floats(one.imag, other.imag, place)


def _decimals(one: decimal.Decimal, other: decimal.Decimal, place: str) -> str | None:
    return None if one.as_tuple() == other.as_tuple() else f"{place}: {one!r} and {other!r}"


def _numpy_scalars(one: Any, other: Any, place: str) -> str | None:
    return _arrays(np.array(one), np.array(other), place)


def _dicts(one: Any, other: Any, place: str) -> str | None:
    return _each(list(one), list(other), f"{place} keys") or _each(
        list(one.values()), list(other.values()), place
    )


def _times(one: Any, other: Any, place: str) -> str | None:
    names = "fold tzinfo unit _value" if isinstance(one, pd.Timestamp) else "fold tzinfo"
    if one is pd.NaT:
        return None
    if not _is_equal(one, other):
        return f"{place}: {one!r} and {other!r}"
    return _attributes(one, other, place, names)


def _zones(one: Any, other: Any, place: str) -> str | None:
    return None if repr(one) == repr(other) and one == other else f"{place}: {one!r} and {other!r}"


def _arrays(one: Any, other: Any, place: str) -> str | None:
    if one.dtype != other.dtype or one.dtype.str != other.dtype.str or one.shape != other.shape:
        return f"{place}: {one.dtype.str}{one.shape} and {other.dtype.str}{other.shape}"
    if one.dtype == object:
        return _each(one.ravel().tolist(), other.ravel().tolist(), place)
    if one.dtype.char in "gG":
        return None if np.array_equal(one, other, equal_nan=True) else f"{place}: other elements"
    return None if one.tobytes() == other.tobytes() else f"{place}: {one!r} and {other!r}"


def _dtypes(one: Any, other: Any, place: str) -> str | None:
    if repr(one) != repr(other) or one != other:
        return f"{place}: {one!r} and {other!r}"
    names = "tz unit storage na_value categories ordered freq closed subtype fill_value"
    return _attributes(one, other, place, names + " pyarrow_dtype")


def _extension_arrays(one: Any, other: Any, place: str) -> str | None:
    found = difference(one.dtype, other.dtype, f"{place}.dtype")
    if found or len(one) != len(other):
        return found or f"{place}: {len(one)} and {len(other)} long"
    if hasattr(one, "_pa_array"):
        return _arrow(one._pa_array, other._pa_array, place)
    if hasattr(one, "_mask"):
        left, right = one._data[~one._mask], other._data[~other._mask]
        return _arrays(one._mask, other._mask, f"{place}.mask") or _arrays(left, right, place)
    if hasattr(one, "sp_index"):
        if type(one.sp_index) is not type(other.sp_index):
            return f"{place}: {type(one.sp_index)} and {type(other.sp_index)}"
        if not one.sp_index.equals(other.sp_index):
            return f"{place}: other places"
        return difference(one.sp_values, other.sp_values, f"{place}.values")
    if isinstance(one, pd.Categorical):
        return _arrays(one.codes, other.codes, f"{place}.codes")
    return _attributes(one, other, place, "_ndarray _left _right freq")


def _indexes(one: Any, other: Any, place: str) -> str | None:
    if isinstance(one, pd.MultiIndex):
        return (
            difference(list(one.names), list(other.names), f"{place}.names")
            or _each(list(one.levels), list(other.levels), f"{place}.levels")
            or _each(list(one.codes), list(other.codes), f"{place}.codes")
        )
    found = _attributes(one, other, place, "name dtype freq")
    if found is None and isinstance(one, pd.RangeIndex):
        return _attributes(one, other, place, "start stop step")
    return found or difference(one.array, other.array, place)


def _labelled(one: Any, other: Any, place: str) -> str | None:
    found = _attributes(one, other, place, "index columns name attrs")
    if found or one.flags.allows_duplicate_labels != other.flags.allows_duplicate_labels:
        return found or f"{place}: other flags"
    if isinstance(one, pd.Series):
        return difference(one.array, other.array, place)
    for at in range(one.shape[1]):
        found = difference(one.iloc[:, at].array, other.iloc[:, at].array, f"{place}[:, {at}]")
        if found:
            return found
    return None


def _arrow(one: Any, other: Any, place: str) -> str | None:
    other.validate(full=True)
    if isinstance(one, pa.Table | pa.RecordBatch):
        if not one.schema.equals(other.schema, check_metadata=True):
            return f"{place}: {one.schema} and {other.schema}"
        if one.num_rows != other.num_rows:
            return f"{place}: {one.num_rows} and {other.num_rows} rows"
        return _each(one.columns, other.columns, place)
    if not one.type.equals(other.type, check_metadata=True):
        return f"{place}: {one.type} and {other.type}"
    if one.equals(other):
        return None
    return _each(one.to_pylist(), other.to_pylist(), place)


def _polars(one: Any, other: Any, place: str) -> str | None:
    if isinstance(one, pl.DataFrame):
        if one.shape != other.shape:
            return f"{place}: {one.shape} and {other.shape}"
        return _each(one.get_columns(), other.get_columns(), place)
    if one.name != other.name or one.dtype != other.dtype or len(one) != len(other):
        return f"{place}: {one!r} and {other!r}"
    if len(one) > 1 and any(
        one.flags[flag] != other.flags[flag] for flag in ("SORTED_ASC", "SORTED_DESC")
    ):
        return f"{place}.flags: {one.flags} and {other.flags}"
    return _each(one.to_list(), other.to_list(), place)


_COMPARE: list[tuple[Any, Any]] = [
    (float, _floats),
    (complex, _complexes),
    (decimal.Decimal, _decimals),
    (np.generic, _numpy_scalars),
    (np.ndarray, _arrays),
    (dict, _dicts),
    (list | tuple, _each),
    (dt.datetime | dt.time, _times),
    (dt.tzinfo, _zones),
    (pd.api.extensions.ExtensionDtype, _dtypes),
    (pd.api.extensions.ExtensionArray, _extension_arrays),
    (pd.Index, _indexes),
    (pd.DataFrame | pd.Series, _labelled),
    (pa.Table | pa.RecordBatch | pa.Array | pa.ChunkedArray, _arrow),
    (pl.DataFrame | pl.Series, _polars),
]
