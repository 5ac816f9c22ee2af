"""The soak of values: random ones, for as long as is wanted.

    make soak NAME=objects SECONDS=3600 [SEED=1]

Each value has its own seed. One that does not come back is shown with it, reduced to a part
that fails by itself; ``--only`` runs a value again.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import multiprocessing
import sys
import time

import plasmon

from . import batch, registry

#: How many values are made by one process.
BATCH = 10_000

#: More seeds without a value than these are a fault of the generator.
UNMADE_MAX = 2
UNMADE_SHARE = 0.001


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--values", type=int, default=sys.maxsize)
    parser.add_argument("--seed", type=int, default=1, help="that of the first value")
    parser.add_argument("--only", action="store_true", help="the value of the seed alone")
    return parser.parse_args()


def main() -> int:
    """Runs values until the time is up; how many failed decides what is returned."""
    arguments = _arguments()
    missing = registry.load()
    if missing:
        print(f"left out, for want of a library: {', '.join(missing)}")
    end = time.monotonic() + arguments.seconds
    count: collections.Counter[str] = collections.Counter()
    last = arguments.seed + (1 if arguments.only else arguments.values)
    daemon = plasmon.start(capacity=256 << 20)
    batches = concurrent.futures.ProcessPoolExecutor(
        1, mp_context=multiprocessing.get_context("spawn"), max_tasks_per_child=1
    )
    with batches:
        while (seed := arguments.seed + count["seeds"]) < last and time.monotonic() < end:
            seeds = range(seed, min(seed + BATCH, last))
            count.update(batches.submit(batch.run, daemon.socket, seeds, end).result())
    daemon.stop()
    unmade = count["unmade"]
    left_out = f", {unmade} left out, which a library does not make" if unmade else ""
    print(f"{count['seeds']} values from seed {arguments.seed}, {count['failed']} failed{left_out}")
    return 1 if count["failed"] or unmade > UNMADE_MAX + count["seeds"] * UNMADE_SHARE else 0


if __name__ == "__main__":
    sys.exit(main())
