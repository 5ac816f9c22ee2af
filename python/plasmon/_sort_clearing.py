"""Deleting what processes made that have ended."""

from __future__ import annotations

import time
from collections.abc import Iterable

from plasmon._errors import NotOwner
from plasmon._native import ObjectId
from plasmon._store import Store

#: For how long the store may take to notice that a process has ended.
_PATIENCE_S = 10.0
_STEP_S = 0.05


def delete_made(store: Store, ids: Iterable[ObjectId]) -> None:
    """Deletes objects that are sealed or were being created by processes that have ended.

    What such a process was creating is its own until the store has read the last of what it said,
    which may be that the object is sealed.
    """
    left, end = list(ids), time.monotonic() + _PATIENCE_S
    while left:
        outcomes = store.delete(left, errors="return")
        for outcome in outcomes:
            if outcome is not None and not isinstance(outcome, NotOwner):
                raise outcome
        refused = [outcome for outcome in outcomes if outcome is not None]
        if refused and time.monotonic() > end:
            raise refused[0]
        left = [id for id, outcome in zip(left, outcomes, strict=True) if outcome is not None]
        if left:
            store.wait(left, timeout=_STEP_S)
