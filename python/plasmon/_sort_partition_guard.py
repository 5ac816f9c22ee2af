"""The process that deletes what a sort has made when the sort's process was killed.

The work is that of ``crates/sort-store``; this module is its process where the command is missing.
"""

from __future__ import annotations

import os
import sys

from plasmon import _native
from plasmon._store import Store, connect, installed


def program(store: Store) -> tuple[str, list[str], list[tuple[str, str]]]:
    """What runs as a guard: a program, its arguments, and variables of its environment.

    That is the command, which starts in a few milliseconds, where it is installed.
    """
    if (command := installed("plasmon")) is not None:
        return command, ["--socket", str(store.socket), "sort-guard"], []
    path = os.pathsep.join(filter(None, sys.path))
    return sys.executable, ["-m", __name__, str(store.socket)], [("PYTHONPATH", path)]


def main() -> None:
    """Guards the objects whose ids come through the standard input."""
    with connect(sys.argv[1], start=False, name="sort guard") as store:
        _native.guard_sort(store)


if __name__ == "__main__":
    main()
