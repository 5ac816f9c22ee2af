from __future__ import annotations

import datetime
import decimal
import math

import pyarrow as pa
import pytest

import plasmon
from plasmon import _native

from .conftest import child


def buffers(thing):
    """Every buffer of an Arrow array, chunked array, batch or table, dictionaries and all."""
    if isinstance(thing, pa.Table | pa.RecordBatch):
        for column in thing.columns:
            yield from buffers(column)
    elif isinstance(thing, pa.ChunkedArray):
        for chunk in thing.chunks:
            yield from buffers(chunk)
    else:
        yield from (buffer for buffer in thing.buffers() if buffer is not None and buffer.size)
        if isinstance(thing, pa.DictionaryArray):
            yield from buffers(thing.dictionary)


def assert_in_place(store, id, thing):
    """Every buffer lies inside of the object, at a multiple of 64 bytes."""
    held = store.get_buffer(id)
    found = list(buffers(thing))
    for buffer in found:
        assert buffer.address % 64 == 0
        assert held.address <= buffer.address
        assert buffer.address + buffer.size <= held.address + len(held)
    return len(found)


def columns():
    strings = ["a", None, "a longer text than twelve bytes", "é", ""] * 20
    numbers = [1, None, 3, 4, 5] * 20
    moment = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
    lists = [[1, 2], None, [], [3], [4, 5, 6]] * 20
    words = [["x", None], None, [], ["y"], ["z", "zz"]] * 20
    union_types = pa.array([0, 1] * 50, pa.int8())
    dense = pa.UnionArray.from_dense(
        union_types,
        pa.array([i // 2 for i in range(100)], pa.int32()),
        [pa.array(range(50)), pa.array([str(i) for i in range(50)])],
    )
    sparse = pa.UnionArray.from_sparse(
        union_types, [pa.array(range(100)), pa.array([str(i) for i in range(100)])]
    )
    return {
        "bool": pa.array([True, None, False, True, True] * 20),
        "int8": pa.array(numbers, pa.int8()),
        "uint64": pa.array(range(100), pa.uint64()),
        "half": pa.array(numbers, pa.float16()),
        "double": pa.array([1.5, None, 0.1, float("inf"), -0.0] * 20),
        "string": pa.array(strings),
        "large_string": pa.array(strings, pa.large_string()),
        "string_view": pa.array(strings, pa.string_view()),
        "binary": pa.array([b"x", None, b"", b"yy", b"\0"] * 20),
        "binary_view": pa.array([b"x" * 50, None, b"", b"yy", b"\0"] * 20, pa.binary_view()),
        "fixed": pa.array([b"abc", None, b"def", b"ghi", b"jkl"] * 20, pa.binary(3)),
        "timestamp": pa.array([moment, None] * 50, pa.timestamp("ns", "Europe/Berlin")),
        "date": pa.array([moment.date(), None] * 50),
        "time": pa.array([moment.time(), None] * 50),
        "duration": pa.array([datetime.timedelta(1), None] * 50),
        "interval": pa.array([(1, 2, 3), None] * 50, pa.month_day_nano_interval()),
        "decimal": pa.array([decimal.Decimal("1.23"), None] * 50, pa.decimal128(10, 2)),
        "decimal256": pa.array([decimal.Decimal("1.23"), None] * 50, pa.decimal256(50, 2)),
        "null": pa.nulls(100),
        "list": pa.array(lists),
        "large_list": pa.array(words, pa.large_list(pa.string())),
        "list_view": pa.array(lists, pa.list_view(pa.int64())),
        "fixed_list": pa.array([[1, 2], None] * 50, pa.list_(pa.int32(), 2)),
        "struct": pa.array([{"a": 1, "b": "x"}, None, {"a": None, "b": "y"}, {}, {"a": 4}] * 20),
        "map": pa.array(
            [[("k", 1)], None, [], [("l", 2), ("m", None)], []] * 20,
            pa.map_(pa.string(), pa.int64()),
        ),
        "dictionary": pa.array(strings).dictionary_encode(),
        "nested_dictionary": pa.ListArray.from_arrays(
            list(range(0, 202, 2)), pa.array(["p", "q"] * 100).dictionary_encode()
        ),
        "dense_union": dense,
        "sparse_union": sparse,
        "run_end": pa.RunEndEncodedArray.from_arrays([40, 100], ["x", "y"]),
    }


COLUMNS = columns()


@pytest.mark.parametrize("name", COLUMNS)
def test_arrays_of_every_type(store, other, name):
    array = COLUMNS[name]
    id = store.put(array)
    back = other.get(id)
    assert type(back) is type(array)
    assert back.type == array.type
    back.validate(full=True)
    assert back.equals(array)
    assert_in_place(other, id, back)


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize(
    ("offset", "length"), [(0, 0), (1, 98), (8, 50), (64, 36), (13, 1), (99, 1)]
)
def test_slices_are_written_without_the_rest(store, name, offset, length):
    part = COLUMNS[name].slice(offset, length)
    id = store.put(part)
    back = store.get(id)
    back.validate(full=True)
    assert back.type == part.type
    assert back.to_pylist() == part.to_pylist()
    assert_in_place(store, id, back)


def test_a_slice_of_something_large_is_small(store):
    big = pa.array(["a text that is longer than twelve bytes " + str(n) for n in range(50_000)])
    for array in (
        big,
        big.cast(pa.string_view()),
        pa.array(range(100_000)),
        big.cast("large_utf8"),
    ):
        id = store.put(array.slice(1000, 10))
        assert store.get(id).to_pylist() == array.slice(1000, 10).to_pylist()
        assert len(store.get_buffer(id)) < 8192


def test_tables(store, other):
    table = pa.table(COLUMNS).replace_schema_metadata({"about": "everything"})
    id = store.put(table, metadata=b"own")
    back = other.get(id)
    assert type(back) is pa.Table
    assert back.schema.equals(table.schema, check_metadata=True)
    back.validate(full=True)
    assert back.equals(table)
    assert assert_in_place(other, id, back) > 50
    assert bytes(other.get_buffer(id).metadata) == b"own"


def test_chunks_stay(store):
    chunked = pa.chunked_array([[1, 2], [], [3, None]], pa.int16())
    back = store.get(store.put(chunked))
    assert type(back) is pa.ChunkedArray
    assert back.equals(chunked)
    table = pa.table({"a": chunked, "b": pa.chunked_array([["x"], ["y", "z", None]])})
    assert store.get(store.put(table)).equals(table)
    assert store.get(store.put(pa.chunked_array([], pa.utf8()))).equals(
        pa.chunked_array([], pa.utf8())
    )


def test_dictionaries_that_differ_from_chunk_to_chunk(store):
    chunks = [pa.array(words).dictionary_encode() for words in (["a", "b"], ["c", "a"], ["c", "a"])]
    chunked = pa.chunked_array(chunks)
    assert store.get(store.put(chunked)).to_pylist() == ["a", "b", "c", "a", "c", "a"]


def test_batches(store):
    batch = pa.record_batch(pa.table({"x": [1, 2], "y": ["a", None]}).to_batches()[0])
    id = store.put(batch)
    back = store.get(id)
    assert type(back) is pa.RecordBatch
    assert back.equals(batch)
    assert assert_in_place(store, id, back) == 4
    assert store.get(store.put(batch.slice(1))).equals(batch.slice(1))
    empty = batch.slice(0, 0)
    assert store.get(store.put(empty)).equals(empty)


def test_tables_without_rows_or_columns(store):
    for table in (
        pa.table({"x": pa.array([], pa.int64())}),
        pa.table({}),
        pa.schema([]).empty_table(),
    ):
        back = store.get(store.put(table))
        assert back.schema == table.schema
        assert back.num_rows == table.num_rows


def test_buffers_and_tensors(store):
    import numpy as np

    buffer = pa.py_buffer(b"some bytes")
    id = store.put(buffer)
    back = store.get(id)
    assert isinstance(back, pa.Buffer)
    assert back.equals(buffer)
    assert back.address == store.get_buffer(id).address
    for array in (np.arange(6.0).reshape(2, 3), np.asfortranarray(np.eye(3, 2)), np.array(3)):
        tensor = store.get(store.put(pa.Tensor.from_numpy(array)))
        assert isinstance(tensor, pa.Tensor)
        assert np.array_equal(tensor.to_numpy(), array)


def test_extension_types_come_back(store):
    fields = [pa.field("id", pa.uuid(), metadata={"about": "ids"}), pa.field("j", pa.json_())]
    table = pa.table(
        [pa.array([b"0" * 16], pa.uuid()), pa.array(["{}"], pa.json_())], pa.schema(fields)
    )
    back = store.get(store.put(table))
    assert back.schema.equals(table.schema, check_metadata=True)
    assert back.equals(table)


def test_not_a_number_is_not_null(store):
    array = pa.array([1.0, float("nan"), None], from_pandas=False)
    back = store.get(store.put(array))
    assert back.null_count == 1
    assert math.isnan(back[1].as_py())


def test_any_producer_of_the_capsule_interface(store):
    class Stream:
        def __arrow_c_stream__(self, requested_schema=None):
            return pa.table({"x": [1, 2]}).__arrow_c_stream__()

    class Array:
        def __arrow_c_array__(self, requested_schema=None):
            return pa.array([1, None]).__arrow_c_array__()

    class Failing:
        def __arrow_c_stream__(self, requested_schema=None):
            def broken():
                yield from pa.table({"x": [1]}).to_batches()
                raise RuntimeError("the disk is on fire")

            schema = pa.schema({"x": pa.int64()})
            return pa.RecordBatchReader.from_batches(schema, broken()).__arrow_c_stream__()

    class Wrong:
        def __arrow_c_stream__(self, requested_schema=None):
            return pa.array([1]).__arrow_c_array__()[0]

    assert store.get(store.put(Stream())).to_pylist() == [{"x": 1}, {"x": 2}]
    assert store.get(store.put(Array())).to_pylist() == [1, None]
    with pytest.raises(plasmon.BadRequest, match="the disk is on fire"):
        store.put(Failing())
    with pytest.raises(ValueError, match="PyCapsule"):
        store.put(Wrong())


def test_a_consumed_stream_is_refused(store):
    reader = pa.RecordBatchReader.from_batches(pa.schema({"x": pa.int64()}), iter(()))
    capsule = reader.__arrow_c_stream__()

    class Twice:
        def __arrow_c_stream__(self, requested_schema=None):
            return capsule

    store.put(Twice())
    with pytest.raises(plasmon.BadRequest, match="consumed"):
        store.put(Twice())


def test_a_stream_is_readable_by_any_arrow_implementation(store):
    table = pa.table({"x": list(range(100)), "s": [str(n) for n in range(100)]})
    data = store.get(store.put(table), as_="bytes")
    assert pa.ipc.open_stream(data).read_all().equals(table)


def stream_of(table):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def test_a_foreign_stream_is_a_table(store):
    """The command and other languages put streams whose metadata has no value header."""
    table = pa.table({"x": [1, 2, 3], "s": ["a", None, "c"]})
    id = store.put(stream_of(table), tag=_native.TAG_ARROW_STREAM, metadata=b"theirs")
    buffer = store.get_buffer(id)
    assert buffer.header is None
    assert bytes(buffer.metadata) == b"theirs"
    assert store.get(id).equals(table)
    assert store.get(id, as_="polars")["x"].to_list() == [1, 2, 3]


@pytest.mark.parametrize("level", ["shared", "leased"])
def test_streams_that_are_cut_or_garbage_are_corrupt(own, level):
    store = own(level=level)
    good = stream_of(pa.table({"x": [1, 2, 3], "s": ["a", None, "c"]}))
    for bad in (b"", b"garbage!" * 20, good[: len(good) // 2], good[:100], b"\xff" * 8):
        id = store.put(bad, tag=_native.TAG_ARROW_STREAM)
        with pytest.raises(plasmon.Corrupt) as caught:
            store.get(id)
        assert caught.value.object_id == id
        with pytest.raises(plasmon.Corrupt):
            store.get(id, as_="polars")


def test_the_stream_of_a_buffer_without_pyarrow_reads_everything(store):
    # Arrow's Rust implementation decodes here; pyarrow only compares.
    table = pa.table(COLUMNS)
    id = store.put(table)
    back = pa.table(store.get_buffer(id))
    back.validate(full=True)
    assert back.equals(table)
    assert_in_place(store, id, back)


def test_untrusted_streams_are_checked(own):
    store = own(level="leased")
    assert not store.get_buffer(store.put(b"")).trusted
    table = pa.table({"s": ["text", None, "more"], "x": [1, 2, 3]})
    id = store.put(table)
    assert store.get(id).equals(table)
    # What is checked is a copy, because its writer can still change it. Numbers are in place.
    assert_in_place(store, id, store.get(id).select(["x"]))
    good = stream_of(pa.table({"s": ["first text", "second text"]}))
    offsets = b"".join(n.to_bytes(4, "little") for n in (0, 10, 21))
    assert good.count(offsets) == 1
    beyond = b"".join(n.to_bytes(4, "little") for n in (0, 10, 1 << 30))
    for bad in (
        good.replace(offsets, beyond),
        good.replace(b"second", b"\xff\xfe\xfd\xfc\xfb\xfa"),
    ):
        id = store.put(bad, tag=_native.TAG_ARROW_STREAM)
        for wanted in ("arrow", "polars"):
            with pytest.raises(plasmon.Corrupt):
                store.get(id, as_=wanted)


def test_conversions(store):
    table = pa.table({"x": [1, 2, 3], "s": ["a", "b", None]})
    id = store.put(table)
    assert store.get(id, as_="arrow").equals(table)
    assert store.get(id, as_="pandas")["x"].tolist() == [1, 2, 3]
    assert store.get(id, as_="polars")["s"].to_list() == ["a", "b", None]
    assert store.get(id, as_="numpy")["x"].tolist() == [1, 2, 3]
    array = store.put(pa.array([1, 2]))
    assert store.get(array, as_="numpy").tolist() == [1, 2]
    assert store.get(array, as_="pandas").tolist() == [1, 2]
    assert store.get(array, as_="polars").to_list() == [1, 2]
    batch = store.put(table.to_batches()[0])
    assert store.get(batch, as_="pandas").shape == (3, 2)


def test_pyarrow_is_not_imported_for_others(store):
    id = store.put(b"x")
    store.flush()
    found = child(
        """
        import sys, plasmon
        store = plasmon.connect(sys.argv[1])
        assert store.get(plasmon.ObjectId.from_hex(sys.argv[2])) == b"x"
        store.put(b"y")
        print([name for name in ("numpy", "pyarrow", "pandas", "polars", "asyncio")
               if name in sys.modules])
        """,
        str(store.socket),
        id.hex(),
    )
    assert found.stdout.strip() == "[]", found.stderr
