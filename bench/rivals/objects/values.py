"""The objects that are turned into bytes and back, one for each case of the benchmark.

The first four are those of the article that introduced `pyarrow.serialize` in 2017. As in its own
program, all four are alive while one of them is measured: the garbage collector looks at them too.
Every side makes the objects itself, of the same numbers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

#: The four objects of the article, which live together.
ARTICLE = ("arrays_list", "arrays_dict", "dict_of_sets", "strings")
ROWS = 1_000_000
MANY = 100_000
_SCALARS = frozenset({int, float, str, bytes, bool, type(None)})


@dataclasses.dataclass
class Sample:
    """A record as programs have them by the hundred thousand."""

    x: int
    y: float
    name: str


class Reduced:
    """Takes itself apart into the arguments of its constructor, which runs again."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.length = len(name)

    def __reduce__(self) -> tuple[type[Reduced], tuple[str]]:
        return Reduced, (self.name,)

    def __eq__(self, other: object) -> bool:
        return type(other) is Reduced and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]


def _random() -> np.random.Generator:
    return np.random.default_rng(0)


def _nested_arrays() -> Any:
    random = _random()
    return {
        f"layer{at}": {
            "w": random.standard_normal((64, 64)),
            "b": random.standard_normal(64),
            "rate": 0.1 * at,
            "name": f"l{at}",
            "step": at,
            "on": True,
            "meta": {"tags": ["a", "b"], "none": None},
        }
        for at in range(500)
    }


def _columns() -> dict[str, Any]:
    """Eight columns: four of floats, two of integers, a repeated text and a unique one."""
    random = _random()
    names = np.array([f"s{at}" for at in range(1000)], dtype=object)
    return {
        **{f"f{at}": random.standard_normal(ROWS) for at in range(4)},
        "i": random.integers(0, 1 << 40, ROWS),
        "j": random.integers(0, 100, ROWS).astype("int32"),
        "s": names[random.integers(0, 1000, ROWS)],
        "u": [f"user-{at}" for at in range(ROWS)],
    }


def _pandas() -> Any:
    import pandas as pd

    return pd.DataFrame(_columns())


def _pandas_mixed() -> Any:
    """What comes out of a database: strings, prices, timestamps."""
    import decimal

    import pandas as pd

    random = _random()
    prices = random.integers(0, 1_000_000, MANY)
    return pd.DataFrame(
        {
            "id": np.arange(MANY),
            "name": [f"customer {at % 1000} of {at}" for at in range(MANY)],
            "price": [decimal.Decimal(int(cents)).scaleb(-2) for cents in prices],
            "when": pd.date_range("2020-01-01", periods=MANY, freq="s"),
            "paid": pd.date_range("2020-01-01", periods=MANY, freq="min", tz="Europe/Berlin"),
        }
    )


def _polars() -> Any:
    import polars as pl

    columns = _columns()
    return pl.DataFrame({**columns, "s": columns["s"].tolist()})


def _table() -> Any:
    import pyarrow as pa

    return pa.table(_columns())


_MAKERS: dict[str, Callable[[], Any]] = {
    "arrays_list": lambda: [_array(at) for at in range(100)],
    "arrays_dict": lambda: {f"weight-{at}": _array(at) for at in range(100)},
    "dict_of_sets": lambda: {at: {f"string1{at}", f"string2{at}"} for at in range(MANY)},
    "strings": lambda: [str(at) for at in range(2 * MANY)],
    "floats": lambda: _random().standard_normal(10 * MANY).tolist(),
    "ints": lambda: _random().integers(0, 1 << 40, 10 * MANY).tolist(),
    "dict_str_float": lambda: {f"key{at}": at * 1.5 for at in range(MANY)},
    "dataclasses": lambda: [Sample(at, at * 0.5, f"n{at}") for at in range(MANY)],
    "tuples": lambda: [(at, f"n{at}", at * 0.5) for at in range(MANY)],
    "nested_arrays": _nested_arrays,
    "tiny_arrays": lambda: list(_random().standard_normal((10_000, 16)).copy()),
    "table": _table,
    "pandas": _pandas,
    "pandas_mixed": _pandas_mixed,
    "polars": _polars,
    "reduce_classes": lambda: [Reduced(f"n{at}") for at in range(MANY)],
    "small_example": lambda: [(1, 2), "hello", 3, 4, np.array([5.0, 6.0])],
    "task_args": lambda: ((1, "abc", 2.5), {"k": [1, 2, 3], "flag": True}),
}
NAMES = tuple(_MAKERS)


def _array(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(50_000)


def make(name: str) -> Any:
    """The object of a case, new."""
    value = _MAKERS[name]()
    # The rows of one large array are views; an array of its own each is what the case is about.
    return [row.copy() for row in value] if name == "tiny_arrays" else value


class Shelf:
    """The objects that are alive: one, or the article's four."""

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._values:
            self._values.clear()
            for one in ARTICLE if name in ARTICLE else (name,):
                self._values[one] = make(one)
        return self._values[name]


def same(value: Any, back: Any) -> bool:
    """Whether what came back is what went in, types included, down to the last element."""
    if type(value) is not type(back):
        return False
    if isinstance(value, np.ndarray):
        alike = value.dtype == back.dtype and value.shape == back.shape
        return bool(alike and np.array_equal(value, back))
    if hasattr(value, "equals"):
        return bool(value.equals(back))
    if isinstance(value, dict):
        return same([*value], [*back]) and same([*value.values()], [*back.values()])
    if isinstance(value, list | tuple) and not set(map(type, value)) <= _SCALARS:
        return len(value) == len(back) and all(map(same, value, back))
    return bool(value == back) and (not isinstance(value, list | tuple) or _same_types(value, back))


def _same_types(value: Any, back: Any) -> bool:
    return [*map(type, value)] == [*map(type, back)]


def read(value: Any) -> None:
    """Reads every element of a list of arrays: what a lazy reader has put off is done here."""
    for array in value:
        if not isinstance(array, np.ndarray):
            raise TypeError(f"only lists of arrays are read, found a {type(array).__name__}")
        array.sum()
