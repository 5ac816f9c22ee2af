"""From either form of an object to its tables: typed views of the same 53 buffers.

pyarrow reads the stream form. The small form is cut up here: all offsets follow from the sizes.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from .values import PloError, cut_off

_ENTRIES_MAX = 2**31 - 1
_HEAP_BYTES_MAX = 2**62


class Tables(SimpleNamespace):
    """The buffers of an object under the names of ``BUFFERS``, and its ``sizes`` by name."""

    sizes: dict[str, int]

    def __init__(self, sizes: dict[str, int], views: list[Any]) -> None:
        super().__init__(**dict(zip(BUFFERS, views, strict=True)))
        self.sizes = sizes


def _list(item: pa.DataType) -> pa.DataType:
    return pa.list_(pa.field("item", item))


def _struct(**fields: pa.DataType) -> pa.DataType:
    return pa.struct([pa.field(name, kind) for name, kind in fields.items()])


_I32, _U8 = pa.int32(), pa.uint8()
_COLUMNS = {
    "slots": pa.dense_union(
        [
            pa.field(name, kind)
            for name, kind in zip(
                ["null", "bool", "int", "float", "str", "bytes", "node", "ref", "tensor", "ext"],
                [pa.null(), pa.bool_(), pa.int64(), pa.float64(), *[_I32] * 6],
                strict=True,
            )
        ]
    ),
    "nodes": _struct(kind=_U8, elem=_U8, elem2=_U8, start=_I32, length=_I32, start2=_I32),
    "i32": _I32,
    "i64": pa.int64(),
    "f64": pa.float64(),
    "bits": pa.bool_(),
    "strs": pa.string(),
    "refs": _I32,
    "bins": pa.binary(),
    "classes": _struct(
        source=_U8,
        make=_U8,
        name=pa.string(),
        version=_I32,
        fields=_list(pa.string()),
        ext=_I32,
    ),
    "dtypes": _struct(text=pa.string(), itemsize=_I32),
    "tensors": _struct(
        kind=_U8,
        dtype=_I32,
        shape=_list(pa.int64()),
        strides=_list(pa.int64()),
        heap=_I32,
        offset=pa.int64(),
    ),
    "exts": _struct(kind=_U8, data=pa.binary(), heaps=_list(_I32)),
    "heap": pa.large_binary(),
}
_SCHEMA = pa.schema([pa.field(name, _list(kind)) for name, kind in _COLUMNS.items()])

#: The buffers of section 2 in order.
_BUFFERS = (
    "slot_type slot_offset bool int float str bytes node ref tensor ext node_kind node_elem "
    "node_elem2 node_start node_length node_start2 i32 i64 f64 bits str_offsets str_bytes refs "
    "bin_offsets bin_bytes class_source class_make name_offsets name_bytes class_version "
    "field_offsets field_name_offsets field_name_bytes class_ext dtype_offsets dtype_bytes "
    "dtype_itemsize tensor_kind tensor_dtype shape_offsets shape stride_offsets strides "
    "tensor_heap tensor_offset ext_kind data_offsets data_bytes heaps_offsets heaps "
    "heap_offsets heap"
)
BUFFERS = _BUFFERS.split()

#: The sizes in order. A walk through the columns meets them in this order, too.
_SIZES = (
    "slots null bool int float str bytes node ref tensor ext nodes i32 i64 f64 bits strs "
    "strs_bytes refs bins bins_bytes classes class_name_bytes class_fields class_field_bytes "
    "dtypes dtype_bytes tensors tensor_shape tensor_strides exts ext_bytes ext_heaps heap "
    "heap_bytes"
)
SIZES = _SIZES.split()

# The two messages are constant but for the numbers of the batch: its bytes from these offsets on.
_SCHEMA_BYTES, _BATCH_BYTES = 3328, 3264
_SCHEMA_SHA256 = "a23bc3c9a9dd18f1376aa670311db2bd12c706d5cce783fbc2682a3db44f83ff"
_BATCH_SHA256 = "9c48c1f64ca4f4fc589c7a2aaddf6fafa356047c443f3a93f9a0a9c4e5363bf0"
_BODY_LENGTH_AT, _BUFFERS_AT, _BUFFER_COUNT, _NODES_AT, _NODE_COUNT = 32, 1136, 130, 88, 65
#: The field node of the slots of type null: the only one with nulls, and with nothing else.
_NULL_NODE = 2
_END = b"\xff\xff\xff\xff\x00\x00\x00\x00"


def _extents(kind: pa.DataType, count: int, sizes: Iterator[int]) -> Iterator[tuple[str, int]]:
    """The letter of ``memoryview.cast`` and the length in bytes of each buffer of a column."""
    if pa.types.is_union(kind):
        yield from [("b", count), ("i", 4 * count)]
        for child in kind:
            yield from _extents(child.type, next(sizes), sizes)
    elif pa.types.is_struct(kind):
        for child in kind:
            yield from _extents(child.type, count, sizes)
    elif pa.types.is_list(kind):
        yield "i", 4 * (count + 1) if count else 0
        yield from _extents(kind.value_type, next(sizes), sizes)
    elif pa.types.is_large_binary(kind):
        yield from [("q", 8 * (count + 1) if count else 0), ("B", next(sizes))]
    elif pa.types.is_string(kind) or pa.types.is_binary(kind):
        yield from [("i", 4 * (count + 1) if count else 0), ("B", next(sizes))]
    elif pa.types.is_boolean(kind):
        yield "B", (count + 7) // 8
    elif not pa.types.is_null(kind):
        yield _LETTERS[kind], kind.bit_width // 8 * count


_LETTERS = {_U8: "B", _I32: "i", pa.int64(): "q", pa.float64(): "d"}


def _typed(memory: memoryview, letter: Any) -> memoryview:
    """The memory as numbers of the type that a letter of ``struct`` names."""
    return memory.cast("B").cast(letter)


def _all_extents(sizes: dict[str, int]) -> Iterator[tuple[str, int]]:
    order = iter(sizes.values())
    for kind in _COLUMNS.values():
        yield from _extents(kind, next(order), order)


def small(buffer: pa.Buffer) -> Tables:
    """The tables of an object in small form."""
    if buffer.size < 16:
        raise cut_off(16, buffer.size)
    length, present = struct.unpack_from("<4xIQ", buffer[:16])
    if present >> len(SIZES):
        raise PloError(f"the object has sizes that are not known: {present >> len(SIZES):#b}")
    count = present.bit_count()
    if buffer.size < max(length, 16 + 4 * count):
        raise cut_off(max(length, 16 + 4 * count), buffer.size)
    given = iter(struct.unpack_from(f"<{count}I", buffer[16 : 16 + 4 * count]))
    sizes = {name: next(given) if present >> at & 1 else 0 for at, name in enumerate(SIZES)}
    if sum(size != 0 for size in sizes.values()) != count:
        raise PloError("a size of 0 that is marked as present")
    _check_sizes(sizes)
    memory, views = memoryview(buffer)[:length], list[Any]()
    end = -(-(16 + 4 * count) // 8) * 8
    for letter, extent in _all_extents(sizes):
        if len(views) == len(BUFFERS) - 1 and extent:
            end = -(-end // 64) * 64
        views.append(_typed(memory[end : end + extent], letter))
        end += extent if len(views) == len(BUFFERS) else -(-extent // 8) * 8
    if end != length:
        raise PloError(f"the object's length is {length}, its parts have {end} bytes")
    return Tables(sizes, views)


def stream(buffer: pa.Buffer) -> Tables:
    """The tables of an object in stream form, which pyarrow reads."""
    source = pa.BufferReader(buffer)
    body_at = _SCHEMA_BYTES + _BATCH_BYTES
    body_bytes = _check_messages(buffer[:body_at].to_pybytes())
    if buffer.size < body_at + body_bytes + len(_END):
        raise cut_off(body_at + body_bytes + len(_END), buffer.size)
    schema = pa.ipc.read_schema(source)
    batch = pa.ipc.read_record_batch(pa.ipc.read_message(source), schema)
    if source.read(8) != _END:
        raise PloError("the stream does not end after its batch")
    if not schema.equals(_SCHEMA) or batch.num_rows != 1:
        raise PloError(f"{batch.num_rows} rows, or columns of other types than an object has")
    batch.validate()
    sizes: list[int] = []
    views: list[pa.Buffer | None] = []
    for column in batch.columns:
        outer = memoryview(column.buffers()[1]).cast("i")
        sizes.append(len(column.values))
        if list(outer[:2]) != [0, sizes[-1]]:
            raise PloError(f"outer offsets {list(outer[:2])} around {sizes[-1]} entries")
        _collect(column.values, sizes, views)
    named = dict(zip(SIZES, sizes, strict=True))
    _check_sizes(named)
    typed = list[Any]()
    for view, (letter, extent) in zip(views, _all_extents(named), strict=True):
        memory = memoryview(view if view is not None else b"")
        if len(memory) != extent:
            raise PloError(f"a buffer of {len(memory)} bytes where {extent} are needed")
        typed.append(_typed(memory, letter))
    return Tables(named, typed)


def _collect(array: pa.Array, sizes: list[int], views: list[pa.Buffer | None]) -> None:
    """The inner sizes and the buffers of an array, in the order of :func:`_extents`."""
    kind, buffers = array.type, array.buffers()
    if pa.types.is_union(kind):
        views += buffers[1:3]
        for number in range(kind.num_fields):
            sizes.append(len(array.field(number)))
            _collect(array.field(number), sizes, views)
    elif pa.types.is_struct(kind):
        for number in range(kind.num_fields):
            _collect(array.field(number), sizes, views)
    elif pa.types.is_list(kind):
        views.append(buffers[1])
        sizes.append(len(array.values))
        _collect(array.values, sizes, views)
    elif not pa.types.is_null(kind):
        views += buffers[1:]
        if len(buffers) == 3:
            sizes.append(buffers[2].size if buffers[2] is not None else 0)


def _check_messages(messages: bytes) -> int:
    """The messages must be the constant ones, but for the batch's lengths. The body's length."""
    if hashlib.sha256(messages[:_SCHEMA_BYTES]).hexdigest() != _SCHEMA_SHA256:
        text = "the bytes start with neither PLO1 nor the schema of version 1"
        raise PloError(text, "not_an_object")
    if len(messages) < _SCHEMA_BYTES + _BATCH_BYTES:
        raise cut_off(_SCHEMA_BYTES + _BATCH_BYTES, len(messages))
    batch = bytearray(messages[_SCHEMA_BYTES:])
    places = struct.unpack_from(f"<{2 * _BUFFER_COUNT}q", batch, _BUFFERS_AT)
    end = 0
    for offset, length in zip(places[::2], places[1::2], strict=True):
        if offset != end or length < 0:
            raise PloError(f"a buffer at {offset} of the body that should be at {end}")
        end += -(-length // 64) * 64
    if struct.unpack_from("<q", batch, _BODY_LENGTH_AT)[0] != end:
        raise PloError(f"a body of another length than its buffers' {end} bytes")
    batch[_BODY_LENGTH_AT : _BODY_LENGTH_AT + 8] = bytes(8)
    batch[_BUFFERS_AT : _BUFFERS_AT + 16 * _BUFFER_COUNT] = bytes(16 * _BUFFER_COUNT)
    nodes = struct.unpack_from(f"<{2 * _NODE_COUNT}q", batch, _NODES_AT)
    if any(not 0 <= length <= _ENTRIES_MAX for length in nodes[::2]):
        raise PloError(f"a table of {min(nodes[::2])} to {max(nodes[::2])} entries")
    counts = [0] * _NODE_COUNT
    counts[_NULL_NODE] = nodes[2 * _NULL_NODE]
    if list(nodes[1::2]) != counts:
        raise PloError("null counts other than those of the format")
    batch[_NODES_AT : _NODES_AT + 16 * _NODE_COUNT] = bytes(16 * _NODE_COUNT)
    if hashlib.sha256(batch).hexdigest() != _BATCH_SHA256:
        raise PloError("the record batch's message is not that of an object")
    return end


def _check_sizes(sizes: dict[str, int]) -> None:
    for name, size in sizes.items():
        if size > (_HEAP_BYTES_MAX if name == "heap_bytes" else _ENTRIES_MAX):
            raise PloError(f"{size} {name} are past the limit")
