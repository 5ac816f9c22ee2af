"""Python values in the store: `put` and `get`."""

from __future__ import annotations

import collections
import datetime
import gc
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from .conftest import IS_REFERENCE, finish

Ids = Callable[[int], Any]

PLAIN = [
    None,
    True,
    0,
    -(2**62),
    2**100,
    1.5,
    "text",
    "",
    "Grüße, 世界",
    b"bytes",
    b"",
    [],
    {},
    (),
    [1, [2, [3, "deep"]]],
    {"key": [1, 2], "nested": {"a": (None, True)}},
    {1, 2, 3},
    datetime.datetime(2020, 2, 29, 12, 30, 15, 123456),
    collections.OrderedDict([("b", 1), ("a", 2)]),
    collections.defaultdict(list, {"a": [1]}),
    collections.Counter("abracadabra"),
    collections.deque([1, 2, 3]),
    int,
]


@pytest.mark.parametrize("value", PLAIN, ids=lambda value: type(value).__name__)
def test_plain_values_come_back(client: Any, other: Any, value: Any) -> None:
    found = other.get(client.put(value))
    assert found == value
    assert type(found) is type(value)


@pytest.mark.improved
@pytest.mark.parametrize(
    "value",
    [1 + 2j, bytearray(b"x"), slice(1, 2), range(5), len, pa.schema([("a", pa.int8())])],
    ids=lambda value: type(value).__name__,
)
def test_more_values_come_back(client: Any, value: Any) -> None:
    assert client.get(client.put(value)) == value


@pytest.mark.parametrize(
    "array",
    [
        np.arange(100_000),
        np.arange(24, dtype="float32").reshape(2, 3, 4),
        np.asfortranarray(np.arange(24).reshape(4, 6)),
        np.zeros((0, 3)),
        np.array(3.5),
        np.array([True, False]),
        np.array([1 + 2j]),
        np.array(["2020-01-01", "NaT"], dtype="datetime64[D]"),
        np.array(["a", None, {"b": 1}], dtype=object),
        np.arange(20)[::3],
    ],
    ids=lambda array: f"{array.dtype}{array.shape}",
)
def test_arrays_come_back(client: Any, array: Any) -> None:
    found = client.get(client.put(array))
    assert isinstance(found, np.ndarray)
    assert found.dtype == array.dtype
    assert found.shape == array.shape
    if array.dtype == object:
        assert list(found) == list(array)
    else:
        np.testing.assert_array_equal(found, array)


def test_arrays_are_read_in_place(client: Any, other: Any) -> None:
    object_id = client.put({"large": np.arange(100_000), "also": np.ones(1000)})
    found = other.get(object_id)
    for array in found.values():
        assert not array.flags.owndata
        assert not array.flags.writeable
        assert array.ctypes.data % 64 == 0
    # A view of one of them keeps the object from being evicted.
    column = found["also"][10:20]
    del found, array
    gc.collect()
    assert client.evict(1) == 0
    assert column.sum() == 10
    del column
    gc.collect()
    assert client.evict(1) > 800_000


@pytest.mark.parametrize(
    "value",
    [
        pa.array([1, None, 3]),
        pa.array(["a", None, "ccc"]),
        pa.RecordBatch.from_arrays([pa.array([1, 2]), pa.array(["x", None])], names=["a", "b"]),
        pa.table({"numbers": list(range(1000)), "texts": [str(n) for n in range(1000)]}),
        pa.py_buffer(b"buffer"),
        pa.Tensor.from_numpy(np.arange(6).reshape(2, 3)),
        pa.SparseCOOTensor.from_dense_numpy(np.eye(3)),
        pa.SparseCSRMatrix.from_dense_numpy(np.eye(3)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_arrow_values_come_back(client: Any, value: Any) -> None:
    found = client.get(client.put(value))
    assert type(found) is type(value)
    assert found.equals(value)


def test_arrow_columns_are_read_in_place(client: Any, other: Any) -> None:
    table = pa.table({"numbers": np.arange(100_000)})
    before = pa.total_allocated_bytes()
    found = other.get(client.put(table))
    (_, values) = found.column("numbers").chunk(0).buffers()
    assert values.size == 800_000
    assert pa.total_allocated_bytes() - before < 100_000


def test_data_frames_come_back(client: Any) -> None:
    frame = pd.DataFrame(
        {
            "numbers": [1.5, None, 3.0],
            "texts": ["a", None, "c"],
            "times": pd.to_datetime(["2020-01-01", None, "2020-03-01"]),
        },
        index=pd.Index([10, 20, 30], name="key"),
    )
    pd.testing.assert_frame_equal(client.get(client.put(frame)), frame)
    series = pd.Series([1, 2, 3], name="s")
    pd.testing.assert_series_equal(client.get(client.put(series)), series)


def test_many_values_are_got_in_order(client: Any, plasma: ModuleType, make_id: Ids) -> None:
    ids = [client.put(number) for number in range(10)]
    assert client.get(ids) == list(range(10))
    assert client.get(tuple(ids[:2])) == [0, 1]
    assert client.get(ids[3]) == 3
    mixed = client.get([ids[0], make_id(1), ids[1]], timeout_ms=0)
    assert mixed == [0, plasma.ObjectNotAvailable, 1]
    assert client.get(make_id(1), timeout_ms=10) is plasma.ObjectNotAvailable


def test_a_value_gets_the_id_that_it_is_given(
    client: Any, plasma: ModuleType, make_id: Ids
) -> None:
    assert client.put("value", make_id(1)) == make_id(1)
    assert client.get(make_id(1)) == "value"
    with pytest.raises(plasma.PlasmaObjectExists):
        client.put("another", make_id(1))
    assert client.put([1], memcopy_threads=1) != client.put([1])


def test_a_get_waits_for_a_value(client: Any, other: Any, make_id: Ids) -> None:
    creator = threading.Timer(0.05, client.put, ("late", make_id(1)))
    creator.start()
    assert finish(lambda: other.get(make_id(1))) == "late"
    creator.join()


class Point:
    def __init__(self, x: int, y: int) -> None:
        self.x = x
        self.y = y


class Subpoint(Point):
    pass


@pytest.fixture
def new_context(plasma: ModuleType) -> Any:
    return pa.SerializationContext if IS_REFERENCE else plasma.SerializationContext


def registered(new_context: Any) -> Any:
    context = new_context()
    context.register_type(
        Point,
        "Point",
        custom_serializer=lambda point: {"x": point.x, "array": np.full(1000, point.y)},
        custom_deserializer=lambda data: Point(data["x"], int(data["array"][0])),
    )
    return context


def test_registered_types_are_stored_as_they_say(client: Any, new_context: Any) -> None:
    context = registered(new_context)
    object_id = client.put([Point(1, 2)], serialization_context=context)
    (found,) = client.get(object_id, serialization_context=context)
    assert isinstance(found, Point)
    assert (found.x, found.y) == (1, 2)


def test_a_registered_type_needs_its_context_to_be_read(
    client: Any, plasma: ModuleType, new_context: Any
) -> None:
    object_id = client.put(Point(1, 2), serialization_context=registered(new_context))
    error = (
        pa.lib.DeserializationCallbackError if IS_REFERENCE else plasma.DeserializationCallbackError
    )
    for context in (None, new_context()):
        with pytest.raises(error, match="Point"):
            client.get(object_id, serialization_context=context)


def test_subclasses_go_by_their_registered_parent(client: Any, new_context: Any) -> None:
    context = registered(new_context)
    object_id = client.put(Subpoint(3, 4), serialization_context=context)
    found = client.get(object_id, serialization_context=context)
    assert (found.x, found.y) == (3, 4)


@pytest.mark.parametrize("pickle", [False, True])
def test_types_are_registered_without_functions(
    client: Any, new_context: Any, pickle: bool
) -> None:
    context = new_context()
    context.register_type(Point, "Point", pickle=pickle)
    object_id = client.put(Point(5, 6), serialization_context=context)
    found = client.get(object_id, serialization_context=context)
    assert isinstance(found, Point)
    assert (found.x, found.y) == (5, 6)


def test_a_context_is_cloned(client: Any, new_context: Any) -> None:
    original = registered(new_context)
    clone = original.clone()
    object_id = client.put(Point(1, 2), serialization_context=original)
    assert client.get(object_id, serialization_context=clone).y == 2


def test_a_type_is_named_by_a_text(new_context: Any) -> None:
    with pytest.raises(TypeError, match="must be a string"):
        new_context().register_type(Point, 1)


def test_contexts_are_deprecated(client: Any, new_context: Any) -> None:
    with pytest.warns(FutureWarning, match="serialization_context"):
        object_id = client.put(1, serialization_context=new_context())
    with pytest.warns(FutureWarning, match="serialization_context"):
        assert client.get(object_id, serialization_context=new_context()) == 1


@pytest.mark.improved
def test_any_instance_is_stored_without_registration(client: Any) -> None:
    found = client.get(client.put(Point(7, 8)))
    assert (found.x, found.y) == (7, 8)


@pytest.mark.improved
def test_what_cannot_be_stored_leaves_nothing(
    client: Any, plasma: ModuleType, make_id: Ids
) -> None:
    with pytest.raises(plasma.ArrowSerializationError):
        client.put(threading.Lock(), make_id(1))
    assert not client.contains(make_id(1))


@pytest.mark.improved
@pytest.mark.parametrize("data", [b"x", b"no value at all", bytes(64), bytes(4096)])
def test_bytes_that_hold_no_value_are_refused(
    client: Any, plasma: ModuleType, make_id: Ids, data: bytes
) -> None:
    client.create_and_seal(make_id(1), data)
    with pytest.raises(plasma.ArrowSerializationError):
        client.get(make_id(1))
