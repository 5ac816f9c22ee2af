"""Our sort, into a store."""

from __future__ import annotations

import os

import plasmon
from bench.ours.worker import Plasmon
from bench.rivals.protocol import Answer, serve
from bench.rivals.tables.made import ORDERS, measured, resident_bytes, table


class Sorter(Plasmon):
    """A client that sorts."""

    def op_sort(self, case: str, rows: int, threads: int | None = None) -> Answer:
        # Libraries and a small sort are there before: what they take does not grow with the input.
        plasmon.sort(table(case, 1000), ORDERS[case][0][0], store=self.store).delete()
        base = resident_bytes()
        data = table(case, rows)
        order = [(name, "descending" if down else "ascending") for name, down in ORDERS[case]]
        kept: list[plasmon.Sorted] = []

        def run() -> None:
            if kept:
                kept.pop().delete()
            kept.append(plasmon.sort(data, order, threads=threads, store=self.store))

        try:
            return measured(run, data.nbytes, base, _store_cpu_ns)
        finally:
            for made in kept:
                made.delete()


def _store_cpu_ns() -> float:
    """The processor time of the store's processes, which are what this one has started and kept."""
    wanted = f"PLASMON_BENCH_MARK={os.environ.get('PLASMON_BENCH_MARK', '')}".encode()
    ticks = 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        if int(pid) == os.getpid():
            continue
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                ours = wanted in file.read().split(b"\0")
            with open(f"/proc/{pid}/stat") as file:
                # After the name, which may have any character: fields 14 and 15 of all.
                fields = file.read().rpartition(")")[2].split()
        except OSError:
            continue
        if ours:
            ticks += int(fields[11]) + int(fields[12])
    return 1e9 * ticks / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    serve(Sorter())
