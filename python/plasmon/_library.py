"""Where classes say they are from."""

from __future__ import annotations


def library_of(kind: type) -> str:
    """The package that a class says it is from, which may be anything; "" if not a string."""
    module = kind.__module__
    return module.partition(".")[0] if isinstance(module, str) else ""
