"""Reads tables in Plasma, as one of several processes."""

from __future__ import annotations

import sys
import warnings

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import plasma

from bench.rivals.plasma.sharing import answer

warnings.simplefilter("ignore")
client = plasma.connect(sys.argv[1])
pc.sum([1.0])


def read(id: str) -> float:
    """The sum of one column."""
    [buffer] = client.get_buffers([plasma.ObjectID(bytes.fromhex(id))])
    table = pa.ipc.open_stream(buffer).read_all()
    return float(pc.sum(table["x0"]).as_py())


answer(read)
