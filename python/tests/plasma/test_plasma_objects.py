"""The life of an object: created, written, sealed, read by others."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from .conftest import Running, finish

Ids = Callable[[int], Any]


def write(buffer: Any, data: bytes) -> None:
    memoryview(buffer).cast("B")[:] = data


def make(client: Any, object_id: Any, data: bytes, metadata: bytes = b"") -> None:
    """Creates, writes and seals an object, keeping nothing of it."""
    write(client.create(object_id, len(data), metadata), data)
    client.seal(object_id)


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 1000, 4096, 100_000, 20_000_000])
def test_bytes_come_back_in_another_client(
    client: Any, other: Any, make_id: Ids, size: int
) -> None:
    data = np.random.default_rng(size).bytes(size)
    make(client, make_id(1), data, b"about it")
    ((metadata, buffer),) = other.get_buffers([make_id(1)], with_meta=True)
    assert buffer.to_pybytes() == data
    assert metadata == b"about it"
    (own,) = client.get_buffers([make_id(1)])
    assert own.to_pybytes() == data


def test_a_new_buffer_is_written_in_place(client: Any, plasma: ModuleType, make_id: Ids) -> None:
    buffer = client.create(make_id(1), 1000)
    assert isinstance(buffer, pa.Buffer)
    assert isinstance(buffer, plasma.PlasmaBuffer)
    assert buffer.is_mutable
    assert buffer.size == len(buffer) == 1000
    array = np.frombuffer(buffer, dtype="uint8")
    assert array.flags.writeable
    array[:] = np.arange(1000) % 256
    client.seal(make_id(1))
    (found,) = client.get_buffers([make_id(1)])
    assert np.array_equal(np.frombuffer(found, dtype="uint8"), np.arange(1000) % 256)


def test_memory_is_aligned_for_vectors(client: Any, make_id: Ids) -> None:
    for number, size in enumerate([1, 7, 64, 100, 5000]):
        buffer = client.create(make_id(number), size)
        assert buffer.address % 64 == 0
        client.seal(make_id(number))
        assert client.get_buffers([make_id(number)])[0].address % 64 == 0


def test_the_buffer_of_the_creator_stays_readable_after_the_seal(
    client: Any, other: Any, make_id: Ids
) -> None:
    buffer = client.create(make_id(1), 100)
    write(buffer, b"x" * 100)
    client.seal(make_id(1))
    assert buffer.to_pybytes() == b"x" * 100
    # It also holds the object: its memory is not reused while a view of it exists.
    assert other.evict(1) == 0
    other.delete([make_id(1)])
    assert buffer.to_pybytes() == b"x" * 100


def test_what_is_read_cannot_be_written(client: Any, other: Any, make_id: Ids) -> None:
    make(client, make_id(1), b"fixed")
    (buffer,) = other.get_buffers([make_id(1)])
    assert not buffer.is_mutable
    assert memoryview(buffer).readonly
    array = np.frombuffer(buffer, dtype="uint8")
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1


def test_real_arrow_buffers_come_back(client: Any, make_id: Ids) -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([1, 2, None])], names=["numbers"])
    sink = pa.MockOutputStream()
    with pa.RecordBatchStreamWriter(sink, batch.schema) as writer:
        writer.write_batch(batch)
    buffer = client.create(make_id(1), sink.size())
    stream = pa.FixedSizeBufferWriter(buffer)
    with pa.RecordBatchStreamWriter(stream, batch.schema) as writer:
        writer.write_batch(batch)
    client.seal(make_id(1))
    (found,) = client.get_buffers([make_id(1)])
    assert isinstance(found, pa.Buffer)
    assert pa.RecordBatchStreamReader(found).read_next_batch().equals(batch)


def test_an_array_outlives_the_buffer_that_it_looks_at(
    client: Any, other: Any, make_id: Ids
) -> None:
    make(client, make_id(1), bytes(100_000))
    (buffer,) = other.get_buffers([make_id(1)])
    array = np.frombuffer(buffer.slice(10, 100), dtype="uint8")
    del buffer
    gc.collect()
    assert client.evict(1) == 0
    assert not array.any()
    del array
    gc.collect()
    assert client.evict(1) == 100_000


def test_metadata_is_read_by_itself(client: Any, other: Any, make_id: Ids) -> None:
    make(client, make_id(1), b"data", b"meta\x00data")
    make(client, make_id(2), b"data")
    with_metadata, without, missing = other.get_metadata(
        [make_id(1), make_id(2), make_id(3)], timeout_ms=0
    )
    assert with_metadata.to_pybytes() == b"meta\x00data"
    assert without.to_pybytes() == b""
    assert missing is None


def test_create_and_seal_in_one_call(client: Any, other: Any, make_id: Ids) -> None:
    client.create_and_seal(make_id(1), b"data", b"meta")
    ((metadata, buffer),) = other.get_buffers([make_id(1)], with_meta=True)
    assert (metadata, buffer.to_pybytes()) == (b"meta", b"data")


def test_an_id_is_taken_from_its_creation(
    client: Any, other: Any, plasma: ModuleType, make_id: Ids
) -> None:
    client.create(make_id(1), 10)
    # The first buffer is gone, the object under construction is not.
    for who in (client, other):
        with pytest.raises(plasma.PlasmaObjectExists):
            who.create(make_id(1), 20)
        with pytest.raises(plasma.PlasmaObjectExists):
            who.create_and_seal(make_id(1), b"x")
    client.seal(make_id(1))
    with pytest.raises(plasma.PlasmaObjectExists):
        other.create(make_id(1), 20)


def test_only_what_this_client_creates_is_sealed_and_only_once(
    client: Any, other: Any, plasma: ModuleType, make_id: Ids
) -> None:
    with pytest.raises(plasma.PlasmaObjectNotFound):
        client.seal(make_id(1))
    held = client.create(make_id(1), 10)
    with pytest.raises(plasma.PlasmaObjectNotFound):
        other.seal(make_id(1))
    client.seal(make_id(1))
    with pytest.raises(pa.lib.ArrowException, match="already sealed"):
        client.seal(make_id(1))
    assert held.size == 10


def test_an_unsealed_object_is_seen_by_its_creator_alone(
    client: Any, other: Any, make_id: Ids
) -> None:
    client.create(make_id(1), 10)
    assert client.contains(make_id(1))
    assert not other.contains(make_id(1))
    assert other.get_buffers([make_id(1)], timeout_ms=0) == [None]
    client.seal(make_id(1))
    assert other.contains(make_id(1))


def test_missing_objects_are_none(client: Any, make_id: Ids) -> None:
    make(client, make_id(1), b"here")
    ids = [make_id(2), make_id(1), make_id(3)]
    for timeout_ms in (0, 20):
        found = client.get_buffers(ids, timeout_ms=timeout_ms)
        assert [buffer and buffer.to_pybytes() for buffer in found] == [None, b"here", None]
    found = client.get_buffers(ids, timeout_ms=0, with_meta=True)
    assert found[0] == found[2] == (None, None)
    assert found[1][0] == b""


@pytest.mark.improved
def test_the_same_id_may_be_asked_for_twice(client: Any, make_id: Ids) -> None:
    # The reference counts distinct objects, so it waits for a second one forever.
    make(client, make_id(1), b"once")
    first, second = client.get_buffers([make_id(1), make_id(1)])
    assert first.to_pybytes() == second.to_pybytes() == b"once"


def test_nothing_is_asked_for(client: Any) -> None:
    assert client.get_buffers([]) == []
    assert client.get([]) == []


def test_a_timeout_is_kept(client: Any, make_id: Ids) -> None:
    started = time.monotonic()
    assert client.get_buffers([make_id(1)], timeout_ms=150) == [None]
    assert time.monotonic() - started >= 0.15


def test_a_get_waits_for_every_seal(client: Any, other: Any, make_id: Ids) -> None:
    ids = [make_id(number) for number in range(5)]
    make(client, ids[0], b"0")
    asked = threading.Event()

    def read() -> list[bytes]:
        asked.set()
        return [buffer.to_pybytes() for buffer in other.get_buffers(ids)]

    def create_late() -> None:
        asked.wait()
        for number, object_id in enumerate(ids[1:], start=1):
            make(client, object_id, str(number).encode())

    creator = threading.Thread(target=create_late)
    creator.start()
    try:
        assert finish(read) == [b"0", b"1", b"2", b"3", b"4"]
    finally:
        creator.join()


def test_a_get_that_waits_for_an_object_that_was_deleted_goes_on_waiting(
    client: Any, other: Any, make_id: Ids
) -> None:
    make(client, make_id(1), b"first")
    client.delete([make_id(1)])
    assert other.get_buffers([make_id(1)], timeout_ms=10) == [None]
    creator = threading.Timer(0.05, make, (client, make_id(1), b"second"))
    creator.start()
    (buffer,) = finish(lambda: other.get_buffers([make_id(1)]))
    creator.join()
    assert buffer.to_pybytes() == b"second"


def test_wrong_arguments_are_type_errors(client: Any, make_id: Ids) -> None:
    raw = bytes(20)
    for call in (
        lambda: client.create(raw, 10),
        lambda: client.create(make_id(1), "10"),
        lambda: client.create(make_id(1), 10, "text"),
        lambda: client.seal(raw),
        lambda: client.contains(raw),
        lambda: client.hash(raw),
        lambda: client.get_buffers([raw]),
        lambda: client.get_buffers(make_id(1)),
        lambda: client.delete([raw]),
        lambda: client.create_and_seal(make_id(1), "text"),
        lambda: client.put(1, object_id=raw),
    ):
        with pytest.raises(TypeError):
            call()
    with pytest.raises(OverflowError):
        client.create(make_id(1), 1 << 63)


@pytest.mark.improved
@pytest.mark.parametrize("size", [-1, -(1 << 40), 1 << 62])
def test_an_impossible_size_is_refused_and_the_store_lives(
    client: Any, make_id: Ids, plasma: ModuleType, size: int
) -> None:
    # The reference store aborts at a negative size.
    with pytest.raises((ValueError, plasma.PlasmaStoreFull)):
        client.create(make_id(1), size)
    assert not client.contains(make_id(1))
    make(client, make_id(1), b"alive")


class TestHash:
    """Digests of content."""

    def test_missing_objects_have_none(self, client: Any, plasma: ModuleType, make_id: Ids) -> None:
        with pytest.raises(plasma.PlasmaObjectNotFound):
            client.hash(make_id(1))

    def test_equal_content_has_equal_digests(self, client: Any, other: Any, make_id: Ids) -> None:
        make(client, make_id(1), b"same", b"about")
        make(other, make_id(2), b"same", b"about")
        assert client.hash(make_id(1)) == other.hash(make_id(2)) == client.hash(make_id(2))
        assert len(client.hash(make_id(1))) == 8

    def test_metadata_counts(self, client: Any, make_id: Ids) -> None:
        for number, (data, metadata) in enumerate([(b"d", b"a"), (b"d", b"b"), (b"e", b"a")]):
            make(client, make_id(number), data, metadata)
        assert len({client.hash(make_id(number)) for number in range(3)}) == 3

    def test_few_changed_bits_are_noticed(self, client: Any, make_id: Ids) -> None:
        size, digests = 1025, set()
        for number in range(2304):
            data = bytearray(size)
            data[number % size] = 1 + number // size
            make(client, make_id(number), bytes(data))
            digests.add(client.hash(make_id(number)))
        assert len(digests) == 2304


class TestRawBuffers:
    """`put_raw_buffer`."""

    @pytest.mark.parametrize(
        "value",
        [
            b"bytes",
            bytearray(b"array"),
            memoryview(b"view"),
            np.arange(10, dtype="uint8"),
            pa.py_buffer(b"arrow"),
            bytes(3_000_000),
        ],
        ids=lambda value: type(value).__name__,
    )
    def test_anything_with_bytes_is_stored(self, client: Any, value: Any) -> None:
        object_id = client.put_raw_buffer(value)
        (found,) = client.get_buffers([object_id])
        assert found.to_pybytes() == bytes(memoryview(value))

    def test_with_an_id_and_metadata(self, client: Any, make_id: Ids) -> None:
        returned = client.put_raw_buffer(b"x", make_id(1), metadata=b"m", memcopy_threads=2)
        assert returned == make_id(1)
        assert client.get_buffers([make_id(1)], with_meta=True)[0][0] == b"m"

    def test_text_is_not_bytes(self, client: Any) -> None:
        with pytest.raises(TypeError):
            client.put_raw_buffer("text")

    @pytest.mark.improved
    def test_wide_items_are_stored_whole(self, client: Any) -> None:
        # The reference counts items where bytes are meant, and fails with half an object made.
        array = np.arange(12, dtype="int64").reshape(3, 4)
        (found,) = client.get_buffers([client.put_raw_buffer(array)])
        assert found.to_pybytes() == array.tobytes()


def test_two_clients_of_one_process_share_objects(running: Running, make_id: Ids) -> None:
    clients = [running.connect() for _ in range(5)]
    for number, writer in enumerate(clients):
        make(writer, make_id(number), bytes([number]) * 10)
    for reader in clients:
        found = reader.get_buffers([make_id(number) for number in range(5)])
        assert [buffer.to_pybytes()[0] for buffer in found] == list(range(5))
