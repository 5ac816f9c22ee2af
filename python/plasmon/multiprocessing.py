"""Large arrays and frames between processes of :mod:`multiprocessing` through a store.

    import multiprocessing
    import numpy
    import plasmon.multiprocessing

    store = plasmon.multiprocessing.install()
    with multiprocessing.Pool(
        initializer=plasmon.multiprocessing.install, initargs=(store,)
    ) as pool:
        sums = pool.map(numpy.sum, arrays)

After :func:`install` everything that multiprocessing pickles (queues, pipes, pools, arguments of
processes) sends NumPy arrays, pyarrow, pandas and polars data of some size by reference. Nothing is
copied where they arrive: **they are read-only there**, unless one asks for copies. The reference is
for one reader: the process that unpickles it deletes the object as soon as nothing lies on it.

A child that was forked sends its own values the same way; one that was spawned calls
:func:`install` itself, best as the pool's initializer. PyTorch's tensors are left to PyTorch, which
has shared memory of its own.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, MutableMapping
from multiprocessing.reduction import ForkingPickler
from typing import Any

from plasmon import Store, _by_reference
from plasmon._by_reference import MIN_BYTES

__all__ = ["MIN_BYTES", "install", "uninstall"]


class _Reducers(MutableMapping[type, Any]):
    """ForkingPickler's reducers by type, and a sender for types whose values may be large.

    Every new pickler asks for all types, and so gets those of the libraries that are imported by
    then: a process that was spawned calls :func:`install` long before it imports any.
    """

    def __init__(self, others: MutableMapping[type, Any], sender: _by_reference.Sender) -> None:
        self.others = others
        self.sender = sender

    def _own(self) -> set[type]:
        return _by_reference.kinds() - self.others.keys()

    def __getitem__(self, kind: type) -> Any:
        return self.sender if kind in self._own() else self.others[kind]

    def __setitem__(self, kind: type, reducer: Any) -> None:
        self.others[kind] = reducer

    def __delitem__(self, kind: type) -> None:
        del self.others[kind]

    def __iter__(self) -> Iterator[type]:
        return iter({*self.others, *self._own()})

    def __len__(self) -> int:
        return len(self.others) + len(self._own())


def _set(reducers: MutableMapping[type, Any]) -> None:
    # There is ForkingPickler.register, which wants each type, and has no way back.
    ForkingPickler._extra_reducers = reducers  # type: ignore[attr-defined]


def _others() -> MutableMapping[type, Any]:
    """ForkingPickler's reducers besides ours."""
    found: MutableMapping[type, Any] = ForkingPickler._extra_reducers  # type: ignore[attr-defined]
    return found.others if isinstance(found, _Reducers) else found


def install(
    store: Store | str | os.PathLike[str] | None = None,
    *,
    min_bytes: int = MIN_BYTES,
    writable: bool = False,
) -> str:
    """Sends values of at least ``min_bytes`` through a store from now on; returns its socket.

    ``store`` is a store, its socket, or None for the one of this user, which is started if none
    runs. ``writable`` has receivers copy arrays and pandas data, for programs that change them in
    place. A second call changes the options.

    Raises Disconnected when there is no such store.
    """
    socket = _by_reference.keep_connection(store)
    sender = _by_reference.Sender(socket, min_bytes, writable)
    _set(_Reducers(_others(), sender))
    return socket


def uninstall() -> None:
    """Pickles values as before. What is on its way can still be read."""
    _set(_others())
