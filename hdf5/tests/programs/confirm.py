"""A plugin of pytest for h5py's own tests: confirms that what can be Arrow is Arrow.

Every dataset that the tests make is looked at. It has to be Arrow when it is of numbers, or a
list of records of numbers, contiguous, of a fixed size, not empty, and in an ordinary file. The
last line says how many had to be and how many were.
"""

from __future__ import annotations

from typing import Any

import h5py
import numpy as np
from h5py import h5d, h5f, h5i, h5p, h5s, h5t

from plasmon.hdf5._plugin import explain

_create = h5d.create
_due: list[str] = []
_missed: list[str] = []


def _is_number(kind: np.dtype) -> bool:
    return kind.kind in "iuf" and kind.itemsize <= 8 and kind.newbyteorder("<") == kind


def _is_due(made: Any) -> bool:
    """Whether a dataset has to be Arrow. NumPy calls bit fields numbers, too."""
    list_, space, kind = made.get_create_plist(), made.get_space(), made.dtype
    names = kind.names or ()
    records = bool(names) and space.get_simple_extent_ndims() == 1
    types = [kind[name] for name in names] if records else [kind]
    file = h5i.get_file_id(made)
    return (
        list_.get_layout() == h5d.CONTIGUOUS
        and list_.get_external_count() == 0
        and space.get_simple_extent_type() == h5s.SIMPLE
        and space.get_simple_extent_dims() == space.get_simple_extent_dims(True)
        and space.get_simple_extent_npoints() > 0
        and not made.get_type().committed()
        and h5py.check_enum_dtype(kind) is None
        and all(map(_is_number, types))
        and (records or made.get_type().equal(h5t.py_create(kind)))
        and file.get_access_plist().get_driver() == h5p.create(h5p.FILE_ACCESS).get_driver()
        and file.get_intent() != h5f.ACC_RDONLY
    )


def _creating(*arguments: Any, **more: Any) -> Any:
    made = _create(*arguments, **more)
    if _is_due(made):
        storage = explain(h5py.Dataset(made))
        name = f"{made.dtype} of shape {made.shape}"
        _due.append(name)
        if storage.reason:
            _missed.append(f"{name}: {storage.reason}")
    return made


def pytest_configure() -> None:
    """Begins to look."""
    h5d.create = _creating


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Says what was seen."""
    for name in _missed:
        terminalreporter.write_line(f"NOT ARROW {name}")
    seen = len(_due) - len(_missed)
    terminalreporter.write_line(f"ARROW {seen} of {len(_due)} datasets that can be")
