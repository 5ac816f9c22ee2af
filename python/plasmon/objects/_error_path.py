"""The path to the object within a value that cannot be serialized."""

from __future__ import annotations

from typing import Any

from plasmon.objects._errors import NotSerializable

# A value of millions of parts is not searched to its end for the sake of an error's text.
_STEPS_MAX = 200_000


def locate(error: BaseException, value: Any) -> BaseException:
    """The error with the place of its object; ``error.culprit`` has that object."""
    culprit = getattr(error, "culprit", None)
    if not isinstance(error, NotSerializable) or culprit is None:
        return error
    place = _path(value, culprit[0])
    if place is None:
        return error
    located = NotSerializable(f"{error.args[0]} (it is {place})")
    located.__cause__ = error.__cause__
    located.__suppress_context__ = True
    located.culprit = culprit  # type: ignore[attr-defined]
    return located


def _is(part: Any, culprit: Any) -> bool:
    """Whether a part is what is looked for, or the first object of the class that is."""
    return part is culprit or (type(part) is culprit and culprit is not type)


def _path(value: Any, culprit: Any) -> str | None:
    """How to get from a value to a part of it."""
    if _is(value, culprit):
        return "the value itself"
    seen = {id(value)}
    level: list[tuple[Any, str]] = [(value, "")]
    for _ in range(_STEPS_MAX):
        if not level:
            return None
        following: list[tuple[Any, str]] = []
        for holder, path in level:
            for part, step in _parts(holder):
                if _is(part, culprit):
                    return f"at {path}{step}"
                if id(part) not in seen and len(seen) < _STEPS_MAX:
                    seen.add(id(part))
                    following.append((part, path + step))
        level = following
    return None


def _parts(holder: Any) -> list[tuple[Any, str]]:
    if type(holder) in {list, tuple}:
        return [(part, f"[{at}]") for at, part in enumerate(holder)]
    if type(holder) is dict:
        values = [(part, f"[{key!r:.60}]") for key, part in holder.items()]
        return values + [(key, f".keys()[{at}]") for at, key in enumerate(holder)]
    if type(holder) in {set, frozenset}:
        return [(part, "{...}") for part in holder]
    attributes = getattr(holder, "__dict__", None)
    if type(attributes) is dict:
        return [(part, f".{name}") for name, part in attributes.items()]
    return []
