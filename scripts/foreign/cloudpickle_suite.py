"""cloudpickle's own tests, with plasmon in the place of cloudpickle and of pickle."""

from __future__ import annotations

import differences
import pytest

_TOOLS = "fails with cloudpickle itself: without psutil, and under pytest's capture"
DIFFERENCES = {
    "test_interactive_remote_function_calls_no_memory_leak": _TOOLS,
    "test_pickling_file_handles": _TOOLS,
    "test_recursion_during_pickling": "a RecursionError, not a PicklingError",
    "test_pickle_constructs_from_module_registered_for_pickling_by_value": (
        "what cannot be imported is a LookupError, which names it, not an ImportError"
    ),
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leaves out what is another way by design."""
    differences.skip(items, DIFFERENCES)
