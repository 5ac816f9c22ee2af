"""Our sort, into a store, on threads or with worker processes."""

from __future__ import annotations

from typing import Any

import plasmon
from bench.ours.worker import Plasmon
from bench.rivals.protocol import Answer, serve
from bench.rivals.tables.made import ORDERS, measured, resident_bytes, table


class Sorter(Plasmon):
    """A client that sorts."""

    def op_sort(
        self,
        case: str,
        rows: int,
        threads: int | None = None,
        workers: int | None = None,
    ) -> Answer:
        base = resident_bytes()
        data: Any = table(case, rows)
        order = [(name, "descending" if down else "ascending") for name, down in ORDERS[case]]
        nbytes = data.nbytes
        if workers is not None:
            # With processes the input is in the store, which is where it would come from.
            data = self.store.put(data)
        kept: list[plasmon.Sorted] = []

        def run() -> None:
            if kept:
                kept.pop().delete()
            made = plasmon.sort(data, order, threads=threads, workers=workers, store=self.store)
            kept.append(made)

        try:
            return measured(run, nbytes, base)
        finally:
            for made in kept:
                made.delete()
            if workers is not None:
                self.store.delete(data)


if __name__ == "__main__":
    serve(Sorter())
