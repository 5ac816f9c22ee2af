"""What the values can do that Python has no type for."""

from __future__ import annotations

import json

import numpy as np
import pytest

import plo_reader
from plo_reader import Dtype, Scalar, Tensor


def tensor(array, kind="numpy", text=None):
    dtype = Dtype(text or array.dtype.str, array.dtype.itemsize)
    strides = np.empty(array.shape, array.dtype).strides
    return Tensor(kind, dtype, array.shape, strides, memoryview(array.tobytes()), 0)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype=dtype).reshape(2, 3)
        for dtype in ["i1", "<i2", ">i4", "<i8", "u1", ">u2", "<u4", "<u8", "<f2", ">f4", "<f8"]
    ]
    + [
        np.array([1 + 2j, -3j], "<c8"),
        np.array([1 + 2j, -3j], ">c16"),
        np.array([True, False]),
        np.array(["a", "žluť"]),
        np.array([b"a", b"xyz"]),
        np.array(2.5),
        np.empty((0, 3)),
    ],
    ids=lambda array: f"{array.dtype.str}{array.shape}",
)
def test_elements_are_those_of_numpy(array):
    read = tensor(array)
    assert read.tolist() == array.tolist()
    assert read.tobytes() == array.tobytes()
    viewed = np.asarray(read)
    assert viewed.dtype == array.dtype
    assert np.array_equal(viewed, array)
    assert not viewed.flags.writeable
    for index in np.ndindex(array.shape):
        assert read[index] == array[index]


def test_strides_may_be_of_any_kind():
    base = np.arange(24, dtype="<i4")
    view = base.reshape(2, 3, 4)[::-1, :, 1::2]
    start = view.__array_interface__["data"][0] - base.__array_interface__["data"][0]
    memory = memoryview(base).cast("B")
    read = Tensor("numpy", Dtype("<i4", 4), view.shape, view.strides, memory, start)
    assert read.tolist() == view.tolist()
    assert read.tobytes() == view.tobytes()
    assert np.shares_memory(np.asarray(read), base)


def test_structured_types_have_their_fields():
    kind = np.dtype([("a", "<i4"), ("b", "<f8", (2,)), ("c", [("d", "u1")])])
    array = np.zeros(3, kind)
    array["b"][1] = [1, 2]
    read = tensor(array, text=json.dumps(np.lib.format.dtype_to_descr(kind)))
    assert np.asarray(read).dtype == kind
    assert np.array_equal(np.asarray(read), array)
    assert read[0] == bytes(kind.itemsize)


def test_dates_of_numpy_are_counts_here_and_dates_there():
    array = np.array(["2020-01-01", "NaT"], "<M8[ns]")
    assert tensor(array).tolist() == array.view("i8").tolist()
    assert np.asarray(tensor(array)).dtype == array.dtype


def test_memoryviews_name_their_type_by_a_letter():
    read = tensor(np.arange(3, dtype="<i8"), "memoryview", "q")
    assert read.tolist() == [0, 1, 2]
    assert np.asarray(read).dtype == np.dtype("<i8")


def test_an_index_is_checked():
    read = tensor(np.zeros((2, 3)))
    for index in [(2, 0), (0, 3), (-1, 0), (0,)]:
        with pytest.raises(IndexError):
            read[index]


def test_scalars_have_their_value():
    assert Scalar(Dtype("<f4", 4), np.float32(1.5).tobytes()).value == 1.5


def test_a_zone_that_is_not_known_has_a_name_and_no_offset():
    zone = plo_reader.Zone("Nowhere/Else")
    assert zone.utcoffset(None) is None
    assert zone.tzname(None) == "Nowhere/Else"
