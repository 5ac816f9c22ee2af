"""The processes that a sort starts: workers, and the guard of what it makes.

What one of them says on its standard error is kept for the error that the caller gets: nothing of
it appears on the caller's own.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterable
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from plasmon._native import ObjectId
    from plasmon._store import Store

#: Of what a process said, as much as an error repeats.
_LAST_WORDS_BYTES = 4096


class Process:
    """A module of the package that runs as a process, with pipes to and from it."""

    def __init__(self, module: str, store: Store) -> None:
        # In memory: a full disk must not keep a sort from saying so.
        self._said = os.fdopen(os.memfd_create("plasmon-sort"), "w+b")
        # In a group of its own: Ctrl-C comes to the caller, and from there the process is ended.
        self.process = subprocess.Popen(
            [sys.executable, "-m", f"plasmon.{module}", str(store.socket)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            process_group=0,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )

    @property
    def told(self) -> IO[bytes]:
        """What it tells."""
        assert self.process.stdout is not None, "started with a pipe"
        return self.process.stdout

    def tell(self, what: Any) -> None:
        """Tells it something, a line. One that is gone already is noticed when it is read."""
        assert self.process.stdin is not None, "started with a pipe"
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(what).encode() + b"\n")
            self.process.stdin.flush()

    def last_words(self) -> str:
        """The last line that it said on its standard error, for the end of a sentence."""
        end = self._said.seek(0, os.SEEK_END)
        self._said.seek(max(end - _LAST_WORDS_BYTES, 0))
        lines = self._said.read().decode(errors="replace").split("\n")
        said = next((line.strip() for line in reversed(lines) if line.strip()), "")
        return f" ({said})" if said else ""

    def end(self) -> None:
        """Closes the pipes and waits until it has ended."""
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        self.process.wait()
        self._said.close()


class Guard:
    """A process that deletes objects when this one is gone without having dismissed it.

    It may be started before the objects are made, and must be ready before anything waits for
    them. Also when it was never ready, it knows the ids: they lie in its pipe.
    """

    def __init__(self, store: Store, ids: Iterable[ObjectId]) -> None:
        self._process = Process("_sort_guard", store)
        self._process.tell([id.hex() for id in ids])

    def ready(self) -> None:
        """Waits until it knows what to guard; RuntimeError when it cannot."""
        if not self._process.told.readline():
            self._process.process.wait()
            raise RuntimeError(
                "the process that guards the partitions of the sort did not start"
                + self._process.last_words()
            )

    def dismiss(self) -> None:
        """Ends it; the objects stay."""
        self._process.tell("done")
        self._process.end()

    def clear(self) -> None:
        """Has it delete what is there of the objects, and ends it."""
        self._process.end()
