"""The errors of the store, as a tree of exceptions.

Every error of the store has a stable code, the same number in every language. The numbers, keys
and advice are declared once, in ``crates/proto``; a class here takes those of the code that has its
name, so ``StoreFull`` is the code ``store_full``.

::

    PlasmonError
    ├── NotFound (KeyError)     Absent, Deleted, Evicted, CreatorDied
    ├── NoRoom (MemoryError)    StoreFull, QuotaExceeded, TooLarge
    └── one class for each other code
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from typing import ClassVar

from plasmon import _native
from plasmon._native import ObjectId

_CODES = {key: (number, advice) for number, key, advice in _native.CODES}
_BY_NUMBER: dict[int, type[PlasmonError]] = {}


class PlasmonError(Exception):
    """Base of every error of the store.

    ``code`` is the stable number (0 for the groups that have none) and ``key`` its name; ``advice``
    says what the caller can do. ``object_id`` is the object that it is about, or None. ``wanted``
    and ``found`` are two amounts in the unit of the matter (bytes, objects), or 0. ``errno`` is the
    number of the operating system's error, or None.
    """

    code: ClassVar[int] = 0
    key: ClassVar[str] = ""
    advice: ClassVar[str] = ""

    object_id: ObjectId | None
    wanted: int
    found: int
    errno: int | None

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.__module__ = "plasmon"
        key = re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()
        if key in _CODES and _CODES[key][0] not in _BY_NUMBER:
            cls.key = key
            cls.code, cls.advice = _CODES[key]
            _BY_NUMBER[cls.code] = cls

    def __init__(
        self,
        message: str,
        object_id: ObjectId | None = None,
        wanted: int = 0,
        found: int = 0,
        errno: int | None = None,
    ) -> None:
        super().__init__(message)
        self.object_id = object_id
        self.wanted = wanted
        self.found = found
        self.errno = errno

    def __str__(self) -> str:
        # KeyError would show the message in quotes.
        return str(self.args[0])

    def __reduce__(self) -> tuple[type[PlasmonError], tuple[object, ...]]:
        return type(self), (self.args[0], self.object_id, self.wanted, self.found, self.errno)


PlasmonError.__module__ = "plasmon"


class NotFound(PlasmonError, KeyError):
    """There is no such object, or no longer."""


class Absent(NotFound):
    """There is no such object: the store remembers only the most recent ends of objects.

    Its text suggests a similar name, if there is one.
    """

    #: Finds the name of an object that is similar to the requested one.
    _near: Callable[[], tuple[str, str] | None] | None = None

    def __str__(self) -> str:
        near, self._near = self._near, None
        # The request may fail in any way; this error is the one to report.
        with contextlib.suppress(Exception):
            if near is not None and (found := near()) is not None:
                namespace, text = found
                where = f" in the namespace {namespace!r}" if namespace else ""
                self.args = (f"{self.args[0]}; did you mean {text!r}{where}?", *self.args[1:])
        return super().__str__()


class Deleted(NotFound):
    """The object was deleted, or its time to live ended."""


class Evicted(NotFound):
    """The object was evicted to make room."""


class CreatorDied(NotFound):
    """The process that was creating the object died before it sealed it."""


class NoRoom(PlasmonError, MemoryError):
    """The object does not fit."""


class StoreFull(NoRoom):
    """The store has no room and nothing in it may be dropped or spilled."""


class QuotaExceeded(NoRoom):
    """The client would own more bytes than its quota."""


class TooLarge(NoRoom):
    """The object is larger than this store could ever hold."""


class Exists(PlasmonError):
    """The id is taken by an object that exists or is being created."""


class TimedOut(PlasmonError, TimeoutError):
    """The time given has passed."""


class NotSealed(PlasmonError):
    """The object exists but is not sealed yet."""


class AlreadySealed(PlasmonError):
    """The object is sealed already."""


class InUse(PlasmonError):
    """The object is in use."""


class TooManyPins(PlasmonError):
    """The client holds as many pins as one client may."""


class NotPermitted(PlasmonError, PermissionError):
    """The client may not do that."""


class BadRequest(PlasmonError, ValueError):
    """The request is invalid."""


class VersionMismatch(PlasmonError):
    """The two sides speak different versions."""


class Disconnected(PlasmonError, ConnectionError):
    """The daemon is gone and did not come back in time, or this client disconnected."""


class NotOwner(PlasmonError):
    """Only the creator may do that."""


class Corrupt(PlasmonError):
    """The stored bytes do not match their description."""


class LimitReached(PlasmonError):
    """A limit of the store is reached."""


class OutOfDescriptors(PlasmonError, OSError):
    """A process has no free file descriptors."""


class Io(PlasmonError, OSError):
    """The operating system refused."""


class AlreadyRunning(PlasmonError):
    """A daemon already serves this socket."""


class Cancelled(PlasmonError):
    """The operation was cancelled."""


class Unsupported(PlasmonError, NotImplementedError):
    """The store or the build cannot do that."""


class Forked(PlasmonError):
    """The object was inherited through a fork and belongs to the parent process."""


class Unreachable(PlasmonError, ConnectionError):
    """The pool cannot be asked now, or none of the nodes with a copy can be reached."""


class NotEnoughNodes(PlasmonError):
    """The pool has fewer live nodes than the object needs copies at least."""


def from_native(
    number: int,
    message: str,
    object_id: ObjectId | None,
    wanted: int,
    found: int,
    errno: int | None,
) -> PlasmonError:
    """The exception of a code; a code that this package does not know is a plain PlasmonError."""
    return _BY_NUMBER.get(number, PlasmonError)(message, object_id, wanted, found, errno)
