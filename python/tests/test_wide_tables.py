"""Tables of a thousand columns, and numbers out of any sensible range."""

from __future__ import annotations

import pyarrow as pa
import pytest

import plasmon

WIDE = pa.table({f"c{at}": pa.array([at, None]) for at in range(1000)})


def test_the_end_of_a_wide_table_is_no_trouble_for_the_next_call(own):
    """After a delete or an abort the next call of the connection raised LimitReached.

    News of the memory of a thousand members overflowed the ring of completions, and each that was
    lost counted as a put whose fate is unknown.
    """
    store = own(capacity=256 << 20)
    for ends in ("delete", "abort"):
        builder = store.table_builder(WIDE.schema)
        builder.extend(WIDE)
        if ends == "abort":
            builder.abort()
        else:
            store.delete(builder.finish())
        store.put(b"next", name=f"next {ends}")
        assert store.get(f"next {ends}") == b"next"
        store.flush()


def test_numbers_of_threads_have_an_end(store):
    """``threads=10**9`` took memory for each of them, and the process ended."""
    table = pa.table({"x": [3, 1, 2]})
    for spill in ("never", "always"):
        with plasmon.sort(table, "x", threads=10**9, spill=spill, store=store) as result:
            assert result.to_arrow()["x"].to_pylist() == [1, 2, 3]
    with pytest.raises(ValueError, match="partitions must be 4,096 or less"):
        plasmon.sort(table, "x", partitions=10**9, store=store)
    with plasmon.connect(store.socket, copy_threads=10**9) as other:
        data = bytes(32 << 20)
        assert other.get(other.put(data, name="copied by many")) == data
        other.delete("copied by many")
