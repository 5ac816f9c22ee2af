"""The errors of values and of their bytes."""

from __future__ import annotations

import functools
import zoneinfo
from collections.abc import Callable
from typing import Any


class NotSerializable(TypeError):
    """A value holds something that cannot be written, at least not with this context."""


class PickleRefused(ValueError):
    """Bytes hold something that only pickle can make, and the context doesn't allow that."""


class BrokenObject(ValueError):
    """Bytes are not an object in the PLO format, or break one of its rules; nothing was made.

    ``code`` says which, with the names of ``spec/objects.md``: ``"not_an_object"`` when they start
    with neither of its forms, ``"truncated"`` when they end before the object does, ``"broken"``
    for everything else.
    """

    code: str

    def __init__(self, text: str, code: str = "broken") -> None:
        super().__init__(text)
        self.code = code

    def __reduce__(self) -> tuple[type[BrokenObject], tuple[str, str]]:
        return type(self), (str(self), self.code)


def broken(what: str) -> BrokenObject:
    """The error of a rule that bytes break."""
    return BrokenObject(f"the object is broken: {what}")


def refused(what: str, place: str) -> PickleRefused:
    """The error of an object that needs pickle; ``place`` is where it is in the value."""
    text = (
        f"reading the value needs pickle, for {what} at {place}. If you trust the writer of "
        'these bytes as you trust a program, read them with SerializationContext(pickle="std") or '
        '"cloudpickle"; if not, have the class registered on both sides'
    )
    return PickleRefused(text)


def is_the_machines(error: BaseException) -> bool:
    """Whether an object may be right although it could not be made: something is not there."""
    missing = isinstance(error, ImportError | MemoryError | zoneinfo.ZoneInfoNotFoundError)
    return missing or isinstance(error.__cause__, ImportError)


def guarded(make: Callable[..., Any]) -> Callable[..., Any]:
    """A constructor whose failure means a broken object, unless something is missing here."""

    @functools.wraps(make)
    def guarded_make(*parts: Any) -> Any:
        try:
            return make(*parts)
        except BrokenObject:
            raise
        except Exception as error:
            if is_the_machines(error):
                raise
            raise broken(f"{make.__name__}: {error}") from error

    return guarded_make
