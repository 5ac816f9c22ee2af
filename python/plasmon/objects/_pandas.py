"""pandas objects: frames by their blocks, so that every column stays what and where it is.

A frame is an object of the specified class ``pandas:DataFrame``, made of its labels, and of arrays:
NumPy's as tensors, Arrow's as Arrow data. Nothing is converted in either direction, and nothing is
pickled but other libraries' types and subclasses. What makes them again is in ``_pandas_makers``.

pandas hands out the blocks of a frame in no public way. Where they are not as expected here, the
frame says itself how it is made again, which needs pickle.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from plasmon._library import library_of
from plasmon.objects import _pandas_makers as makers
from plasmon.objects import _pandas_times as times
from plasmon.objects._pandas_makers import INDEXES, MASKED, lies_apart
from plasmon.objects._pandas_times import own_way

_Reduced = tuple[Any, ...]


def _own(values: Any) -> Any:
    """Values whose elements lie apart: readers take no others, which could be bombs."""
    import numpy as np

    return values if type(values) is not np.ndarray or lies_apart(values) else values.copy()


def _take_frame(frame: Any) -> _Reduced:
    try:
        blocks = [
            (_own(block.values), block.mgr_locs.as_array.astype("<i8"))
            for block in frame._mgr.blocks
        ]
    except AttributeError:
        return own_way(frame)
    duplicates = frame.flags.allows_duplicate_labels
    return makers.make_frame, (frame.columns, frame.index, blocks, dict(frame.attrs), duplicates)


def _take_series(series: Any) -> _Reduced:
    values = series.array
    values = _own(series.to_numpy(copy=False)) if _is_numpy(values) else values
    duplicates = series.flags.allows_duplicate_labels
    return makers.make_series, (values, series.index, series.name, dict(series.attrs), duplicates)


def _take_index(index: Any) -> _Reduced:
    values = index.array
    values = _own(values.to_numpy(copy=False)) if _is_numpy(values) else values
    kind = type(index).__name__
    freq = None if kind == "PeriodIndex" else getattr(index, "freq", None)
    return makers.make_index, (kind, values, index.name, freq)


def _take_range(index: Any) -> _Reduced:
    return makers.make_range, (index.start, index.stop, index.step, index.name)


def _take_levels(index: Any) -> _Reduced:
    codes = [_own(code.astype(f"<i{code.dtype.itemsize}", copy=False)) for code in index.codes]
    return makers.make_levels, ([*index.levels], codes, [*index.names], index.sortorder)


def _is_numpy(values: Any) -> bool:
    return type(values).__name__ in {"NumpyExtensionArray", "PandasArray"}


# Arrays


def _take_numpy(values: Any) -> _Reduced:
    return makers.make_array, ("numpy", _own(values._ndarray))


def _take_arrow(values: Any) -> _Reduced:
    import pandas as pd

    data = values._pa_array
    if isinstance(values.dtype, pd.StringDtype):
        # The missing value is NA or NaN.
        return makers.make_array, ("string", data, values.dtype.na_value is pd.NA)
    return makers.make_array, ("arrow", data)


def _take_texts(values: Any) -> _Reduced:
    import pandas as pd

    return makers.make_array, ("texts", values._ndarray, values.dtype.na_value is pd.NA)


def _take_categorical(values: Any) -> _Reduced:
    return makers.make_array, (
        "categorical",
        _own(values.codes),
        values.categories,
        values.ordered,
    )


def _take_times(values: Any) -> _Reduced:
    data = _own(values._ndarray)
    parts = (type(values).__name__, data, data.dtype.name)
    zone, freq = getattr(values, "tz", None), getattr(values, "freq", None)
    if freq is not None:
        return makers.make_array, (*parts, zone, freq)
    return makers.make_array, parts if zone is None else (*parts, zone)


def _take_periods(values: Any) -> _Reduced:
    return makers.make_array, ("PeriodArray", _own(values._ndarray), values.freq)


def _take_masked(values: Any) -> _Reduced:
    return makers.make_array, (type(values).__name__, _own(values._data), _own(values._mask))


def _take_intervals(values: Any) -> _Reduced:
    parts = _own(values._left), _own(values._right), values.closed
    return makers.make_array, ("IntervalArray", *parts)


def _take_sparse(values: Any) -> _Reduced:
    index = values.sp_index
    if type(index).__name__ == "IntIndex":
        places = [index.indices]
    else:
        places = [index.blocs, index.blengths]
    places = [place.astype("<i4") for place in places]
    parts = _own(values.sp_values), index.length, places, values.fill_value
    return makers.make_array, ("SparseArray", *parts)


def _take_dtype(dtype: Any) -> _Reduced:
    """An element type by an array of it that has no elements, but what such an array lacks."""
    name = type(dtype).__name__
    if name == "CategoricalDtype":
        return makers.make_dtype, (name, dtype.categories, dtype.ordered)
    if name == "IntervalDtype":
        return makers.make_dtype, (name, dtype.subtype, dtype.closed)
    if name == "SparseDtype":
        return makers.make_dtype, (name, dtype.subtype, dtype.fill_value)
    if name == "StringDtype":
        import pandas as pd

        return makers.make_dtype, (name, dtype.storage, dtype.na_value is pd.NA)
    return makers.make_dtype, (name, dtype.construct_array_type()._from_sequence([], dtype=dtype))


def _take_missing(value: Any) -> str:
    return "NaT"


_TAKERS: dict[str, Callable[[Any], Any]] = {
    "DataFrame": _take_frame,
    "Series": _take_series,
    "RangeIndex": _take_range,
    "MultiIndex": _take_levels,
    **dict.fromkeys(INDEXES, _take_index),
    "ArrowExtensionArray": _take_arrow,
    "ArrowStringArray": _take_arrow,
    "ArrowStringArrayNumpySemantics": _take_arrow,
    "NumpyExtensionArray": _take_numpy,
    "StringArray": _take_texts,
    "StringArrayNumpySemantics": _take_texts,
    "Categorical": _take_categorical,
    "DatetimeArray": _take_times,
    "TimedeltaArray": _take_times,
    "PeriodArray": _take_periods,
    "IntervalArray": _take_intervals,
    "SparseArray": _take_sparse,
    **dict.fromkeys(MASKED, _take_masked),
    **times.TAKERS,
    "NaTType": _take_missing,
}


def taker(kind: type) -> Callable[[Any], Any] | None:
    """The reducer of this type. Subclasses are not frames."""
    library = library_of(kind)
    if library == "dateutil":
        return times.zone_taker(kind)
    if library != "pandas":
        return None
    found = _TAKERS.get(kind.__qualname__)
    if found is not None:
        return found
    import pandas as pd

    if issubclass(kind, pd.api.extensions.ExtensionDtype):
        return _take_dtype
    return times.take_offset if issubclass(kind, pd.offsets.BaseOffset) else None


#: The makers by names of the specification.
CALLABLES = makers.CALLABLES


def value_name(value: Any) -> str | None:
    """The name of one of pandas' missing values."""
    kind = type(value)
    if library_of(kind) != "pandas":
        return None
    return _VALUES.get(kind.__name__)


def find_value(name: str) -> Any:
    """The value of a name in the specification."""
    import pandas as pd

    return {"pandas:NA": pd.NA, "pandas:NaT": pd.NaT}[name]


_VALUES = {"NAType": "pandas:NA", "NaTType": "pandas:NaT"}
