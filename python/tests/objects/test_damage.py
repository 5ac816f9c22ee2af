"""Bytes that were damaged are a BrokenObject, whatever in them it was that did not fit.

A library that made a part of a value used to say so in its own way: a mask error of NumPy's, a
system error of CPython's. The seed is printed when something else comes out.
"""

from __future__ import annotations

import os
import random
import warnings
import zoneinfo
from typing import Any

import pytest

import plasmon
from plasmon import BrokenObject, NotSerializable, PickleRefused

pytest.importorskip("cloudpickle")
np = pytest.importorskip("numpy")

from ..random_values import checks, registry  # noqa: E402
from .cases import every_case  # noqa: E402

ROUNDS = 20_000
BYTES_MAX = 50_000


def _values() -> list[Any]:
    registry.load()
    made = []
    for case in every_case():
        if not case.level:
            try:
                made.append(case.make())
            except ImportError:
                continue
    return made + [checks.made(seed) for seed in range(1, 100)]


def _encoded() -> list[bytes]:
    found = []
    for value in _values():
        for form in ("small", "stream"):
            try:
                found.append(plasmon.dumps(value, form=form))
            except NotSerializable:
                continue
    return [data for data in found if len(data) < BYTES_MAX]


def damaged(data: bytes, chance: random.Random) -> bytes:
    """The bytes with some changed, cut off, or put in between."""
    changed = bytearray(data)
    for _ in range(chance.choice([1, 1, 2, 5])):
        at = chance.randrange(len(changed))
        match chance.choice(["flip", "flip", "set", "set", "cut", "insert"]):
            case "flip":
                changed[at] ^= 1 << chance.randrange(8)
            case "set":
                changed[at] = chance.choice([0, 1, 127, 128, 255])
            case "cut":
                del changed[max(at, 1) :]
            case "insert":
                changed[at:at] = chance.randbytes(8)
    return bytes(changed)


def test_damaged_bytes_are_a_broken_object():
    warnings.simplefilter("ignore")
    seed = int(os.environ.get("SEED", "1"))
    chance, encoded = random.Random(seed), _encoded()
    for number in range(ROUNDS):
        data = damaged(chance.choice(encoded), chance)
        try:
            plasmon.loads(data)
        except (BrokenObject, PickleRefused, zoneinfo.ZoneInfoNotFoundError):
            pass
        except BaseException as error:
            # The number that says where a class is from may be the damage.
            if type(error) is ValueError and "is registered" in str(error):
                continue
            raise AssertionError(f"SEED={seed}, round {number}: {error!r}") from error


def test_elements_that_take_no_room_become_no_memory():
    """200 bytes of masked array took the memory of all elements that it said to have."""
    repeated = np.broadcast_to(np.zeros(1, [("a", "i4")]), (1 << 40,))

    class Bomb:
        def __reduce__(self) -> Any:
            return plasmon.objects._format_types._masked, (repeated, None, None, False)

    data = plasmon.dumps(Bomb())
    assert len(data) < 1000
    with pytest.raises(BrokenObject):
        plasmon.loads(data)
    masked = np.ma.MaskedArray(np.broadcast_to(np.arange(3), (2, 3)), [[0, 1, 0]] * 2)
    assert repr(plasmon.loads(plasmon.dumps(masked))) == repr(masked)
