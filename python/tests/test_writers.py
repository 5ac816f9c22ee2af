from __future__ import annotations

import gc

import numpy as np
import pytest

import plasmon

from .conftest import MIB


@pytest.mark.parametrize("size", [0, 1, 64, 100_000, 17 * MIB])
def test_an_object_is_written_in_place(store, other, size):
    with store.create(size, metadata=b"about") as writer:
        assert (len(writer), writer.nbytes, writer.state) == (size, size, "open")
        assert store.states(writer.id) == ["creating"]
        if size:
            memoryview(writer)[:] = b"\7" * size
    assert writer.state == "sealed"
    with other.get_buffer(writer.id) as buffer:
        assert bytes(buffer) == b"\7" * size
        assert bytes(buffer.metadata) == b"about"
    store.delete(writer.id)


def test_an_unsealed_object_is_invisible(store, other):
    writer = store.create(10)
    assert not other.contains(writer.id)
    with pytest.raises((plasmon.NotSealed, plasmon.TimedOut)):
        other.get(writer.id, timeout=0)
    writer.abort()
    assert not other.contains(writer.id)


def test_a_block_that_raises_aborts(store):
    with pytest.raises(ZeroDivisionError), store.create(10) as writer:
        _ = 1 / 0
    assert writer.state == "aborted"
    assert not store.contains(writer.id)
    with pytest.raises(plasmon.NotFound):
        store.get(writer.id, timeout=0)


def test_sealing_and_aborting_twice(store):
    writer = store.create(3)
    assert writer.seal() == writer.id
    with pytest.raises(plasmon.AlreadySealed):
        writer.seal()
    with pytest.raises(plasmon.AlreadySealed):
        writer.abort()
    aborted = store.create(3)
    aborted.abort()
    aborted.abort()
    with pytest.raises(plasmon.Cancelled):
        aborted.seal()
    for ended in (writer, aborted):
        with pytest.raises(ValueError, match="no longer"):
            ended.write(b"x")
        with pytest.raises((ValueError, BufferError)):
            memoryview(ended)
        with pytest.raises(ValueError, match="the object is"), ended:
            pass


def test_writing_at_offsets(store):
    with store.create(6) as writer:
        end = writer.write(b"ab")
        end = writer.write(np.frombuffer(b"cd", np.uint8), end)
        assert writer.write(b"ef", end) == 6
        for data, offset in ((b"x", 6), (b"", 7), (b"1234567", 0), (b"x", 1 << 63)):
            with pytest.raises(ValueError, match="do not fit"):
                writer.write(data, offset)
    assert store.get(writer.id) == b"abcdef"


@pytest.mark.parametrize("size", [100, 1 * MIB])
@pytest.mark.parametrize(("start", "offset"), [(0, 1), (0, 7), (9, 2), (0, 0)])
def test_a_part_of_the_object_itself_may_be_written_to_it(store, size, start, offset):
    """The copy was one for memory that does not overlap, and some bytes came out twice."""
    before = bytes(range(256)) * (size // 256 + 1)
    wanted = bytearray(before[: size + 16])
    wanted[offset : offset + size] = wanted[start : start + size]
    with store.create(size + 16) as writer:
        writer.write(before[: size + 16])
        with memoryview(writer) as view, view[start : start + size] as part:
            assert writer.write(part, offset) == offset + size
    assert store.get(writer.id) == bytes(wanted)


def test_a_view_that_could_still_write_stops_the_seal(store):
    writer = store.create(8)
    view = np.frombuffer(writer, np.uint8)
    with pytest.raises(BufferError, match="force"):
        writer.seal()
    assert writer.state == "open"
    view[:] = 1
    del view
    gc.collect()
    assert store.get(writer.seal()) == b"\1" * 8


def test_a_block_that_leaves_a_view_raises(store):
    with pytest.raises(BufferError), store.create(8) as writer:
        view = memoryview(writer)
    assert writer.state == "aborted"
    view[0] = 1  # the memory is still there
    view.release()
    assert not store.contains(writer.id)


@pytest.mark.parametrize("size", [4096, 17 * MIB])
def test_a_forced_seal_keeps_the_memory_while_a_view_lives(store, other, size):
    writer = store.create(size)
    view = np.frombuffer(writer, np.uint8)
    view[:] = 5
    id = writer.seal(force=True)
    assert other.get_buffer(id).data[size - 1] == 5
    assert other.stat(id).pins == 1
    store.delete(id)
    others = [store.put(b"\0" * size) for _ in range(3)]
    assert view[0] == 5
    assert view[size - 1] == 5
    view[:] = 6  # must not reach any other object
    assert all(other.get(id) == b"\0" * size for id in others)
    del view
    gc.collect()
    store.delete(others)


def test_a_forgotten_writer_aborts(store):
    writer = store.create(10)
    id = writer.id
    del writer
    gc.collect()
    assert not store.contains(id)
    store.put(b"the id is free", id=id)
    store.delete(id)


def test_a_named_object_is_created_once(store, other):
    with store.create(4, name="made", namespace="writers") as writer:
        writer.write(b"made")
    assert other.get("made", namespace="writers") == b"made"
    with pytest.raises(plasmon.Exists):
        other.create(4, name="made", namespace="writers").seal()
    store.delete(writer.id)


def test_options_are_those_of_put(store):
    with pytest.raises(TypeError, match="colour"):
        store.create(1, colour="red")
    with store.create(1, policy="cache", ttl=1000) as writer:
        pass
    info = store.stat(writer.id)
    assert info.policy == "cache"
    assert info.expires is not None
