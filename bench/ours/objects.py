"""Our own serialization, measured like a rival."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import plasmon
from bench.rivals.objects import values
from bench.rivals.objects.codecs import Codec, Way
from bench.rivals.protocol import UnsupportedError
from plasmon import SerializationContext

#: Freed memory stays with the store, warm, as it would for a program that puts repeatedly.
SETTINGS = {"warm_bytes_max": "1g"}


class Plasmon(Codec):
    """Bytes, and a store's memory."""

    def __init__(self) -> None:
        self.store: Any = None
        self.address = ""

    def start(self, directory: str, capacity_bytes: int) -> None:
        self.address = f"{directory}/plasmon.sock"
        settings = {"capacity_bytes": str(capacity_bytes), **SETTINGS}
        self.store = plasmon.connect(self.address, start=True, settings=settings)

    def stop(self) -> None:
        if self.store is not None:
            self.store.disconnect()

    def versions(self) -> dict[str, str]:
        # Asked of the installed packages: importing them would fill the heap of what is measured.
        libraries = ("pandas", "polars", "pyarrow")
        found = {name: importlib.metadata.version(name) for name in libraries}
        return {"plasmon": plasmon.__version__, **found}

    def way(self, name: str, case: str) -> Way:
        if name == "store":
            return Way(self._put, self._get, self._stored_bytes, self._delete)
        if name == "unregistered":
            return _through(SerializationContext("std"))
        if name == "collecting":
            return _through(_context(case).clone(gc="run"))
        if name:
            raise UnsupportedError(f"has no way {name!r}")
        return _through(_context(case))

    def trial(self, mode: str) -> Way:
        if mode == "store":
            return self.way("store", "")
        if mode not in {"", "never"}:
            raise UnsupportedError(f"has no mode {mode!r}")
        return _through(SerializationContext("never" if mode else "cloudpickle"))

    # The store's own context applies, which trusts what processes of the same user have put.

    def _put(self, value: Any) -> Any:
        return self.store.put(value)

    def _get(self, identity: Any) -> Any:
        return self.store.get(identity)

    def _stored_bytes(self, identity: Any) -> int:
        return len(self.store.get_buffer(identity))

    def _delete(self, made: list[Any]) -> None:
        self.store.delete(made)
        made.clear()

    def lend(self, way: str, blob: Any, path: Path) -> dict[str, Any]:
        if way != "store":
            return super().lend(way, blob, path)
        self.store.flush()
        return {"address": self.address, "id": bytes(blob).hex()}

    def take(self, way: str, lent: Mapping[str, Any]) -> Any:
        if way != "store":
            return super().take(way, lent)
        self.store = plasmon.connect(lent["address"], start=False)
        return plasmon.ObjectId(bytes.fromhex(lent["id"]))


def _context(case: str) -> SerializationContext:
    """What an application would make once: its classes registered, pickle where it needs it."""
    context = SerializationContext("std" if case == "reduce_classes" else "never")
    context.register(values.Sample)
    return context


def _through(context: SerializationContext) -> Way:
    return Way(context.dumps, context.loads)
