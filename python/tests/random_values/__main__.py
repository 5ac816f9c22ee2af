"""The soak of values: random ones, for as long as is wanted.

    make soak NAME=objects SECONDS=3600 [SEED=1]

Each value has a seed of its own. One that does not come back is shown with it, reduced to a part
that fails by itself; ``--only`` runs a value again.
"""

from __future__ import annotations

import argparse
import collections
import sys
import time
import warnings

import plasmon

from . import checks, registry

#: How often it says how far it is.
REPORT_S = 10.0
#: So many failures are shown.
FAILURES_MAX = 20


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--values", type=int, default=sys.maxsize)
    parser.add_argument("--seed", type=int, default=1, help="that of the first value")
    parser.add_argument("--only", action="store_true", help="the value of the seed alone")
    return parser.parse_args()


def _show(seed: int, failure: checks.Failure, store: plasmon.Store) -> None:
    print(f"seed {seed}: {failure}", flush=True)
    part = checks.smaller(checks.made(seed), store)
    try:
        checks.check(part, store)
    except checks.Failure as reason:
        failure = reason
    try:
        text = repr(part)
    except Exception as error:
        text = f"{type(part)!r}, which has no text: {error}"
    print(f"  a part that fails: {text:.600}\n  {failure}", flush=True)


def main() -> int:
    """Runs values until the time is up; how many failed decides what is returned."""
    arguments = _arguments()
    warnings.simplefilter("ignore")
    missing = registry.load()
    if missing:
        print(f"left out, for want of a library: {', '.join(missing)}")
    start, reported = time.monotonic(), 0.0
    failed: collections.Counter[str] = collections.Counter()
    seed, last = arguments.seed, arguments.seed + (1 if arguments.only else arguments.values)
    daemon = plasmon.start(capacity=256 << 20)
    with daemon.connect() as store:
        while seed < last and time.monotonic() - start < arguments.seconds:
            try:
                checks.check(checks.made(seed), store)
            except checks.Failure as failure:
                failed[str(failure)[:80]] += 1
                if failed.total() <= FAILURES_MAX:
                    _show(seed, failure, store)
            seed += 1
            if time.monotonic() - start - reported > REPORT_S:
                reported = time.monotonic() - start
                count = seed - arguments.seed
                print(f"{reported:.0f} s: {count} values, {failed.total()} failed", flush=True)
    daemon.stop()
    count = seed - arguments.seed
    print(f"{count} values from seed {arguments.seed}, {failed.total()} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
