"""Addresses of memory of the pool."""

from __future__ import annotations

import operator
from dataclasses import dataclass

from plasmon._native import ObjectId

_OFFSET_MAX = 2**64 - 1


@dataclass(frozen=True, slots=True, order=True)
class Address:
    """A place in memory of the pool.

    ``id`` is that of the region, and of the object that it is once it is sealed; ``offset`` is
    where in its data.
    ``str(address)`` is one string, of which :meth:`parse` makes the address again, on any node;
    ``address + nbytes`` is further on in the same region.
    """

    id: ObjectId
    offset: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.id, ObjectId):
            raise TypeError(f"an address has an ObjectId, found {type(self.id).__qualname__}")
        offset = operator.index(self.offset)
        if not 0 <= offset <= _OFFSET_MAX:
            raise ValueError(f"an offset is 0 to {_OFFSET_MAX}, found {offset}")
        object.__setattr__(self, "offset", offset)

    @classmethod
    def parse(cls, text: str) -> Address:
        """The address that a str stands for."""
        digits, plus, offset = text.partition("+")
        if not plus or not (offset.isascii() and offset.isdigit()):
            raise ValueError(
                f"an address is the 40 digits of an id, a plus, and an offset, found {text!r}"
            )
        return cls(ObjectId.from_hex(digits), int(offset))

    def __str__(self) -> str:
        return f"{self.id.hex()}+{self.offset}"

    def __add__(self, nbytes: int) -> Address:
        return Address(self.id, self.offset + operator.index(nbytes))

    def __sub__(self, nbytes: int) -> Address:
        return Address(self.id, self.offset - operator.index(nbytes))


def id_of(given: Address | ObjectId) -> ObjectId:
    """The region that an address is in."""
    if isinstance(given, Address):
        return given.id
    if isinstance(given, ObjectId):
        return given
    raise TypeError(
        f"memory of the pool is named with an Address, found {type(given).__qualname__}"
    )


def place_of(given: Address | ObjectId, offset: int) -> tuple[ObjectId, int]:
    """The region and the offset in it, so many bytes from an address on."""
    id, start = id_of(given), given.offset if isinstance(given, Address) else 0
    offset = start + operator.index(offset)
    if not 0 <= offset <= _OFFSET_MAX:
        raise ValueError(f"an offset is 0 to {_OFFSET_MAX}, found {offset}")
    return id, offset
