"""The steps after an object's construction, as ``pickle`` does them."""

from __future__ import annotations

import sys
from typing import Any


def finish(
    made: Any, state: Any = None, items: Any = None, pairs: Any = None, setter: Any = None
) -> None:
    """Gives a new object its state, items and pairs."""
    if items:
        if hasattr(made, "extend"):
            made.extend(items)
        else:
            for item in items:
                made.append(item)
    if pairs:
        for key, value in pairs.items():
            made[key] = value
    if state is None:
        return
    if setter is not None:
        setter(made, state)
    else:
        _set_state(made, state)


def _set_state(made: Any, state: Any) -> None:
    set_state = getattr(made, "__setstate__", None)
    if set_state is not None:
        set_state(state)
        return
    slots = None
    if isinstance(state, tuple) and len(state) == 2:
        state, slots = state
    if state:
        attributes = made.__dict__
        for name, value in state.items():
            attributes[sys.intern(name) if type(name) is str else name] = value
    for name, value in (slots or {}).items():
        setattr(made, name, value)
