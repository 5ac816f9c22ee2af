"""What a store tells about its objects and about itself."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable
from typing import Any

from .conftest import IS_REFERENCE, Running
from .test_plasma_objects import make

Ids = Callable[[int], Any]

KEYS = {
    "data_size",
    "metadata_size",
    "ref_count",
    "create_time",
    "construct_duration",
    "state",
}


def test_an_empty_store_lists_nothing(client: Any) -> None:
    assert client.list() == {}


def test_sizes_and_states(client: Any, other: Any, make_id: Ids) -> None:
    make(client, make_id(1), b"data", b"metadata")
    client.create(make_id(2), 7)
    for who in (client, other):
        objects = who.list()
        assert set(objects) == {make_id(1), make_id(2)}
        assert all(set(info) == KEYS for info in objects.values())
        sealed, created = objects[make_id(1)], objects[make_id(2)]
        assert (sealed["data_size"], sealed["metadata_size"]) == (4, 8)
        assert (created["data_size"], created["metadata_size"]) == (7, 0)
        assert (sealed["state"], created["state"]) == ("sealed", "created")


def test_references_are_counted_by_client(client: Any, other: Any, make_id: Ids) -> None:
    def count() -> int:
        found: int = client.list()[make_id(1)]["ref_count"]
        return found

    buffer = client.create(make_id(1), 10)
    assert count() == 1
    client.seal(make_id(1))
    assert count() == 1
    (own,) = client.get_buffers([make_id(1)])
    assert count() == 1
    others = other.get_buffers([make_id(1)]) + other.get_buffers([make_id(1)])
    assert count() == 2
    del others
    gc.collect()
    assert count() == 1
    del buffer
    gc.collect()
    assert count() == 1
    assert own.size == 10
    del own
    gc.collect()
    assert count() == 0


def test_an_object_under_construction_counts_its_creator(client: Any, make_id: Ids) -> None:
    client.create(make_id(1), 10)
    gc.collect()
    assert client.list()[make_id(1)]["ref_count"] == 1
    client.seal(make_id(1))
    assert client.list()[make_id(1)]["ref_count"] == 0


def test_times_are_in_seconds(client: Any, make_id: Ids) -> None:
    before = int(time.time())
    client.create(make_id(1), 10)
    created = client.list()[make_id(1)]
    assert before <= created["create_time"] <= time.time()
    assert created["construct_duration"] == -1
    # A construction that takes longer than a second shows as one or two.
    threading.Event().wait(1.1)
    client.seal(make_id(1))
    sealed = client.list()[make_id(1)]
    assert sealed["create_time"] == created["create_time"]
    assert sealed["construct_duration"] in (1, 2)
    assert all(isinstance(sealed[key], int) for key in ("create_time", "construct_duration"))


def test_many_objects_are_listed(client: Any, make_id: Ids) -> None:
    ids = [make_id(number) for number in range(2000)]
    for object_id in ids:
        client.create_and_seal(object_id, b"x")
    assert set(client.list()) == set(ids)


def test_the_store_describes_itself(client: Any, running: Running, make_id: Ids) -> None:
    assert client.store_socket_name == running.name
    make(client, make_id(1), bytes(1000))
    client.set_client_options("a name", 1_000_000)
    text = client.debug_string()
    assert "capacity" in text
    assert "a name" in text


def test_a_capsule_for_native_code(client: Any) -> None:
    # Another name for another pointer: the two cannot be confused.
    capsule = client.to_capsule()
    assert type(capsule).__name__ == "PyCapsule"
    assert ('"plasma"' if IS_REFERENCE else '"plasmon.socket"') in repr(capsule)
