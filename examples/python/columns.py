"""Columns that grow in shared memory, and pyarrow allocating there. Run it: ``python columns.py``.

The cells below may be pasted into a notebook one after the other.
"""

from __future__ import annotations

import multiprocessing
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import plasmon


def read_elsewhere(socket: str) -> tuple[int, float]:
    """What another process does: it reads the table where it was built."""
    with plasmon.connect(socket) as store:
        trips = store.get("trips")
        return trips.num_rows, pc.mean(trips["km"]).as_py()


# %% A table of unknown length: its buffers grow where they are, and never move.
def build(store: plasmon.Store) -> None:
    """Appends batches, rows and columns, and seals them without a copy."""
    schema = pa.schema({"id": pa.int64(), "km": pa.float64(), "tags": pa.list_(pa.string())})
    with store.table_builder(schema) as trips:
        random = np.random.default_rng(1)
        for start in range(0, 100_000, 10_000):
            count = 10_000
            tags = pa.array([["city"]] * count, pa.list_(pa.string()))
            trips.extend(
                {"id": np.arange(start, start + count), "km": random.random(count), "tags": tags}
            )
        trips.append({"id": 100_000, "km": 1.5})
        trips.finish(name="trips")


# %% A single column, from single values.
def build_column(store: plasmon.Store) -> None:
    """A column of words."""
    with store.builder(pa.dictionary(pa.int32(), pa.string())) as words:
        for word in ["the", "quick", "brown", "fox", "jumps", "over", "the", "lazy", "dog"]:
            words.append(word)
        words.append(None)
        column = store.get(words.finish())
    print("words:", column.dictionary.to_pylist(), "nulls:", column.null_count)


# %% pyarrow allocates in the store: what it reads there is an object without a copy.
def read_parquet(store: plasmon.Store, path: Path) -> None:
    """Reads a file into shared memory and puts it."""
    pq.write_table(pa.table({"x": np.arange(1_000_000)}), path)
    with warnings.catch_warnings():
        # Without the extension for this pyarrow it works as well, with one copy at the put.
        warnings.simplefilter("ignore", RuntimeWarning)
        with store.pooled() as pool:
            table = pq.read_table(path)
    id = store.put(table, name="numbers")
    if pool.backend_name == "plasmon":
        print("copied by the put:", pool.stats()["copied_bytes"], "bytes")
    assert store.get(id).equals(table)


# %% Files become one table: read like that, and put, in one call.
def read_files(store: plasmon.Store, path: Path) -> None:
    """Reads a file twice into one table."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        id = plasmon.ingest([path, path], name="numbers twice", store=store)
    assert store.get(id).num_rows == 2_000_000


def main() -> None:
    """Everything above, in its own store."""
    with plasmon.start(capacity="256m") as store, tempfile.TemporaryDirectory() as folder:
        build(store)
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            rows, mean = pool.apply(read_elsewhere, [str(store.socket)])
        print("rows elsewhere:", rows, "mean:", round(mean, 2))
        assert rows == 100_001
        build_column(store)
        read_parquet(store, Path(folder) / "numbers.parquet")
        read_files(store, Path(folder) / "numbers.parquet")


if __name__ == "__main__":
    main()
