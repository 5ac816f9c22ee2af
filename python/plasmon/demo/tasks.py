"""The four computations of the demo, each on the whole table, chosen from its schema."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import pyarrow as pa

Kind = Literal["group", "filter", "quantile", "monthly"]


@dataclass(frozen=True)
class Task:
    """One computation: what it does, and on which columns."""

    kind: Kind
    key: str
    value: str

    @property
    def columns(self) -> list[str]:
        """The columns that it reads."""
        alone = self.kind in ("filter", "quantile")
        return [self.value] if alone else list(dict.fromkeys([self.key, self.value]))

    def describe(self) -> str:
        """The computation in words."""
        return {
            "group": f"sum and mean of {self.value} for each {self.key}, the top five",
            "filter": f"rows whose {self.value} is more than three times its mean",
            "quantile": f"1st, 50th and 99th percentile of {self.value}",
            "monthly": f"rows and sum of {self.value} for each month of {self.key}",
        }[self.kind]


def plan(schema: pa.Schema) -> list[Task]:
    """Four tasks that fit the table; a :class:`ValueError` names what it lacks."""
    import pyarrow as pa

    types = pa.types
    numbers = [
        field.name
        for field in schema
        if types.is_floating(field.type)
        or types.is_decimal(field.type)
        or types.is_integer(field.type)
    ]
    times = [field.name for field in schema if types.is_temporal(field.type)]
    keys = [
        field.name
        for field in schema
        if types.is_string(field.type)
        or types.is_large_string(field.type)
        or types.is_dictionary(field.type)
    ]
    if not numbers:
        raise ValueError("the table has no numeric column to compute on")
    keys = keys or numbers[:1]
    value = next(
        (name for name in numbers if types.is_decimal(schema.field(name).type)), numbers[0]
    )
    floats = [name for name in numbers if types.is_floating(schema.field(name).type)]
    other = next((name for name in floats + numbers if name != value), value)
    last = Task("monthly", times[0], value) if times else Task("group", keys[-1], other)
    return [
        Task("group", keys[0], value),
        Task("filter", keys[0], value),
        Task("quantile", keys[0], other),
        last,
    ]


def run(task: Task, table: pa.Table) -> pa.Table:
    """The answer of one task: a small table."""
    value = _as_number(table[task.value])
    if task.kind == "group":
        return _group(table[task.key], value, task)
    if task.kind == "filter":
        return _filter(value)
    if task.kind == "quantile":
        return _quantile(value)
    return _monthly(table[task.key], value, task)


def _as_number(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Decimals as floats: the kernels for means and quantiles take only those."""
    import pyarrow as pa

    return column.cast(pa.float64()) if pa.types.is_decimal(column.type) else column


def _group(key: pa.ChunkedArray, value: pa.ChunkedArray, task: Task) -> pa.Table:
    import pyarrow as pa

    grouped = (
        pa.table({task.key: key, "value": value})
        .group_by(task.key, use_threads=False)
        .aggregate([("value", "sum"), ("value", "mean")])
    )
    order = [("value_sum", "descending"), (task.key, "ascending")]
    return grouped.sort_by(order).slice(0, 5).combine_chunks()


def _filter(value: pa.ChunkedArray) -> pa.Table:
    import pyarrow as pa
    import pyarrow.compute as pc

    mean = pc.mean(value).as_py()
    kept = value.filter(pc.greater(value, pa.scalar(3 * mean, value.type)))
    return pa.table({"rows": [len(kept)], "sum": [float(pc.sum(kept).as_py() or 0)]})


def _quantile(value: pa.ChunkedArray) -> pa.Table:
    import pyarrow as pa
    import pyarrow.compute as pc

    shares = [0.01, 0.5, 0.99]
    return pa.table({"share": shares, "quantile": pc.quantile(value, shares)})


def _monthly(time: pa.ChunkedArray, value: pa.ChunkedArray, task: Task) -> pa.Table:
    import pyarrow as pa
    import pyarrow.compute as pc

    month = pc.floor_temporal(time, unit="month")
    grouped = (
        pa.table({"month": month, "value": value})
        .group_by("month", use_threads=False)
        .aggregate([("value", "count"), ("value", "sum")])
        .sort_by("month")
        .combine_chunks()
    )
    text = pc.strftime(grouped["month"], format="%Y-%m")
    return grouped.set_column(grouped.schema.get_field_index("month"), "month", text)


def lines(answer: pa.Table, limit: int = 5) -> list[str]:
    """The answer for a person, one line for each row."""
    return [
        "  ".join(f"{k}={_short(v)}" for k, v in row.items()) for row in answer.to_pylist()[:limit]
    ]


def _short(value: Any) -> str:
    return f"{value:,.2f}" if isinstance(value, float) else str(value)


def same(one: pa.Table, other: pa.Table) -> bool:
    """Whether two answers agree, floats within the rounding of another summation order."""
    import math

    if one.schema != other.schema or one.num_rows != other.num_rows:
        return False
    for left, right in zip(one.to_pylist(), other.to_pylist(), strict=True):
        for name, value in left.items():
            if isinstance(value, float):
                if not math.isclose(value, right[name], rel_tol=1e-9):
                    return False
            elif value != right[name]:
                return False
    return True
