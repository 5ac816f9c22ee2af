"""How cloudpickle takes apart what pickle does not, part by part.

What a function refers to is then a part of the value like everything else: two functions of one
module have one dict of globals, and a list that a closure holds is the list beside it.
"""

from __future__ import annotations

import copyreg
import io
import sys
import types
from collections.abc import Callable
from typing import Any

from plasmon.objects._names import name_of, not_serializable

#: The first globals of a function that is made again.
_MODULE_NAMES = ("__package__", "__name__", "__path__", "__file__")
#: Dicts of globals that are remembered.
_GLOBALS_MAX = 4096

_pickler: list[Any] = []


def reducer(kind: type) -> Callable[[Any], Any] | None:
    """The reducer of a type that only cloudpickle supports.

    A cell of a closure is of such a type, a mappingproxy, a property, a TypeVar.
    """
    if kind in copyreg.dispatch_table:
        return None
    try:
        from cloudpickle import CloudPickler
    except ImportError:
        return None
    found: Callable[[Any], Any] | None = CloudPickler.dispatch_table.get(kind)
    return found


def is_by_value(value: Any) -> bool:
    """Whether cloudpickle would rather write a class or function than name it."""
    module = getattr(value, "__module__", None)
    if module == "__main__":
        return True
    cloudpickle = sys.modules.get("cloudpickle")
    if cloudpickle is None or not isinstance(module, str):
        return False
    chosen = cloudpickle.list_registry_pickle_by_value()
    return any(module == one or module.startswith(f"{one}.") for one in chosen)


def is_taken_apart(value: Any) -> bool:
    """Whether it is a function or a module that is written by its parts."""
    if type(value) is types.ModuleType:
        return True
    if type(value) is not types.FunctionType:
        return False
    return is_by_value(value) or name_of(value) is None


def take(value: Any) -> Any:
    """The parts of a function or a module, as ``__reduce_ex__`` would give them."""
    if type(value) is types.FunctionType:
        return _take_function(value)
    found = reducer(type(value))
    if found is None:
        raise _needs_cloudpickle(value)
    return found(value)


def _take_function(function: types.FunctionType) -> Any:
    if not _pickler:
        try:
            from cloudpickle import CloudPickler
        except ImportError as missing:
            raise _needs_cloudpickle(function) from missing
        _pickler.append(CloudPickler(io.BytesIO()))
    # The pickler has one dict for the globals of all functions of a module, by which they are
    # shared. It knows a module by its number, which may be another one's by now.
    known = _pickler[0].globals_ref
    found = function.__globals__
    begun = known.get(id(found))
    if begun is not None and begun != {key: found[key] for key in _MODULE_NAMES if key in found}:
        del known[id(found)]
    elif begun is None and len(known) >= _GLOBALS_MAX:
        # The oldest one: those of the value that is being written are the newest.
        del known[next(iter(known))]
    taken = _pickler[0].reducer_override(function)
    if taken is NotImplemented:
        raise not_serializable(f"{function!r:.80} cannot be imported", function)
    return taken


def _needs_cloudpickle(value: Any) -> Exception:
    text = f"{value!r:.80} cannot be imported, so writing it needs cloudpickle"
    return not_serializable(text, value)
