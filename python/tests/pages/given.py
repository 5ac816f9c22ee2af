"""What readers have before they open a page: data and programs of their own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq


def sales(rows: int, seed: int) -> pa.Table:
    """A table of sales."""
    random = np.random.default_rng(seed)
    cities = np.array(["Bern", "Rome", "Lima", "Oslo"])
    return pa.table(
        {
            "city": cities[random.integers(0, len(cities), rows)],
            "price": random.random(rows).round(4) * 100,
        }
    )


def files(*names: str) -> Callable[[Path], None]:
    """Parquet files with some of those names."""

    def write(folder: Path) -> None:
        for seed, name in enumerate(names):
            pq.write_table(sales(10_000, seed), folder / name)

    return write


GIVEN: dict[str, Callable[[Path], None]] = {
    "README.md": files("sales.parquet"),
    "durable.md": files("prices.parquet"),
}
