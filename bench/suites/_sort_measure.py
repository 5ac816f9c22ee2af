"""One sort of one table by one side, and whether it is worth to begin.

Every side sorts the small tables first. What it took there, in time and memory, tells what it will
take with more rows: a sort that would not end in time, or not fit the memory, is not begun, and
the reason is what the report says. What is begun gets as long as was to be expected, and some more.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from bench.environments import MissingError
from bench.rivals.protocol import Answer
from bench.run import Context
from bench.worker import UnsupportedError

#: How many times as long the first run with ten times the rows takes: ten times the work, and
#: less of it in the caches. Measured of the rivals: 10 to 28.
GROWTH = 13.0
#: A rival that would take longer than this for one sort is compared at the smaller size.
EXPECTED_MAX_S = 60.0
#: What a call may take beside sorting: the table is made, and all memory touched once.
MAKE_S = 45.0
#: A sort may take this many times what was expected: the first run, the ones that are counted, and
#: what the estimate is short of.
TIMEOUT_FACTOR = 3.0
#: Seconds that are expected of a side without earlier results.
UNKNOWN_S = 40.0


@dataclass(frozen=True)
class Estimate:
    """What one sort will take."""

    seconds: float
    memory_bytes: float

    @classmethod
    def of(cls, smaller: Answer, times: float) -> Estimate:
        """From what a table with a fraction of the rows took."""
        sort = smaller["sort"]
        # Ten times the rows are one step of growth.
        fastest = min(*sort["cold"], *sort["wall"])
        seconds = 1e-9 * fastest * GROWTH ** math.log10(times)
        return cls(seconds, max(sort["peak"]) * smaller["input_bytes"] * times)

    def objection(self, available_bytes: int) -> str | None:
        """Why such a sort is not begun."""
        if self.seconds > EXPECTED_MAX_S:
            return f"would take {self.seconds:.0f} s, {EXPECTED_MAX_S:.0f} s is the most"
        if self.memory_bytes > available_bytes:
            needed, found = self.memory_bytes / 1e9, available_bytes / 1e9
            return f"would take {needed:.0f} GB of memory, {found:.0f} are free"
        return None


#: Results of this run: a side's answer for a table, or why there is none.
_KNOWN: WeakKeyDictionary[Context, dict[str, Answer | Exception]] = WeakKeyDictionary()


def answer(
    context: Context, side: str, request: Mapping[str, Any], smaller_rows: int | None
) -> Answer:
    """A side's answer to a request, which is made once in a run.

    MissingError or UnsupportedError say why there is no answer. `smaller_rows` is the size from
    which to tell whether to begin, if any.
    """
    known = _KNOWN.setdefault(context, {})
    key = json.dumps([side, request])
    if key not in known:
        try:
            seconds = UNKNOWN_S
            if smaller_rows is not None:
                smaller = answer(context, side, {**request, "rows": smaller_rows}, None)
                estimate = Estimate.of(smaller, request["rows"] / smaller_rows)
                objection = estimate.objection(_available_bytes())
                if objection is not None:
                    raise UnsupportedError(objection)
                seconds = estimate.seconds
            known[key] = _ask(context, side, request, MAKE_S + TIMEOUT_FACTOR * seconds)
        except (MissingError, UnsupportedError) as reason:
            known[key] = reason
    found = known[key]
    if isinstance(found, Exception):
        raise found
    return found


def _ask(context: Context, side: str, request: Mapping[str, Any], timeout_s: float) -> Answer:
    more = {name: value for name, value in request.items() if name not in ("op", "case", "rows")}
    text = " ".join([side, *(f"{value} {name}" for name, value in more.items())])
    print(f"bench:   {text}: {request['rows']:,} rows", end="", file=sys.stderr, flush=True)
    begin, told = time.monotonic(), "no answer"
    try:
        with context.fresh(side) as (worker, _):
            found = worker.call(request, timeout_s)
        sort = found["sort"]
        told = f"{sort['wall'][0] / 1e9:.2f} s, peak {sort['peak'][0]:.1f}"
    finally:
        print(f": {told} ({time.monotonic() - begin:.0f} s)", file=sys.stderr, flush=True)
    return found


def _available_bytes() -> int:
    with open("/proc/meminfo") as lines:
        found = next(line for line in lines if line.startswith("MemAvailable"))
    return int(found.split()[1]) * 1024
