"""Loads bytes that another process lent, in a process that does nothing else.

The order comes as JSON on standard input, the answer leaves on standard output. What is read is in
memory before the time begins: bytes of a file were read, a store is connected.
"""

from __future__ import annotations

import json
import sys

from bench.rivals.objects import codecs, values
from bench.rivals.objects.timing import timed


def main() -> None:
    """Answers one order."""
    order = json.load(sys.stdin)
    codec = codecs.named(order["codec"])
    how = dict(order["how"])
    reads = how.pop("reads", False)
    blob = codec.take(order["way"], order["lent"])
    loads = codec.way(order["way"], order["case"]).loads

    def load() -> object:
        value = loads(blob)
        if reads:
            values.read(value)
        return value

    json.dump(timed(load, **how), sys.stdout)


if __name__ == "__main__":
    main()
