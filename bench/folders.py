"""Folders of a run whose kind matters: one on a disk, one in memory."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from bench.environments import ROOT
from bench.worker import UnsupportedError

#: What keeps files in memory, so that a sync of them does nothing.
IN_MEMORY = frozenset({"tmpfs", "ramfs"})
#: Where a machine has files in memory that a program may map.
MEMORY = Path("/dev/shm")


def file_system(path: Path, mounts: str | None = None) -> str:
    """The type of the file system that a path lies in, as the kernel lists the mounts."""
    lines = (Path("/proc/mounts").read_text() if mounts is None else mounts).splitlines()
    where = path.resolve()
    found = ("", "unknown")
    for line in lines:
        _, folder, kind, *_ = line.split()
        # A later mount hides an earlier one at the same place.
        if where.is_relative_to(folder) and len(folder) >= len(found[0]):
            found = (folder, kind)
    return found[1]


class Folders:
    """The folders of a run, removed with all that is in them when they are closed."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._made: list[Path] = []

    def on_disk(self) -> str:
        """A new folder on a disk: among the temporary files, or else in the build's folder."""
        target = ROOT / "target"
        for place in (self._scratch, target):
            place.mkdir(parents=True, exist_ok=True)
            if file_system(place) not in IN_MEMORY:
                return self._make(place)
        raise UnsupportedError(f"neither {self._scratch} nor {target} is on a disk")

    def in_memory(self) -> str:
        """A new folder whose files are memory."""
        if not MEMORY.is_dir() or file_system(MEMORY) not in IN_MEMORY:
            raise UnsupportedError(f"{MEMORY} is no file system in memory")
        return self._make(MEMORY)

    def close(self) -> None:
        """Removes them."""
        while self._made:
            shutil.rmtree(self._made.pop(), ignore_errors=True)

    def _make(self, place: Path) -> str:
        made = Path(tempfile.mkdtemp(prefix="plasmon-bench-", dir=place))
        self._made.append(made)
        return str(made)
