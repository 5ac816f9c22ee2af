"""What the kernel says about memory: proportional set sizes from ``/proc/<pid>/smaps``.

The proportional set size (PSS) of a process counts a page that n processes map as 1/n of a page,
so the sum over all processes is the memory that they really use together.
"""

from __future__ import annotations

import os
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
    rss = pss = shared_rss = shared_pss = 0
    in_store = False
    for line in Path(f"/proc/{pid}/smaps").read_text(errors="replace").splitlines():
        word, _, rest = line.partition(" ")
        if not word.endswith(":"):
            in_store = any(prefix in rest for prefix in SHARED_PREFIXES)
        elif word in ("Rss:", "Pss:"):
            amount = int(rest.split()[0]) * 1024
            if word == "Rss:":
                rss += amount
                shared_rss += amount if in_store else 0
            else:
                pss += amount
                shared_pss += amount if in_store else 0
    return Usage(rss, pss, shared_rss, shared_pss)


def total(pids: list[int]) -> Usage:
    """The memory of several processes together.

    Of this process only what it maps of their shared memory, unless it is one of them: a page that
    it maps, too, would count as less than one.
    """
    found = sum((usage(pid) for pid in pids), Usage())
    if os.getpid() in pids:
        return found
    ours = usage(os.getpid())
    return found + Usage(ours.shared_rss, ours.shared_pss, ours.shared_rss, ours.shared_pss)
