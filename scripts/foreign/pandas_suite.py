"""pandas' own tests of pickling, with plasmon in the place of pickle.

``pickle`` in the modules of tests, and in what ``to_pickle`` and ``read_pickle`` are made of, is
ours. Other data, such as an old pickle among the tests' data, is left to pickle.
"""

from __future__ import annotations

import contextlib
import pickle
import sys
import types
from typing import Any
from unittest.mock import MagicMock

import differences
import pandas.io.pickle
import pytest

import plasmon

_CONTEXT = plasmon.objects.trusting_context
_STARTS = (b"PLO1", b"\xff\xff\xff\xff")
_OLD = "it changes the bytes of a pickle, or reads an old one"
DIFFERENCES = {
    "legacy_timestamp": _OLD,
    "test_unpickle_timestamp_by_component": _OLD,
    "test_pickle_frame_v124_unpickle_130": _OLD,
    "test_pickle_compat_0_14_1": _OLD,
    "test_read_fspath_all": "the wheel lacks the file",
    "test_request_headers": "the wheel lacks the server",
}


class _Ours(types.ModuleType):
    """pickle's functions over ours; what else there is in pickle is pickle's."""

    def __getattr__(self, name: str) -> Any:
        return getattr(pickle, name)

    def dumps(self, value: Any, protocol: int | None = None, **options: Any) -> bytes:
        if options:
            # Buffers of its own have another way here: to_components().
            return pickle.dumps(value, protocol, **options)
        return _CONTEXT.dumps(value)

    def loads(self, data: Any, **options: Any) -> Any:
        if bytes(data[:4]) in _STARTS:
            return _CONTEXT.loads(data)
        return pickle.loads(data, **options)

    def dump(self, value: Any, file: Any, protocol: int | None = None) -> None:
        file.write(self.dumps(value, protocol))

    def load(self, file: Any, **options: Any) -> Any:
        return self.loads(file.read(), **options)


_ours: Any = _Ours("pickle")
pandas.io.pickle.pickle = _ours

with contextlib.suppress(ImportError):
    import hypothesis  # noqa: F401 - pandas' tests import it, those of pickling do not use it
if "hypothesis" not in sys.modules:
    for _name in ("", ".strategies", ".extra", ".extra.numpy", ".extra.dateutil", ".extra.pytz"):
        sys.modules[f"hypothesis{_name}"] = MagicMock()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts ours into the modules of the tests."""
    for module in {getattr(item, "module", None) for item in items}:
        if getattr(module, "pickle", None) is pickle:
            module.pickle = _ours  # type: ignore[union-attr]
    differences.skip(items, DIFFERENCES)
