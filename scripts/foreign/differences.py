"""Tests of others that ours are not meant to pass."""

from __future__ import annotations

from collections.abc import Iterable

import pytest


def skip(items: Iterable[pytest.Item], differences: dict[str, str]) -> None:
    """Skips tests whose name has one of these parts; the reason is shown."""
    for item in items:
        for part, reason in differences.items():
            if part in item.name or part in item.nodeid:
                item.add_marker(pytest.mark.skip(reason=reason))
