"""Arrow streams that another process wrote to do harm, as Python programs meet them."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import plasmon
from plasmon import Store, _native

#: What ends a stream.
END = b"\xff\xff\xff\xff\0\0\0\0"


def stream(table: pa.Table, **options: str) -> bytearray:
    """The bytes of a table."""
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table)
    return bytearray(sink.getvalue())


def refused(store: Store, data: bytes | bytearray) -> str:
    """Why the object cannot be read."""
    id = store.put(bytes(data), tag=_native.TAG_ARROW_STREAM)
    with pytest.raises(plasmon.Corrupt) as error:
        pa.table(store.get_buffer(id))
    return str(error.value)


def test_a_stream_has_one_schema(store: Store) -> None:
    """The last schema was given to the consumer, and the batches of the first were handed to it:
    a column of one byte each was read as one of eight."""
    table = pa.table({"x": pa.array(np.zeros(1_000_000, "i1"))})
    other = pa.schema([("x", pa.int64())]).serialize().to_pybytes()
    assert "two schemas" in refused(store, bytes(stream(table)).removesuffix(END) + other + END)


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
@pytest.mark.parametrize("claimed", [1 << 60, 1 << 40])
def test_a_compressed_buffer_is_no_longer_than_it_can_be(
    store: Store, codec: str, claimed: int
) -> None:
    """Its length was allocated as it stood, and the process was ended."""
    data = stream(pa.table({"x": pa.array(np.zeros(100_000, "i8"))}), compression=codec)
    at = data.index((800_000).to_bytes(8, "little"))
    good = store.put(bytes(data), tag=_native.TAG_ARROW_STREAM)
    assert pa.table(store.get_buffer(good)).num_rows == 100_000
    data[at : at + 8] = claimed.to_bytes(8, "little")
    refused(store, data)


def test_a_gap_in_a_composite_is_bounded(store: Store) -> None:
    """With one byte beside it a gap of any size was made, of zeroes."""
    parts = bytes(stream(pa.table({"x": pa.array(np.arange(1000))})))
    head = 64 + 32
    total = 1 << 50
    fixed = b"PLMCOMP1" + (0).to_bytes(4, "little") + (1).to_bytes(4, "little")
    fixed += total.to_bytes(8, "little")
    fixed += bytes(64 - len(fixed))
    words = [0, len(parts) - 6000, head, 0xFFFFFFFF]
    part = b"".join(word.to_bytes(8, "little") for word in words)
    id = store.put(fixed + part + parts, tag=_native.TAG_COMPOSITE)
    with pytest.raises(plasmon.Corrupt):
        pa.table(store.get_buffer(id))


def strings(offsets: list[int], data: bytes = b"abc") -> pa.Array:
    """An array as any code can make one."""
    ends = pa.py_buffer(np.array(offsets, "i4"))
    return pa.Array.from_buffers(pa.utf8(), len(offsets) - 1, [None, ends, pa.py_buffer(data)])


@pytest.mark.parametrize("offsets", [[0, 1 << 20], [0, 3, 1, 2], [-4, 1], [2, 1]])
@pytest.mark.parametrize("wrap", [lambda it: it, lambda it: pa.table({"x": it})])
def test_wrong_offsets_are_not_published(store: Store, offsets: list[int], wrap: Any) -> None:
    """What lay after the buffer was read, and published."""
    before = len(store.list())
    with pytest.raises((ValueError, plasmon.PlasmonError)):
        store.put(wrap(strings(offsets)))
    assert len(store.list()) == before
    assert store.get(store.put(wrap(strings([0, 1, 3])))) is not None


def test_keys_of_values_that_are_not_there_are_not_published(store: Store) -> None:
    keys = pa.array([0, 7], pa.int8())
    wrong = pa.DictionaryArray.from_arrays(keys, pa.array(["a"]), safe=False)
    with pytest.raises((ValueError, plasmon.PlasmonError)):
        store.put(pa.table({"x": wrong}))


def test_lists_of_nulls_are_put(store: Store) -> None:
    """Nulls within anything but structures could not be imported from some producers."""
    table = pa.table({"x": pa.array([[None], [], None], pa.list_(pa.null()))})
    assert store.get(store.put(table)).equals(table)
