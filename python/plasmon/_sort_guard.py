"""A process that deletes the partitions of a sort whose process was killed.

Started by :mod:`plasmon._sort_spilling` before the first partition is sealed. It is told the ids,
says that it knows them, and waits for a word. The end of the pipe without one means that the sort
is gone and that nobody else knows these ids.
"""

from __future__ import annotations

import json
import sys

from plasmon import _native
from plasmon._sort_clearing import delete_made
from plasmon._store import connect


def main() -> None:
    """Guards the objects whose ids come through the standard input."""
    ids = [_native.ObjectId.from_hex(text) for text in json.loads(sys.stdin.readline())]
    with connect(sys.argv[1], start=False, name="sort guard") as store:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        if sys.stdin.readline() != "done\n":
            delete_made(store, ids)


if __name__ == "__main__":
    main()
