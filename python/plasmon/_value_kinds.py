"""The kind of a value when it is put: the one place that decides.

The kind depends on the class of the value, on the protocols that it offers, and on whether that
kind gives back the very value. ``_codecs`` has an encoding for each kind. No library is imported
that the value did not bring along.
"""

from __future__ import annotations

import enum
import pickle
from collections.abc import Callable
from typing import Any

from plasmon import _native
from plasmon._dtypes import is_described
from plasmon._library import library_of


class Kind(enum.Enum):
    """What a value is."""

    #: Bytes as they are.
    RAW = enum.auto()
    #: Memory with a format and a shape.
    MEMORY = enum.auto()
    #: An array of NumPy's.
    ARRAY = enum.auto()
    ARROW_BUFFER = enum.auto()
    ARROW_TENSOR = enum.auto()
    TABLE = enum.auto()
    RECORD_BATCH = enum.auto()
    ARROW_ARRAY = enum.auto()
    CHUNKED_ARRAY = enum.auto()
    #: A frame or a series.
    PANDAS = enum.auto()
    POLARS = enum.auto()
    #: A frame that was not computed yet.
    LAZY = enum.auto()
    #: Arrow data of any other class, as a table or as a column.
    STREAM = enum.auto()
    COLUMN = enum.auto()
    #: A Python object.
    OBJECT = enum.auto()
    #: The same, or the memory that it lends if it cannot be written as an object.
    OBJECT_OR_MEMORY = enum.auto()


#: Types whose values are objects and nothing else, which put need not look at any further.
OBJECT_TYPES = frozenset({type(None), bool, int, float, str, list, tuple, dict, set})

#: Classes by the library in their ``__module__``.
_CLASSES = {
    ("numpy", "ndarray"): Kind.ARRAY,
    ("numpy", "generic"): Kind.OBJECT,
    ("pyarrow", "Table"): Kind.TABLE,
    ("pyarrow", "RecordBatch"): Kind.RECORD_BATCH,
    ("pyarrow", "Array"): Kind.ARROW_ARRAY,
    ("pyarrow", "ChunkedArray"): Kind.CHUNKED_ARRAY,
    ("pyarrow", "Buffer"): Kind.ARROW_BUFFER,
    ("pyarrow", "Tensor"): Kind.ARROW_TENSOR,
    ("pandas", "DataFrame"): Kind.PANDAS,
    ("pandas", "Series"): Kind.PANDAS,
    ("polars", "DataFrame"): Kind.POLARS,
    ("polars", "Series"): Kind.POLARS,
    ("polars", "LazyFrame"): Kind.LAZY,
}

#: Kinds of Arrow data, whether or not their classes offer it through a protocol.
_ARROW = frozenset(
    kind for (library, _), kind in _CLASSES.items() if library in {"pyarrow", "polars"}
)


def kind_of_class(kind: type) -> Kind | None:
    """The kinds of objects of exactly this class, if it is known by name."""
    return _CLASSES.get((library_of(kind), kind.__name__))


def kind_of_base(kind: type) -> Kind | None:
    """:func:`kind_of_class` of the closest base that is known."""
    return next((known for base in kind.__mro__ if (known := kind_of_class(base))), None)


def kind_of(value: Any) -> Kind:
    """What a value is."""
    known = kind_of_base(type(value))
    if known is not None:
        keeps = _KEEPS.get(known)
        return known if keeps is None or keeps(value) else Kind.OBJECT
    if hasattr(value, "__arrow_c_stream__"):
        return Kind.STREAM
    if hasattr(value, "__arrow_c_array__") and not isinstance(value, _native.Buffer):
        return Kind.COLUMN
    if type(value) is bytes or isinstance(value, _native.Buffer):
        return Kind.RAW
    if type(value) in {memoryview, pickle.PickleBuffer}:
        return Kind.MEMORY
    return Kind.OBJECT_OR_MEMORY


def is_arrow(value: Any, kind: Kind) -> bool:
    """Whether a value of a kind is Arrow data, or offers some."""
    offers = ("__arrow_c_stream__", "__arrow_c_array__")
    return kind in _ARROW or any(hasattr(value, name) for name in offers)


def is_pandas(value: Any) -> bool:
    """Whether a value is a frame or a series of pandas itself: a subclass is not its base."""
    return kind_of_class(type(value)) is Kind.PANDAS


def _is_plain_array(array: Any) -> bool:
    import numpy as np

    return type(array) in {np.ndarray, np.memmap} and is_described(array.dtype)


def _is_kept_by_table(value: Any) -> bool:
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        return False
    from plasmon._pandas_kept import is_kept

    return is_kept(value)


def _is_polars_own(value: Any) -> bool:
    return library_of(type(value)) == "polars"


#: Whether a kind gives back the very value.
_KEEPS: dict[Kind, Callable[[Any], bool]] = {
    Kind.ARRAY: _is_plain_array,
    Kind.PANDAS: _is_kept_by_table,
    Kind.POLARS: _is_polars_own,
}
