"""Sorts one stored frame with several processes, beside pandas: ``python parallel_sort.py``.

The program that Plasma was introduced with: a data frame lies in the store, worker processes read
it where it lies, and each makes some of the sorted partitions. Every task takes the same sample and
finds the same bounds, so nothing but ids passes between the processes.

This is for programs that have worker processes anyway. ``plasmon.sort`` makes the same partitions
with threads of one process, and is faster: it reads each key twice, while here every task reads all
keys, and its own once more.
"""

from __future__ import annotations

import argparse
import os
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context

import numpy as np
import pandas as pd

import plasmon


def make(socket: str, frame: plasmon.ObjectId, partitions: int, part: int) -> plasmon.ObjectId:
    """A task: one sorted partition of the stored frame."""
    with plasmon.connect(socket) as store:
        return plasmon.sort_partition(frame, "key", part=part, partitions=partitions, store=store)


def main() -> None:
    """Sorts both ways, checks that they agree, and prints both times."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=float, default=1e6, help="how many rows (1e6)")
    parser.add_argument("--partitions", type=int, default=4, help="how many partitions (4)")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="processes (cores)")
    arguments = parser.parse_args()
    random = np.random.default_rng(7)
    rows = int(arguments.rows)
    frame = pd.DataFrame({"key": random.random(rows), "payload": np.arange(rows)})
    # The frame, its sorted partitions, and what lies between objects.
    capacity = 3 * frame.memory_usage().sum() + (64 << 20)
    # A process that is forked would share the connection of this one: "spawn" begins again.
    context = get_context("spawn")
    with (
        plasmon.start(capacity=int(capacity)) as store,
        ProcessPoolExecutor(arguments.workers, mp_context=context) as workers,
    ):
        id = store.put(frame)
        task = partial(make, str(store.socket), id, arguments.partitions)
        begin = time.perf_counter()
        ids = list(workers.map(task, range(arguments.partitions)))
        ours = time.perf_counter() - begin
        begin = time.perf_counter()
        wanted = frame.sort_values("key")
        baseline = time.perf_counter() - begin
        result = pd.concat([store.get(id) for id in ids])
        assert (result["key"].to_numpy() == wanted["key"].to_numpy()).all(), "both ways agree"
        assert (result["payload"].to_numpy() == wanted["payload"].to_numpy()).all()
    print(f"plasmon: {rows:,} rows in {ours:.3f} s, {arguments.workers} workers and their start")
    print(f"pandas:  {rows:,} rows in {baseline:.3f} s")


if __name__ == "__main__":
    main()
