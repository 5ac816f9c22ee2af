"""Datasets in a store: which object it is, and its table."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    import pyarrow as pa

#: The namespace of the objects.
NAMESPACE = "hdf5"
#: The names of an object, and of its store, in a skeleton.
_OBJECT, _STORE = "hdf5:", " in the store "
#: The suffix that earlier connectors gave every other version.
_LEFT = "@"
_READABLE = ("sealed", "spilled")
_READ_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class ObjectPlace:
    """The object of a dataset: `name` in the namespace "hdf5" of the store at `socket`."""

    name: str
    socket: str

    @classmethod
    def of_text(cls, text: str) -> Self | None:
        """Reads the name in a skeleton; None when that is not an object."""
        name, found, socket = text.removeprefix(_OBJECT).rpartition(_STORE)
        if not text.startswith(_OBJECT) or not found or not name or not socket.startswith("/"):
            return None
        return cls(name, socket)

    def __str__(self) -> str:
        return f"{_OBJECT}{self.name}{_STORE}{self.socket}"

    def table(self, dataset: str, socket: str | None = None) -> pa.Table:
        """The newest version, on the store's memory; `socket` is where the store is now.

        Raises FileNotFoundError when the store does not have it, and PermissionError when only
        the file names the store.
        """
        from plasmon._by_reference import connection

        if socket is None and not is_listed(self.socket):
            raise PermissionError(
                f"the values of {dataset} are object {self}, and only this file names that store; "
                f"if the file may choose it, say so: open(..., store={self.socket!r}), or "
                f"PLASMON_SOCKET={self.socket}"
            )
        store = connection(socket or self.socket)
        names = [self.name, self.name + _LEFT]
        states = store.states(names, namespace=NAMESPACE)
        there = [name for name, state in zip(names, states, strict=True) if state in _READABLE]
        if not there:
            raise FileNotFoundError(
                f"the values of {dataset} should be object {self}, which does not have it "
                f"({states[0]}): the store was restarted, the object was deleted, or its "
                "writer ended before it closed the file"
            )
        if len(there) > 1:
            # A writer of an earlier connector was killed between two versions.
            there.sort(key=lambda name: _version(store.get_buffer(name, namespace=NAMESPACE)))
        table: pa.Table = store.get(there[-1], namespace=NAMESPACE, timeout=_READ_TIMEOUT_S)
        return table

    def delete(self) -> None:
        """Takes the object away, whichever version there is."""
        from plasmon._by_reference import connection

        store = connection(self.socket)
        names = [self.name, self.name + _LEFT]
        states = store.states(names, namespace=NAMESPACE)
        for name, state in zip(names, states, strict=True):
            if state in _READABLE:
                store.delete(name, namespace=NAMESPACE)


def is_listed(socket: str) -> bool:
    """Whether this user, and not only a file, names the store.

    It is the user's own, or in the connector's settings.
    """
    return os.path.realpath(socket) in map(os.path.realpath, listed_stores())


def listed_stores() -> list[str]:
    """The sockets of the stores that this user names."""
    from plasmon import _native

    settings = os.environ.get("HDF5_VOL_CONNECTOR", "").replace(";", " ").replace(",", " ")
    stores = [word.removeprefix("store=") for word in settings.split() if word.startswith("store=")]
    return [*stores, os.fspath(_native.default_socket())]


def _version(buffer: object) -> int:
    # After the value header: the magic in four bytes, then the version.
    return int.from_bytes(bytes(buffer.metadata)[-8:], "little")  # type: ignore[attr-defined]
