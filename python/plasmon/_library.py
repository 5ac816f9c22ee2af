"""The packages of classes."""

from __future__ import annotations


def library_of(kind: type) -> str:
    """The package in a class's ``__module__``, which may be anything; "" if not a string."""
    module = kind.__module__
    return module.partition(".")[0] if isinstance(module, str) else ""
