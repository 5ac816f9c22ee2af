"""Python objects in stores: written in place, read on the object's memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import plasmon
from plasmon import PickleRefused, SerializationContext, _native
from plasmon.objects import default_context, trusting_context

from . import classes


def test_arrays_lie_on_the_objects_memory(store):
    value = {"weights": [np.arange(10_000.0) + at for at in range(3)], "names": ["a", "b"]}
    id = store.put(value)
    assert store.stat(id).tag == _native.TAG_PYTHON
    back = store.get(id)
    assert back["names"] == ["a", "b"]
    buffer = store.get_buffer(id)
    address = back["weights"][2].__array_interface__["data"][0]
    assert buffer.address <= address < buffer.address + buffer.nbytes
    assert address % 64 == 0
    assert not back["weights"][0].flags.writeable
    del buffer
    # The array alone keeps the object's memory.
    store.delete(id)
    array = back["weights"][2]
    del back
    for _ in range(4):
        store.delete(store.put(bytes(200_000)))
    assert array[-1] == 10_001.0


def test_small_and_large_objects(store):
    for value in ([], {"k": [1] * 10}, [float(at) for at in range(300_000)], "text" * 100_000):
        assert store.get(store.put(value)) == value


def test_names_and_metadata_are_the_callers(store):
    id = store.put([1, 2], name="a list", namespace="objects", metadata=b"mine")
    assert store.get("a list", namespace="objects") == [1, 2]
    assert bytes(store.get_buffer(id).metadata) == b"mine"
    store.delete(id)


def test_a_store_of_ones_own_is_trusted_as_one_is(store):
    assert store.level == "shared"
    assert store.context is trusting_context
    value = [classes.Plain(1), lambda: 5]
    back = store.get(store.put(value))
    assert back[0] == value[0]
    assert back[1]() == 5


def test_what_others_may_have_written_is_read_without_pickle(own):
    store = own(level="leased")
    assert store.context is default_context
    with pytest.raises(plasmon.NotSerializable):
        store.put([classes.Plain(1)])
    data = SerializationContext("std").dumps([classes.Plain(1)])
    id = store.put(data, tag=_native.TAG_PYTHON)
    with pytest.raises(PickleRefused, match="classes:Plain"):
        store.get(id)
    store.context = SerializationContext("std")
    assert store.get(id) == [classes.Plain(1)]
    store.context = None
    assert store.context is default_context


def test_a_class_registered_once_is_known_to_stores(store):
    class Local:
        def __init__(self, value: Any) -> None:
            self.value = value

    default_context.register(Local, "test_stores.Local")
    back = store.get(store.put([Local(3)]))
    assert type(back[0]) is Local
    assert back[0].value == 3


def test_plans_are_written_into_objects_by_hand(store):
    plan = plasmon.serialize({"a": np.arange(1000)})
    with store.create(plan.nbytes, tag=_native.TAG_PYTHON) as writer:
        plan.write_into(writer.data)
    assert store.get(writer.id)["a"][-1] == 999


def test_broken_objects_are_refused(store):
    id = store.put(b"PLO1 no object", tag=_native.TAG_PYTHON)
    with pytest.raises(ValueError, match=r"broken|cut off"):
        store.get(id)
    assert store.get(id, as_="bytes") == b"PLO1 no object"
