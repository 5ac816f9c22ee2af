"""The program that makes, puts and reads the table on a node, and the demo's end of it.

It runs commands from its standard input, a JSON document in each line, and answers each with one.
A reader keeps the table that it got; ``read`` goes on until the next command comes.
"""

from __future__ import annotations

import faulthandler
import hashlib
import json
import os
import select
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scripts.demo_pool.processes import log_end, spawn

if TYPE_CHECKING:
    import pyarrow as pa

    import plasmon

_ROOT = Path(__file__).resolve().parent.parent.parent
_ANSWER_WITHIN_S = 180.0
_STACK_WITHIN_S = 0.5
_PIPE_BYTES = 1 << 16
#: How long a put or a get may take in the store.
_STORE_WITHIN_S = 120.0
_COLUMNS = 8
#: A batch's buffers are a few hundred megabytes at most, so that parts of a table can be used.
_BATCHES = 4
#: How many rows are added up each time.
_READ_ROWS = 100_000
_LATER_GETS = 200
#: Between two reads: readers that never pause would take the processors from the nodes.
_PAUSE_S = 0.001


class WorkerError(Exception):
    """A command failed on a node."""


class Worker:
    """The demo's end of a process on a node."""

    def __init__(self, name: str, inside: list[str], socket: Path, mark: str, log: Path) -> None:
        self.name, self._log = name, log
        self._unread = b""
        command = [*inside, sys.executable, "-m", __name__, str(socket)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self._process = spawn(command, mark, log, cwd=_ROOT, **pipes)
        self.answer()

    def tell(self, command: str, **arguments: Any) -> None:
        """Sends a command."""
        assert self._process.stdin is not None, "it is a pipe"
        print(json.dumps({"command": command, **arguments}), file=self._process.stdin, flush=True)

    def answer(self, within_s: float = _ANSWER_WITHIN_S) -> dict[str, Any]:
        """The answer to the oldest command that has none yet."""
        assert self._process.stdout is not None, "it is a pipe"
        pipe = self._process.stdout.fileno()
        # A pipe's own reader may take two answers at once, and then there is nothing to wait for.
        while b"\n" not in self._unread:
            if not select.select([pipe], [], [], within_s)[0]:
                raise WorkerError(f"{self.name} said nothing for {within_s:.0f} s{self._stack()}")
            more = os.read(pipe, _PIPE_BYTES)
            if not more:
                raise WorkerError(f"{self.name} has ended{log_end(self._log)}")
            self._unread += more
        line, self._unread = self._unread.split(b"\n", 1)
        found: dict[str, Any] = json.loads(line)
        if "error" in found:
            raise WorkerError(f"{self.name}: {found['error']}")
        return found

    def _stack(self) -> str:
        """Where the process is that does not answer; it writes that into its log."""
        self._process.send_signal(signal.SIGUSR1)
        time.sleep(_STACK_WITHIN_S)
        return log_end(self._log)

    def ask(self, command: str, **arguments: Any) -> dict[str, Any]:
        """Sends a command and waits for its answer."""
        self.tell(command, **arguments)
        return self.answer()

    def close(self) -> None:
        """Gives its pipes back; the process is ended with its node."""
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except BrokenPipeError:
                    continue


def make(nbytes: int, seed: int) -> pa.Table:
    """A table of at least so many bytes of random numbers."""
    import numpy as np
    import pyarrow as pa

    rows = -(-nbytes // (8 * _COLUMNS * _BATCHES))
    random = np.random.default_rng(seed)

    def batch() -> pa.RecordBatch:
        key = random.integers(0, 1 << 40, rows)
        numbers = {f"x{at}": random.random(rows) for at in range(_COLUMNS - 1)}
        return pa.record_batch({"key": key, **numbers})

    return pa.Table.from_batches([batch() for _ in range(_BATCHES)])


def digest(table: pa.Table) -> str:
    """A checksum of every value."""
    sums = hashlib.sha256()
    for name, column in zip(table.column_names, table.columns, strict=True):
        sums.update(f"{name} {len(column)} ".encode())
        for chunk in column.chunks:
            sums.update(memoryview(chunk.to_numpy(zero_copy_only=True)).cast("B"))
    return sums.hexdigest()


class _Commands:
    """What a process on a node can be asked for."""

    def __init__(self, store: plasmon.Store) -> None:
        self._store = store
        self._table: pa.Table | None = None

    def probe(self, name: str, copies: int) -> dict[str, Any]:
        """Whether so many nodes take part in the pool: whether all of them take a copy."""
        import plasmon

        try:
            self._store.put(b"probe", name=name, copies=copies, copies_min=copies)
        except (plasmon.NotEnoughNodes, plasmon.Unreachable) as error:
            return {"joined": False, "why": str(error)}
        return {"joined": True}

    def put(self, name: str, nbytes: int, copies: int, seed: int) -> dict[str, Any]:
        """Makes the table and puts it."""
        start = time.perf_counter()
        table = make(nbytes, seed)
        made = time.perf_counter()
        self._store.put(table, name=name, copies=copies)
        put = time.perf_counter()
        return {
            "make_s": made - start,
            "put_s": put - made,
            "rows": table.num_rows,
            "columns": table.num_columns,
            "nbytes": table.nbytes,
            "digest": digest(table),
        }

    def get(self, name: str) -> dict[str, Any]:
        """Gets the table, and keeps it."""
        start = time.perf_counter()
        self._table = self._store.get(name, timeout=_STORE_WITHIN_S)
        return {"get_s": time.perf_counter() - start}

    def get_later(self, name: str) -> dict[str, Any]:
        """How long it takes to get the table that is here."""
        times = []
        for _ in range(_LATER_GETS):
            start = time.perf_counter()
            with self._store.get_buffer(name):
                times.append(time.perf_counter() - start)
        return {"get_s": statistics.median(times)}

    def digest(self) -> dict[str, Any]:
        """A checksum of every value of the table that was got; every page is looked at."""
        return {"digest": digest(self._got())}

    def read(self, name: str) -> dict[str, Any]:
        """Gets the table and adds rows up, again and again."""
        first = _sum(self._got())
        ended: list[float] = []
        longest_s, wrong, errors = 0.0, 0, []
        while not select.select([sys.stdin.buffer], [], [], _PAUSE_S)[0]:
            start = time.monotonic()
            try:
                wrong += _sum(self._store.get(name)) != first
            except Exception as error:
                errors.append(f"{type(error).__name__}: {error}")
            ended.append(time.monotonic())
            longest_s = max(longest_s, ended[-1] - start)
        return {"ended": ended, "longest_s": longest_s, "wrong": wrong, "errors": errors[:3]}

    def stop(self) -> dict[str, Any]:
        """Nothing: it ends a read."""
        return {}

    def _got(self) -> pa.Table:
        assert self._table is not None, "it was got"
        return self._table


def _sum(table: pa.Table) -> str:
    import pyarrow.compute as pc

    rows = table["x0"].slice(table.num_rows // 2, _READ_ROWS)
    return str(pc.sum(rows))


def serve(socket: str) -> None:
    """Answers commands until there are no more."""
    import pyarrow as pa

    import plasmon

    faulthandler.register(signal.SIGUSR1)
    pa.set_cpu_count(1)
    store = plasmon.connect(socket, start=False, request_timeout=_STORE_WITHIN_S)
    commands = _Commands(store)
    _say({"up": True})
    # Line by line, and nothing is read ahead: `read` looks whether there is more.
    lines = open(0, "rb", buffering=0, closefd=False)  # noqa: SIM115 # until the end
    while line := lines.readline():
        order = json.loads(line)
        command: Callable[..., dict[str, Any]] = getattr(commands, order.pop("command"))
        try:
            _say(command(**order))
        except Exception as error:
            _say({"error": f"{type(error).__name__}: {error}"})


def _say(answer: dict[str, Any]) -> None:
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    serve(sys.argv[1])
