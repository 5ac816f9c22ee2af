"""The values of an array with all their bits, and their order: by recursion, without kernels.

A value is None, a number (the bits of a float, the unscaled number of a decimal, what a time is in
memory), bytes, a list, or a tuple of what a structure's fields have.
"""

from __future__ import annotations

import itertools
import math
import struct
from typing import Any

import pyarrow as pa

_INTEGERS = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}
_FLOATS = {16: "e", 32: "f", 64: "d"}
_BITS = {16: "H", 32: "I", 64: "Q"}


def exact(array: Any) -> list[Any]:
    """The values of an array or a chunked array."""
    if isinstance(array, pa.ChunkedArray):
        return [value for chunk in array.chunks for value in exact(chunk)]
    test, kind = pa.types, array.type
    if isinstance(kind, pa.BaseExtensionType):
        return exact(array.storage)
    if test.is_dictionary(kind):
        values = exact(array.dictionary)
        return [None if key is None else values[key] for key in exact(array.indices)]
    if test.is_run_end_encoded(kind):
        return _of_runs(array)
    if test.is_union(kind):
        return _of_union(array)
    if test.is_struct(kind):
        fields = [exact(array.field(at)) for at in range(kind.num_fields)]
        rows: list[Any] = [*zip(*fields, strict=True)] if fields else [()] * len(array)
        return _masked(array, rows)
    if test.is_nested(kind):
        return _masked(array, _of_lists(array))
    if test.is_floating(kind):
        return _masked(array, _words(array, _BITS[kind.bit_width]))
    if test.is_decimal(kind):
        return _masked(array, _wide(array))
    if test.is_temporal(kind) and not test.is_interval(kind):
        return exact(array.view(_INTEGERS[kind.bit_width]))
    values = array.to_pylist()
    return [value.encode() if isinstance(value, str) else value for value in values]


def _masked(array: Any, values: list[Any]) -> list[Any]:
    valid = array.is_valid().to_pylist()
    return [value if fits else None for value, fits in zip(values, valid, strict=True)]


def _memory(array: Any, width: int) -> bytes:
    start, end = array.offset * width, (array.offset + len(array)) * width
    buffer = array.buffers()[1]
    return bytes(buffer)[start:end] if buffer is not None else b""


def _words(array: Any, letter: str) -> list[int]:
    data = _memory(array, struct.calcsize(letter))
    return [*struct.unpack(f"<{len(array)}{letter}", data)]


def _wide(array: Any) -> list[int]:
    width = array.type.bit_width // 8
    data = _memory(array, width)
    parts = (data[at : at + width] for at in range(0, len(data), width))
    return [int.from_bytes(part, "little", signed=True) for part in parts]


def _of_runs(array: Any) -> list[Any]:
    ends, values = array.run_ends.to_pylist(), exact(array.values)
    rows, at = [], 0
    for row in range(array.offset, array.offset + len(array)):
        while ends[at] <= row:
            at += 1
        rows.append(values[at])
    return rows


def _of_union(array: Any) -> list[Any]:
    # The codes and the offsets that pyarrow gives are those of the array without its own offset.
    first, length = array.offset, len(array)
    codes = array.buffers()[1]
    tags = [*bytes(codes)[first : first + length]] if codes is not None else []
    children = [exact(array.field(at)) for at in range(array.type.num_fields)]
    if array.type.mode == "sparse":
        return [(tag, children[tag][row]) for row, tag in enumerate(tags)]
    places = _dense(array) if length else []
    return [(tag, children[tag][place]) for tag, place in zip(tags, places, strict=True)]


def _dense(array: Any) -> list[int]:
    data = bytes(array.buffers()[2])[array.offset * 4 : (array.offset + len(array)) * 4]
    return [*struct.unpack(f"<{len(array)}i", data)]


def _of_lists(array: Any) -> list[Any]:
    test, kind = pa.types, array.type
    if test.is_fixed_size_list(kind):
        size, first = kind.list_size, array.offset
        items = exact(array.values)
        places = [((first + row) * size, (first + row + 1) * size) for row in range(len(array))]
    elif test.is_list_view(kind) or test.is_large_list_view(kind):
        items = exact(array.values)
        pairs = zip(array.offsets.to_pylist(), array.sizes.to_pylist(), strict=True)
        places = [(start, start + size) for start, size in pairs]
    else:
        if test.is_map(kind):
            items = [*zip(exact(array.keys), exact(array.items), strict=True)]
        else:
            items = exact(array.values)
        ends = array.offsets.to_pylist()
        places = [*itertools.pairwise(ends)]
    return [items[start:end] for start, end in places]


class Order:
    """The order of two values of a type, by what ``docs/guides/sort.md`` says."""

    def __init__(self, kind: Any, *, descending: bool, nulls_first: bool) -> None:
        while isinstance(kind, pa.BaseExtensionType) or pa.types.is_dictionary(kind):
            dictionary = pa.types.is_dictionary(kind)
            kind = kind.value_type if dictionary else kind.storage_type
        if pa.types.is_run_end_encoded(kind):
            kind = kind.value_type
        self._sign = -1 if descending else 1
        self._missing = -1 if nulls_first else 1
        self._float = kind.bit_width if pa.types.is_floating(kind) else 0
        inner = [kind.field(at).type for at in range(kind.num_fields)]
        self._struct = pa.types.is_struct(kind)
        if pa.types.is_map(kind):
            inner = [pa.struct([kind.key_field, kind.item_field])]
        options = {"descending": descending, "nulls_first": nulls_first}
        self._inner = [Order(one, **options) for one in inner]

    def compare(self, a: Any, b: Any) -> int:
        """Less than, equal to or greater than 0."""
        if a is None or b is None:
            return 0 if a is b else self._missing * (1 if a is None else -1)
        if self._struct:
            for order, one, other in zip(self._inner, a, b, strict=True):
                if found := order.compare(one, other):
                    return found
            return 0
        if self._inner:
            (order,) = self._inner
            for one, other in zip(a, b, strict=False):
                if found := order.compare(one, other):
                    return found
            return self._sign * (len(a) - len(b))
        if self._float:
            a, b = self._number(a), self._number(b)
        return self._sign * ((a > b) - (a < b))

    def _number(self, bits: int) -> tuple[bool, float]:
        width = self._float
        (number,) = struct.unpack("<" + _FLOATS[width], bits.to_bytes(width // 8, "little"))
        return (True, 0.0) if math.isnan(number) else (False, number)
