"""Sorts a data frame of float64 in partitions of the store, beside pandas.

The experiment: rows of one key (or a key and payload columns) lie in K partitions in the store;
``sort`` reads them there and makes as many sorted ones; pandas sorts the same rows in one frame.
Run it: ``python sort_dataframe.py --rows 1e8 --payload 3``.
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np
import pandas as pd
import pyarrow as pa

import plasmon

#: What must fit the memory: input and result in the store and, beside the baseline's input and
#: result, the index that it sorts by.
SORT_COPIES, BASELINE_COPIES = 2.2, 3.5


def partition(rows: int, payload: int, seed: int) -> pa.Table:
    """Rows that look random."""
    random = np.random.default_rng(seed)
    columns = {"key": random.random(rows)}
    columns |= {f"payload{at}": random.random(rows) for at in range(payload)}
    return pa.table(columns)


def available_bytes() -> int:
    """Memory that programs can have."""
    with open("/proc/meminfo") as lines:
        found = next(line for line in lines if line.startswith("MemAvailable"))
    return int(found.split()[1]) * 1024


def fitting(arguments: argparse.Namespace) -> int:
    """The bytes of the input; ends with advice when they do not fit, before anything is made."""
    nbytes = int(arguments.rows * 8 * (1 + arguments.payload))
    need = nbytes * (SORT_COPIES if arguments.no_baseline else BASELINE_COPIES)
    found = available_bytes()
    if need > found:
        hint = "fewer --rows" if arguments.no_baseline else "--no-baseline or fewer --rows"
        sys.exit(
            f"{arguments.rows:.0e} rows need {int(need):,} bytes of memory, {found:,} are free: "
            f"try {hint}"
        )
    return nbytes


def main() -> None:
    """Sorts both ways, checks that they agree, and prints the speed-up."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=float, default=1e6, help="how many rows (1e6)")
    parser.add_argument("--partitions", type=int, default=8, help="how many partitions (8)")
    parser.add_argument("--payload", type=int, default=0, help="columns beside the key (0)")
    parser.add_argument("--no-baseline", action="store_true", help="do not sort with pandas")
    arguments = parser.parse_args()
    nbytes = fitting(arguments)
    rows = int(arguments.rows) // arguments.partitions
    capacity = int(nbytes * SORT_COPIES) + (64 << 20)
    with plasmon.start(capacity=capacity) as store:
        made = (partition(rows, arguments.payload, at) for at in range(arguments.partitions))
        inputs = [store.put(table) for table in made]
        begin = time.perf_counter()
        result = store.sort(
            inputs, "key", partitions=arguments.partitions, progress=sys.stderr.isatty()
        )
        ours = time.perf_counter() - begin
        print(f"plasmon: {result.num_rows:,} rows in {ours:.3f} s")
        keys = np.concatenate([part["key"].to_numpy() for part in result])
        if arguments.no_baseline:
            assert (keys[:-1] <= keys[1:]).all(), "the rows are in order"
            return
        frame = pd.concat([store.get(id).to_pandas() for id in inputs], ignore_index=True)
        begin = time.perf_counter()
        wanted = frame.sort_values("key")
        baseline = time.perf_counter() - begin
        assert (keys == wanted["key"].to_numpy()).all(), "both ways agree"
        print(f"pandas:  {len(wanted):,} rows in {baseline:.3f} s")
        print(f"speed-up: {baseline / ours:.1f}")


if __name__ == "__main__":
    main()
