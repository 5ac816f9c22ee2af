"""The values of some seeds, checked by a process of their own.

Cycles that lead through a NumPy array of objects are never collected, because the garbage collector
does not look into arrays: a process that made values for an hour would keep gigabytes of them.
"""

from __future__ import annotations

import collections
import time
import traceback
import warnings

import plasmon

from . import checks, registry

#: How often it says how far it is.
REPORT_S = 10.0
#: How many failures are shown.
FAILURES_MAX = 20


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


def run(socket: str, seeds: range, end: float) -> collections.Counter[str]:
    """Checks the values of some seeds until the time is up.

    `end` is a time of the monotonic clock, which all processes share. Counts the `seeds`, those
    whose value `failed`, and those that have none because a library does not make it (`unmade`).
    """
    warnings.simplefilter("ignore")
    registry.load()
    count: collections.Counter[str] = collections.Counter()
    with plasmon.connect(socket) as store:
        reported = time.monotonic()
        for seed in seeds:
            if time.monotonic() > end:
                break
            try:
                checks.check(checks.made(seed), store)
            except checks.Failure as failure:
                count["failed"] += 1
                if count["failed"] <= FAILURES_MAX:
                    _show(seed, failure, store)
            except checks.Unmade as reason:
                count["unmade"] += 1
                print(f"seed {seed} has no value: {reason}", flush=True)
            except Exception:
                count["failed"] += 1
                print(f"seed {seed}: the check stopped\n{traceback.format_exc()}", flush=True)
            count["seeds"] += 1
            if time.monotonic() - reported > REPORT_S:
                reported = time.monotonic()
                print(
                    f"{end - reported:.0f} s left: seed {seed}, {count['failed']} failed",
                    flush=True,
                )
    return count
