"""Reads tables in our store, as one of several processes."""

from __future__ import annotations

import sys

import pyarrow.compute as pc

import plasmon
from bench.rivals.plasma.sharing import answer

store = plasmon.connect(sys.argv[1], start=False)
pc.sum([1.0])


def read(id: str) -> float:
    """The sum of one column."""
    table = store.get(plasmon.ObjectId(bytes.fromhex(id)))
    return float(pc.sum(table["x0"]).as_py())


answer(read)
