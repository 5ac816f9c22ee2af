"""Objects of pandas, polars and pyarrow, as one of the kinds of values."""

from __future__ import annotations

from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa

from . import frames, same_frames
from .compare import Compare, comparison
from .registry import Make, generator


@generator("an object of pandas, polars or pyarrow", weight=3)
def _frame(make: Make) -> Any:
    return frames.value(make.random)


@comparison(
    pd.DataFrame,
    pd.Series,
    pd.Index,
    pd.Period,
    pd.Interval,
    pd.offsets.BaseOffset,
    pd.api.extensions.ExtensionArray,
    pd.api.extensions.ExtensionDtype,
    pa.Array,
    pa.ChunkedArray,
    pa.RecordBatch,
    pa.Table,
    pl.DataFrame,
    pl.Series,
)
def _same(a: Any, b: Any, compare: Compare) -> None:
    where = same_frames.difference(a, b, "")
    if where is not None:
        compare.note(where)
