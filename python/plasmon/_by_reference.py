"""Values between processes by reference: what :mod:`plasmon.multiprocessing` and `joblib` share.

Instead of its bytes, a large value's place in a store goes through the pipe::

    sender                          pipe                        receiver
    put((value,)) ──► object   (receive, (socket, id)) ──►  get(id): views on the object
                                                            once: delete(id)

The receiver deletes what was sent to it alone; the store keeps the memory until the last view is
gone. A value that the store does not take, because it is full or gone, is pickled as it would have
been without us.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import plasmon
from plasmon import ObjectId, PlasmonError, Store
from plasmon._library import library_of

#: Smaller values are pickled: finding out about an object takes longer than copying them.
MIN_BYTES = 1 << 18

#: How long a receiver waits for an object, which exists before its message is sent.
RECEIVE_TIMEOUT_S = 10.0

#: A protocol that every pickler understands.
_PROTOCOL = 4

Reduced = tuple[Any, ...]

# Connections by process and socket: after a fork the child has none.
_connections: dict[tuple[int, str], Store] = {}
_connecting = threading.Lock()


def _renew_lock() -> None:
    """In a forked child, replaces the lock: the thread that held it may not exist there."""
    global _connecting  # noqa: PLW0603 - there is one for the process
    _connecting = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)


def connection(socket: str) -> Store:
    """The connection of this process to a store, which lasts as long as the process."""
    key = os.getpid(), socket
    with _connecting:
        if key not in _connections:
            _connections[key] = plasmon.connect(socket)
        return _connections[key]


def keep_connection(store: Store | str | os.PathLike[str] | None) -> str:
    """The socket of a store, which is connected to for as long as this process lasts.

    Without a store it is the one of this user, started if need be.
    """
    if store is None:
        store = plasmon.connect()
        socket = str(store.socket)
        with _connecting:
            _connections.setdefault((os.getpid(), socket), store)
        return socket
    socket = str(store.socket) if isinstance(store, Store) else os.fspath(store)
    connection(socket)
    return socket


def receive(socket: str, id: bytes, once: bool, writable: bool) -> Any:
    """The value that was sent. What a pickle calls."""
    store = connection(socket)
    try:
        (value,) = store.get(ObjectId(id), timeout=RECEIVE_TIMEOUT_S)
    except PlasmonError as error:
        error.add_note("It was sent between processes: each pickle of it can be loaded one time.")
        raise
    if once:
        store.delete(ObjectId(id))
    return value.copy() if writable and _is_written_to(value) else value


def _is_written_to(value: Any) -> bool:
    """Whether programs change such values in place."""
    return library_of(type(value)) in {"numpy", "pandas"}


def _is_turned(dtype: Any) -> bool:
    """Whether picklers before protocol 5 turn the bytes of such elements around."""
    return not dtype.isnative and dtype.names is None


def _viewed(array: Any, dtype: Any) -> Any:
    return array.view(dtype)


class Sender:
    """Reduces values for a pickler: large ones to a reference to an object."""

    def __init__(
        self, socket: str, min_bytes: int = MIN_BYTES, writable: bool = False, once: bool = True
    ) -> None:
        self.socket = socket
        self.min_bytes = min_bytes
        self.writable = writable
        self.once = once

    def __call__(self, value: Any) -> Reduced:
        """The reduction that a pickler writes for a value."""
        if nbytes_of(value) >= self.min_bytes:
            reduced = self.send(value)
            if reduced is not None:
                return reduced
        if type(value).__module__ == "numpy" and _is_turned(value.dtype):
            return _viewed, (value.view(value.dtype.newbyteorder("=")), value.dtype)
        plain: Reduced = value.__reduce_ex__(_PROTOCOL)
        return plain

    def send(self, value: Any) -> Reduced | None:
        """Puts a value into the store; None when it can't be put."""
        try:
            store = connection(self.socket)
            # With an id of its own the object is accepted when this returns. In a tuple it comes
            # back as exactly what it was.
            id = store.put((value,), id=store.new_id())
        except (PlasmonError, TypeError):
            # In any case the value can still be copied; if not, pickle raises the reason.
            return None
        return receive, (self.socket, id.binary, self.once, self.writable)


class KeptSender(Sender):
    """Sends each value once, to any number of receivers, and deletes it when they are done."""

    def __init__(self, socket: str, min_bytes: int = MIN_BYTES, writable: bool = False) -> None:
        super().__init__(socket, min_bytes, writable, once=False)
        self._lock = threading.Lock()
        self._sent: list[Reduced] = []
        self._known: dict[int, tuple[Any, Reduced]] = {}

    def __reduce__(self) -> Reduced:
        # Another process has its own objects.
        return type(self), (self.socket, self.min_bytes, self.writable)

    def send(self, value: Any) -> Reduced | None:
        """The reference of a value, which is put when it is sent for the first time."""
        with self._lock:
            known, reduced = self._known.get(id(value), (None, None))
            if known is not None and known() is value:
                return reduced
            reduced = super().send(value)
            if reduced is not None:
                self._sent.append(reduced)
                self._known[id(value)] = weakref.ref(value), reduced
            return reduced

    def end(self) -> None:
        """Deletes what was sent. Receivers keep what they have views of."""
        with self._lock:
            sent, self._sent = self._sent, []
            self._known.clear()
        for _, (socket, id, *_) in sent:
            try:
                connection(socket).delete(ObjectId(id))
            except PlasmonError:
                continue  # the store is gone, and the object with it


def nbytes_of(value: Any) -> int:
    """About how many bytes a value has."""
    library = library_of(type(value))
    if library == "pandas":
        usage = value.memory_usage(index=False)
        return int(usage if value.ndim == 1 else usage.sum())
    if library == "polars":
        return int(value.estimated_size())
    if library == "numpy" and value.dtype.hasobject:
        return 0  # what it refers to is pickled either way
    return int(value.nbytes)


def _with_subclasses(kind: type) -> Iterator[type]:
    yield kind
    children: list[type] = kind.__subclasses__()
    for child in children:
        yield from _with_subclasses(child)


#: The types of values that are sent by reference, by library.
_KINDS: dict[str, tuple[str, ...]] = {
    "numpy": ("ndarray",),
    "pyarrow": ("Table", "RecordBatch", "ChunkedArray"),
    "pandas": ("DataFrame", "Series"),
    "polars": ("DataFrame", "Series"),
}


def kinds() -> set[type]:
    """The types of values that are sent by reference, of the libraries that are imported."""
    return set(_kinds_of(tuple(filter(_is_imported, _KINDS))))


def _is_imported(library: str) -> bool:
    # One that another thread is importing right now has not everything yet.
    return all(hasattr(sys.modules.get(library), name) for name in _KINDS[library])


@functools.cache
def _kinds_of(libraries: tuple[str, ...]) -> list[type]:
    found: list[type] = []
    for library in libraries:
        found += [getattr(sys.modules[library], name) for name in _KINDS[library]]
    if "pyarrow" in libraries:
        # Picklers go by the exact type, and each type of data has its own.
        found += _with_subclasses(sys.modules["pyarrow"].Array)
    return found


def reducers(sender: Callable[[Any], Reduced]) -> dict[type, Callable[[Any], Reduced]]:
    """A reducer for each of :func:`kinds`."""
    return dict.fromkeys(kinds(), sender)
