"""Where a Plasma store puts what it evicts: external stores, known by the scheme of an endpoint.

Plasma handed evicted objects to a plug-in. Plasmon's daemon has a spill tier, which writes objects
to a directory, restores them when they are read, and lists them meanwhile. So an external store is
a directory for the time that the store runs:

======================  ==========================================================================
``hashtable://name``    memory: a directory of this store alone in a file system that lies in
                        memory, gone with the store
``file:///path``        that directory, made if it is not there
another scheme          what :func:`register_external_store` registered for it, or a package that
                        has an entry point of that name in the group ``plasmon.external_stores``
======================  ==========================================================================
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote, urlsplit

ENTRY_POINTS = "plasmon.external_stores"

#: File systems that lie in memory, the first that is there.
_IN_MEMORY = (Path("/dev/shm"), Path("/run/shm"))


class ExternalStore(Protocol):
    """A place for evicted objects while a store runs."""

    def directory(self) -> Path:
        """The directory that the store writes them to; it exists and is writable."""
        ...

    def close(self) -> None:
        """The store has ended."""
        ...


class _Hashtable:
    """Evicted objects stay in memory, outside of the store's capacity."""

    def __init__(self, endpoint: str) -> None:
        within = next((place for place in _IN_MEMORY if os.access(place, os.W_OK)), None)
        self._directory = Path(tempfile.mkdtemp(prefix="plasmon-external-", dir=within))

    def directory(self) -> Path:
        """A directory of this store alone."""
        return self._directory

    def close(self) -> None:
        """Forgets everything."""
        shutil.rmtree(self._directory, ignore_errors=True)


class _Files:
    """Evicted objects go to a directory that stays."""

    def __init__(self, endpoint: str) -> None:
        parts = urlsplit(endpoint)
        if parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
            raise ValueError(f"Malformed endpoint {endpoint}: file:///an/absolute/path is wanted")
        self._directory = Path(unquote(parts.path))

    def directory(self) -> Path:
        """The directory of the endpoint."""
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self._directory

    def close(self) -> None:
        """Leaves the directory as it is."""


_OPENERS: dict[str, Callable[[str], ExternalStore]] = {"hashtable": _Hashtable, "file": _Files}


def register_external_store(scheme: str, opener: Callable[[str], ExternalStore]) -> None:
    """Makes endpoints of a scheme known to stores started from this process.

    `opener` is called with the whole endpoint when a store starts.
    """
    if not scheme or "://" in scheme:
        raise ValueError(f"{scheme!r} is not a known scheme")
    _OPENERS[scheme] = opener


def open_external_store(endpoint: str) -> ExternalStore:
    """The external store of an endpoint. Raises ValueError when there is no such store."""
    scheme, separator, _ = endpoint.partition("://")
    if not separator or not scheme:
        raise ValueError(f"Malformed endpoint {endpoint}")
    opener = _OPENERS.get(scheme)
    if opener is None:
        for entry in metadata.entry_points(group=ENTRY_POINTS, name=scheme):
            opener = entry.load()
    if opener is None:
        raise ValueError(f'no such external store "{scheme}"')
    return opener(endpoint)
