"""Notices about objects."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any, cast

from plasmon import _native
from plasmon._errors import Cancelled
from plasmon._info import Lost, Notice, State

if TYPE_CHECKING:
    from plasmon._store import Store

#: A restarted daemon does not know how many notices were lost.
_UNKNOWN_COUNT = 2**64 - 1


class Subscription(_native.Subscription):
    """Notices about objects, in the order in which things happened and never with a silent gap.

    An iterator, and an async iterator, of :class:`Notice` and, where notices were dropped because
    this subscriber was too slow, :class:`Lost`. A context manager; closing it ends the iteration.
    """

    __slots__ = ("_closed",)

    def __init__(
        self, store: Store, namespace: str | None = None, prefix: str | None = None
    ) -> None:
        self._closed = False

    def next(self, timeout: float | None = None) -> Notice | Lost | None:
        """The next notification; None when ``timeout`` seconds have passed without one."""
        return self._notification(self.read(timeout))

    def next_queued(self) -> Notice | Lost | None:
        """The next notification that has been received already; never waits."""
        return self._notification(self.read_queued())

    @staticmethod
    def _notification(found: Any) -> Notice | Lost | None:
        if found is None:
            return None
        if isinstance(found, int):
            return Lost(None if found == _UNKNOWN_COUNT else found)
        return Notice(found[0], cast("State", found[1]), *found[2:])

    def close(self) -> None:
        """Ends the subscription. A second close does nothing."""
        self._closed = True
        super().close()

    def __iter__(self) -> Iterator[Notice | Lost]:
        return self

    def __next__(self) -> Notice | Lost:
        try:
            while not self._closed:
                found = self.next()
                if found is not None:
                    return found
        except Cancelled:
            if not self._closed:
                raise
        raise StopIteration

    def __aiter__(self) -> AsyncIterator[Notice | Lost]:
        return self

    async def __anext__(self) -> Notice | Lost:
        import asyncio

        from plasmon import _asyncio

        while not self._closed:
            # Reading may have to connect to a daemon that was restarted, which takes time.
            found = self.next_queued() or await asyncio.to_thread(self.next, 0)
            if found is not None:
                return found
            await _asyncio.readable(self.fileno())
        raise StopAsyncIteration

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()
