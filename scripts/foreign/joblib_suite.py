"""joblib's own tests of Parallel, with plasmon's backend beside joblib's."""

from __future__ import annotations

import differences
import pytest

_NO_MAPS = "arrays lie in the store, not in memory maps of files"
DIFFERENCES = {
    "test_auto_memmap_on_arrays_from_generator": _NO_MAPS,
    "test_memmapping_leaks": _NO_MAPS,
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leaves out what is another way by design."""
    differences.skip(items, DIFFERENCES)
