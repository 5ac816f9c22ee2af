from __future__ import annotations

import json

import numpy as np
import pytest

import plasmon
from plasmon import _dtypes, _native

STRUCTURED = np.dtype([("a", "<i4"), ("b", ">f8"), ("c", "S3", (2,))])
ALIGNED = np.dtype([("a", "i1"), ("b", "f8"), ("n", [("x", "u2"), ("y", "u1")])], align=True)
TITLED = np.dtype([(("The title", "a"), "i4"), ("b", "f4", (2, 3))])


def inside(array, buffer):
    """Whether the array lies on the object's memory."""
    start = array.__array_interface__["data"][0]
    return buffer.address <= start and start + array.nbytes <= buffer.address + len(buffer)


TYPES = [
    *"? i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8 g F D G".split(),
    *">i4 >f8 >c16 M8[ns] M8[D] m8[s] >M8[us] S5 U7 >U2 V6".split(),
    STRUCTURED,
    ALIGNED,
    TITLED,
]


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (7,), (3, 4), (2, 0, 3), (2, 3, 4)])
def test_arrays_of_every_type_come_back_in_place(store, other, dtype, shape):
    dtype = np.dtype(dtype)
    count = int(np.prod(shape)) * dtype.itemsize
    raw = np.random.default_rng(7).integers(0, 2, count, np.uint8).tobytes()
    array = np.frombuffer(raw, dtype).reshape(shape) if count else np.zeros(shape, dtype)
    id = store.put(array)
    back = other.get(id)
    assert type(back) is np.ndarray
    assert (back.dtype, back.shape) == (array.dtype, array.shape)
    assert back.tobytes() == array.tobytes()
    assert not back.flags.writeable
    if back.nbytes:
        buffer = other.get_buffer(id)
        assert inside(back, buffer)
        assert back.ctypes.data % 64 == 0
    store.delete(id)


def test_fortran_order_stays(store):
    array = np.asfortranarray(np.arange(12.0).reshape(3, 4))
    back = store.get(store.put(array))
    assert back.flags.f_contiguous
    assert not back.flags.c_contiguous
    assert np.array_equal(back, array)
    structured = np.asfortranarray(np.zeros((2, 3), STRUCTURED))
    assert store.get(store.put(structured)).flags.f_contiguous


@pytest.mark.parametrize(
    "cut",
    [
        lambda a: a[::2],
        lambda a: a[::-1],
        lambda a: a[:, 1:3],
        lambda a: a[1:, ::-2],
        lambda a: np.broadcast_to(a[0], (5, a.shape[1])),
        lambda a: a.transpose(),
    ],
)
def test_arrays_with_gaps_are_written_once(store, cut):
    array = cut(np.arange(60.0).reshape(6, 10))
    id = store.put(array, metadata=b"own", name="gaps", policy="cache")
    back = store.get(id)
    assert np.array_equal(back, array)
    buffer = store.get_buffer("gaps")
    assert len(buffer) == array.nbytes
    assert bytes(buffer.metadata) == b"own"
    del back
    store.delete(id)


def test_gaps_in_structured_and_time_arrays(store):
    times = np.arange(20).astype("M8[s]")[::3]
    assert np.array_equal(store.get(store.put(times)), times)
    rows = np.zeros(10, STRUCTURED)
    rows["a"] = np.arange(10)
    assert np.array_equal(store.get(store.put(rows[::2])), rows[::2])
    assert np.array_equal(store.get(store.put(rows["a"])), rows["a"])


def test_an_array_is_copied_once_and_read_without(store, other):
    array = np.arange(1e6)
    id = store.put(array)
    array[:] = 0
    back = other.get(id)
    assert back.sum() == 499999500000.0
    buffer = other.get_buffer(id)
    assert back.ctypes.data == buffer.address
    with pytest.raises(ValueError, match="read-only"):
        back[0] = 1
    with pytest.raises(ValueError, match="WRITEABLE"):
        back.flags.writeable = True


def test_memory_mapped_arrays_are_arrays(store, tmp_path):
    path = tmp_path / "array.npy"
    np.save(path, np.arange(10))
    assert store.get(store.put(np.load(path, mmap_mode="r"))).tolist() == list(range(10))


@pytest.mark.parametrize(
    "value",
    [
        np.array([1, "a", [2]], object),
        np.array([("x", 1)], [("a", object), ("b", int)]),
        np.array(["variable", "é"], np.dtypes.StringDType()),
        np.ma.masked_array([1, 2], [0, 1]),
        np.zeros(3, STRUCTURED).view(np.recarray),
        np.float64(1),
    ],
)
def test_what_is_nearly_an_array_is_a_python_object(store, value):
    id = store.put(value)
    assert store.stat(id).tag == _native.TAG_PYTHON
    back = store.get(id)
    assert type(back) is type(value)
    assert back.dtype == value.dtype
    assert repr(back.tolist()) == repr(value.tolist())


@pytest.mark.parametrize(
    "dtype",
    [
        np.dtype({"names": ["a", "b"], "formats": ["i4", "i2"], "offsets": [0, 2]}),
        ALIGNED,
        np.dtype("f8", metadata={"unit": "m"}),
        np.dtype((np.record, [("a", "i4")])),
    ],
    ids=str,
)
def test_types_without_a_text_come_back(store, dtype):
    """NumPy's comparison leaves out what they have besides: it was lost."""
    value = np.zeros(3, dtype)
    for back in (store.get(store.put(value)), store.get(store.put([value]))[0]):
        assert type(back) is np.ndarray
        assert _dtypes.is_same_dtype(back.dtype, dtype)
        assert back.tolist() == value.tolist()


def test_the_header_is_as_documented(store):
    buffer = store.get_buffer(store.put(np.zeros((2, 3), "<f4"), metadata=b"own"))
    assert buffer.tag == _native.TAG_NDARRAY
    assert buffer.header == (_native.ARRAY_NUMPY, "C", [2, 3], "<f4")
    head = b"PLV1" + bytes([0, 0, 2, 0]) + (3).to_bytes(4, "little") + bytes(4)
    shape = (2).to_bytes(8, "little") + (3).to_bytes(8, "little")
    assert bytes(buffer.stored_metadata) == head + shape + b"<f4" + b"own"
    assert bytes(buffer.metadata) == b"own"


@pytest.mark.parametrize("dtype", [STRUCTURED, TITLED], ids=str)
def test_structured_types_are_described_in_json(dtype):
    text = _dtypes.describe_dtype(dtype)
    assert isinstance(json.loads(text), list)
    assert _dtypes.dtype_of(text) == dtype
    assert _dtypes.dtype_of(text).fields.keys() == dtype.fields.keys()


@pytest.mark.parametrize("text", ["|O", "<q9", "[[", "[1]", '[["a"]]', "import os", "", "[[]]"])
def test_invalid_type_strings(text):
    with pytest.raises((ValueError, TypeError, SyntaxError, KeyError, IndexError)):
        _dtypes.dtype_of(text)


def test_arrays_as_something_else(store):
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    id = store.put(np.arange(4.0))
    assert store.get(id, as_="arrow").equals(pa.array(np.arange(4.0)))
    assert store.get(id, as_="pandas").equals(pd.Series(np.arange(4.0)))
    assert store.get(id, as_="polars").equals(pl.Series(np.arange(4.0)))
    assert store.get(id, as_="numpy").tolist() == [0, 1, 2, 3]
    assert store.get(id, as_="bytes") == np.arange(4.0).tobytes()
    assert store.get([id, id], as_="memoryview")[1].nbytes == 32
    matrix = store.put(np.eye(2))
    assert store.get(matrix, as_="pandas").shape == (2, 2)
    assert store.get(matrix, as_="arrow").shape == (2, 2)
    with pytest.raises(TypeError, match="3 dimensions"):
        store.get(store.put(np.zeros((2, 2, 2))), as_="pandas")
    with pytest.raises(ValueError, match='not "xarray"'):
        store.get(id, as_="xarray")


@pytest.mark.parametrize(
    "view",
    [
        memoryview(b"abc"),
        memoryview(np.arange(6, dtype="i4")).cast("B").cast("i", [2, 3]),
        memoryview(np.arange(10, dtype="f8"))[::2],
        memoryview(b"")[:0],
    ],
)
def test_memoryviews_come_back_with_format_and_shape(store, view):
    back = store.get(store.put(view))
    assert type(back) is memoryview
    assert back.readonly
    assert (back.format, back.shape) == (view.format, view.shape)
    assert back.tobytes() == view.tobytes()


def test_other_buffers_and_bytes(store):
    import array

    back = store.get(store.put(bytearray(b"abc")))
    assert (type(back), back) == (bytearray, b"abc")
    back = store.get(store.put(array.array("d", [1, 2])))
    assert back.tolist() == [1.0, 2.0]
    raw = store.put(b"\1\2")
    assert store.get(raw, as_="numpy").tolist() == [1, 2]
    assert bytes(store.get(raw, as_="arrow")) == b"\1\2"
    with pytest.raises(TypeError, match='cannot be read as "pandas"'):
        store.get(raw, as_="pandas")
    again = store.put(store.get_buffer(raw))
    assert store.get(again) == b"\1\2"
    with pytest.raises(TypeError, match="format"):
        store.put(memoryview(np.zeros(2, ">i4")))


@pytest.mark.parametrize("value", [None, 1, 2.5, "text", [1], {"a": 1}, (1, 2), {3}, True, int])
def test_general_objects_come_back(store, value):
    back = store.get(store.put(value))
    assert type(back) is type(value)
    assert back == value


@pytest.mark.parametrize(
    ("text", "shape", "data"),
    [
        (b"<f8", [2], b"short"),
        (b"<f8", [1 << 63, 2, 0], b"x"),
        (b"<f8", [1 << 62, 4], b""),
        (b"|O", [1], b"12345678"),
        (b"[[", [1], b"1"),
        (b"no type", [1], b"1"),
        (b"|V0", [5], b"x"),
    ],
)
def test_arrays_whose_header_lies_are_corrupt(store, text, shape, data):
    head = b"PLV1" + bytes([0, 0, len(shape), 0]) + len(text).to_bytes(4, "little") + bytes(4)
    head += b"".join(extent.to_bytes(8, "little") for extent in shape) + text
    id = store.put(data, metadata=head, tag=_native.TAG_NDARRAY)
    for wanted in (None, "numpy"):
        with pytest.raises(plasmon.Corrupt) as caught:
            store.get(id, as_=wanted)
        assert caught.value.object_id == id


@pytest.mark.parametrize("metadata", [b"", b"PLV1", b"garbage that is long enough to be one"])
def test_an_array_without_a_header_is_corrupt(store, metadata):
    id = store.put(b"1234", metadata=metadata, tag=_native.TAG_NDARRAY)
    with pytest.raises(plasmon.Corrupt):
        store.get(id)
    assert bytes(store.get_buffer(id).metadata) == metadata


def test_values_of_a_kind_to_come_are_named(store):
    for tag in (200, 201):
        id = store.put(b"later", tag=tag)
        with pytest.raises(plasmon.Unsupported, match="get_buffer"):
            store.get(id)
        assert store.get(id, as_="bytes") == b"later"
