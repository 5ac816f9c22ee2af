"""The soak of tables: random ones, for as long as is wanted.

    make soak NAME=tables SECONDS=3600 [SEED=1]

Each table has its own seed; ``--only`` runs one again. Nothing may be left in the store, and
the memory of the process may not grow.
"""

from __future__ import annotations

import argparse
import collections
import os
import sys
import time
from pathlib import Path

import plasmon

from . import checks

#: How often it says how far it is.
REPORT_S = 10.0
#: How many failures are shown.
FAILURES_MAX = 20
#: After this many tables libraries hold all they will hold; then it may grow by this much.
WARM_TABLES = 500
GROWTH_MAX = 200 << 20


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1, help="that of the first table")
    parser.add_argument("--only", action="store_true", help="the table of the seed alone")
    return parser.parse_args()


def _resident_bytes() -> int:
    """What this process has in its own memory."""
    pages = Path("/proc/self/statm").read_text().split()
    return (int(pages[1]) - int(pages[2])) * os.sysconf("SC_PAGE_SIZE")


def main() -> int:
    """Runs tables until the time is up; how many failed decides what is returned."""
    arguments = _arguments()
    start, reported = time.monotonic(), 0.0
    failed: collections.Counter[str] = collections.Counter()
    seed, warm_bytes = arguments.seed, 0
    daemon = plasmon.start(capacity=256 << 20)
    with daemon.connect() as store:
        while time.monotonic() - start < arguments.seconds:
            try:
                checks.check(seed, store)
            except checks.Failure as failure:
                failed[str(failure)[:80]] += 1
                if failed.total() <= FAILURES_MAX:
                    print(f"seed {seed}: {failure}", flush=True)
            seed += 1
            count = seed - arguments.seed
            if count == WARM_TABLES:
                warm_bytes = _resident_bytes()
            grown = _resident_bytes() - warm_bytes if warm_bytes else 0
            if time.monotonic() - start - reported > REPORT_S:
                reported = time.monotonic() - start
                text = f"{count} tables, {failed.total()} failed, {_resident_bytes() >> 20} MiB"
                print(f"{reported:.0f} s: {text}", flush=True)
            if grown > GROWTH_MAX:
                failed["memory"] += 1
                print(f"the memory has grown by {grown >> 20} MiB since table {WARM_TABLES}")
                break
            if arguments.only:
                break
        left = store.list()
    daemon.stop()
    if left:
        failed["left"] += 1
        print(f"{len(left)} objects are left in the store")
    print(f"{seed - arguments.seed} tables from {arguments.seed}, {failed.total()} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
