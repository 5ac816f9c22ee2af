"""The classes that the format itself knows: section 7 of ``spec/objects.md``.

Their constructors get whatever bytes say, so each checks its arguments: no code runs, and nothing
is built that is much larger than what was read.
"""

from __future__ import annotations

import builtins
import collections
import fractions
import types
from collections.abc import Callable
from typing import Any

from plasmon import torch as _torch
from plasmon.objects import _pandas
from plasmon.objects._errors import BrokenObject, broken

#: The types that may be values themselves, as the factory of a defaultdict is.
DATA_TYPES: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        bool, bytearray, bytes, complex, dict, float, frozenset, int, list, object, set, str,
        tuple, type(None),
    )
}  # fmt: skip


def _wrong(name: str) -> BrokenObject:
    return broken(f"a {name} of something that is none")


def _deque(items: Any = (), maxlen: Any = None) -> Any:
    if items or not (maxlen is None or type(maxlen) is int):
        raise _wrong("deque")
    return collections.deque(maxlen=maxlen)


def _ordered_dict(*arguments: Any) -> Any:
    if arguments:
        raise _wrong("OrderedDict")
    return collections.OrderedDict()


def _default_dict(factory: Any = None) -> Any:
    if factory is not None and not isinstance(factory, type) and not callable(factory):
        raise _wrong("defaultdict")
    return collections.defaultdict(factory)


def _counter(counts: Any = None) -> Any:
    if counts is not None and type(counts) is not dict:
        raise _wrong("Counter")
    counter: Any = collections.Counter()
    dict.update(counter, counts or {})
    return counter


def _fraction(numerator: Any, denominator: Any) -> Any:
    if type(numerator) is not int or type(denominator) is not int:
        raise _wrong("Fraction")
    return fractions.Fraction(numerator, denominator)


def _range(*bounds: Any) -> Any:
    if not all(type(bound) is int for bound in bounds):
        raise _wrong("range")
    return range(*bounds)


def _slice(*bounds: Any) -> Any:
    return slice(*bounds)


def _namespace(*arguments: Any) -> Any:
    if arguments:
        raise _wrong("SimpleNamespace")
    return types.SimpleNamespace()


def _array(typecode: Any, data: Any) -> Any:
    import array

    if type(typecode) is not str or not isinstance(data, memoryview):
        raise _wrong("array")
    made = array.array(typecode)
    made.frombytes(data)
    return made


def _masked(data: Any, mask: Any, fill_value: Any, hard: Any) -> Any:
    import numpy as np

    if type(data) is not np.ndarray or not (mask is None or type(mask) is np.ndarray):
        raise _wrong("masked array")
    mask = np.ma.nomask if mask is None else mask
    made: Any = np.ma.MaskedArray(data, mask, hard_mask=bool(hard))
    if fill_value is not None:
        made.fill_value = fill_value
    return made


def _matrix(data: Any) -> Any:
    import numpy as np

    if type(data) is not np.ndarray or data.ndim != 2:
        raise _wrong("matrix")
    return data.view(np.matrix)


def _strings(shape: Any, items: Any, *missing: Any) -> Any:
    import numpy as np

    if type(items) is not list:
        raise _wrong("array of strings")
    dtype = np.dtypes.StringDType(na_object=missing[0]) if missing else np.dtypes.StringDType()
    return np.array(items, dtype).reshape(shape)


#: What a name of the specification makes.
CALLABLES: dict[str, Callable[..., Any]] = {
    "collections:deque": _deque,
    "collections:OrderedDict": _ordered_dict,
    "collections:defaultdict": _default_dict,
    "collections:Counter": _counter,
    "fractions:Fraction": _fraction,
    "builtins:range": _range,
    "builtins:slice": _slice,
    "types:SimpleNamespace": _namespace,
    "array:array": _array,
    "numpy.ma:MaskedArray": _masked,
    "numpy:matrix": _matrix,
    "numpy:strings": _strings,
    **_torch.CALLABLES,
    **_pandas.CALLABLES,
}
CALLABLES.update(
    (f"builtins:{name}", found)
    for name, found in vars(builtins).items()
    if isinstance(found, type) and issubclass(found, BaseException)
)

#: The names of callables that a value's own ``__reduce_ex__`` gives.
NAMES: dict[Any, str] = {
    collections.deque: "collections:deque",
    collections.OrderedDict: "collections:OrderedDict",
    collections.defaultdict: "collections:defaultdict",
    collections.Counter: "collections:Counter",
    fractions.Fraction: "fractions:Fraction",
    range: "builtins:range",
    slice: "builtins:slice",
    types.SimpleNamespace: "types:SimpleNamespace",
    **{made: name for name, made in CALLABLES.items()},
}


# How values are taken apart whose own way would not do: like __reduce_ex__.


def _take_array(value: Any) -> tuple[Any, ...]:
    return _array, (value.typecode, memoryview(value).cast("B"))


def _take_counter(value: Any) -> tuple[Any, ...]:
    # As pairs: in its arguments, a key could not refer to it.
    return collections.Counter, (), None, None, iter(value.items())


def _take_fraction(value: Any) -> tuple[Any, ...]:
    return fractions.Fraction, (value.numerator, value.denominator)


def _take_masked(value: Any) -> tuple[Any, ...]:
    import numpy as np

    mask = None if value.mask is np.ma.nomask else value.mask
    fill = value._fill_value
    filled = None if fill is None else fill[()]
    return _masked, (value.data, mask, filled, bool(value.hardmask))


def _take_matrix(value: Any) -> tuple[Any, ...]:
    import numpy as np

    return _matrix, (value.view(np.ndarray),)


def _take_ndarray(value: Any) -> tuple[Any, ...]:
    """An array whose elements are neither plain nor objects."""
    if value.dtype.kind != "T":
        reduced: tuple[Any, ...] = value.__reduce_ex__(5)
        return reduced
    missing = (value.dtype.na_object,) if hasattr(value.dtype, "na_object") else ()
    return _strings, (value.shape, value.ravel().tolist(), *missing)


def taker(kind: type) -> Callable[[Any], Any] | None:
    """What takes an object of this type apart, where its own way would not do."""
    return TAKERS.get((kind.__module__, kind.__qualname__)) or _pandas.taker(kind)


#: Values that have a name, and what they have it from.
VALUES = ("pandas:NA", "pandas:NaT")
value_name = _pandas.value_name
find_value = _pandas.find_value

#: By module and qualified name of the type.
TAKERS: dict[tuple[str, str], Callable[[Any], tuple[Any, ...]]] = {
    ("array", "array"): _take_array,
    ("collections", "Counter"): _take_counter,
    ("fractions", "Fraction"): _take_fraction,
    ("numpy.ma", "MaskedArray"): _take_masked,
    ("numpy.ma.core", "MaskedArray"): _take_masked,
    ("numpy", "matrix"): _take_matrix,
    ("numpy", "ndarray"): _take_ndarray,
    **_torch.TAKERS,
}
