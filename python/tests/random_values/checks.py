"""What a value must pass."""

from __future__ import annotations

import pickle
import traceback
from typing import Any

import cloudpickle

import plasmon
from plasmon import NotSerializable, SerializationContext

from .compare import differences
from .registry import Make

TRUSTED = SerializationContext("cloudpickle")
STANDARD = SerializationContext("std")
CANONICAL = SerializationContext("cloudpickle", canonical=True)
SAFE = SerializationContext()


class Failure(Exception):
    """A value does not come back as what went in."""


class Unmade(Exception):
    """A library does not make what the seed asks it for, so there is no value."""


def made(seed: int) -> Any:
    """The value of a seed. Raises :class:`Unmade` when a library fails while it is made.

    Such faults are the library's: pandas, for instance, compares no sparse arrays of float32, and a
    frame with an index of them cannot be made. Nothing of Plasmon runs here.
    """
    try:
        return Make(seed).value()
    except Exception as error:
        raise Unmade(f"{type(error).__name__}: {error}") from error


def check(value: Any, store: plasmon.Store | None = None) -> None:
    """Raises :class:`Failure` when a value does not come back as what went in."""
    for name, way in WAYS.items():
        _check(f"{name}, alone", way, value)
    for name in ("with cloudpickle", "with pickle, as a stream"):
        _check(f"{name}, in a list", WAYS[name], [value, value])
    if store is not None:
        for place, wrapped in (("alone", value), ("in a list", [value, value])):
            _check(f"put and get, {place}", lambda held: _through(store, held), wrapped)


def _check(name: str, way: Any, value: Any) -> None:
    before = differences(value, value)
    try:
        back = way(value)
    except NotSerializable as refused:
        if name.startswith("never") or not _pickles(name, value):
            return
        raise Failure(f"{name}: refused: {refused}") from refused
    except Exception as error:
        if _pickles(name, value):
            text = "".join(traceback.format_exception(error)[-6:])
            raise Failure(f"{name}: {type(error).__name__}: {error}\n{text}") from error
        return
    found = [what for what in differences(value, back) if what not in before]
    if found:
        lost = _lost_by_pickle(name, value)
        found = [what for what in found if lost is not None and what not in lost]
    if found:
        raise Failure(f"{name}: " + "\n    ".join(found))


def _pickles(name: str, value: Any) -> bool:
    """Whether pickle can write and read it."""
    return _lost_by_pickle(name, value) is not None


def _lost_by_pickle(name: str, value: Any) -> list[str] | None:
    """What pickle does not keep of a value; None when it can not be pickled at all."""
    ours = pickle if "with pickle" in name else cloudpickle
    try:
        return differences(value, pickle.loads(ours.dumps(value, protocol=5)))
    except Exception:
        return None


def _through(store: plasmon.Store, value: Any) -> Any:
    name = store.put(value)
    try:
        return store.get(name)
    finally:
        store.delete(name)


def _back(context: SerializationContext, **options: Any) -> Any:
    return lambda value: context.loads(context.dumps(value, **options))


WAYS: dict[str, Any] = {
    "with cloudpickle": _back(TRUSTED),
    "with pickle, as a stream": _back(STANDARD, form="stream"),
    "never": _back(SAFE),
    "canonical": _back(CANONICAL, form="small"),
}


def smaller(value: Any, store: plasmon.Store | None) -> Any:
    """A part of a value that fails by itself, as small as there is."""
    seen: set[int] = set()
    while True:
        for part in _parts(value):
            if id(part) not in seen and _fails(part, store):
                seen.add(id(part))
                value = part
                break
        else:
            return value


def _fails(value: Any, store: plasmon.Store | None) -> bool:
    try:
        check(value, store)
    except Failure:
        return True
    return False


def _parts(value: Any) -> list[Any]:
    parts: list[Any] = []
    if isinstance(value, list | tuple | set | frozenset):
        parts += value
    if isinstance(value, dict):
        parts += [*value.values(), *value.keys()]
    attributes = getattr(value, "__dict__", None)
    if isinstance(attributes, dict):
        parts += attributes.values()
    return parts
