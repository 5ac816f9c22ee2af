"""Bytes of others: without pickle they run nothing, and broken ones are refused."""

from __future__ import annotations

import collections
import json
import os
import pickle
import random
import re
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import plasmon
from plasmon import BrokenObject, PickleRefused, SerializationContext

from . import classes

VECTORS = sorted((Path(__file__).parents[3] / "spec" / "objects").glob("*.plo"))
HOSTILE = sorted((Path(__file__).parents[3] / "spec" / "objects" / "hostile").glob("*.plo"))
STANDARD = SerializationContext("std")
CLOUD = SerializationContext("cloudpickle")

#: What code leaves when it runs.
RAN: list[Any] = []


def leave_a_trace(*arguments: Any) -> list[Any]:
    RAN.append(arguments)
    return []


class Armed:
    """Runs a function when it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return leave_a_trace, ("ran",)


class Watched:
    """A class whose own code must not run when its objects are made."""

    seen: ClassVar[list[str]] = []

    def __init__(self) -> None:
        self.seen.append("__init__")

    def __setattr__(self, name: str, value: Any) -> None:
        self.seen.append(name)
        super().__setattr__(name, value)

    @property
    def locked(self) -> int:
        return 0

    @locked.setter
    def locked(self, value: int) -> None:
        self.seen.append("locked")


@pytest.fixture(autouse=True)
def _quiet():
    RAN.clear()
    yield
    assert not RAN


def test_without_pickle_nothing_is_run():
    for value in (Armed(), [1, {"k": Armed()}], [Armed() for _ in range(20)], leave_a_trace):
        data = CLOUD.dumps(value)
        with pytest.raises(PickleRefused, match=r"leave_a_trace.*pickle=\"std\""):
            plasmon.loads(data)
        with pytest.raises(PickleRefused):
            SerializationContext("never").loads(data)


def test_the_place_of_what_needs_pickle_is_reported():
    with pytest.raises(PickleRefused, match=r"at root\[1\]\.values\(\)\[0\]"):
        plasmon.loads(STANDARD.dumps([1, {"k": classes.Plain(1)}]))
    with pytest.raises(plasmon.NotSerializable, match=r"Plain.*\(it is at \[1\]\['k'\]\)"):
        plasmon.dumps([1, {"k": classes.Plain(1)}])
    with pytest.raises(plasmon.NotSerializable, match="the value itself"):
        plasmon.dumps(leave_a_trace)
    with pytest.raises(plasmon.NotSerializable, match=r"a builtins\.generator .*at \[0\]\.value"):
        CLOUD.dumps([classes.Plain(one for one in ())])


def test_a_name_is_no_way_around():
    """Importable, specified and registered names are apart: a byte says which is meant."""
    data = bytearray(STANDARD.dumps(Armed(), form="small"))
    name = f"{__name__}:leave_a_trace".encode()
    assert bytes(data).count(name) == 1
    # The source of the only class is the byte that is 2 and makes a difference.
    outcomes = set()
    for at, byte in enumerate(data):
        if byte != 2:
            continue
        for source in (0, 1, 3):
            changed = bytearray(data)
            changed[at] = source
            with pytest.raises(ValueError, match=r"\w") as caught:
                plasmon.loads(bytes(changed))
            outcomes.add(str(caught.value).split(" ")[0])
    assert not RAN
    assert outcomes


def test_cloudpickles_need_cloudpickle():
    data = CLOUD.dumps(lambda: 1)
    with pytest.raises(PickleRefused):
        plasmon.loads(data)
    with pytest.raises(PickleRefused):
        STANDARD.loads(data)
    assert CLOUD.loads(data)() == 1


@pytest.mark.parametrize(
    "reduced",
    [
        (collections.deque, (range(10**12),)),
        (collections.Counter, (range(10**12),)),
        (collections.OrderedDict, (range(10**12),)),
        (range, ("a",)),
        (slice, ()),
    ],
    ids=str,
)
def test_specified_classes_check_their_arguments(reduced):
    class Bomb:
        def __reduce__(self) -> tuple[Any, ...]:
            return reduced

    data = plasmon.dumps(Bomb())
    with pytest.raises((ValueError, TypeError)):
        plasmon.loads(data)


def test_types_are_only_data_types():
    data = plasmon.dumps([dict])
    assert data.count(b"dict") == 1
    with pytest.raises(ValueError, match="data type"):
        plasmon.loads(data.replace(b"dict", b"eval"))


def test_attributes_are_set_without_running_code():
    context = SerializationContext()
    context.register(Watched, fields=("a", "b"))
    value = Watched.__new__(Watched)
    vars(value).update(a=1, b=[2])
    Watched.seen.clear()
    back = context.loads(context.dumps(value))
    assert vars(back) == {"a": 1, "b": [2]}
    assert Watched.seen == []


def test_attributes_of_bytes_ask_no_descriptor():
    writer, reader = SerializationContext(), SerializationContext()
    writer.register(classes.Plain, "thing")
    reader.register(Watched, "thing")
    for name in ("locked", "__class__", "__dict__"):
        value = classes.Plain(0)
        vars(value)[name] = {}
        back = reader.loads(writer.dumps(value))
        assert type(back) is Watched
        assert vars(back)[name] == {}
    strict = SerializationContext()
    with pytest.raises(ValueError, match="descriptor"):
        strict.register(Watched, "thing", fields=("locked",))
    assert Watched.seen == []


@pytest.mark.parametrize("data", [b"", b"PLO1", b"PLO1" + bytes(40), bytes(100), b"\xff" * 9000])
def test_other_bytes_are_refused(data):
    with pytest.raises(BrokenObject, match=r"not an object|cut off|broken"):
        plasmon.loads(data)


@pytest.mark.parametrize("vector", HOSTILE, ids=lambda path: path.stem)
def test_hostile_vectors_are_refused_for_what_they_break(vector):
    wanted = json.loads(vector.with_suffix(".json").read_text("utf-8"))
    for context in (None, CLOUD):
        with pytest.raises(BrokenObject) as caught:
            plasmon.loads(vector.read_bytes(), context=context)
        assert caught.value.code == wanted["error"]
        # Python's own decoder says of a text why it is none.
        found = re.sub(r": UnicodeDecodeError: .*", " at 0", str(caught.value))
        assert found == wanted["says"]


@pytest.mark.parametrize(
    "value",
    [{(1,): 2}, {(1,)}, [{"k": [3]}, {(4,): 5}]],
    ids=str,
)
def test_keys_that_cannot_be_keys_are_reported(value):
    """A tuple as a key, made a list in the bytes."""
    data = plasmon.dumps(value, form="small")
    found = 0
    for at in range(24, len(data)):
        if data[at] == 1:
            changed = data[:at] + b"\0" + data[at + 1 :]
            try:
                plasmon.loads(changed)
            except BrokenObject as error:
                found += "a key that cannot be used" in str(error)
    assert found


def test_errors_of_broken_objects_can_be_sent():
    with pytest.raises(BrokenObject) as caught:
        plasmon.loads(plasmon.dumps([1])[:-1])
    back = pickle.loads(pickle.dumps(caught.value))
    assert (str(back), back.code) == (str(caught.value), "truncated")


@pytest.mark.parametrize("form", ["small", "stream"])
def test_truncated_bytes_are_refused(form):
    data = plasmon.dumps({"a": [1, "b", np.arange(3)], "c": None}, form=form)
    for cut in range(0, len(data), 1 if form == "small" else 97):
        with pytest.raises(ValueError, match=r"not an object|cut off|broken"):
            plasmon.loads(data[:cut])


def test_damaged_bytes_are_refused_or_are_a_value():
    """Never a crash, a hang or more memory than some times the input, whatever byte is wrong."""
    seed = int(os.environ.get("SEED", "20261120"))
    chance = random.Random(seed)
    originals = [data for data in (path.read_bytes() for path in VECTORS) if len(data) < 20_000]
    values = 0
    for round_ in range(4000):
        data = bytearray(chance.choice(originals))
        for _ in range(chance.randint(1, 3)):
            data[chance.randrange(len(data))] = chance.choice(
                [0, 1, 127, 255, chance.randrange(256)]
            )
        try:
            plasmon.loads(bytes(data))
            values += 1
        except MemoryError:
            pytest.fail(f"SEED={seed}, round {round_}: more memory than there is")
        except (BrokenObject, PickleRefused, LookupError):
            pass
        except Exception as error:
            # A class that is not registered has a name of its own.
            if type(error) is not ValueError or "registered" not in str(error):
                pytest.fail(f"SEED={seed}, round {round_}: {error!r}")
    assert 0 < values < 4000


def test_arrays_of_bytes_are_read_only_views():
    data = bytearray(plasmon.dumps([np.arange(10.0), memoryview(b"abc")]))
    array, view = plasmon.loads(data)
    assert not array.flags.writeable
    assert not array.flags.owndata
    assert view.readonly
    with pytest.raises(BufferError):
        data.extend(b"more")
