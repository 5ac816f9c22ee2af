"""The arguments of the native half of a sort."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypedDict


class Target(TypedDict):
    """Where the partitions go, and as what."""

    kind: int
    name: str | None


class InMemory(TypedDict):
    """The arguments of ``sort_into``."""

    partitions: int | None
    only: tuple[int, int] | None
    threads: int | None
    target: Target
    progress: Callable[[int, int], object] | None


class Spilling(TypedDict):
    """The arguments of ``sort_spilling``."""

    partitions: int | None
    threads: int | None
    target: Target
    progress: Callable[[int, int], object] | None
    rows: int | None
    rows_bytes: int
    folder: str | None
    scratch_bytes_max: int | None
    memory_bytes: int
