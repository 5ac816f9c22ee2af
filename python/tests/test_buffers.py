from __future__ import annotations

import gc
import io
import signal
import subprocess
import sys
import weakref

import numpy as np
import pyarrow as pa
import pytest

import plasmon
from plasmon._native import Lending

from .conftest import DEADLINE_S, child


def pins(store, id):
    return store.stat(id).pins


def test_a_buffer_is_read_in_place(store, other):
    data = bytes(range(256))
    id = store.put(data)
    mine, again = other.get_buffer(id), other.get_buffer(id)
    assert mine.address == again.address
    assert mine.address % 64 == 0
    assert len(mine) == mine.nbytes == 256
    assert bytes(mine) == data
    assert mine.id == id
    assert mine.policy == "keep"
    assert mine.tag == 0
    assert mine.header is None
    assert mine.serial == again.serial
    assert id.hex() in repr(mine)


def test_the_buffer_protocol_is_read_only(store):
    buffer = store.get_buffer(store.put(b"abc"))
    view = memoryview(buffer)
    assert view.readonly
    assert (view.format, view.shape, view.itemsize) == ("B", (3,), 1)
    with pytest.raises(TypeError):
        view[0] = 1
    with pytest.raises(TypeError, match="read-write"):
        io.BytesIO(b"xyz").readinto(buffer)
    assert view == b"abc"
    assert bytes(buffer.data[1:]) == b"bc"


def test_an_empty_object(store):
    buffer = store.get_buffer(store.put(b""))
    assert len(buffer) == 0
    assert bytes(buffer) == b""
    assert bytes(buffer.metadata) == b""
    assert bool(buffer)
    assert len(np.frombuffer(buffer.data, np.uint8)) == 0 if len(buffer) else True
    assert pa.array(buffer).to_pylist() == []


def test_release_unpins_at_once(store, other):
    id = store.put(b"x" * 100)
    store.flush()
    buffer = other.get_buffer(id)
    assert pins(store, id) == 1
    buffer.release()
    assert pins(store, id) == 0
    assert buffer.released
    buffer.release()
    for use in (lambda: bytes(buffer), lambda: buffer.id, lambda: len(buffer), lambda: buffer.data):
        with pytest.raises((ValueError, BufferError)):
            use()
    assert "released" in repr(buffer)


def test_release_with_a_view_is_refused(store):
    id = store.put(b"x" * 100)
    lookers = {
        "memoryview": lambda buffer: memoryview(buffer),
        "metadata": lambda buffer: buffer.metadata,
        "numpy": lambda buffer: np.frombuffer(buffer, np.uint8),
        "numpy by from_dlpack": lambda buffer: np.from_dlpack(buffer),
        "arrow buffer": lambda buffer: pa.py_buffer(buffer),
        "arrow array": lambda buffer: pa.array(buffer),
    }
    for name, look in lookers.items():
        buffer = store.get_buffer(id)
        looking = look(buffer)
        with pytest.raises(BufferError):
            buffer.release()
        assert pins(store, id) == 1, name
        del looking
        gc.collect()
        buffer.release()
        assert pins(store, id) == 0, name


def test_whatever_refers_to_a_buffer_keeps_it_pinned(store):
    id = store.put(np.arange(100.0))
    keepers = {
        "array": lambda: store.get(id),
        "view of an array": lambda: store.get(id)[10:20],
        "reshaped": lambda: store.get(id).reshape(10, 10).T,
        "memoryview": lambda: store.get_buffer(id).data[8:16],
        "arrow": lambda: pa.py_buffer(store.get_buffer(id)).slice(8, 8),
        "array interface": lambda: np.asarray(_Interface(store.get_buffer(id))),
    }
    for name, make in keepers.items():
        kept = make()
        gc.collect()
        assert pins(store, id) == 1, name
        del kept
        gc.collect()
        assert pins(store, id) == 0, name


class _Interface:
    """Offers nothing but the array interface."""

    def __init__(self, buffer):
        self.buffer = buffer
        self.__array_interface__ = buffer.__array_interface__


def test_a_buffer_lent_to_an_array_is_not_released_by_hand(store):
    buffer = store.get_buffer(store.put(b"x" * 64))
    assert buffer.__array_interface__["data"] == (buffer.address, True)
    with pytest.raises(BufferError):
        buffer.release()


def test_a_context_releases(store):
    id = store.put(b"abc")
    with store.get_buffer(id) as buffer:
        assert pins(store, id) == 1
    assert pins(store, id) == 0
    with pytest.raises(ValueError, match="released"), buffer:
        pass


def test_a_collected_buffer_is_released(store):
    id = store.put(b"abc")
    buffer = store.get_buffer(id)
    gone = weakref.ref(buffer)
    del buffer
    gc.collect()
    assert gone() is None
    assert pins(store, id) == 0


def test_dlpack_by_element_type(store):
    for array in (
        np.arange(6, dtype="i4").reshape(2, 3),
        np.asfortranarray(np.eye(3)),
        np.array(7.5),
    ):
        buffer = store.get_buffer(store.put(array))
        back = np.from_dlpack(buffer)
        assert back.dtype == array.dtype
        assert np.array_equal(back, array)
        assert not back.flags.writeable
        assert back.ctypes.data == buffer.address
    raw = store.get_buffer(store.put(b"\1\2"))
    assert np.from_dlpack(raw).tolist() == [1, 2]
    assert raw.__dlpack_device__() == (1, 0)


@pytest.mark.parametrize("dtype", "? i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8 c8 c16".split())
def test_elements_that_dlpack_knows(store, dtype):
    array = np.arange(6).astype(dtype).reshape(3, 2)
    back = np.from_dlpack(store.get_buffer(store.put(array)))
    assert back.dtype == array.dtype
    assert back.tolist() == array.tolist()


@pytest.mark.parametrize("dtype", [">f8", ">i2", "g", "G", "M8[s]", "S5", "U3", "V4", "i4,f4"])
def test_elements_that_dlpack_has_no_name_for(store, dtype):
    buffer = store.get_buffer(store.put(np.zeros(2, dtype)))
    with pytest.raises(BufferError, match="no element type"):
        buffer.__dlpack__(max_version=(1, 0))


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1, 1), (2, 3, 4)])
def test_shapes_for_dlpack(store, shape):
    for order in "CF":
        array = np.zeros(shape, "f4", order)
        back = np.from_dlpack(store.get_buffer(store.put(array)))
        assert back.shape == shape
        assert back.flags.f_contiguous == array.flags.f_contiguous


ELEMENTS = "? i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8 c8 c16 >f8 M8[s] S5 U3 i4,f4".split()


@pytest.mark.parametrize("dtype", ELEMENTS)
def test_every_protocol_says_the_same_of_a_buffer(store, dtype):
    """`np.from_dlpack` gave the array, `np.asarray`, the array interface and memoryview its bytes
    in one dimension."""
    for order in "CF":
        for shape in [(), (0,), (3, 0, 2), (2, 3), (1, 4, 1)]:
            array = np.zeros(shape, dtype, order)
            if dtype in "i4 f8 c16".split():
                array[...] = np.arange(array.size).reshape(shape)
            buffer = store.get_buffer(store.put(array))
            views = {
                "asarray": np.asarray(buffer),
                "array interface": np.asarray(_Interface(buffer)),
                "memoryview": np.asarray(memoryview(buffer)),
            }
            try:
                views["dlpack"] = np.from_dlpack(buffer)
                expected = array
            except BufferError:
                expected = np.frombuffer(buffer.data, np.uint8)
            for name, view in views.items():
                assert (view.dtype, view.shape) == (expected.dtype, expected.shape), name
                assert view.flags.f_contiguous == expected.flags.f_contiguous, name
                assert np.array_equal(view, expected), name
                assert not view.flags.writeable, name
                assert not view.size or view.ctypes.data == buffer.address, name
            assert len(buffer.data) == buffer.nbytes == array.nbytes
            assert bytes(buffer.data) == array.tobytes(order)


def test_a_view_has_the_format_and_the_shape_of_the_array(store):
    array = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    buffer = store.get_buffer(store.put(array))
    view = memoryview(buffer)
    assert (view.format, view.shape, view.strides) == ("d", (2, 3), (8, 16))
    assert view.tolist() == array.tolist()
    assert (buffer.data.format, buffer.data.shape) == ("B", (48,))
    # Memory of a program's own that came with the letter of another name for the same type.
    for letter in "bBhHiIlLqQnNfd?":
        lent = memoryview(bytes(16)).cast(letter)
        found = memoryview(store.get_buffer(store.put(lent)))
        assert (found.itemsize, found.shape) == (lent.itemsize, lent.shape)
        assert found.tolist() == lent.tolist()
        assert np.asarray(found).dtype == np.asarray(lent).dtype


def test_views_in_another_order_are_refused(store):
    fortran = store.get_buffer(store.put(np.asfortranarray(np.eye(3))))
    with pytest.raises(BufferError, match="another order"):
        _testbuffer_get(fortran, "C")
    with pytest.raises(BufferError, match="another order"):
        _testbuffer_get(store.get_buffer(store.put(np.ones((2, 3)))), "F")
    fortran.release()


def _testbuffer_get(buffer, order):
    """Asks for memory in one order, as extensions in C do."""
    import ctypes

    flags = 0x0008 | 0x0010 | {"C": 0x0020, "F": 0x0040}[order]
    view = (ctypes.c_char * 80)()
    get = ctypes.pythonapi.PyObject_GetBuffer
    get(ctypes.py_object(buffer), view, flags)


def test_dlpack_for_unversioned_consumers_and_other_devices(store):
    buffer = store.get_buffer(store.put(b"abc"))
    for options in (
        {},
        {"max_version": (0, 8)},
        {"max_version": (1, 0), "copy": True},
        {"max_version": (1, 0), "dl_device": (2, 0)},
    ):
        with pytest.raises(BufferError):
            buffer.__dlpack__(**options)
    with pytest.raises(ValueError, match="stream"):
        buffer.__dlpack__(stream=1, max_version=(1, 0))


def test_an_unused_capsule_is_freed(store):
    id = store.put(b"abc")
    buffer = store.get_buffer(id)
    capsules = [buffer.__dlpack__(max_version=(1, 0)), buffer.__arrow_c_array__()]
    del buffer
    gc.collect()
    assert pins(store, id) == 1
    del capsules
    gc.collect()
    assert pins(store, id) == 0


def test_arrow_offers_fit_what_the_object_holds(store):
    raw = store.get_buffer(store.put(b"abc"))
    table = store.get_buffer(store.put(pa.table({"x": [1]})))
    assert hasattr(raw, "__arrow_c_array__")
    assert not hasattr(raw, "__arrow_c_stream__")
    assert hasattr(table, "__arrow_c_stream__")
    assert not hasattr(table, "__arrow_c_array__")
    assert pa.array(raw).to_pylist() == [97, 98, 99]
    assert pa.table(table).to_pylist() == [{"x": 1}]
    with pytest.raises(AttributeError, match="colour"):
        _ = raw.colour


def test_a_reader_that_writes_dies_and_the_object_does_not_change(store):
    id = store.put(b"immutable" * 1000)
    store.flush()
    died = child(
        """
        import ctypes, sys, plasmon
        store = plasmon.connect(sys.argv[1])
        buffer = store.get_buffer(plasmon.ObjectId.from_hex(sys.argv[2]))
        print("reading", buffer.data[0], flush=True)
        ctypes.memset(buffer.address, 0, 1)
        print("written", flush=True)
        """,
        str(store.socket),
        id.hex(),
    )
    assert died.returncode == -signal.SIGSEGV, died.stderr
    assert died.stdout.split() == ["reading", str(ord("i"))]
    assert store.get(id, timeout=DEADLINE_S) == b"immutable" * 1000


def test_many_pins(store):
    id = store.put(b"x")
    store.flush()
    held = [store.get_buffer(id) for _ in range(20_000)]
    assert pins(store, id) == 20_000
    del held
    gc.collect()
    assert pins(store, id) == 0


def test_a_broken_array_is_corrupt(store):
    from plasmon import _native
    from plasmon._native import TAG_NDARRAY, TAG_PYTHON

    good = store.get_buffer(store.put(np.arange(4.0)))
    assert good.header == (_native.ARRAY_NUMPY, "C", [4], "<f8")
    assert good.tag == TAG_NDARRAY
    assert TAG_PYTHON != TAG_NDARRAY
    assert bytes(good.stored_metadata).startswith(b"PLV1")
    assert isinstance(good, plasmon.Buffer)


def test_memory_that_ends_while_an_exception_is_on_its_way():
    """The later call saw the exception: it failed, and the exception was lost."""
    ended, seen = [], []

    def end(key):
        try:
            seen.append(sys.exc_info()[0])
            # Calls into C that look whether something was raised.
            ended.append(int(str(key)) + len(sorted([key])))
            raise LookupError("of its own")
        except LookupError:
            pass

    def view():
        return memoryview(Lending(bytearray(100), end, 7))

    with pytest.raises(IndexError):
        view()[10**9]
    with pytest.raises(TypeError):
        view()["no index"]
    with pytest.raises(ValueError, match="unpack"):
        _one, _other = view()[:1]
    assert ended == [8, 8, 8]


def test_an_end_that_fails_leaves_the_exception_alone(monkeypatch):
    told = []
    monkeypatch.setattr(sys, "unraisablehook", told.append)

    def end(key):
        raise KeyError(key)

    with pytest.raises(IndexError):
        memoryview(Lending(bytearray(100), end, 7))[10**9]
    assert [type(one.exc_value) for one in told] == [KeyError]


def test_memory_that_is_lent_to_its_owner_is_collected():
    class Memory(bytearray):
        pass

    memory = Memory(10)
    ended = []
    memory.lending = Lending(memory, ended.append, 7)
    del memory
    gc.collect()
    assert ended == [7]


def test_views_that_outlive_the_interpreter():
    """They go in any order at the end, and nothing asks an interpreter that is gone."""
    code = """
import plasmon
from plasmon._native import Lending
from plasmon._native import Lending
ready = plasmon.serialize([bytearray(b"x" * 100_000), memoryview(bytes(10))])
lending = Lending(bytearray(10), print, "ended")
views = [memoryview(lending), memoryview(ready.to_buffer())]
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr
