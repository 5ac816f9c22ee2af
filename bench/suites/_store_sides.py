"""The sides of the store's benchmark and the words for what they do."""

from __future__ import annotations

from typing import Any

from bench.case import Entry, Measure

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30

RUST, PYTHON, LIMITS = "plasmon-rust", "plasmon-python", "limits"
PLASMA, VINEYARD, RAY, SEGMENTS = "plasma", "vineyard", "ray", "shared-memory"

OWN = "id of the client's making; one copy, the seal goes into the ring, no answer awaited"
USER = "id of the caller's; one copy, the store's answer awaited"
SOCKET = "no ring: create and seal are messages, both answers awaited"
IN_PLACE = "create, write through the returned buffer, seal; no answer awaited"
PLASMA_SEAL = "create, copy, seal; both answers awaited; the seal hashes the object (8 threads)"
PLASMA_RAW = "put_raw_buffer: create, copy (6 threads), seal with its hash"
VINEYARD_SEAL = "create_blob, copy, seal; both answers awaited"
VINEYARD_COPY = "create_blob, copy (6 threads), seal"
RAY_PUT = "ray.put of an array: serialized, copied (threads), sealed, owner told"
SEGMENT = "a new file each time, so fresh pages; no seal"
OWN_LARGE = "a message for the memory, the copy, a message for the seal"


def entry(
    side: str,
    op: str,
    work: str,
    variant: str = "",
    measure: Measure | None = None,
    **request: Any,
) -> Entry:
    return Entry(side, {"op": op, **request}, work, variant, measure)


def put(
    side: str, work: str, size: int, count: int, variant: str = "", way: str = "", **more: Any
) -> Entry:
    chosen: dict[str, Any] = {"way": way} if way else {}
    return entry(side, "put", work, variant, object_bytes=size, count=count, **chosen, **more)
