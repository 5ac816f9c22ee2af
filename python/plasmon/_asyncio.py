"""Waiting inside an event loop, by descriptors that it watches.

Tasks that wait for objects share their requests: one request covers the objects of several tasks,
so that any number of tasks takes a few descriptors, and a few of the waits that the store allows
one client. A call that must wait for an answer of the store runs in a thread of the loop's
executor.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar
from weakref import WeakKeyDictionary

from plasmon._errors import TimedOut

if TYPE_CHECKING:
    from plasmon._native import Buffer, ObjectId, PendingWait
    from plasmon._store import Store

#: Ids in one request.
_IDS_MAX = 1024

#: Requests of one event loop to one store at a time, beyond which they are joined.
_GROUPS_MAX = 64

#: For how many seconds an object may be brought back from its file when there is no time to wait
#: for anything else: it exists.
_RESTORE_S = 60.0

_UNDECIDED = ("absent", "creating", "spilled")


async def readable(fd: int) -> None:
    """Returns when there is something to read on ``fd``."""
    loop = asyncio.get_running_loop()
    ready = loop.create_future()

    def wake() -> None:
        if not ready.done():
            ready.set_result(None)

    loop.add_reader(fd, wake)
    try:
        await ready
    finally:
        loop.remove_reader(fd)


async def answer(pending: PendingWait) -> list[str]:
    """The states that a wait ends with; a cancelled task cancels the wait."""
    try:
        while True:
            states = pending.poll()
            if states is not None:
                return states
            await readable(pending.fileno())
    finally:
        pending.close()


class GetTimeout:
    """How long a get waits for objects that do not exist yet."""

    def __init__(self, timeout: float | None, wait: bool) -> None:
        if timeout is not None and not timeout >= 0:
            raise ValueError(f"{timeout} is not a number of seconds")
        #: Whether what is not there is an error at once.
        self.is_none = timeout == 0 or (timeout is None and not wait)
        self.end = None if timeout is None else time.monotonic() + timeout

    def is_over(self) -> bool:
        """Whether there was time, and it has passed."""
        return not self.is_none and self.end is not None and time.monotonic() >= self.end


class GetRequest:
    """The objects of a get, with the names that the caller gave."""

    def __init__(self, store: Store, given: Sequence[ObjectId | str], namespace: str) -> None:
        self.ids = store._ids_of(given, namespace=namespace)
        prefix = f"{namespace}:" if namespace else ""
        self._names = [prefix + key if isinstance(key, str) else None for key in given]

    def name(self, at: int) -> str | None:
        """The name of the object at this place, for an error."""
        return self._names[at]


async def buffers(store: Store, request: GetRequest, timeout: GetTimeout) -> list[Buffer]:
    """Pins objects as soon as all of them are readable; raises why one of them is not."""
    ids = request.ids
    store._check_refused(ids)
    found = store._mapped(ids)
    while missing := [at for at, buffer in enumerate(found) if buffer is None]:
        asked = [ids[at] for at in missing]
        if timeout.is_none:
            states = await _present_states(store, asked)
        else:
            states = await _states(store, asked, timeout.end)
        late = timeout.is_over()
        for at, state in zip(missing, states, strict=True):
            if state != "sealed":
                raise store._reason(ids[at], state, late or state == "spilled", request.name(at))
        # Mostly without a thread: it asks for what this process has not mapped yet.
        taken = store._mapped(asked)
        if any(buffer is None for buffer in taken):
            taken = await asyncio.to_thread(store._in_memory, asked)
        for at, buffer in zip(missing, taken, strict=True):
            found[at] = buffer
        # One that was evicted or spilled meanwhile is waited for again.
    return [buffer for buffer in found if buffer is not None]


async def _present_states(store: Store, ids: list[ObjectId]) -> list[str]:
    """The states of objects as they are; what was spilled is brought back."""
    states: list[str] = []
    for at in range(0, len(ids), _IDS_MAX):
        asked = answer(store._start_wait(ids[at : at + _IDS_MAX], None, 0))
        try:
            states += await asyncio.wait_for(asked, store.request_timeout)
        except TimeoutError:
            text = f"getting objects: the daemon did not answer in {store.request_timeout:g} s"
            raise TimedOut(text, ids[at]) from None
    if "spilled" not in states:
        return states
    end = time.monotonic() + _RESTORE_S
    ids_left = [id for id, state in zip(ids, states, strict=True) if state == "spilled"]
    restored = iter(await _states(store, ids_left, end))
    return [next(restored) if state == "spilled" else state for state in states]


async def _states(store: Store, ids: list[ObjectId], end: float | None) -> list[str]:
    """The states of objects when all of them are decided, or the time has passed."""
    waits = _Waits.of(store)
    futures = [waits.decided(id) for id in ids]
    try:
        left = None if end is None else max(0.0, end - time.monotonic())
        await asyncio.wait(futures, timeout=left)
        return [
            future.result() if future.done() else waits.known(id)
            for id, future in zip(ids, futures, strict=True)
        ]
    finally:
        for future in futures:
            future.cancel()


class _Group:
    """Objects that one request waits for, until any of them is decided."""

    def __init__(self, ids: list[ObjectId], pending: PendingWait) -> None:
        self.ids = ids
        self.pending = pending
        self.fd = pending.fileno()
        self.live = len(ids)


class _Waits:
    """The waits of the tasks of one event loop in one store."""

    _all: ClassVar[WeakKeyDictionary[asyncio.AbstractEventLoop, dict[int, _Waits]]] = (
        WeakKeyDictionary()
    )

    def __init__(self, store: Store, loop: asyncio.AbstractEventLoop) -> None:
        self._store = store
        self._loop = loop
        self._futures: dict[ObjectId, list[asyncio.Future[str]]] = {}
        self._groups: dict[int, _Group] = {}
        self._group_of: dict[ObjectId, _Group] = {}
        self._fresh: dict[ObjectId, None] = {}
        self._known: dict[ObjectId, str] = {}
        self._asks = False

    @classmethod
    def of(cls, store: Store) -> _Waits:
        """Those of the running loop. They last as long as there are any."""
        loop = asyncio.get_running_loop()
        stores = cls._all.setdefault(loop, {})
        if (waits := stores.get(_key(store))) is None:
            waits = stores[_key(store)] = cls(store, loop)
        return waits

    def known(self, id: ObjectId) -> str:
        """The last reported state of an undecided object."""
        return self._known.get(id, "absent")

    def decided(self, id: ObjectId) -> asyncio.Future[str]:
        """The state of an object once it is readable or its fate is known."""
        future: asyncio.Future[str] = self._loop.create_future()
        future.add_done_callback(lambda future: self._done(id, future))
        futures = self._futures.setdefault(id, [])
        futures.append(future)
        if len(futures) == 1:
            self._ask_soon(id)
        return future

    def _ask_soon(self, id: ObjectId) -> None:
        """Requests the objects of one turn of the loop together."""
        self._fresh[id] = None
        if not self._asks:
            self._asks = True
            self._loop.call_soon(self._ask)

    def _ask(self) -> None:
        self._asks = False
        wanted = [id for id in self._fresh if id in self._futures]
        self._fresh.clear()
        if not wanted:
            return
        if len(self._groups) >= _GROUPS_MAX:
            for group in sorted(self._groups.values(), key=lambda group: group.live):
                if len(wanted) + group.live > _IDS_MAX:
                    break
                wanted += [id for id in group.ids if id in self._futures]
                self._end(group)
        for at in range(0, len(wanted), _IDS_MAX):
            ids = wanted[at : at + _IDS_MAX]
            try:
                group = _Group(ids, self._store._start_wait(ids, 1, None))
            except Exception as error:
                self._fail(ids, error)
                continue
            self._groups[group.fd] = group
            self._group_of.update(dict.fromkeys(ids, group))
            self._loop.add_reader(group.fd, self._ready, group)

    def _ready(self, group: _Group) -> None:
        try:
            states = group.pending.poll()
        except Exception as error:
            self._end(group)
            self._fail(group.ids, error)
            return
        if states is None:
            return
        self._end(group)
        for id, state in zip(group.ids, states, strict=True):
            if id not in self._futures:
                continue
            if state in _UNDECIDED:
                self._known[id] = state
                self._ask_soon(id)
                continue
            for future in self._futures.pop(id):
                if not future.done():
                    future.set_result(state)

    def _end(self, group: _Group) -> None:
        if self._groups.pop(group.fd, None) is None:
            return
        self._loop.remove_reader(group.fd)
        group.pending.close()
        for id in group.ids:
            self._group_of.pop(id, None)

    def _fail(self, ids: list[ObjectId], error: Exception) -> None:
        for id in ids:
            for future in self._futures.pop(id, ()):
                if not future.done():
                    future.set_exception(error)

    def _done(self, id: ObjectId, future: asyncio.Future[str]) -> None:
        """A task was answered, or waits no more."""
        futures = self._futures.get(id, [])
        if future in futures:
            futures.remove(future)
            if not futures:
                del self._futures[id]
                if (group := self._group_of.pop(id, None)) is not None:
                    group.live -= 1
                    if group.live == 0:
                        self._end(group)
        if not self._futures:
            self._known.clear()
            for group in [*self._groups.values()]:
                self._end(group)
            self._all.get(self._loop, {}).pop(_key(self._store), None)


def _key(store: Store) -> int:
    return id(store)
