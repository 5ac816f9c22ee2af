"""pandas objects: frames by their blocks, so that every column stays what and where it is.

A frame is an object of the specified class ``pandas:DataFrame``, made of its labels, and of arrays:
NumPy's as tensors, Arrow's as Arrow data. Nothing is converted in either direction, and nothing is
pickled but types that only pickle knows: periods, intervals, sparse arrays, other libraries' types.

pandas hands out the blocks of a frame in no public way. Where they are not as expected here, the
frame says itself how it is made again, which needs pickle.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from plasmon.objects._errors import BrokenObject, broken

_Reduced = tuple[Any, ...]

#: Types whose arrays are values and a mask.
_MASKED = ("BooleanArray", "FloatingArray", "IntegerArray")


def _wrong(what: str) -> BrokenObject:
    return broken(f"pandas {what} of something that is none")


# Taken apart


def _take_frame(frame: Any) -> _Reduced:
    try:
        blocks = [
            (block.values, block.mgr_locs.as_array.astype("<i8")) for block in frame._mgr.blocks
        ]
    except AttributeError:
        return _own_way(frame)
    duplicates = frame.flags.allows_duplicate_labels
    return make_frame, (frame.columns, frame.index, blocks, dict(frame.attrs), duplicates)


def _take_series(series: Any) -> _Reduced:
    values = series.array
    values = series.to_numpy(copy=False) if _is_numpy(values) else values
    duplicates = series.flags.allows_duplicate_labels
    return make_series, (values, series.index, series.name, dict(series.attrs), duplicates)


def _take_index(index: Any) -> _Reduced:
    kind = type(index).__name__
    freq = getattr(index, "freq", None)
    if freq is not None and type(freq.freqstr) is not str:
        return _own_way(index)
    values = index.array
    values = values.to_numpy(copy=False) if _is_numpy(values) else values
    return make_index, (kind, values, index.name, None if freq is None else freq.freqstr)


def _take_range(index: Any) -> _Reduced:
    return make_range, (index.start, index.stop, index.step, index.name)


def _take_levels(index: Any) -> _Reduced:
    codes = [code.astype(f"<i{code.dtype.itemsize}", copy=False) for code in index.codes]
    return make_levels, ([*index.levels], codes, [*index.names], index.sortorder)


def _is_numpy(values: Any) -> bool:
    return type(values).__name__ in {"NumpyExtensionArray", "PandasArray"}


def _take_arrow(values: Any) -> _Reduced:
    import pandas as pd

    data = values._pa_array
    if isinstance(values.dtype, pd.StringDtype):
        # The missing value is NA or NaN.
        return make_array, ("string", data, values.dtype.na_value is pd.NA)
    return make_array, ("arrow", data)


def _take_texts(values: Any) -> _Reduced:
    import pandas as pd

    return make_array, ("texts", values._ndarray, values.dtype.na_value is pd.NA)


def _take_categorical(values: Any) -> _Reduced:
    return make_array, ("categorical", values.codes, values.categories, values.ordered)


def _take_times(values: Any) -> _Reduced:
    import pandas as pd

    text = str(values.dtype)
    try:
        known = pd.api.types.pandas_dtype(text) == values.dtype
    except (TypeError, ValueError, KeyError):
        known = False
    if not known:
        return _own_way(values)
    return make_array, (type(values).__name__, values._ndarray, text)


def _take_masked(values: Any) -> _Reduced:
    return make_array, (type(values).__name__, values._data, values._mask)


def _take_timestamp(value: Any) -> _Reduced:
    # The clock counts from 1970 in UTC, with a zone or without one.
    return make_timestamp, (value._value, value.unit, value.tzinfo)


def _take_timedelta(value: Any) -> _Reduced:
    return make_timedelta, (value._value, value.unit)


def _take_missing(value: Any) -> str:
    return "NaT"


def _own_way(value: Any) -> _Reduced:
    reduced: _Reduced = value.__reduce_ex__(5)
    return reduced


# Made again


def make_frame(
    columns: Any, index: Any, blocks: Any, attrs: Any, allows_duplicate_labels: Any
) -> Any:
    """A frame out of its blocks, each some columns and their places."""
    import numpy as np
    import pandas as pd

    if not isinstance(columns, pd.Index) or not isinstance(index, pd.Index):
        raise _wrong("frame")
    if type(blocks) is not list or type(attrs) is not dict:
        raise _wrong("frame")
    places = []
    for values, place in blocks:
        if type(place) is not np.ndarray or place.ndim != 1 or place.dtype.kind != "i":
            raise _wrong("frame")
        shape = (len(place), len(index))
        if values.shape != (shape if values.ndim == 2 else shape[1:]):
            raise _wrong("frame")
        if not isinstance(values, np.ndarray | pd.api.extensions.ExtensionArray):
            raise _wrong("frame")
        if (values.ndim == 1) != (type(values).__name__ not in _TWO_DIMENSIONAL):
            raise _wrong("frame")
        if values.ndim == 1 and len(place) != 1:
            raise _wrong("frame")
        places.append(place)
    together = np.sort(np.concatenate([np.zeros(0, "<i8"), *places]))
    if not np.array_equal(together, np.arange(len(columns))):
        raise _wrong("frame")
    made = _of_blocks(blocks, index, columns)
    return _finish(made, attrs, allows_duplicate_labels)


_TWO_DIMENSIONAL = ("ndarray", "DatetimeArray", "TimedeltaArray")


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


def make_series(
    values: Any, index: Any, name: Any, attrs: Any, allows_duplicate_labels: Any
) -> Any:
    """A series of an array."""
    import pandas as pd

    if not isinstance(index, pd.Index) or type(attrs) is not dict or not hasattr(values, "dtype"):
        raise _wrong("series")
    made = pd.Series(values, index=index, name=name, dtype=values.dtype, copy=False)
    return _finish(made, attrs, allows_duplicate_labels)


def make_index(kind: Any, values: Any, name: Any, freq: Any) -> Any:
    """An index of an array."""
    import pandas as pd

    if kind not in _INDEXES or not hasattr(values, "dtype"):
        raise _wrong("index")
    if freq is None:
        return pd.Index(values, dtype=values.dtype, name=name, copy=False)
    made: Any = getattr(pd, kind)
    return made(values, name=name, freq=freq, copy=False)


def make_range(start: Any, stop: Any, step: Any, name: Any) -> Any:
    """A range as an index."""
    import pandas as pd

    if not all(type(bound) is int for bound in (start, stop, step)):
        raise _wrong("range")
    return pd.RangeIndex(start, stop, step, name=name)


def make_levels(levels: Any, codes: Any, names: Any, sortorder: Any) -> Any:
    """An index of several levels."""
    import pandas as pd

    if not all(type(part) is list for part in (levels, codes, names)):
        raise _wrong("index of levels")
    return pd.MultiIndex(levels, codes, sortorder=sortorder, names=names, copy=False)


def make_array(kind: Any, *parts: Any) -> Any:
    """An array of one of pandas' own types."""
    import numpy as np
    import pandas as pd

    maker = _ARRAYS.get(kind) if type(kind) is str else None
    if maker is None or not parts:
        raise _wrong("array")
    numpy_backed = kind not in {"arrow", "string"}
    if numpy_backed and type(parts[0]) is not np.ndarray:
        raise _wrong("array")
    return maker(pd, *parts)


def _make_arrow(pd: Any, data: Any) -> Any:
    return pd.arrays.ArrowExtensionArray(data)


def _make_string(pd: Any, data: Any, missing_is_na: Any) -> Any:
    dtype = pd.StringDtype("pyarrow", **_missing(pd, missing_is_na))
    return dtype.construct_array_type()(data, **_with_dtype(dtype))


def _with_dtype(dtype: Any) -> dict[str, Any]:
    """Before pandas 3 there was a class for each missing value instead."""
    import inspect

    takes = "dtype" in inspect.signature(dtype.construct_array_type().__init__).parameters
    return {"dtype": dtype} if takes else {}


def _missing(pd: Any, missing_is_na: Any) -> dict[str, Any]:
    return {} if missing_is_na else {"na_value": float("nan")}


def _make_texts(pd: Any, data: Any, missing_is_na: Any) -> Any:
    return pd.array(data, dtype=pd.StringDtype("python", **_missing(pd, missing_is_na)), copy=False)


def _make_categorical(pd: Any, codes: Any, categories: Any, ordered: Any) -> Any:
    if not isinstance(categories, pd.Index) or codes.dtype.kind != "i":
        raise _wrong("array of categories")
    return pd.Categorical.from_codes(codes, categories=categories, ordered=bool(ordered))


def _make_times(name: str) -> Callable[..., Any]:
    def make(pd: Any, data: Any, text: Any) -> Any:
        dtype = pd.api.types.pandas_dtype(text)
        if data.dtype.kind != ("M" if name == "DatetimeArray" else "m"):
            raise _wrong("array of times")
        plain = getattr(dtype, "base", data.dtype)
        if plain != data.dtype or not text.startswith(data.dtype.name[:-1]):
            raise _wrong("array of times")
        return getattr(pd.arrays, name)._simple_new(data, dtype=dtype)

    return make


def _make_masked(name: str) -> Callable[..., Any]:
    def make(pd: Any, data: Any, mask: Any) -> Any:
        return getattr(pd.arrays, name)(data, mask)

    return make


def make_timestamp(value: Any, unit: Any, zone: Any) -> Any:
    """A moment, in its own resolution."""
    import numpy as np
    import pandas as pd

    made = pd.Timestamp(np.datetime64(*_clock(value, unit)))
    return made if zone is None else made.tz_localize("UTC").tz_convert(zone)


def make_timedelta(value: Any, unit: Any) -> Any:
    """A span of time, in its own resolution."""
    import numpy as np
    import pandas as pd

    return pd.Timedelta(np.timedelta64(*_clock(value, unit)))


def _clock(value: Any, unit: Any) -> tuple[Any, Any]:
    if type(value) is not int or unit not in {"s", "ms", "us", "ns"}:
        raise _wrong("time")
    return value, unit


_ARRAYS: dict[str, Callable[..., Any]] = {
    "arrow": _make_arrow,
    "string": _make_string,
    "texts": _make_texts,
    "categorical": _make_categorical,
    "DatetimeArray": _make_times("DatetimeArray"),
    "TimedeltaArray": _make_times("TimedeltaArray"),
    **{name: _make_masked(name) for name in _MASKED},
}

_INDEXES = ("CategoricalIndex", "DatetimeIndex", "Index", "TimedeltaIndex")

_TAKERS: dict[str, Callable[[Any], Any]] = {
    "DataFrame": _take_frame,
    "Series": _take_series,
    "RangeIndex": _take_range,
    "MultiIndex": _take_levels,
    **dict.fromkeys(_INDEXES, _take_index),
    "ArrowExtensionArray": _take_arrow,
    "ArrowStringArray": _take_arrow,
    "ArrowStringArrayNumpySemantics": _take_arrow,
    "StringArray": _take_texts,
    "StringArrayNumpySemantics": _take_texts,
    "Categorical": _take_categorical,
    "DatetimeArray": _take_times,
    "TimedeltaArray": _take_times,
    **dict.fromkeys(_MASKED, _take_masked),
    "Timestamp": _take_timestamp,
    "Timedelta": _take_timedelta,
    "NaTType": _take_missing,
}


def taker(kind: type) -> Callable[[Any], Any] | None:
    """What takes an object of this type apart. Subclasses are not frames."""
    if kind.__module__.partition(".")[0] != "pandas":
        return None
    return _TAKERS.get(kind.__qualname__)


#: What names of the specification make.
CALLABLES: dict[str, Callable[..., Any]] = {
    "pandas:DataFrame": make_frame,
    "pandas:Series": make_series,
    "pandas:Index": make_index,
    "pandas:RangeIndex": make_range,
    "pandas:MultiIndex": make_levels,
    "pandas:array": make_array,
    "pandas:Timestamp": make_timestamp,
    "pandas:Timedelta": make_timedelta,
}


def value_name(value: Any) -> str | None:
    """The name of one of pandas' missing values."""
    kind = type(value)
    if kind.__module__.partition(".")[0] != "pandas":
        return None
    return _VALUES.get(kind.__name__)


def find_value(name: str) -> Any:
    """The value of a name that the specification knows."""
    import pandas as pd

    return {"pandas:NA": pd.NA, "pandas:NaT": pd.NaT}[name]


_VALUES = {"NAType": "pandas:NA", "NaTType": "pandas:NaT"}
