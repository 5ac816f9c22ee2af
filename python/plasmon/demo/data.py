"""A deterministic Parquet file of sales: skewed keys, nulls, timestamps, decimals, floats.

The same rows and seed give the same values on every machine (NumPy's PCG64 is specified).
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

ROWS_DEFAULT = 10_000_000
SEED = 20_260_101
STORES = 2_000
PRODUCTS = 20_000
_CHUNK_ROWS = 1_000_000
_YEAR_US = 365 * 24 * 3600 * 1_000_000
_START_US = 1_735_689_600_000_000  # 2025-01-01


def ensure(path: Path, rows: int, progress: Callable[[int], None]) -> None:
    """Makes the file at ``path`` with ``rows`` rows unless a whole one is there already.

    ``progress`` is called with the number of rows written so far.
    """
    import pyarrow.parquet as pq

    if path.exists() and pq.read_metadata(path).num_rows == rows:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, scratch = tempfile.mkstemp(dir=path.parent, suffix=".parquet.part")
    os.close(handle)
    try:
        _write(Path(scratch), rows, progress)
        os.replace(scratch, path)
    except BaseException:
        os.unlink(scratch)
        raise


def _write(path: Path, rows: int, progress: Callable[[int], None]) -> None:
    import pyarrow.parquet as pq

    writer = None
    try:
        for start in range(0, rows, _CHUNK_ROWS):
            table = chunk(start, min(_CHUNK_ROWS, rows - start))
            if writer is None:
                writer = pq.ParquetWriter(path, table.schema, compression="snappy")
            writer.write_table(table)
            progress(start + table.num_rows)
    finally:
        if writer is not None:
            writer.close()


def chunk(start: int, rows: int) -> pa.Table:
    """Rows ``start`` to ``start + rows`` of the file, which depend on nothing but these numbers."""
    import numpy as np
    import pyarrow as pa

    rng = np.random.Generator(np.random.PCG64([SEED, start]))
    store = _skewed(rng, STORES, rows)
    product = _skewed(rng, PRODUCTS, rows)
    sold_at = _START_US + np.sort(rng.integers(0, _YEAR_US, rows))
    quantity = 1 + rng.poisson(1.4, rows).astype(np.int32)
    cents = np.rint(np.exp(rng.normal(3.2, 0.9, rows)) * 100).astype(np.int64)
    discount = np.round(rng.beta(1.2, 9.0, rows), 4)
    rating = rng.integers(1, 6, rows).astype(np.float32)
    return pa.table(
        {
            "sold_at": pa.array(sold_at, pa.timestamp("us", tz="UTC")),
            "store": _names("store", STORES, 5, store),
            "product": _names("product", PRODUCTS, 6, product),
            "quantity": pa.array(quantity),
            "price": _decimals(cents),
            "discount": pa.array(discount, mask=rng.random(rows) < 0.35),
            "rating": pa.array(rating, mask=rng.random(rows) < 0.6),
        }
    )


def _skewed(
    rng: np.random.Generator, count: int, rows: int
) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    """Keys below ``count``, of which key k is about as frequent as 1 / (k + 1)."""
    import numpy as np

    weights = 1.0 / np.arange(1, count + 1)
    edges = np.cumsum(weights / weights.sum())
    keys: np.ndarray[tuple[int], np.dtype[np.int32]] = np.searchsorted(
        edges, rng.random(rows), side="right"
    ).astype(np.int32)
    return np.minimum(keys, count - 1)


def _names(
    prefix: str, count: int, digits: int, keys: np.ndarray[tuple[int], np.dtype[np.int32]]
) -> pa.Array:
    """Plain strings such as ``store-00042``, one for each key."""
    import pyarrow as pa

    names = pa.array([f"{prefix}-{key:0{digits}d}" for key in range(count)])
    return names.take(pa.array(keys))


def _decimals(cents: np.ndarray[tuple[int], np.dtype[np.int64]]) -> pa.Array:
    """128-bit decimals with two places, made from their little-endian halves."""
    import numpy as np
    import pyarrow as pa

    halves = np.zeros((len(cents), 2), dtype="<i8")
    halves[:, 0] = cents
    halves[:, 1] = cents >> 63
    return pa.Array.from_buffers(
        pa.decimal128(12, 2), len(cents), [None, pa.py_buffer(halves.tobytes())]
    )
