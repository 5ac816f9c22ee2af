"""Names of what can be imported: ``module:qualified.name``."""

from __future__ import annotations

import importlib
import pickle
import sys
import types
from typing import Any

from plasmon.objects._errors import NotSerializable

# How pickle finds the module of something without ``__module__``.
_whichmodule: Any = pickle.whichmodule  # type: ignore[attr-defined]


def name_of(value: Any, name: str | None = None) -> str | None:
    """Where a value is imported from; None when it cannot be."""
    if isinstance(value, types.ModuleType):
        # Some other module that imported it would be found, and named.
        return None
    name = name or getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    if not isinstance(name, str) or "<" in name:
        return None
    try:
        module = _whichmodule(value, name)
        found = _walk(sys.modules[module] if module in sys.modules else _import(module), name)
    except (AttributeError, ImportError, KeyError, pickle.PicklingError):
        return None
    return f"{module}:{name}" if found is value else None


def find(name: str) -> Any:
    """The object under a name; imports its module if necessary."""
    module, _, path = name.partition(":")
    try:
        return _walk(_import(module), path)
    except (AttributeError, ImportError) as missing:
        raise LookupError(f"the value needs {name}, which is not there: {missing}") from missing


def _import(module: str) -> Any:
    return sys.modules.get(module) or importlib.import_module(module)


def _walk(found: Any, path: str) -> Any:
    for step in path.split("."):
        found = getattr(found, step)
    return found


def not_serializable(text: str, culprit: Any) -> NotSerializable:
    """An error with the object that caused it, so that its place can be reported."""
    error = NotSerializable(text)
    error.culprit = (culprit,)  # type: ignore[attr-defined]
    return error


def not_reduced(value: Any, error: TypeError) -> NotSerializable:
    """The error of an object without a way to make it again."""
    kind = type(value)
    refused = not_serializable(f"cannot serialize a {kind.__module__}.{kind.__qualname__}", value)
    refused.__cause__ = error
    return refused
