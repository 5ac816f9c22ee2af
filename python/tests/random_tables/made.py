"""Tables from a seed.

Arrays are made of buffers, not of values, so that slots that are null hold garbage: numbers that no
value of the type may be, ranges of bytes and of items that are not empty. Each array is a slice of
a longer one.
"""

from __future__ import annotations

import random
import struct
from typing import Any

import pyarrow as pa

from .exact import exact

#: How deep types are nested.
DEPTH = 3
ROWS = (0, 1, 2, 7, 30, 65, 200)

_FLOATS = {
    16: ("<e", [0x7E00, 0xFE00, 0x8000, 0, 0x7C00, 0xFC00, 1, 0x3C00, 0xBC00, 0x7E01]),
    32: (
        "<f",
        [0x7FC00000, 0xFFC00000, 0x80000000, 0, 0x7F800000, 0xFF800000, 1, 0x3F800000, 0x7FC00001],
    ),
    64: (
        "<d",
        [
            *(0x7FF8000000000000, 0xFFF8000000000000, 1 << 63, 0, 0x7FF0000000000000),
            *(0xFFF0000000000000, 1, 0x3FF0000000000000, 0xBFF0000000000000, 0x7FF8000000000001),
        ],
    ),
}
_TEXTS = ("", "a", "ab", "a\0", "b", "ü", "same beginning 1", "same beginning 2", "\U0001f600" * 9)
_DAY_S = 86_400
_PER_S = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


def _leaves() -> list[Any]:
    units = ("s", "ms", "us", "ns")
    zoned = [pa.timestamp(unit, zone) for unit in units for zone in ("UTC", "Europe/Berlin")]
    return [
        *(pa.int8(), pa.int16(), pa.int32(), pa.int64()),
        *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
        *(pa.float16(), pa.float32(), pa.float64(), pa.float64()),
        *(pa.bool_(), pa.null()),
        *(pa.string(), pa.large_string(), pa.string_view()),
        *(pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(3), pa.binary(16)),
        *(pa.decimal32(5, 2), pa.decimal64(15, 0), pa.decimal128(38, 10), pa.decimal256(70, -3)),
        *(pa.date32(), pa.date64(), pa.time32("s"), pa.time32("ms"), pa.time64("us")),
        *(pa.time64("ns"), *map(pa.duration, units), pa.month_day_nano_interval()),
        *(*map(pa.timestamp, units), *zoned),
    ]


LEAVES = _leaves()
EXTENSIONS = (
    pa.uuid(),
    pa.json_(pa.string()),
    pa.bool8(),
    pa.opaque(pa.int32(), "kind", "vendor"),
    pa.fixed_shape_tensor(pa.float32(), (2,)),
)
KEYS = (pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64())


class Make:
    """Draws from a seed: everything random in a table comes from here."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.choice = self.random.choice

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    # Types

    def type(self, depth: int = DEPTH, *, rare: bool = True) -> Any:
        """A type; with ``rare`` also views of lists, runs and unions."""
        if depth == 0 or self.chance(0.55):
            return self.choice(LEAVES)
        inner = lambda: self.type(depth - 1, rare=rare)  # noqa: E731
        made = self.choice(["list", "large", "fixed", "struct", "map", "dictionary", "extension"])
        if rare and self.chance(0.2):
            made = self.choice(["view", "large_view", "runs", "sparse", "dense"])
        return {
            "list": lambda: pa.list_(inner()),
            "large": lambda: pa.large_list(inner()),
            "fixed": lambda: pa.list_(inner(), self.choice([0, 1, 2, 3])),
            "view": lambda: pa.list_view(inner()),
            "large_view": lambda: pa.large_list_view(inner()),
            "struct": lambda: self._struct(inner),
            "map": lambda: pa.map_(self.choice([pa.string(), pa.int32(), pa.float64()]), inner()),
            "dictionary": self._dictionary,
            "extension": lambda: self.choice(EXTENSIONS),
            "runs": lambda: pa.run_end_encoded(
                self.choice([pa.int16(), pa.int32(), pa.int64()]), self.choice(LEAVES)
            ),
            "sparse": lambda: pa.sparse_union([pa.field("x", inner()), pa.field("y", inner())]),
            "dense": lambda: pa.dense_union([pa.field("x", inner()), pa.field("y", inner())]),
        }[made]()

    def _struct(self, inner: Any) -> Any:
        return pa.struct([pa.field(name, inner()) for name in "abc"[: self.choice([1, 2, 3])]])

    def _dictionary(self) -> Any:
        values = self.choice([kind for kind in LEAVES if not pa.types.is_null(kind)])
        return pa.dictionary(self.choice(KEYS), values, ordered=self.chance(0.3))

    # Arrays

    def array(self, kind: Any, length: int, *, nulls: bool = True) -> Any:
        """An array of this length: part of a longer one."""
        before, after = self.choice([0, 0, 1, 3, 8, 9]), self.choice([0, 0, 1, 5])
        return self._whole(kind, before + length + after, nulls).slice(before, length)

    def _whole(self, kind: Any, length: int, nulls: bool) -> Any:
        test = pa.types
        if isinstance(kind, pa.BaseExtensionType):
            storage = self._whole(kind.storage_type, length, nulls)
            return pa.ExtensionArray.from_storage(kind, storage)
        if test.is_null(kind):
            return pa.nulls(length)
        if test.is_dictionary(kind):
            return self._of_dictionary(kind, length, nulls)
        if test.is_run_end_encoded(kind):
            return self._runs(kind, length, nulls)
        if test.is_union(kind):
            return self._union(kind, length)
        if test.is_string_view(kind) or test.is_binary_view(kind):
            whole = pa.string() if test.is_string_view(kind) else pa.binary()
            return self._whole(whole, length, nulls).cast(kind)
        valid = self._validity(length) if nulls else [True] * length
        buffers, children = self._parts(kind, length, valid)
        bitmap = None if all(valid) and self.chance(0.8) else _bitmap(valid)
        return pa.Array.from_buffers(kind, length, [bitmap, *buffers], children=children)

    def _validity(self, length: int) -> list[bool]:
        share = self.choice([0.0, 0.0, 0.1, 0.5, 1.0])
        return [self.random.random() >= share for _ in range(length)]

    def _parts(self, kind: Any, length: int, valid: list[bool]) -> tuple[list[Any], Any]:
        """The buffers after the validity, and the children."""
        test = pa.types
        if test.is_boolean(kind):
            return [_bitmap([self.chance(0.5) for _ in range(length)])], None
        if test.is_struct(kind):
            return [], [self.array(field.type, length) for field in kind]
        if test.is_fixed_size_list(kind):
            return [], [self.array(kind.value_type, length * kind.list_size)]
        if test.is_list_view(kind) or test.is_large_list_view(kind):
            return self._views(kind, length)
        if test.is_list(kind) or test.is_large_list(kind) or test.is_map(kind):
            wide = test.is_large_list(kind)
            ends = self._ends(length, [0, 1, 2, 5])
            if test.is_map(kind):
                keys = self.array(kind.key_type, ends[-1], nulls=False)
                parts = [keys, self.array(kind.item_type, ends[-1])]
                child = pa.StructArray.from_arrays(parts, fields=[kind.key_field, kind.item_field])
            else:
                child = self.array(kind.value_type, ends[-1])
            return [_packed("q" if wide else "i", ends)], [child]
        text = test.is_string(kind) or test.is_large_string(kind)
        if text or test.is_binary(kind) or test.is_large_binary(kind):
            return self._bytes(kind, length, text), None
        return [pa.py_buffer(self._fixed(kind, valid))], None

    def _ends(self, length: int, sizes: list[int]) -> list[int]:
        ends = [self.choice([0, 0, 2])]
        for _ in range(length):
            ends.append(ends[-1] + self.choice(sizes))
        return ends

    def _views(self, kind: Any, length: int) -> tuple[list[Any], Any]:
        child = self.array(kind.value_type, items := self.choice([0, 3, 20]))
        starts = [self.random.randint(0, items) for _ in range(length)]
        sizes = [self.random.randint(0, min(3, items - start)) for start in starts]
        letter = "q" if pa.types.is_large_list_view(kind) else "i"
        return [_packed(letter, starts), _packed(letter, sizes)], [child]

    def _bytes(self, kind: Any, length: int, text: bool) -> list[Any]:
        parts = [self._text() if text else self.random.randbytes(2) for _ in range(length)]
        data = [b"gar", *parts]
        ends = [3]
        for part in parts:
            ends.append(ends[-1] + len(part))
        wide = pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)
        return [_packed("q" if wide else "i", ends), pa.py_buffer(b"".join(data))]

    def _text(self) -> bytes:
        return self.choice(_TEXTS).encode()

    def _fixed(self, kind: Any, valid: list[bool]) -> bytes:
        width = kind.bit_width // 8
        one = self._maker(kind, width)
        few = [one() for _ in range(self.choice([1, 3, 12, 50]))]
        garbage = self.random.randbytes
        return b"".join(self.choice(few) if fits else garbage(width) for fits in valid)

    def _maker(self, kind: Any, width: int) -> Any:
        test, draw = pa.types, self.random
        if test.is_floating(kind):
            letter, special = _FLOATS[kind.bit_width]
            return lambda: (
                self.choice(special).to_bytes(width, "little")
                if self.chance(0.6)
                else struct.pack(letter, draw.uniform(-9, 9))
            )
        if test.is_decimal(kind):
            most = 10**kind.precision - 1
            return lambda: self._near(-most, most).to_bytes(width, "little", signed=True)
        if test.is_time(kind):
            units = _DAY_S * _PER_S[kind.unit] - 1
            return lambda: self._near(0, units).to_bytes(width, "little")
        if test.is_date64(kind):
            return lambda: (draw.randint(-9999, 9999) * _DAY_S * 1000).to_bytes(
                8, "little", signed=True
            )
        if test.is_integer(kind) or (test.is_temporal(kind) and not test.is_interval(kind)):
            signed = not test.is_unsigned_integer(kind)
            low, high = (-(1 << 8 * width - 1), (1 << 8 * width - 1) - 1)
            low, high = (low, high) if signed else (0, (1 << 8 * width) - 1)
            return lambda: self._near(low, high).to_bytes(width, "little", signed=signed)
        return lambda: draw.randbytes(width)

    def _near(self, low: int, high: int) -> int:
        """A number between two, often near one of them or near 0."""
        some = [low, low + 1, high, high - 1, 0, 1, max(low, -1), self.random.randint(low, high)]
        return self.choice([*some, max(low, min(high, self.random.randint(-3, 300)))])

    def _of_dictionary(self, kind: Any, length: int, nulls: bool) -> Any:
        count = self.choice([1, 2, 5, 12])
        values = self.array(kind.value_type, count, nulls=nulls and self.chance(0.5))
        valid = self._validity(length) if nulls else [True] * length
        letter = _letter(kind.index_type)
        keys = [
            self.random.randrange(count) if fits else self.choice([0, count, 100]) for fits in valid
        ]
        buffers = [_bitmap(valid), _packed(letter, keys)]
        indices = pa.Array.from_buffers(kind.index_type, length, buffers)
        return pa.DictionaryArray.from_arrays(indices, values, ordered=kind.ordered, safe=False)

    def _runs(self, kind: Any, length: int, nulls: bool) -> Any:
        ends: list[int] = []
        while (last := ends[-1] if ends else 0) < length:
            ends.append(min(length, last + self.choice([1, 1, 2, 7])))
        values = self.array(kind.value_type, len(ends), nulls=nulls)
        return pa.RunEndEncodedArray.from_arrays(pa.array(ends, kind.run_end_type), values, kind)

    def _union(self, kind: Any, length: int) -> Any:
        tags = [self.choice([0, 1]) for _ in range(length)]
        codes = pa.array(tags, pa.int8())
        names = [field.name for field in kind]
        if kind.mode == "sparse":
            children = [self.array(field.type, length) for field in kind]
            return pa.UnionArray.from_sparse(codes, children, names)
        children = [self.array(field.type, tags.count(at)) for at, field in enumerate(kind)]
        places = [tags[:row].count(tag) for row, tag in enumerate(tags)]
        return pa.UnionArray.from_dense(codes, pa.array(places, pa.int32()), children, names)

    # Tables

    def table(self, *, rare: bool = True, rows: int | None = None) -> Any:
        """A table of one to five columns, or none, each cut into chunks of its own."""
        rows = self.choice(ROWS) if rows is None else rows
        fields, columns = [], []
        for at in range(self.choice([1, 2, 3, 4, 5, 5]) if self.chance(0.97) else 0):
            kind = self.type(rare=rare)
            columns.append(self.column(kind, rows))
            metadata = {"about": self.choice(_TEXTS[1:3])} if self.chance(0.1) else None
            nullable = columns[-1].null_count > 0 or self.chance(0.8) or pa.types.is_null(kind)
            # A dictionary may have missing values that no bitmap tells of.
            nullable = nullable or None in exact(columns[-1])
            fields.append(pa.field(f"c{at}", kind, nullable, metadata))
        metadata = {"made": "here"} if self.chance(0.2) else None
        return pa.Table.from_arrays(columns, schema=pa.schema(fields, metadata))

    def column(self, kind: Any, rows: int) -> Any:
        """A column in chunks, some of which are empty."""
        lengths = []
        while rows:
            lengths.append(min(rows, self.choice([rows, rows, 1, 8, 50])))
            rows -= lengths[-1]
        if self.chance(0.3):
            lengths.insert(self.random.randint(0, len(lengths)), 0)
        return pa.chunked_array([self.array(kind, length) for length in lengths], kind)


def _bitmap(bits: list[bool]) -> Any:
    packed = bytearray((len(bits) + 7) // 8)
    for at, bit in enumerate(bits):
        packed[at // 8] |= bit << at % 8
    return pa.py_buffer(bytes(packed))


def _packed(letter: str, numbers: list[int]) -> Any:
    return pa.py_buffer(struct.pack(f"<{len(numbers)}{letter}", *numbers))


def _letter(kind: Any) -> str:
    letter = {8: "b", 16: "h", 32: "i", 64: "q"}[kind.bit_width]
    return letter.upper() if pa.types.is_unsigned_integer(kind) else letter
