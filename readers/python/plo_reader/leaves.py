"""The values that hold no others: strings, byte strings, tensors, extensions, classes."""

from __future__ import annotations

import datetime
import decimal
import itertools
import pathlib
import struct
import uuid
import zoneinfo
from collections.abc import Callable
from types import EllipsisType, NotImplementedType
from typing import Any

import pyarrow as pa

from .buffers import Tables
from .check import DIMENSIONS_MAX, broken
from .values import ArrowData, Dtype, Global, Pickle, PloClass, PloError, Scalar, Tensor, Zone


class Leaves:
    """The values that hold no others: strings, byte strings, tensors, extensions."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.heap_before = -1
        self.dtypes = [
            Dtype(text, itemsize)
            for text, itemsize in zip(
                _texts(tables.dtype_offsets, tables.dtype_bytes),
                tables.dtype_itemsize,
                strict=True,
            )
        ]
        if any(dtype.itemsize < 0 for dtype in self.dtypes):
            raise PloError("the object is broken: an element type of a negative size")
        self.strs = _texts(tables.str_offsets, tables.str_bytes)
        self.bins = [bytes(part) for part in _parts(tables.bin_offsets, tables.bin_bytes)]
        self.tensors = [self.tensor(index) for index in range(tables.sizes["tensors"])]
        data = _parts(tables.data_offsets, tables.data_bytes)
        self.exts = [self.ext(index, bytes(part)) for index, part in enumerate(data)]
        fields = _texts(tables.field_name_offsets, tables.field_name_bytes)
        self.classes = [
            self.plo_class(index, name, fields)
            for index, name in enumerate(_texts(tables.name_offsets, tables.name_bytes))
        ]

    def entry(self, index: int) -> memoryview:
        """The bytes of a heap entry."""
        if not 0 <= index < self.tables.sizes["heap"]:
            raise broken("a heap entry that is not there", index)
        start, end = self.tables.heap_offsets[index : index + 2]
        entry: memoryview = self.tables.heap[start:end]
        return entry.toreadonly()

    def tensor(self, index: int) -> Tensor:
        tables, dtype = self.tables, self.dtypes[self.tables.tensor_dtype[index]]
        shape = tuple(tables.shape[slice(*tables.shape_offsets[index : index + 2])])
        strides = tuple(tables.strides[slice(*tables.stride_offsets[index : index + 2])])
        heap, offset = tables.tensor_heap[index], tables.tensor_offset[index]
        kind = tables.tensor_kind[index]
        if kind > 2 or len(shape) > DIMENSIONS_MAX or min(shape, default=0) < 0:
            raise broken("a tensor of an unknown kind or shape", index)
        if not strides:
            steps = itertools.accumulate(shape[:0:-1], int.__mul__, initial=dtype.itemsize)
            strides = tuple(steps)[: len(shape)][::-1]
        if len(shape) != len(strides):
            raise broken("a tensor with other strides than extents", index)
        memory = memoryview(b"") if heap == -1 else self.entry(heap)
        empty = 0 in shape or kind == 2
        reach = [(n - 1) * stride for n, stride in zip(shape, strides, strict=True)]
        below = 0 if empty else sum(min(0, step) for step in reach)
        above = 0 if empty else sum(max(0, step) for step in reach) + dtype.itemsize
        if kind == 2 and heap != -1:
            raise broken("the shape of an array of objects with bytes", index)
        if not 0 <= offset + below <= offset + above <= len(memory):
            raise broken("a tensor that reaches outside of its heap entry", index)
        return Tensor(["numpy", "memoryview", "shape"][kind], dtype, shape, strides, memory, offset)

    def plo_class(self, index: int, name: str, fields: list[str]) -> PloClass:
        tables = self.tables
        own = fields[slice(*tables.field_offsets[index : index + 2])]
        source, make = tables.class_source[index], tables.class_make[index]
        pickle = self.exts[tables.class_ext[index]] if source == 3 else None
        if pickle is not None and not isinstance(pickle, Pickle):
            raise broken("a class that is pickled as something else", index)
        return PloClass(
            ["specified", "registered", "importable", "pickled"][source],
            ["attributes", "state", "call", "new", "new_ex", "value"][make],
            name,
            tables.class_version[index],
            tuple(own),
            pickle,
        )

    def ext(self, index: int, data: bytes) -> Any:
        tables, kind = self.tables, self.tables.ext_kind[index]
        if kind >= len(_EXT_READERS):
            raise broken(f"an extension of the unknown kind {kind}", index)
        heaps = tables.heaps[slice(*tables.heaps_offsets[index : index + 2])].tolist()
        entries = [self.entry(heap) for heap in heaps]
        if heaps != sorted(set(heaps)) or (heaps and heaps[0] <= self.heap_before):
            raise broken("heap entries of extensions that do not rise", index)
        self.heap_before = heaps[-1] if heaps else self.heap_before
        if kind in (20, 21) or (kind in _IN_HEAP and len(heaps) == 1):
            lengths = struct.unpack_from(f"<{len(heaps)}Q", data)
            if any(-n % 64 + n != len(part) for n, part in zip(lengths, entries, strict=True)):
                raise broken("an extension of another length than its heap entry", index)
            entries = [entry[:n] for n, entry in zip(lengths, entries, strict=True)]
            data = data[8 * len(heaps) :]
        elif kind in _IN_HEAP or heaps:
            raise broken("an extension with another number of heap entries", index)
        return _EXT_READERS[kind](data, entries, self.dtypes)


def _parts(offsets: memoryview, data: memoryview) -> list[memoryview]:
    return [data[start:end] for start, end in itertools.pairwise(offsets)]


def _texts(offsets: memoryview, data: memoryview) -> list[str]:
    """Strings; those of an ASCII table are cut out of one, which is faster."""
    whole = str(data, "utf-8")
    if len(whole) == len(data):
        return [whole[start:end] for start, end in itertools.pairwise(offsets)]
    return [str(part, "utf-8") for part in _parts(offsets, data)]


def _exactly(layout: str, data: bytes) -> tuple[Any, ...]:
    return struct.unpack("<" + layout, data)


def _zone(data: bytes) -> datetime.tzinfo | None:
    kind, rest = data[0], data[1:]
    if kind == 3:
        key = str(rest, "utf-8")
        try:
            return zoneinfo.ZoneInfo(key)
        except zoneinfo.ZoneInfoNotFoundError:
            return Zone(key)
    if kind == 2:
        offset, name = datetime.timedelta(microseconds=_exactly("q", rest[:8])[0]), rest[8:]
        return datetime.timezone(offset, str(name, "utf-8")) if name else datetime.timezone(offset)
    if kind > 1 or rest:
        raise PloError(f"a time zone of the unknown kind {kind}")
    return datetime.UTC if kind == 1 else None


def _tzinfo(data: bytes) -> datetime.tzinfo:
    zone = _zone(data)
    if zone is None:
        raise PloError("the object is broken: an invalid time zone")
    return zone


_EPOCH = datetime.datetime(1970, 1, 1)


def _datetime(data: bytes) -> datetime.datetime:
    micros, fold = _exactly("qB", data[:9])
    moment = _EPOCH + datetime.timedelta(microseconds=micros)
    return moment.replace(fold=fold, tzinfo=_zone(data[9:]))


def _time(data: bytes) -> datetime.time:
    micros, fold = _exactly("qB", data[:9])
    moment = _EPOCH + datetime.timedelta(microseconds=micros)
    if moment.date() != _EPOCH.date():
        raise PloError(f"a time of {micros} microseconds")
    return moment.time().replace(fold=fold, tzinfo=_zone(data[9:]))


def _path(data: bytes) -> pathlib.PurePath:
    kinds: list[type[pathlib.PurePath]] = [
        pathlib.Path,
        pathlib.PurePosixPath,
        pathlib.PureWindowsPath,
    ]
    return kinds[data[0]](str(data[1:], "utf-8", "surrogateescape"))


def _scalar(data: bytes, dtypes: list[Dtype]) -> Scalar:
    dtype = dtypes[_exactly("I", data[:4])[0]]
    if dtype.itemsize != len(data) - 4:
        raise PloError(f"a scalar of {len(data) - 4} bytes instead of {dtype.itemsize}")
    return Scalar(dtype, data[4:])


_SINGLETONS: list[EllipsisType | NotImplementedType] = [Ellipsis, NotImplemented]
_TYPES = {
    kind.__name__: kind
    for kind in (
        *(bool, bytearray, bytes, complex, dict, float, frozenset, int, list, object, set, str),
        *(tuple, type(None)),
    )
}


def _arrow(data: bytes, stream: memoryview) -> Any:
    """What pyarrow's own were; pandas and polars stay tables."""
    kind, text = data[0], str(data[1:], "utf-8")
    table = pa.ipc.open_stream(pa.py_buffer(stream)).read_all()
    if kind == 1 and len(table.to_batches()) == 1:
        return table.to_batches()[0]
    if kind == 2 and table.num_columns == 1 and table.column(0).num_chunks == 1:
        return table.column(0).chunk(0)
    if kind == 3 and table.num_columns == 1:
        return table.column(0)
    return table if kind == 0 else ArrowData(kind, text, table)


_IN_HEAP = (3, 4, 6, 22)
#: What becomes of an extension's data (without lengths), its heap entries, and the dtypes.
_EXT_READERS: list[Callable[[bytes, list[memoryview], list[Dtype]], Any]] = [
    lambda data, heap, dtypes: int.from_bytes(data, "little", signed=True),
    lambda data, heap, dtypes: complex(*_exactly("dd", data)),
    lambda data, heap, dtypes: str(data, "utf-8", "surrogatepass"),
    lambda data, heap, dtypes: str(heap[0], "utf-8"),
    lambda data, heap, dtypes: bytes(heap[0]),
    lambda data, heap, dtypes: bytearray(data),
    lambda data, heap, dtypes: bytearray(heap[0]),
    lambda data, heap, dtypes: (
        datetime.date(1970, 1, 1) + datetime.timedelta(days=_exactly("i", data)[0])
    ),
    lambda data, heap, dtypes: _datetime(data),
    lambda data, heap, dtypes: _time(data),
    lambda data, heap, dtypes: datetime.timedelta(*_exactly("iii", data)),
    lambda data, heap, dtypes: _tzinfo(data),
    lambda data, heap, dtypes: decimal.Decimal(str(data, "ascii")),
    lambda data, heap, dtypes: uuid.UUID(bytes=data),
    lambda data, heap, dtypes: _path(data),
    lambda data, heap, dtypes: _SINGLETONS[_exactly("B", data)[0]],
    lambda data, heap, dtypes: _scalar(data, dtypes),
    lambda data, heap, dtypes: dtypes[_exactly("I", data)[0]],
    lambda data, heap, dtypes: _TYPES.get(str(data, "utf-8")) or Global(str(data, "utf-8")),
    lambda data, heap, dtypes: Global(str(data, "utf-8")),
    lambda data, heap, dtypes: Pickle("pickle", data, tuple(heap)),
    lambda data, heap, dtypes: Pickle("cloudpickle", data, tuple(heap)),
    lambda data, heap, dtypes: _arrow(data, heap[0]),
]
