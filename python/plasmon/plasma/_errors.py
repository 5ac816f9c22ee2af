"""Plasma's exceptions, and which of Plasmon's become which."""

from __future__ import annotations

from types import TracebackType

import pyarrow as pa

from plasmon import _errors as native


class PlasmaObjectExists(pa.lib.ArrowException):  # type: ignore[misc]
    """The id is taken by an object that exists or is being created."""


class PlasmaObjectNotFound(pa.lib.ArrowException):  # type: ignore[misc]
    """There is no such object."""


class PlasmaStoreFull(pa.lib.ArrowException):  # type: ignore[misc]
    """The object does not fit, even after eviction."""


class PlasmaObjectAlreadySealed(pa.lib.ArrowTypeError):  # type: ignore[misc]
    """The object was sealed before. Plasma has no name for it and raises an ArrowTypeError."""


_KINDS: tuple[tuple[type[native.PlasmonError], type[Exception]], ...] = (
    (native.Exists, PlasmaObjectExists),
    (native.NotFound, PlasmaObjectNotFound),
    (native.NoRoom, PlasmaStoreFull),
    (native.AlreadySealed, PlasmaObjectAlreadySealed),
)


def translate(error: native.PlasmonError) -> Exception:
    """The exception of Plasma where Plasmon raises `error`."""
    for ours, theirs in _KINDS:
        if isinstance(error, ours):
            return theirs(str(error))
    if isinstance(error, OSError):
        # The connection, the system: Plasma raises OSError as well, and so does Plasmon.
        return error
    translated: Exception = pa.lib.ArrowException(str(error))
    return translated


class _ErrorTranslation:
    """A block in which Plasmon's errors become Plasma's. It has no state: one is enough."""

    __slots__ = ()

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if isinstance(error, native.PlasmonError):
            translated = translate(error)
            if translated is not error:
                raise translated from error


translated = _ErrorTranslation()
