"""The values that Python has no type of its own for, and the one error."""

from __future__ import annotations

import datetime
import itertools
import json
import struct
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa


class PloError(ValueError):
    """The bytes are not an object in the PLO format, or break one of its rules.

    ``code`` says which, with the names of section 8: ``not_an_object``, ``truncated``, ``broken``.
    """

    def __init__(self, text: str, code: str = "broken") -> None:
        super().__init__(text)
        self.code = code


def cut_off(wanted: int, found: int) -> PloError:
    """The error of bytes that end before the object does."""
    text = f"the object is cut off: it has {wanted} bytes, and {found} are there"
    return PloError(text, "truncated")


@dataclass(frozen=True)
class Dtype:
    """A NumPy element type: its array-protocol text (``<f8``) and its size in bytes."""

    text: str
    itemsize: int

    @property
    def typestr(self) -> str:
        """The text, or for a structured type that of as many plain bytes."""
        return f"|V{self.itemsize}" if self.text.startswith("[") else self.text

    @property
    def descr(self) -> list[Any]:
        """What ``numpy.dtype`` takes: the fields of a structured type."""

        def fields(listed: list[Any]) -> list[Any]:
            return [tuple(_field(part) for part in entry) for entry in listed]

        def _field(part: Any) -> Any:
            if isinstance(part, list):
                return tuple(part) if all(isinstance(n, int) for n in part) else fields(part)
            return part

        return fields(json.loads(self.text)) if self.text.startswith("[") else [("", self.text)]


@dataclass(frozen=True, eq=False)
class Tensor:
    """An array of any element type: ``shape`` and ``strides`` (in bytes) over read-only memory.

    ``kind`` is ``"numpy"`` or ``"memoryview"``; the latter's dtype is one letter of ``struct``.
    ``numpy.asarray(tensor)`` is a view of the same memory.
    """

    kind: str
    dtype: Dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    memory: memoryview
    offset: int

    def __getitem__(self, index: int | tuple[int, ...]) -> Any:
        """The element at an index for each dimension, none negative."""
        index = index if isinstance(index, tuple) else (index,)
        if len(index) != len(self.shape):
            raise IndexError(f"{len(self.shape)} indices are needed, not {len(index)}")
        for at, extent in zip(index, self.shape, strict=True):
            if not 0 <= at < extent:
                raise IndexError(f"{index} is outside of the shape {self.shape}")
        at = self.offset + sum(map(int.__mul__, index, self.strides))
        return element(self.dtype, self.memory[at : at + self.dtype.itemsize])

    def tolist(self) -> Any:
        """The elements in lists, one level for each dimension."""

        def level(dimension: int, at: int) -> Any:
            if dimension == len(self.shape):
                return element(self.dtype, self.memory[at : at + self.dtype.itemsize])
            stride = self.strides[dimension]
            return [level(dimension + 1, at + stride * n) for n in range(self.shape[dimension])]

        return level(0, self.offset)

    def tobytes(self) -> bytes:
        """The bytes of the elements in C order."""
        if 0 in self.shape or not self.dtype.itemsize:
            return b""
        steps = [
            [stride * n for n in range(extent)]
            for extent, stride in zip(self.shape, self.strides, strict=True)
        ]
        starts = (self.offset + sum(index) for index in itertools.product(*steps))
        return b"".join(self.memory[at : at + self.dtype.itemsize] for at in starts)

    @property
    def __array_interface__(self) -> dict[str, Any]:
        native = self.kind == "memoryview"
        return {
            "version": 3,
            "shape": self.shape,
            "strides": self.strides,
            "typestr": _struct_typestr(self.dtype) if native else self.dtype.typestr,
            "descr": [("", "|V1")] if native else self.dtype.descr,
            "data": (pa.py_buffer(self.memory).address + self.offset, True),
        }


@dataclass(frozen=True, eq=False)
class Scalar:
    """A NumPy scalar: its element type, its bytes, and the value as Python has it."""

    dtype: Dtype
    data: bytes

    @property
    def value(self) -> Any:
        """The value; the bytes where Python has no such type."""
        return element(self.dtype, memoryview(self.data))


@dataclass(eq=False)
class ObjectArray:
    """A NumPy array of objects: its shape, and its items in C order."""

    shape: tuple[int, ...]
    items: list[Any]


@dataclass(frozen=True)
class PloClass:
    """The class of an object. ``source`` says how it is named, ``make`` how objects are made."""

    source: str
    make: str
    name: str
    version: int
    fields: tuple[str, ...]
    pickle: Pickle | None = None


@dataclass(eq=False)
class Object:
    """An object of a class: its parts by name.

    The names are the attributes', or ``state``, or for an object that is made by a call ``args``,
    ``kwargs``, ``state``, ``items``, ``pairs`` and ``setter``, as ``__reduce__`` has them.
    """

    cls: PloClass
    fields: dict[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Global:
    """Something that has a name in Python: a type, a class, a function. It is not imported."""

    name: str


@dataclass(frozen=True, eq=False)
class Pickle:
    """A pickle that was not loaded: ``kind`` is ``"pickle"`` or ``"cloudpickle"``."""

    kind: str
    data: bytes
    buffers: tuple[memoryview, ...]


@dataclass(frozen=True, eq=False)
class ArrowData:
    """Arrow data that came from pandas or polars (``kind``), as the pyarrow table that it was."""

    kind: int
    text: str
    table: pa.Table


class Zone(datetime.tzinfo):
    """A time zone by its IANA key that this machine knows nothing of; its offset is unknown."""

    def __init__(self, key: str) -> None:
        self.key = key

    def utcoffset(self, moment: datetime.datetime | None) -> None:
        return None

    def dst(self, moment: datetime.datetime | None) -> None:
        return None

    def tzname(self, moment: datetime.datetime | None) -> str:
        return self.key


def _struct_typestr(dtype: Dtype) -> str:
    letter = dtype.text[-1:]
    kind = {"?": "b", "c": "S"}.get(letter) or (
        "f" if letter in "efd" else "u" if letter in "BHILQNP" else "i"
    )
    return f"{'|' if dtype.itemsize == 1 else '<'}{kind}{dtype.itemsize}"


_NUMBERS = {
    **{"b1": "?", "i1": "b", "i2": "h", "i4": "i", "i8": "q", "f2": "e", "f4": "f", "f8": "d"},
    **{"u1": "B", "u2": "H", "u4": "I", "u8": "Q", "M8": "q", "m8": "q"},
}


def element(dtype: Dtype, data: memoryview) -> Any:
    """One element. Dates and spans of NumPy are their counts; what Python lacks is its bytes."""
    text = dtype.text if len(dtype.text) > 1 else _struct_typestr(dtype)
    order, kind = ">" if text.startswith(">") else "<", text[1:3]
    if kind in _NUMBERS and struct.calcsize("<" + _NUMBERS[kind]) == dtype.itemsize:
        return struct.unpack(order + _NUMBERS[kind], data)[0]
    if kind[:1] == "c" and dtype.itemsize in (8, 16):
        return complex(*struct.unpack(order + ("ff" if dtype.itemsize == 8 else "dd"), data))
    if kind[:1] == "U":
        return str(data, "utf-32-be" if order == ">" else "utf-32-le", "surrogatepass").rstrip("\0")
    return bytes(data).rstrip(b"\0") if kind[:1] == "S" else bytes(data)
