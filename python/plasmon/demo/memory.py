"""Memory as the kernel reports it: proportional set sizes from ``/proc/<pid>/smaps``.

The proportional set size (PSS) of a process counts a page that n processes map as 1/n of a page,
so the sum over all processes is the memory that they really use together.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

#: How shared memory is called in the kernel's lists: the store's, POSIX's, Ray's.
SHARED_PREFIXES = ("/memfd:plasmon", "/dev/shm/psm_", "/dev/shm/plasma")


@dataclass(frozen=True)
class Usage:
    """Bytes of one process or of several together."""

    rss: int = 0
    pss: int = 0
    shared_rss: int = 0
    shared_pss: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.rss + other.rss,
            self.pss + other.pss,
            self.shared_rss + other.shared_rss,
            self.shared_pss + other.shared_pss,
        )


def usage(pid: int) -> Usage:
    """The memory of one process, and of it the part that lies in shared memory."""
    return sum((found for _, found in _mappings(pid)), Usage())


def total(pids: list[int]) -> Usage:
    """The memory of several processes together.

    Of this process only what it maps of their shared memory, unless it is one of them: a page that
    it maps, too, would count as less than one.
    """
    mappings = [mapping for pid in pids for mapping in _mappings(pid)]
    found = sum((mapping for _, mapping in mappings), Usage())
    if os.getpid() in pids:
        return found
    theirs = {shared for shared, _ in mappings if shared}
    for shared, ours in _mappings(os.getpid()):
        if shared in theirs:
            found += Usage(ours.rss, ours.pss, ours.rss, ours.pss)
    return found


def _mappings(pid: int) -> Iterator[tuple[str, Usage]]:
    """Each part of a mapping's memory, with the device and inode of what it shares, or nothing."""
    shared = ""
    for line in Path(f"/proc/{pid}/smaps").read_text(errors="replace").splitlines():
        word, _, rest = line.partition(" ")
        if not word.endswith(":"):
            # Address, permissions, offset, device, inode, path.
            in_shared = any(prefix in rest for prefix in SHARED_PREFIXES)
            shared = " ".join(rest.split()[2:4]) if in_shared else ""
        elif word in ("Rss:", "Pss:"):
            amount = int(rest.split()[0]) * 1024
            counted = Usage(amount, 0) if word == "Rss:" else Usage(0, amount)
            if shared:
                counted += Usage(shared_rss=counted.rss, shared_pss=counted.pss)
            yield shared, counted
