"""Notifications: what was sealed and what is gone, in order, one message for each object."""

from __future__ import annotations

import gc
import select
import socket
import struct
import threading
from collections.abc import Callable
from typing import Any

import pytest

from .conftest import Running, finish
from .test_plasma_objects import make

Ids = Callable[[int], Any]


def test_a_seal_is_reported_with_its_sizes(client: Any, other: Any, make_id: Ids) -> None:
    other.subscribe()
    for number in range(10):
        make(client, make_id(number), bytes(number), b"m" * (10 - number))
        object_id, data_size, metadata_size = finish(other.get_next_notification)
        assert object_id == make_id(number)
        assert (data_size, metadata_size) == (number, 10 - number)


def test_a_creation_is_not_reported_before_its_seal(
    running: Running, client: Any, make_id: Ids
) -> None:
    events = running.subscribe()
    client.create(make_id(1), 1)
    client.create_and_seal(make_id(2), b"22", b"2")
    client.seal(make_id(1))
    assert events.next() == [(make_id(2), 2, 1)]
    assert events.next() == [(make_id(1), 1, 0)]


def test_a_deletion_is_reported_as_minus_one(running: Running, client: Any, make_id: Ids) -> None:
    events = running.subscribe()
    ids = [make_id(number) for number in range(3)]
    for object_id in ids:
        make(client, object_id, b"x")
        assert events.next() == [(object_id, 1, 0)]
    client.delete(ids)
    assert [events.next() for _ in ids] == [[(object_id, -1, -1)] for object_id in ids]


def test_an_eviction_is_reported_as_a_deletion(running: Running, client: Any, make_id: Ids) -> None:
    for number in range(3):
        make(client, make_id(number), bytes(1000))
    events = running.subscribe()
    assert sorted(events.next()[0][0].binary() for _ in range(3)) == sorted(
        make_id(number).binary() for number in range(3)
    )
    client.evict(1001)
    assert [events.next(), events.next()] == [
        [(make_id(0), -1, -1)],
        [(make_id(1), -1, -1)],
    ]


def test_making_room_is_reported_before_what_it_was_made_for(
    running: Running, client: Any, make_id: Ids
) -> None:
    events = running.subscribe()
    for number in range(2):
        client.create(make_id(number), 100_000_000)
        client.seal(make_id(number))
    assert [events.next()[0] for _ in range(3)] == [
        (make_id(0), 100_000_000, 0),
        (make_id(0), -1, -1),
        (make_id(1), 100_000_000, 0),
    ]


def test_a_new_subscriber_gets_what_is_there(running: Running, client: Any, make_id: Ids) -> None:
    make(client, make_id(1), b"sealed", b"about")
    client.create(make_id(2), 10)
    events = running.subscribe()
    assert events.next() == [(make_id(1), 6, 5)]
    client.seal(make_id(2))
    assert events.next() == [(make_id(2), 10, 0)]


def test_every_subscriber_gets_everything(running: Running, client: Any, make_id: Ids) -> None:
    subscribers = [running.subscribe() for _ in range(3)]
    for number in range(20):
        make(client, make_id(number), b"x")
    for events in subscribers:
        assert [events.next()[0][0] for _ in range(20)] == [make_id(n) for n in range(20)]


def test_ten_thousand_wait_for_a_subscriber_that_does_not_read(
    running: Running, client: Any, make_id: Ids
) -> None:
    events = running.subscribe()
    for number in range(10_000):
        client.create_and_seal(make_id(number), number.to_bytes(2, "big"))
    for number in range(10_000):
        assert events.next() == [(make_id(number), 2, 0)]


def test_the_socket_works_in_an_event_loop(running: Running, client: Any, make_id: Ids) -> None:
    events = running.subscribe()
    assert isinstance(events.socket, socket.socket)
    assert events.socket.family == socket.AF_UNIX
    assert events.socket.type == socket.SOCK_STREAM
    assert select.select([events.socket], [], [], 0)[0] == []
    make(client, make_id(1), b"x")
    assert select.select([events.socket], [], [], 30)[0] == [events.socket]


def test_a_message_is_a_length_and_as_many_bytes(
    running: Running, client: Any, make_id: Ids
) -> None:
    events = running.subscribe()
    make(client, make_id(1), b"first", b"x")
    make(client, make_id(2), b"second")
    (length,) = struct.unpack("=q", events._read(8))
    blob = events._read(length)
    ids, data_sizes, metadata_sizes = events.client.decode_notifications(blob)
    assert (ids, data_sizes, metadata_sizes) == ([make_id(1)], [5], [1])
    assert events.next() == [(make_id(2), 6, 0)]


def test_notifications_are_decoded_by_any_client(
    running: Running, client: Any, make_id: Ids
) -> None:
    events = running.subscribe()
    make(client, make_id(1), b"x")
    assert client.decode_notifications(events.message())[0] == [make_id(1)]


def test_a_reader_is_woken_by_a_seal(client: Any, other: Any, make_id: Ids) -> None:
    other.subscribe()
    creator = threading.Timer(0.05, make, (client, make_id(1), b"x"))
    creator.start()
    assert finish(other.get_next_notification) == (make_id(1), 1, 0)
    creator.join()


def test_without_a_subscription_there_is_nothing_to_read(client: Any) -> None:
    with pytest.raises(ValueError, match="negative file descriptor"):
        client.get_notification_socket()
    with pytest.raises(OSError, match="notification"):
        client.get_next_notification()


@pytest.mark.improved
@pytest.mark.parametrize("blob", [b"", b"x", bytes(35), b"\xff" * 36, b"\xff" * 4096])
def test_bytes_that_are_no_notification_are_refused(client: Any, blob: bytes) -> None:
    # The reference reads wherever the bytes point to.
    with pytest.raises(ValueError, match="notification"):
        client.decode_notifications(blob)


def test_the_end_of_reading_is_reported_too(
    running: Running, client: Any, other: Any, make_id: Ids
) -> None:
    events = running.subscribe()
    make(client, make_id(1), b"x")
    (held,) = other.get_buffers([make_id(1)])
    client.delete([make_id(1)])
    client.create_and_seal(make_id(2), b"y")
    assert held.size == 1
    del held
    gc.collect()
    assert [events.next()[0] for _ in range(3)] == [
        (make_id(1), 1, 0),
        (make_id(2), 1, 0),
        (make_id(1), -1, -1),
    ]


@pytest.mark.improved
def test_a_second_subscription_starts_over(
    running: Running, client: Any, other: Any, make_id: Ids
) -> None:
    # The reference leaves the first socket open and fed, and its reader without an end.
    other.subscribe()
    first = running.listen(other)
    make(client, make_id(1), b"x")
    assert first.next() == [(make_id(1), 1, 0)]
    other.subscribe()
    assert running.listen(other).next() == [(make_id(1), 1, 0)]
    with pytest.raises(AssertionError, match="ended"):
        first.next()
