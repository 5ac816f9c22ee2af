"""Random objects of pandas, polars and pyarrow: what comes back is what pickle gives back.

By ``dumps`` and ``loads`` with and without pickle, and by put and get, by itself and in a list.
``PLASMON_FRAMES_SEED=n`` runs one seed, ``PLASMON_FRAMES_COUNT=n`` n of them.
"""

from __future__ import annotations

import os
import pickle
import random
import warnings

import plasmon

from ..random_values import frames
from ..random_values.same_frames import difference

NEVER = plasmon.SerializationContext("never")
TRUSTED = plasmon.objects.trusting_context
COUNT = int(os.environ.get("PLASMON_FRAMES_COUNT", "400"))
SEED = os.environ.get("PLASMON_FRAMES_SEED")


def _wanted(value):
    """What pickle gives back, if it does and if that is the same."""
    try:
        wanted = pickle.loads(pickle.dumps(value))
    except Exception:  # a type that pickle has no way for
        return value
    return value if difference(value, wanted) else wanted


def _check(seed, store):
    value = frames.value(random.Random(seed))
    wanted = _wanted(value)
    found = {
        "loads": TRUSTED.loads(TRUSTED.dumps(value)),
        "put": store.get(store.put(value)),
        "put in a list": store.get(store.put([value]))[0],
    }
    if not isinstance(value, frames._Frame):
        found["loads without pickle"] = NEVER.loads(NEVER.dumps(value))
    for way, back in found.items():
        where = difference(wanted, back)
        assert where is None, f"PLASMON_FRAMES_SEED={seed} {way}: {where}"


def test_random_frames_come_back(store):
    seeds = [int(SEED)] if SEED else range(COUNT)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in seeds:
            try:
                _check(seed, store)
            except Exception as error:
                error.add_note(f"PLASMON_FRAMES_SEED={seed}")
                raise
            finally:
                store.delete([info.id for info in store.list()])


def test_differences_are_seen():
    """The comparison itself: what it must not take for the same."""
    import numpy as np
    import pandas as pd

    days = pd.date_range("2020", periods=3)
    pairs = [
        (None, float("nan")), (float("nan"), pd.NA), (1, True), (0.0, -0.0), ("1", 1),
        (np.int8(1), np.int16(1)), (pd.Index(["a"]), pd.Index(["a"], dtype=object)),
        (pd.Series([1], name=3), pd.Series([1], name="3")),
        (pd.DataFrame({"a": [1]}), pd.DataFrame({"a": [1]}, index=pd.Index([0]))),
        (days, pd.DatetimeIndex(days, freq=None)),
    ]  # fmt: skip
    for one, other in pairs:
        assert difference(one, one) is None
        assert difference(one, other) is not None, (one, other)
