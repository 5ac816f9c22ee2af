"""Columns of a table on another node: our Python client on two nodes of a pool, or Arrow Flight.

The table is made of equal batches of 64 Ki rows. The second node reads one of its columns, or all
of it, again and again; copies that a read of all of it left are deleted untimed.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import plasmon
from bench.rivals.protocol import Answer, UnsupportedError, serve, timed

BATCH_ROWS = 1 << 16
#: Less than the harness waits for an answer, which then has the reason.
DEADLINE_S = 30.0
NAME = "@bench:columns"


def made(table_bytes: int, columns: int) -> pa.Table:
    """A table of doubles in so many columns."""
    rows = table_bytes // columns // 8
    values = np.arange(rows, dtype=np.float64)
    whole = pa.table({f"c{at}": values + at for at in range(columns)})
    return pa.Table.from_batches(whole.to_batches(max_chunksize=BATCH_ROWS))


class Pool:
    """Two nodes of a pool on this machine."""

    def __init__(self) -> None:
        self.pool: Any = None
        self.one: Any = None
        self.two: Any = None
        self.table: tuple[int, int] | None = None

    def op_start(self, directory: str, capacity_bytes: int) -> Answer:
        if shutil.which("etcd") is None:
            raise UnsupportedError("needs etcd")
        begin = time.perf_counter_ns()
        told = Path(directory) / "told.jsonl"
        program = Path(sys.executable).with_name("plasmon")
        command = [program, "pool", "dev", "--nodes", "2", "--capacity", str(capacity_bytes)]
        with told.open("wb") as out:
            self.pool = subprocess.Popen([*command, "--json"], stdout=out)
        end = time.monotonic() + DEADLINE_S
        while b'"ready"' not in told.read_bytes():
            if time.monotonic() > end or self.pool.poll() is not None:
                raise RuntimeError("the pool did not start")
            time.sleep(0.02)
        steps = [json.loads(line) for line in told.read_text().splitlines()]
        sockets = [step["socket"] for step in steps if step["event"] == "node"]
        self.one, self.two = (plasmon.connect(socket, start=False) for socket in sockets)
        return {
            "address": sockets[1],
            "start_ns": time.perf_counter_ns() - begin,
            "versions": {"plasmon": plasmon.__version__, "pyarrow": pa.__version__},
        }

    def op_stop(self) -> Answer:
        for store in (self.one, self.two):
            if store is not None:
                store.disconnect()
        if self.pool is not None:
            self.pool.send_signal(signal.SIGINT)
            self.pool.wait(DEADLINE_S)
        return {}

    def _put(self, table_bytes: int, columns: int) -> None:
        if self.table == (table_bytes, columns):
            return
        end = time.monotonic() + DEADLINE_S
        self.one.delete([NAME])
        table = made(table_bytes, columns)
        while True:
            try:
                self.one.put(table, name=NAME, copies=1)
            except (plasmon.NotEnoughNodes, plasmon.Unreachable, plasmon.InUse):
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)
            else:
                break
        self.table = (table_bytes, columns)

    def op_column(self, table_bytes: int, columns: int, count: int, **_: Any) -> Answer:
        self._put(table_bytes, columns)
        turns = iter(range(count + 1))

        def read() -> None:
            name = f"c{next(turns) % columns}"
            found = self.two.pool.read_columns(NAME, [name])
            assert found.num_rows == table_bytes // columns // 8

        return timed(read, count)

    def op_whole(self, table_bytes: int, columns: int, count: int) -> Answer:
        self._put(table_bytes, columns)

        def read() -> None:
            assert self.two.get(NAME).num_columns == columns

        # The copy is a cache, which goes when it is asked to.
        return timed(read, count, after=lambda: self.two.evict(table_bytes))


class Flight:
    """A server of Arrow Flight in another process, over loopback."""

    def __init__(self) -> None:
        self.server: Any = None
        self.client: Any = None
        self.flight: Any = None

    def op_start(self, directory: str, **_: Any) -> Answer:
        try:
            from pyarrow import flight
        except ImportError as missing:
            raise UnsupportedError(f"pyarrow has no Flight: {missing}") from missing
        self.flight = flight
        begin = time.perf_counter_ns()
        command = [sys.executable, "-m", __spec__.name if __spec__ else __name__, "server"]
        self.server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        port = self.server.stdout.readline().strip()
        if not port:
            raise RuntimeError(f"the server of Flight ended with {self.server.wait(DEADLINE_S)}")
        self.client = flight.connect(f"grpc://127.0.0.1:{port}")
        taken = time.perf_counter_ns() - begin
        return {"address": directory, "start_ns": taken, "versions": {"pyarrow": pa.__version__}}

    def op_stop(self) -> Answer:
        if self.server is not None:
            self.server.terminate()
            self.server.wait(DEADLINE_S)
        return {}

    def _read(self, table_bytes: int, columns: int, wanted: list[str] | None) -> Any:
        ticket = json.dumps([table_bytes, columns, wanted]).encode()
        return self.client.do_get(self.flight.Ticket(ticket)).read_all()

    def op_column(self, table_bytes: int, columns: int, count: int, **_: Any) -> Answer:
        return timed(lambda: self._read(table_bytes, columns, ["c17"]), count)

    def op_whole(self, table_bytes: int, columns: int, count: int) -> Answer:
        return timed(lambda: self._read(table_bytes, columns, None), count)


def serve_flight() -> None:
    """The server of Flight: it makes the table that a ticket names, and keeps the last one."""
    from pyarrow import flight

    class Server(flight.FlightServerBase):  # type: ignore[misc, name-defined]
        """One table."""

        def __init__(self) -> None:
            super().__init__("grpc://127.0.0.1:0")
            self.kept: tuple[tuple[int, int], pa.Table] | None = None

        def do_get(self, _context: Any, ticket: Any) -> Any:
            table_bytes, columns, wanted = json.loads(ticket.ticket)
            if self.kept is None or self.kept[0] != (table_bytes, columns):
                self.kept = (table_bytes, columns), made(table_bytes, columns)
            table = self.kept[1]
            return flight.RecordBatchStream(table if wanted is None else table.select(wanted))

    server = Server()
    print(server.port, flush=True)
    server.serve()


if __name__ == "__main__":
    if sys.argv[1] == "server":
        serve_flight()
    else:
        serve(Pool() if sys.argv[1] == "pool" else Flight())
