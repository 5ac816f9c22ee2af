"""The classes of the format itself: section 7 of ``spec/objects.md``.

Their arguments come from foreign bytes, so each constructor checks them: no code runs, and nothing
is built that is much larger than what was read.
"""

from __future__ import annotations

import builtins
import collections
import fractions
import sys
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
    return broken(f"a {name} made of the wrong contents")


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
    # NumPy would repeat a mask, or make one of a structured array, for elements that take no room.
    if _is_repeated(data) or (mask is not None and mask.shape != data.shape):
        raise _wrong("masked array")
    mask = np.ma.nomask if mask is None else mask
    made: Any = np.ma.MaskedArray(data, mask, hard_mask=bool(hard))
    if fill_value is not None:
        made.fill_value = fill_value
    return made


def _is_repeated(data: Any) -> bool:
    """Whether an array has more elements than there are in memory."""
    return any(not by and extent > 1 for by, extent in zip(data.strides, data.shape, strict=True))


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


def _transposed(data: Any) -> Any:
    import numpy as np

    if type(data) is not np.ndarray:
        raise _wrong("transposed array")
    return data.T


def _dtype(plain: Any, aligned: Any, record: Any, metadata: Any) -> Any:
    import numpy as np

    if not isinstance(plain, np.dtype) or not (metadata is None or type(metadata) is dict):
        raise _wrong("element type")
    made = _aligned(plain) if aligned else plain
    made = np.dtype((np.record, made)) if record else made
    return made if metadata is None else np.dtype(made, metadata=metadata)


def _aligned(dtype: Any) -> Any:
    import numpy as np

    if dtype.subdtype is not None:
        return np.dtype((_aligned(dtype.base), dtype.shape))
    if dtype.names is None:
        return dtype
    fields = [dtype.fields[name] for name in dtype.names]
    parts: Any = {
        "names": list(dtype.names),
        "formats": [_aligned(field[0]) for field in fields],
        "offsets": [field[1] for field in fields],
        "itemsize": dtype.itemsize,
    }
    if any(len(field) > 2 for field in fields):
        parts["titles"] = [field[2] if len(field) > 2 else None for field in fields]
    return np.dtype(parts, align=True)


def _typed(data: Any, dtype: Any) -> Any:
    import numpy as np

    if type(data) is not np.ndarray or not isinstance(dtype, np.dtype) or data.dtype != dtype:
        raise _wrong("array")
    return data.view(dtype)


def _record(data: Any, dtype: Any) -> Any:
    import numpy as np

    if type(data) is not bytes or not isinstance(dtype, np.dtype) or dtype.kind != "V":
        raise _wrong("record")
    return np.ndarray((), dtype, bytearray(data))[()]


def _recarray(data: Any) -> Any:
    import numpy as np

    if type(data) is not np.ndarray or data.dtype.names is None:
        raise _wrong("recarray")
    return data.view(np.recarray)


#: The makers by names of the specification.
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
    "numpy:transposed": _transposed,
    "numpy:dtype": _dtype,
    "numpy:typed": _typed,
    "numpy:record": _record,
    "numpy:recarray": _recarray,
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
    data = value.data.copy() if _is_repeated(value.data) else value.data
    fill = value._fill_value
    filled = None if fill is None else fill[()]
    return _masked, (data, mask, filled, bool(value.hardmask))


def _take_matrix(value: Any) -> tuple[Any, ...]:
    import numpy as np

    return _matrix, (value.view(np.ndarray),)


def _take_ndarray(value: Any) -> tuple[Any, ...]:
    """An array whose elements are neither plain nor objects."""
    dtype, flags = value.dtype, value.flags
    if dtype.kind == "T":
        if flags.f_contiguous and not flags.c_contiguous:
            return _transposed, (value.T,)
        missing = (dtype.na_object,) if hasattr(dtype, "na_object") else ()
        return _strings, (value.shape, value.ravel().tolist(), *missing)
    if not dtype.hasobject and _parts_of_dtype(dtype) is not None:
        return _typed, (value.view(_plain(dtype)), dtype)
    reduced: tuple[Any, ...] = value.__reduce_ex__(5)
    return reduced


def _take_recarray(value: Any) -> tuple[Any, ...]:
    import numpy as np

    from plasmon._dtypes import is_same_dtype

    data = value.view(np.ndarray)
    fits = data.dtype.names is not None and not data.dtype.hasobject
    if fits and is_same_dtype(_recarray(data).dtype, value.dtype):
        return _recarray, (data,)
    reduced: tuple[Any, ...] = value.__reduce_ex__(5)
    return reduced


def _plain(dtype: Any) -> Any:
    """An element type by its text: neither aligned nor of records, without metadata."""
    import numpy as np

    if dtype.names is None:
        return np.dtype(dtype.str)
    return np.lib.format.descr_to_dtype(np.lib.format.dtype_to_descr(dtype))


def _parts_of_dtype(dtype: Any) -> tuple[Any, ...] | None:
    """The arguments of :func:`_dtype` for an element type; None for one that it cannot make."""
    import numpy as np

    from plasmon._dtypes import is_same_dtype

    if dtype.hasobject or dtype.kind == "T":
        return None
    metadata = None if dtype.metadata is None else dict(dtype.metadata)
    try:
        parts = (_plain(dtype), dtype.isalignedstruct, dtype.type is np.record, metadata)
        return parts if is_same_dtype(_dtype(*parts), dtype) else None
    except (TypeError, ValueError):
        return None


def take(value: Any) -> tuple[Any, ...] | None:
    """How NumPy's element types and records are taken apart that have no text."""
    if "numpy" not in sys.modules:
        return None
    import numpy as np

    if isinstance(value, np.dtype):
        parts = _parts_of_dtype(value)
        return None if parts is None else (_dtype, parts)
    if isinstance(value, np.void) and _parts_of_dtype(value.dtype) is not None:
        return _record, (value.tobytes(), value.dtype)
    return None


def taker(kind: type) -> Callable[[Any], Any] | None:
    """The reducer of this type, where its own does not suffice."""
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
    ("numpy", "recarray"): _take_recarray,
    ("numpy.rec", "recarray"): _take_recarray,
    **_torch.TAKERS,
}
