"""What values are when they are put."""

import mmap
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import plasmon
from plasmon._value_kinds import OBJECT_TYPES, Kind, is_arrow, kind_of


class Array(np.ndarray):
    pass


class Frame(pd.DataFrame):
    pass


class PolarsFrame(pl.DataFrame):
    pass


class Stream:
    def __arrow_c_stream__(self, requested_schema=None):
        return pa.table({"a": [1]}).__arrow_c_stream__(requested_schema)


class Column:
    def __arrow_c_array__(self, requested_schema=None):
        return pa.array([1]).__arrow_c_array__(requested_schema)


class Proxy:
    """Offers what another object does."""

    def __init__(self, inner):
        self._inner = inner

    def __getattr__(self, name):
        return getattr(self._inner, name)


KINDS = [
    (b"bytes", Kind.RAW),
    (memoryview(b"x"), Kind.MEMORY),
    (pickle.PickleBuffer(b"x"), Kind.MEMORY),
    (np.ones(2), Kind.ARRAY),
    (np.ones(2, "i4,f8"), Kind.ARRAY),
    (np.array([None]), Kind.OBJECT),
    (np.ones(2).view(Array), Kind.OBJECT),
    (np.float64(1), Kind.OBJECT),
    (pa.table({"a": [1]}), Kind.TABLE),
    (pa.record_batch({"a": [1]}), Kind.RECORD_BATCH),
    (pa.array(["a"]).dictionary_encode(), Kind.ARROW_ARRAY),
    (pa.chunked_array([[1]]), Kind.CHUNKED_ARRAY),
    (pa.py_buffer(b"x"), Kind.ARROW_BUFFER),
    (pa.Tensor.from_numpy(np.ones(2)), Kind.ARROW_TENSOR),
    (pd.DataFrame({"a": [1]}), Kind.PANDAS),
    (pd.Series([1], dtype="Int64"), Kind.PANDAS),
    (pd.Series([1]), Kind.OBJECT),
    (pd.DataFrame({"a": [{1}]}), Kind.OBJECT),
    (Frame({"a": [1]}), Kind.OBJECT),
    (pl.DataFrame({"a": [1]}), Kind.POLARS),
    (pl.Series([1]), Kind.POLARS),
    (PolarsFrame({"a": [1]}), Kind.OBJECT),
    (pl.LazyFrame({"a": [1]}), Kind.LAZY),
    (Stream(), Kind.STREAM),
    (Column(), Kind.COLUMN),
    (Proxy(Stream()), Kind.STREAM),
    (bytearray(b"x"), Kind.OBJECT_OR_MEMORY),
    (mmap.mmap(-1, 8), Kind.OBJECT_OR_MEMORY),
    ([b"x"], Kind.OBJECT_OR_MEMORY),
]


@pytest.mark.parametrize(("value", "kind"), KINDS, ids=lambda one: type(one).__name__)
def test_values_have_a_kind(value, kind):
    assert kind_of(value) is kind


@pytest.mark.parametrize("value", [None, True, 1, 1.5, "a", [1], (1,), {1: 2}, {1}])
def test_types_of_objects_are_no_other_kind(value):
    """Put does not ask about them: it would learn the same."""
    assert type(value) in OBJECT_TYPES
    assert kind_of(value) is Kind.OBJECT_OR_MEMORY
    with pytest.raises(TypeError):
        memoryview(value)


def test_each_type_of_objects_is_tried():
    assert len(OBJECT_TYPES) == 9


def test_arrow_data_is_recognized_by_class_or_protocol():
    arrow = {type(value) for value, kind in KINDS if is_arrow(value, kind)}
    own = {pa.Table, pa.RecordBatch, pa.DictionaryArray, pa.ChunkedArray, pa.Buffer, pa.Tensor}
    frames = {pd.DataFrame, pd.Series, Frame, pl.DataFrame, pl.Series, pl.LazyFrame, PolarsFrame}
    assert arrow == own | frames | {Stream, Column, Proxy}


@pytest.mark.parametrize("wrap", [memoryview, pickle.PickleBuffer])
def test_memory_is_one_kind_by_either_way(store, wrap):
    array = np.arange(6, dtype="i4").reshape(2, 3)
    for lent in (array, array[:, ::2]):
        back = store.get(store.put(wrap(lent)))
        assert type(back) is memoryview
        assert (back.format, back.shape, back.tolist()) == ("i", lent.shape, lent.tolist())


@pytest.mark.parametrize("wrap", [memoryview, pickle.PickleBuffer])
def test_memory_that_would_not_come_back_is_refused(store, wrap):
    with pytest.raises(TypeError, match="the format '>i'"):
        store.put(wrap(np.zeros(2, ">i4")))


def test_memory_within_an_object_is_refused_likewise():
    with pytest.raises(TypeError, match="the format '>i'"):
        plasmon.dumps([memoryview(np.zeros(2, ">i4"))])
