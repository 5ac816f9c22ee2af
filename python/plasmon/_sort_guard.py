"""A process that deletes what a sort makes when the sort's process was killed.

Started by :mod:`plasmon._sort_processes` before the first object is made. It is told the ids, says
that it knows them, and waits for a word. The end of the pipe without one means that the sort is
gone, or gave up, and that nothing else knows these ids.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys

from plasmon import _native
from plasmon._sort_clearing import delete_made
from plasmon._store import connect


def main() -> None:
    """Guards the objects whose ids come through the standard input."""
    ids = [_native.ObjectId.from_hex(text) for text in json.loads(sys.stdin.readline())]
    with connect(sys.argv[1], start=False, name="sort guard") as store:
        # The sort may be gone already; what it made is not.
        with contextlib.suppress(BrokenPipeError):
            os.write(sys.stdout.fileno(), b"ready\n")
        if sys.stdin.readline() != '"done"\n':
            delete_made(store, ids)


if __name__ == "__main__":
    main()
