"""The text of NumPy's element types; see ``docs/formats/values.md``."""

from __future__ import annotations

import json
from typing import Any


def describe_dtype(dtype: Any) -> str:
    """The text of an element type; see ``docs/formats/values.md``."""
    import numpy as np

    if dtype.hasobject or dtype.kind == "T":
        hint = 'convert strings with astype("U"), or put a pyarrow or pandas object'
        raise TypeError(f"cannot describe elements of {dtype}: {hint}")
    try:
        descr = np.lib.format.dtype_to_descr(dtype) if dtype.names is not None else dtype.str
    except ValueError as error:
        raise TypeError(f"cannot describe elements of {dtype}: {error}") from error
    text = descr if isinstance(descr, str) else json.dumps(descr)
    if not is_same_dtype(dtype_of(text), dtype):
        raise TypeError(f"cannot put an array of {dtype}: view it as a type that NumPy itself has")
    return text


def is_described(dtype: Any) -> bool:
    """Whether an element type has a text."""
    try:
        describe_dtype(dtype)
    except TypeError:
        return False
    return True


def is_same_dtype(a: Any, b: Any) -> bool:
    """Whether two element types agree in all that NumPy's own comparison leaves out, too."""
    if a is b:
        return True
    own = a == b and a.isalignedstruct == b.isalignedstruct
    records = a.kind == "V" and a.type is not b.type
    if not own or records or dict(a.metadata or {}) != dict(b.metadata or {}):
        return False
    if a.subdtype is not None:
        return is_same_dtype(a.base, b.base)
    return a.names is None or all(
        a.fields[name][1:] == b.fields[name][1:]
        and is_same_dtype(a.fields[name][0], b.fields[name][0])
        for name in a.names
    )


def dtype_of(text: str) -> Any:
    """The element type of an untrusted text."""
    import numpy as np

    descr: Any = _descr(json.loads(text)) if text[:1] == "[" else text
    dtype = np.lib.format.descr_to_dtype(descr)
    if dtype.hasobject:
        raise ValueError(f"an array of {dtype} cannot be stored")
    return dtype


def _descr(found: Any) -> Any:
    """What JSON made of a ``descr``, with tuples again where NumPy wants them."""
    if isinstance(found, str):
        return found
    if len(found) == 2 and isinstance(found[1], list) and all(type(n) is int for n in found[1]):
        return _descr(found[0]), tuple(found[1])
    fields = []
    for name, kind, *shape in found:
        title = tuple(name) if isinstance(name, list) else name
        fields.append((title, _descr(kind), *(tuple(extents) for extents in shape)))
    return fields
