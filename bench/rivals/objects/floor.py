"""The floor of reading: CPython's own functions on flat columns, see `floor.c`."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from bench.rivals.objects import values
from bench.rivals.objects.codecs import Codec, Way
from bench.rivals.protocol import UnsupportedError

SOURCE = Path(__file__).with_name("floor.c")
_Column = tuple[Any, ...]


def _ints(numbers: Iterable[int]) -> _Column:
    return "i", np.array(list(numbers), "<i8").tobytes()


def _floats(numbers: Iterable[float]) -> _Column:
    return "f", np.array(list(numbers), "<f8").tobytes()


def _strings(strings: Iterable[str]) -> _Column:
    kept = list(strings)
    return "s", "".join(kept).encode("ascii"), np.array([len(text) for text in kept]).tobytes()


def _record(items: Any, *names: str) -> tuple[_Column, ...]:
    first, second, third = zip(*items, strict=True)
    columns = {"x": _ints, "y": _floats, "name": _strings}
    return tuple(
        columns[name](part) for name, part in zip(names, (first, second, third), strict=True)
    )


def _dataclasses(value: Any) -> _Column:
    rows = [(one.x, one.y, one.name) for one in value]
    return "o", values.Sample, ("x", "y", "name"), _record(rows, "x", "y", "name")


#: What `make` of the module is given for the object of a case.
_COLUMNS: dict[str, Callable[[Any], tuple[_Column, ...]]] = {
    "strings": lambda value: (_strings(value),),
    "floats": lambda value: (_floats(value),),
    "ints": lambda value: (_ints(value),),
    "dict_str_float": lambda value: (_strings(value), _floats(value.values())),
    "dict_of_sets": lambda value: (
        _ints(value),
        ("S", (_strings(text for one in value.values() for text in one),)),
    ),
    "tuples": lambda value: (("t", _record(value, "x", "name", "y")),),
    "dataclasses": lambda value: (_dataclasses(value),),
}


class Floor(Codec):
    """No format at all: what its "bytes" are is columns of Python's."""

    def __init__(self) -> None:
        self._make: Any = None

    def way(self, name: str, case: str) -> Way:
        if name or case not in _COLUMNS:
            raise UnsupportedError("measures the making of plain objects alone")
        make = self._make = self._make or _built()
        return Way(lambda value: (len(value), *_COLUMNS[case](value)), lambda told: make(*told))


def _built() -> Any:
    """`make` of the module, compiled for this interpreter."""
    compiler = shutil.which("cc")
    include = sysconfig.get_path("include")
    if compiler is None or not (Path(include) / "Python.h").exists():
        raise UnsupportedError("needs a C compiler and Python's headers")
    with tempfile.TemporaryDirectory(prefix="plasmon-bench-") as folder:
        made = Path(folder) / "floor.so"
        flags = ["-O3", "-shared", "-fPIC", f"-I{include}"]
        subprocess.run([compiler, *flags, str(SOURCE), "-o", str(made)], check=True)
        spec = importlib.util.spec_from_file_location("floor", made)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return module.make
