"""The first file system of a virtual machine: one program, and the modules of its kernel."""

from __future__ import annotations

import re
import stat
from collections.abc import Iterable
from pathlib import Path

_TRAILER = "TRAILER!!!"


def modules(folder: Path, wanted: Iterable[str]) -> list[Path]:
    """The files of modules and of all that they need, in the order in which they are loaded.

    A module that is not in the folder is built into the kernel.
    """
    files = {_name(path.name): path for path in folder.rglob("*.ko")}
    ordered: list[Path] = []

    def add(name: str) -> None:
        path = files.get(_name(name))
        if path is None or path in ordered:
            return
        for other in needs(path.read_bytes()):
            add(other)
        ordered.append(path)

    for name in wanted:
        add(name)
    return ordered


def needs(module: bytes) -> list[str]:
    """The modules that a module says it depends on."""
    found = re.search(rb"\0depends=([^\0]*)\0", module)
    return [name for name in found.group(1).decode().split(",") if name] if found else []


def _name(name: str) -> str:
    return name.removesuffix(".ko").replace("-", "_")


class Archive:
    """A cpio archive of the kind that Linux unpacks at boot (newc)."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._number = 0

    def folder(self, name: str) -> None:
        """An empty folder."""
        self._add(name, stat.S_IFDIR | 0o755, b"")

    def file(self, name: str, data: bytes, mode: int = 0o755) -> None:
        """A file."""
        self._add(name, stat.S_IFREG | mode, data)

    def node(self, name: str, major: int, minor: int) -> None:
        """A character device."""
        self._add(name, stat.S_IFCHR | 0o600, b"", (major, minor))

    def finish(self) -> bytes:
        """The whole archive."""
        self._add(_TRAILER, 0, b"")
        return b"".join(self._parts)

    def _add(self, name: str, mode: int, data: bytes, device: tuple[int, int] = (0, 0)) -> None:
        self._number += 1
        path = name.encode() + b"\0"
        links = 1
        fields = [self._number, mode, 0, 0, links, 0, len(data), 0, 0, *device, len(path), 0]
        head = b"070701" + b"".join(b"%08x" % value for value in fields) + path
        self._parts += [head, bytes(-len(head) % 4), data, bytes(-len(data) % 4)]
