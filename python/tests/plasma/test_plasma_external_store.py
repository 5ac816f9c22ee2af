"""Evicted objects go to an external store and come back from it."""

from __future__ import annotations

import gc
import pathlib
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from .conftest import Running
from .test_plasma_objects import make

Ids = Callable[[int], Any]
Start = Callable[..., Running]

CAPACITY = 1_024_000
SIZE = 100 * 1024


def content(number: int, size: int = SIZE) -> bytes:
    return np.random.default_rng(number).bytes(size)


def fill(client: Any, make_id: Ids, count: int = 20) -> None:
    for number in range(count):
        make(client, make_id(number), content(number))
    gc.collect()


def check(client: Any, make_id: Ids, count: int = 20) -> None:
    for number in range(count):
        (buffer,) = client.get_buffers([make_id(number)])
        assert buffer.to_pybytes() == content(number), number
        del buffer


def test_twice_the_capacity_comes_back(start: Start, make_id: Ids) -> None:
    running = start(CAPACITY, external_store="hashtable://test")
    client = running.connect()
    fill(client, make_id)
    assert all(client.contains(make_id(number)) for number in range(20))
    check(client, make_id)
    check(running.connect(), make_id)


def test_values_come_back(start: Start) -> None:
    client = start(CAPACITY, external_store="hashtable://test").connect()
    ids = [client.put(np.full(10_000, number)) for number in range(30)]
    for number, object_id in enumerate(ids):
        array = client.get(object_id)
        assert (array == number).all()
        del array


def test_objects_in_use_stay_where_they_are(start: Start, make_id: Ids) -> None:
    client = start(CAPACITY, external_store="hashtable://test").connect()
    make(client, make_id(100), b"held")
    (held,) = client.get_buffers([make_id(100)])
    fill(client, make_id)
    assert held.to_pybytes() == b"held"


@pytest.mark.improved
def test_deleted_objects_are_deleted_there_too(start: Start, make_id: Ids) -> None:
    # The reference cannot delete what it has evicted.
    client = start(CAPACITY, external_store="hashtable://test").connect()
    fill(client, make_id)
    client.delete([make_id(0), make_id(19)])
    assert not client.contains(make_id(0))
    assert not client.contains(make_id(19))
    assert client.get_buffers([make_id(0)], timeout_ms=0) == [None]
    make(client, make_id(0), b"new")
    assert client.get_buffers([make_id(0)])[0].to_pybytes() == b"new"


@pytest.mark.improved
def test_metadata_comes_back(start: Start, make_id: Ids) -> None:
    # The reference restores the data alone.
    client = start(CAPACITY, external_store="hashtable://test").connect()
    make(client, make_id(100), b"data", b"metadata")
    fill(client, make_id)
    ((metadata, buffer),) = client.get_buffers([make_id(100)], with_meta=True)
    assert (metadata, buffer.to_pybytes()) == (b"metadata", b"data")


@pytest.mark.improved
def test_evict_moves_objects_there(start: Start, make_id: Ids) -> None:
    client = start(CAPACITY, external_store="hashtable://test").connect()
    fill(client, make_id, 5)
    assert client.evict(1) == SIZE
    assert client.evict(10 * SIZE) == 4 * SIZE
    assert client.evict(1) == 0
    check(client, make_id, 5)


@pytest.mark.improved
def test_objects_go_to_a_directory(start: Start, make_id: Ids, tmp_path: pathlib.Path) -> None:
    client = start(CAPACITY, external_store=f"file://{tmp_path}/evicted").connect()
    fill(client, make_id)
    assert any((tmp_path / "evicted").iterdir())
    check(client, make_id)


@pytest.mark.improved
def test_a_scheme_of_ones_own(
    start: Start, make_id: Ids, plasma: ModuleType, tmp_path: pathlib.Path
) -> None:
    opened: list[str] = []
    closed: list[str] = []

    class Shelf:
        def __init__(self, endpoint: str) -> None:
            self.endpoint = endpoint
            opened.append(endpoint)

        def directory(self) -> pathlib.Path:
            return tmp_path

        def close(self) -> None:
            closed.append(self.endpoint)

    plasma.register_external_store("shelf", Shelf)
    with plasma.start_plasma_store(CAPACITY, external_store="shelf://top") as (name, _):
        client = plasma.connect(name)
        fill(client, make_id)
        check(client, make_id)
        client.disconnect()
        assert (opened, closed) == (["shelf://top"], [])
    assert closed == ["shelf://top"]


@pytest.mark.parametrize("endpoint", ["bogus://test", "hashtable", "://test"])
def test_an_unknown_store_is_refused(
    plasma: ModuleType, endpoint: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with (
        pytest.raises((RuntimeError, ValueError)),
        plasma.start_plasma_store(CAPACITY, external_store=endpoint),
    ):
        pass
