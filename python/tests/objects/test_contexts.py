"""Registered classes, the options of a context, and what a plan can do."""

from __future__ import annotations

import dataclasses
import gc
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import plasmon
from plasmon import NotSerializable, SerializationContext

from . import classes


@pytest.fixture
def context() -> SerializationContext:
    return SerializationContext()


def back(context: SerializationContext, value: Any) -> Any:
    return context.loads(context.dumps(value))


# Registered classes


def test_a_dataclass_is_its_fields(context):
    context.register(classes.Point)
    points = [classes.Point(at, at / 2, f"n{at}") for at in range(20)]
    assert back(context, points) == points
    assert back(context, points[3]) == points[3]
    with pytest.raises(NotSerializable):
        plasmon.dumps(points[0])


def test_slots_and_frozen_classes(context):
    context.register(classes.SlottedPoint)
    context.register(classes.FrozenPoint)
    values = [classes.SlottedPoint(1, 2.0, "x"), {classes.FrozenPoint(1, 2.0): 1}]
    assert back(context, values) == values


def test_a_plain_class_is_its_attributes(context):
    context.register(classes.Plain)
    value = classes.Plain(1)
    value.more = [value]
    again = back(context, value)
    assert again.more[0] is again
    assert again.value == 1


def test_enums_and_named_tuples(context):
    context.register(classes.Color, "colour")
    context.register(classes.Pair)
    value = [classes.Color.RED, classes.Color.RED, classes.Pair(1, classes.Color.BLUE)]
    again = back(context, value)
    assert again == value
    assert again[0] is classes.Color.RED
    assert type(again[2]) is classes.Pair


def test_callbacks(context):
    context.register(
        classes.NotedList,
        "strings",
        serializer=lambda strings: (list(strings), strings.note),
        deserializer=lambda state: classes.NotedList(*state[0], state[1]),
    )
    assert back(context, [classes.NotedList("a", "b")]) == [["a", "b", "kept"]]


def test_a_state_that_holds_the_object_is_refused(context):
    context.register(
        classes.Plain, serializer=vars, deserializer=lambda state: classes.Plain(state)
    )
    value = classes.Plain(1)
    value.value = (value,)
    context.register(
        classes.Plain, serializer=lambda it: (it.value,), deserializer=lambda state: state
    )
    with pytest.raises(ValueError, match="own arguments"):
        back(context, value)


def test_versions_and_ids_are_checked(context):
    context.register(classes.Point, "point", version=2)
    data = context.dumps(classes.Point(1, 2.0, "x"))
    other = SerializationContext()
    with pytest.raises(ValueError, match="no class is registered as 'point'"):
        other.loads(data)
    other.register(classes.Point, "point", version=1)
    with pytest.raises(ValueError, match="version 1, found version 2"):
        other.loads(data)
    with pytest.raises(ValueError, match="taken"):
        other.register(classes.Plain, "point")


def test_another_class_can_have_the_id(context):
    @dataclasses.dataclass
    class Moved:
        x: int
        y: float
        name: str

    context.register(classes.Point, "point")
    other = SerializationContext()
    other.register(Moved, "point")
    assert other.loads(context.dumps(classes.Point(1, 2.0, "x"))) == Moved(1, 2.0, "x")


def test_what_needs_callbacks_is_reported(context):
    for kind in (classes.NotedList, int):
        with pytest.raises(TypeError, match="serializer"):
            context.register(kind)
    with pytest.raises(TypeError, match="or neither"):
        context.register(classes.Plain, serializer=vars)


def test_clones_know_the_same_and_change_apart(context):
    context.register(classes.Point)
    cloned = context.clone(pickle="std", canonical=True)
    assert cloned.pickle == "std"
    assert context.pickle == "never"
    point = classes.Point(1, 2.0, "x")
    assert context.loads(cloned.dumps(point)) == point
    cloned.register(classes.Plain)
    with pytest.raises(NotSerializable):
        context.dumps(classes.Plain(1))


def test_a_decision_is_forgotten_when_it_is_no_longer_right(context):
    with pytest.raises(NotSerializable):
        context.dumps(classes.Plain(1))
    context.register(classes.Plain)
    assert back(context, classes.Plain(1)) == classes.Plain(1)


def test_wrong_options_are_named(context):
    with pytest.raises(ValueError, match=r"never.*std.*cloudpickle.*sometimes"):
        context.pickle = "sometimes"
    with pytest.raises(ValueError, match="defer"):
        SerializationContext(gc="off")
    with pytest.raises(ValueError, match="stream"):
        plasmon.dumps(1, form="large")


# The bytes


def test_canonical_bytes_depend_on_the_value_alone(context):
    canonical = context.clone(canonical=True)
    text = "".join(["a", "b" * 20])
    value = {"x": [text, {"k": (1, text)}], "s": {f"k{at}" for at in range(50)}}
    data = canonical.dumps(value)
    held = [value, value["x"], text]
    again = canonical.loads(data)
    assert canonical.dumps(value) == data == canonical.dumps(again)
    assert held


def test_canonical_bytes_are_the_same_in_another_process():
    code = """
    import plasmon, sys
    context = plasmon.SerializationContext(canonical=True)
    value = {"s": {f"k{at}" for at in range(50)}, "t": [(1, "a"), (2, "b")] * 5}
    sys.stdout.write(context.dumps(value).hex())
    """
    found = set()
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", "\n".join(line.strip() for line in code.splitlines())],
            env={**__import__("os").environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        found.add(done.stdout)
    assert len(found) == 1


def test_the_form_is_chosen_by_size_or_by_the_caller():
    assert plasmon.serialize([1, 2]).form == "small"
    assert plasmon.serialize([1.0] * 10_000).form == "stream"
    assert plasmon.serialize([1, 2], form="stream").form == "stream"
    assert plasmon.serialize([1.0] * 10_000, form="small").form == "small"


@pytest.mark.parametrize("form", ["small", "stream"])
def test_a_plan_is_written_anywhere(form):
    value = {"a": np.arange(1000.0), "b": "text" * 30_000, "c": [b"x" * 5000]}
    plan = plasmon.serialize(value, form=form)
    data = plasmon.dumps(value, form=form)
    assert plan.nbytes == len(plan) == len(data)
    room = bytearray(b"\xee" * (plan.nbytes + 10))
    assert plan.write_into(room) == plan.nbytes
    assert room[: plan.nbytes] == data
    assert room[plan.nbytes :] == b"\xee" * 10
    assert bytes(plan.to_buffer()) == data
    for wrong in (bytearray(plan.nbytes - 1), bytes(plan.nbytes)):
        with pytest.raises((ValueError, BufferError)):
            plan.write_into(wrong)


def test_components_are_the_object_in_pieces():
    value = [np.arange(100.0), "x", np.arange(7)]
    components = plasmon.serialize(value, form="stream").to_components()
    first, *others = components["data"]
    joined = bytes(first) + b"".join(
        bytes(one) + bytes(-len(memoryview(one)) % 64) for one in others
    )
    joined += components["tail"]
    assert joined == plasmon.dumps(value, form="stream")
    assert len(joined) == components["nbytes"]
    assert np.shares_memory(np.frombuffer(others[0]), value[0])


def test_objects_may_follow_one_another():
    data = b"".join(
        plasmon.dumps(value, form=form) for value, form in [(1, "small"), ([2], "stream")]
    )
    first = plasmon.objects.object_nbytes(data)
    assert plasmon.loads(data) == 1
    assert plasmon.loads(memoryview(data)[first:]) == [2]


def test_the_collector_is_as_it_was():
    data = plasmon.dumps([[at] for at in range(1000)])
    for before in (True, False):
        (gc.enable if before else gc.disable)()
        plasmon.loads(data)
        assert gc.isenabled() == before
    gc.enable()
    with pytest.raises(ValueError, match=r"cut off"):
        plasmon.loads(data[:-1])
    assert gc.isenabled()


# While a value is taken apart


class Meddling:
    """Changes the list that it is in when it is asked for its state."""

    def __init__(self, holder: list[Any]) -> None:
        self.holder = holder

    def __reduce__(self) -> tuple[Any, ...]:
        self.holder.clear()
        gc.collect()
        self.holder.extend("new" + str(at) for at in range(50))
        return list, ()


def test_a_value_that_changes_meanwhile_is_one_of_its_states():
    """The encoder holds on to what it has met before it runs code."""
    context = SerializationContext("std")
    for _ in range(50):
        holder: list[Any] = []
        holder += [
            "a" * 20 + str(len(holder)),
            Meddling(holder),
            "b" * 20,
            ["c" * 20],
            {"d": "e" * 9},
        ]
        data = context.dumps({"first": holder, "second": [holder, "f" * 30]})
        first = context.loads(data)["first"]
        assert first[2:] == ["b" * 20, ["c" * 20], {"d": "e" * 9}]


def test_an_error_in_a_callback_is_passed_on(context):
    def fail(value: Any) -> Any:
        raise RuntimeError("on purpose")

    context.register(classes.Plain, serializer=fail, deserializer=fail)
    with pytest.raises(RuntimeError, match="on purpose"):
        context.dumps([1, [classes.Plain(1)]])
    context.register(classes.Plain, serializer=vars, deserializer=fail)
    with pytest.raises(RuntimeError, match="on purpose"):
        context.loads(context.dumps([1, [classes.Plain(1)], np.arange(3)]))


def test_references_are_given_back():
    """Nothing that was taken apart or built is held afterwards, nor after an error."""
    strings = ["".join(["text", str(at)]) for at in range(100)]
    value = {"t": strings, "u": [strings, (strings[3], {strings[4]})], "a": np.arange(5)}
    counted = [*strings, value["a"], value["t"]]
    before = [sys.getrefcount(one) for one in counted]
    context = SerializationContext("std")
    for _ in range(20):
        context.loads(context.dumps(value))
        with pytest.raises(TypeError):
            context.dumps([value, (one for one in ())])
    del _
    assert [sys.getrefcount(one) for one in counted] == before
