"""Constructors of pandas objects, which get arguments from foreign bytes, and check them.

Nothing is made that is much larger than what was read. A range of labels takes no memory however
long it is said to be, so lengths are compared before anything is as long; and the elements of an
array lie apart (:func:`lies_apart`), so an array is no longer than its memory.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from plasmon.objects import _pandas_times as times
from plasmon.objects._errors import BrokenObject, broken, guarded

#: Types whose arrays are values and a mask.
MASKED = ("BooleanArray", "FloatingArray", "IntegerArray")

#: Types of labels that are an array.
INDEXES = (
    "CategoricalIndex", "DatetimeIndex", "Index", "IntervalIndex", "PeriodIndex", "TimedeltaIndex",
)  # fmt: skip

_TWO_DIMENSIONAL = ("ndarray", "DatetimeArray", "PeriodArray", "TimedeltaArray")


def _wrong(what: str) -> BrokenObject:
    return broken(f"pandas {what} made of the wrong contents")


def lies_apart(array: Any) -> bool:
    """Whether an array's memory is as long as its elements together."""
    reach = sum((n - 1) * abs(step) for n, step in zip(array.shape, array.strides, strict=True))
    return bool(array.nbytes <= reach + array.itemsize)


def _checked(values: Any, what: str, kinds: str = "") -> Any:
    """Values that are an array of one of these kinds, if kinds are given."""
    import numpy as np
    import pandas as pd

    if type(values) is np.ndarray:
        if lies_apart(values) and (not kinds or values.dtype.kind in kinds):
            return values
    elif not kinds and isinstance(values, pd.api.extensions.ExtensionArray):
        return values
    raise _wrong(what)


# Frames, series and labels


@guarded
def make_frame(
    columns: Any, index: Any, blocks: Any, attrs: Any, allows_duplicate_labels: Any
) -> Any:
    """A frame out of its blocks, each some columns and their places."""
    import pandas as pd

    if not isinstance(columns, pd.Index) or not isinstance(index, pd.Index):
        raise _wrong("frame")
    if type(blocks) is not list or type(attrs) is not dict:
        raise _wrong("frame")
    places = []
    for values, place in blocks:
        if _checked(place, "frame", "i").ndim != 1:
            raise _wrong("frame")
        shape = (len(place), len(index))
        if _checked(values, "frame").shape != (shape if values.ndim == 2 else shape[1:]):
            raise _wrong("frame")
        if (values.ndim == 1) != (type(values).__name__ not in _TWO_DIMENSIONAL):
            raise _wrong("frame")
        if values.ndim == 1 and len(place) != 1:
            raise _wrong("frame")
        places.append(place)
    _check_places(places, len(columns))
    made = _of_blocks(blocks, index, columns)
    return _finish(made, attrs, allows_duplicate_labels)


def _check_places(places: list[Any], columns: int) -> None:
    """Every column has one place, and every place memory of its own."""
    import numpy as np

    if sum(len(place) for place in places) != columns:
        raise _wrong("frame")
    spans = []
    for place in filter(len, places):
        if place.strides[0] != place.itemsize:
            raise _wrong("frame")
        start = place.__array_interface__["data"][0]
        spans.append((start, start + place.nbytes))
    spans.sort()
    for (_, end), (start, _) in itertools.pairwise(spans):
        if start < end:
            raise _wrong("frame")
    together = np.sort(np.concatenate([np.zeros(0, "<i8"), *places]))
    if not np.array_equal(together, np.arange(columns)):
        raise _wrong("frame")


def _of_blocks(blocks: list[Any], index: Any, columns: Any) -> Any:
    import pandas as pd

    try:
        from pandas.api.internals import create_dataframe_from_blocks
    except ImportError:
        from pandas.core.internals import BlockManager, make_block

        made = [make_block(values, placement=place) for values, place in blocks]
        manager: Any = BlockManager(tuple(made), [columns, index])
        return pd.DataFrame._from_mgr(manager, manager.axes)  # type: ignore[attr-defined]
    return create_dataframe_from_blocks(blocks, index=index, columns=columns)


def _finish(made: Any, attrs: dict[Any, Any], allows_duplicate_labels: Any) -> Any:
    if attrs:
        made.attrs = attrs
    if allows_duplicate_labels is False:
        made.flags.allows_duplicate_labels = False
    return made


@guarded
def make_series(
    values: Any, index: Any, name: Any, attrs: Any, allows_duplicate_labels: Any
) -> Any:
    """A series of an array."""
    import pandas as pd

    if not isinstance(index, pd.Index) or type(attrs) is not dict:
        raise _wrong("series")
    if len(_checked(values, "series")) != len(index):
        raise _wrong("series")
    made = pd.Series(values, index=index, name=name, dtype=values.dtype, copy=False)
    return _finish(made, attrs, allows_duplicate_labels)


@guarded
def make_index(kind: Any, values: Any, name: Any, freq: Any) -> Any:
    """An index of an array."""
    import pandas as pd

    if kind not in INDEXES or _checked(values, "index").ndim != 1:
        raise _wrong("index")
    if freq is None:
        made: Any = pd.Index(values, dtype=values.dtype, name=name, copy=False, tupleize_cols=False)
    else:
        if type(freq) is not str and not times.is_offset(freq):
            raise _wrong("index")
        made = getattr(pd, kind)(values, name=name, freq=freq, copy=False)
    if type(made).__name__ != kind:
        raise _wrong("index")
    return made


@guarded
def make_range(start: Any, stop: Any, step: Any, name: Any) -> Any:
    """A range as an index."""
    import pandas as pd

    if not all(type(bound) is int for bound in (start, stop, step)):
        raise _wrong("range")
    return pd.RangeIndex(start, stop, step, name=name)


@guarded
def make_levels(levels: Any, codes: Any, names: Any, sortorder: Any) -> Any:
    """An index of several levels."""
    import pandas as pd

    if not all(type(part) is list for part in (levels, codes, names)):
        raise _wrong("index of levels")
    if not levels or len({len(levels), len(codes), len(names)}) != 1:
        raise _wrong("index of levels")
    for level, code in zip(levels, codes, strict=True):
        if not isinstance(level, pd.Index) or _checked(code, "index", "i").ndim != 1:
            raise _wrong("index of levels")
        if len(code) != len(codes[0]):
            raise _wrong("index of levels")
        if len(code) and (code.min() < -1 or code.max() >= len(level)):
            raise _wrong("index of levels")
    # pandas' own check builds a table of every level.
    return pd.MultiIndex(
        levels, codes, sortorder=sortorder, names=names, copy=False, verify_integrity=False
    )


# Arrays


@guarded
def make_array(kind: Any, *parts: Any) -> Any:
    """An array of one of pandas' own types."""
    import pandas as pd

    maker = _ARRAYS.get(kind) if type(kind) is str else None
    if maker is None or not parts:
        raise _wrong("array")
    return maker(pd, *parts)


def _make_arrow(pd: Any, data: Any) -> Any:
    return pd.arrays.ArrowExtensionArray(data)


def _make_string(pd: Any, data: Any, missing_is_na: Any) -> Any:
    dtype = pd.StringDtype("pyarrow", **_missing(missing_is_na))
    return dtype.construct_array_type()(data, **_with_dtype(dtype))


def _with_dtype(dtype: Any) -> dict[str, Any]:
    """Before pandas 3 there was a class for each missing value instead."""
    import inspect

    takes = "dtype" in inspect.signature(dtype.construct_array_type().__init__).parameters
    return {"dtype": dtype} if takes else {}


def _missing(missing_is_na: Any) -> dict[str, Any]:
    return {} if missing_is_na else {"na_value": float("nan")}


def _make_texts(pd: Any, data: Any, missing_is_na: Any) -> Any:
    dtype = pd.StringDtype("python", **_missing(missing_is_na))
    return pd.array(_checked(data, "array", "O"), dtype=dtype, copy=False)


def _make_numpy(pd: Any, data: Any) -> Any:
    return pd.arrays.NumpyExtensionArray(_checked(data, "array", "?biufcmMOSUV"))


def _make_categorical(pd: Any, codes: Any, categories: Any, ordered: Any) -> Any:
    if not isinstance(categories, pd.Index):
        raise _wrong("array of categories")
    codes = _checked(codes, "array of categories", "i")
    return pd.Categorical.from_codes(codes, categories=categories, ordered=bool(ordered))


def _make_times(name: str) -> Callable[..., Any]:
    def make(pd: Any, data: Any, text: Any, zone: Any = None, freq: Any = None) -> Any:
        data = _checked(data, "array of times", "M" if name == "DatetimeArray" else "m")
        if zone is None:
            dtype = pd.api.types.pandas_dtype(text)
        else:
            dtype = pd.DatetimeTZDtype(data.dtype.name[11:-1], zone)
        plain = getattr(dtype, "base", data.dtype)
        if plain != data.dtype or not text.startswith(data.dtype.name[:-1]):
            raise _wrong("array of times")
        if freq is not None and not times.is_offset(freq):
            raise _wrong("array of times")
        given = {} if freq is None else {"freq": freq}
        return getattr(pd.arrays, name)._simple_new(data, dtype=dtype, **given)

    return make


def _make_periods(pd: Any, ordinals: Any, freq: Any) -> Any:
    ordinals = _checked(ordinals, "array of periods", "i")
    if not times.is_offset(freq):
        raise _wrong("array of periods")
    return pd.arrays.PeriodArray(ordinals, dtype=pd.PeriodDtype(freq))


def _make_intervals(pd: Any, left: Any, right: Any, closed: Any) -> Any:
    left, right = _checked(left, "array of intervals"), _checked(right, "array of intervals")
    if left.dtype != right.dtype:
        raise _wrong("array of intervals")
    dtype = pd.IntervalDtype(left.dtype, closed)
    return pd.arrays.IntervalArray.from_arrays(left, right, closed, dtype=dtype)


def _make_sparse(pd: Any, values: Any, length: Any, places: Any, fill: Any) -> Any:
    from pandas._libs import sparse

    if type(length) is not int or type(places) is not list or not 1 <= len(places) <= 2:
        raise _wrong("sparse array")
    places = [_checked(place, "sparse array", "i") for place in places]
    kind: Any = sparse.IntIndex if len(places) == 1 else sparse.BlockIndex
    index = kind(length, *places)
    values = _checked(values, "sparse array", "?biufcmMO")
    if values.ndim != 1 or len(values) != index.npoints:
        raise _wrong("sparse array")
    return pd.arrays.SparseArray._simple_new(values, index, pd.SparseDtype(values.dtype, fill))


def _make_masked(name: str) -> Callable[..., Any]:
    def make(pd: Any, data: Any, mask: Any) -> Any:
        data, mask = _checked(data, "array", "biuf"), _checked(mask, "array", "b")
        return getattr(pd.arrays, name)(data, mask)

    return make


_ARRAYS: dict[str, Callable[..., Any]] = {
    "arrow": _make_arrow,
    "string": _make_string,
    "texts": _make_texts,
    "numpy": _make_numpy,
    "categorical": _make_categorical,
    "DatetimeArray": _make_times("DatetimeArray"),
    "TimedeltaArray": _make_times("TimedeltaArray"),
    "PeriodArray": _make_periods,
    "IntervalArray": _make_intervals,
    "SparseArray": _make_sparse,
    **{name: _make_masked(name) for name in MASKED},
}


@guarded
def make_dtype(name: Any, *parts: Any) -> Any:
    """An element type, of an array that has no elements or of its parts."""
    import pandas as pd

    if name == "StringDtype" and len(parts) == 2:
        return pd.StringDtype(parts[0], **_missing(parts[1]))
    if name in {"CategoricalDtype", "IntervalDtype", "SparseDtype"} and len(parts) == 2:
        return getattr(pd, name)(*parts)
    if len(parts) != 1 or not isinstance(parts[0], pd.api.extensions.ExtensionArray):
        raise _wrong("type")
    dtype = parts[0].dtype
    if type(dtype).__name__ != name:
        raise _wrong("type")
    return dtype


#: The makers by names of the specification.
CALLABLES: dict[str, Callable[..., Any]] = {
    "pandas:DataFrame": make_frame,
    "pandas:Series": make_series,
    "pandas:Index": make_index,
    "pandas:RangeIndex": make_range,
    "pandas:MultiIndex": make_levels,
    "pandas:array": make_array,
    "pandas:dtype": make_dtype,
    **times.CALLABLES,
}
