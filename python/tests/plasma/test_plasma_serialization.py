"""Values in bytes: the functions of pyarrow that `put` and `get` are made of."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from .conftest import IS_REFERENCE

pytestmark = [
    pytest.mark.skipif(IS_REFERENCE, reason="pyarrow has tests of its own"),
    pytest.mark.filterwarnings("ignore:'pyarrow.*is deprecated:FutureWarning"),
]

if not IS_REFERENCE:
    from plasmon import plasma
    from plasmon.plasma import serialization


class Point:
    def __init__(self, x: int) -> None:
        self.x = x

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.__dict__ == other.__dict__

    __hash__ = object.__hash__


VALUE = {"points": [Point(n) for n in range(10)], "array": [1.5] * 100}


def _written(value: Any, context: Any = None) -> bytes:
    sink = io.BytesIO()
    serialization.serialize_to(value, sink, context)
    return sink.getvalue()


def _components(value: Any) -> Any:
    parts = serialization.serialize(value).to_components()
    return serialization.deserialize_components(parts)


WAYS: dict[str, Callable[[Any], Any]] = {
    "a buffer": lambda value: serialization.deserialize(serialization.serialize(value).to_buffer()),
    "bytes": lambda value: serialization.deserialize(_written(value)),
    "a file": lambda value: serialization.deserialize_from(io.BytesIO(_written(value)), None),
    "still serialized": lambda value: serialization.read_serialized(
        pa.py_buffer(_written(value))
    ).deserialize(),
    "components": _components,
    "segments": lambda value: serialization.deserialize(
        b"".join(bytes(part) for part in serialization.serialize(value).segments())
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_value_comes_back_by_every_way(way: str) -> None:
    assert WAYS[way](VALUE) == VALUE


def test_sizes_are_reported_before_anything_is_written() -> None:
    ready = serialization.serialize([np.ones(1000), "text"])
    assert ready.total_bytes == len(_written([np.ones(1000), "text"]))
    assert ready.total_bytes == sum(len(part) for part in ready.segments())


def test_values_that_contain_themselves_come_back() -> None:
    value: list[Any] = [1]
    value.append(value)
    back = serialization.deserialize(_written(value))
    assert back[1] is back


def test_what_cannot_be_imported_is_taken_along() -> None:
    class Local(Point):
        pass

    back = serialization.deserialize(_written([Local(3), lambda x: x + 1]))
    assert back[0].x == 3
    assert back[1](2) == 3


def test_classes_that_can_be_imported_are_named() -> None:
    pytest.importorskip("cloudpickle").register_pickle_by_value(__import__(__name__))
    try:
        assert type(serialization.deserialize(_written(Point(1)))) is Point
    finally:
        __import__("cloudpickle").unregister_pickle_by_value(__import__(__name__))


@pytest.mark.parametrize("pickle", [False, True])
def test_a_registered_type_is_not_read_without_its_context(pickle: bool) -> None:
    context = serialization.default_serialization_context()
    context.register_type(Point, "Point", pickle=pickle)
    data = _written(Point(4), context)
    assert context.deserialize(data) == Point(4)
    assert context.clone().deserialize(data) == Point(4)
    with pytest.raises(plasma.DeserializationCallbackError, match="Point"):
        serialization.deserialize(data)


def test_a_type_can_be_registered_after_values_of_it_were_written() -> None:
    context = plasma.SerializationContext()
    for value in (Point(5), [Point(5), lambda: 0]):
        context.serialize(value)
    context.register_type(
        Point,
        "Point",
        custom_serializer=lambda point: point.x,
        custom_deserializer=lambda x: ("registered", x),
    )
    assert context.deserialize(_written(Point(5), context)) == ("registered", 5)
    assert context.deserialize(_written([Point(5), lambda: 0], context))[0] == ("registered", 5)


def test_what_no_pickle_takes_is_refused() -> None:
    file = io.FileIO(0, closefd=False)
    with pytest.raises(plasma.SerializationCallbackError) as found:
        serialization.serialize([file])
    assert found.value.example_object == [file]


@pytest.mark.parametrize("size", [0, 1, 20, 100])
def test_bytes_that_hold_no_value_are_refused(size: int) -> None:
    ways: list[Callable[[bytes], Any]] = [
        serialization.deserialize,
        lambda data: serialization.deserialize_from(io.BytesIO(data), None),
    ]
    for data in (bytes(size), _written(VALUE)[:size]):
        for read in ways:
            with pytest.raises(plasma.ArrowSerializationError):
                read(data)
