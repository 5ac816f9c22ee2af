"""A Parquet file that becomes a table in a store, and the processes that read it there.

Used by every side, each in its own environment: it imports nothing but pyarrow.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

COLUMNS = 6


def write_parquet(path: str, rows: int) -> int:
    """A file with numbers and words; how many bytes its table has."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    random = np.random.default_rng(7)
    columns: dict[str, Any] = {f"x{at}": random.random(rows) for at in range(COLUMNS - 1)}
    columns["id"] = np.arange(rows)
    words = pa.array([f"word {at}" for at in range(1000)])
    columns["word"] = words.take(pa.array(random.integers(0, 1000, rows)))
    table = pa.table(columns)
    part = f"{path}.part"
    # What pyarrow 11 reads as well.
    pq.write_table(table, part, row_group_size=1 << 19, version="2.4", compression="none")
    os.rename(part, path)
    return int(table.nbytes)


class Readers:
    """Processes that wait for a table's id and answer with a sum over one of its columns."""

    def __init__(self, module: str, address: str, count: int) -> None:
        command = [sys.executable, "-m", module, address]
        self._readers = [
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            for _ in range(count)
        ]
        self.ask("")

    def ask(self, id: str) -> list[float]:
        """Tells all of them where the table is; their answers."""
        for reader in self._readers:
            assert reader.stdin is not None
            reader.stdin.write(f"{id}\n")
            reader.stdin.flush()
        answers = []
        for reader in self._readers:
            assert reader.stdout is not None
            line = reader.stdout.readline()
            if not line:
                raise RuntimeError("a reader has ended")
            answers.append(float(line))
        return answers

    def end(self) -> None:
        """Ends them."""
        for reader in self._readers:
            reader.communicate()


def answer(read: Any) -> None:
    """A reader's loop: an id per line, empty to signal that it is ready."""
    for line in sys.stdin:
        id = line.strip()
        print(read(id) if id else 0.0, flush=True)
