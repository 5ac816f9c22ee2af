"""Random values come back as what they were, or are refused by name; see ``random_values``.

The seed is printed when one does not, and ``make soak NAME=objects SEED=...`` begins with it.
"""

from __future__ import annotations

import os
import warnings

import pytest

import plasmon

pytest.importorskip("cloudpickle")
pytest.importorskip("numpy")

from .random_values import checks, registry

COUNT = 2000
PARTS = 20


@pytest.mark.parametrize("part", range(PARTS))
def test_random_values(store: plasmon.Store, part: int) -> None:
    registry.load()
    first = int(os.environ.get("SEED", "1")) + part * (COUNT // PARTS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(first, first + COUNT // PARTS):
            try:
                checks.check(checks.made(seed), store)
            except checks.Failure as failure:
                text = f"make soak NAME=objects SEED={seed} shows it: {failure}"
                raise AssertionError(text) from failure
