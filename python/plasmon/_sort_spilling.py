"""Sorting what does not fit: how large the data is, and the way through a scratch file.

::

    tables, one after the other ─► runs: as much as the memory takes, sorted, in the scratch file
    runs ─► partitions, one after the other, sealed in the store, which spills them in turn

The work is that of ``crates/sort/src/external``; whether and with how much memory it is done, and
what becomes of the partitions when it fails, is decided in ``crates/sort-store``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plasmon import _native, _sort_files
from plasmon._sort import Key, Spill, frame_kind, parts_of, table, target

if TYPE_CHECKING:
    from plasmon._native import UnpublishedPartitions
    from plasmon._store import Store


@dataclass(frozen=True)
class Room:
    """How a sort is done with what there is."""

    #: Whether the rows go through a scratch file.
    spills: bool
    #: The memory for that, also when it turns out that others have taken the store's room:
    #: partitions that are made one after the other can then be spilled by the store. None where
    #: that is not allowed, or the store does not spill.
    memory_bytes: int | None
    folder: str | os.PathLike[str] | None
    #: How large the scratch file may be.
    spill_bytes_max: int | None
    #: About how many bytes all rows take.
    rows_bytes: int
    #: How many rows there are, None when that is not known.
    rows: int | None

    @staticmethod
    def of(
        store: Store,
        data: Any,
        spill: Spill,
        folder: str | os.PathLike[str] | None,
        spill_bytes_max: int | None,
        memory_bytes: int | None,
    ) -> Room:
        """Compares what the data needs with what there is.

        Raises NoRoom, with both in bytes, when it does not fit and may not spill, or cannot.
        """
        rows_bytes, file_bytes, rows = _sizes(store, data)
        sizes = (rows_bytes, file_bytes)
        spills, memory = _native.plan_sort(store, sizes, spill, memory_bytes)
        return Room(spills, memory, folder, spill_bytes_max, rows_bytes, rows)


def _sizes(store: Store, data: Any) -> tuple[int, int, int | None]:
    """Bytes of all rows, those of them that lie in files, and how many rows, if that is known."""
    all_bytes, file_bytes, rows = 0, 0, 0
    known = True
    for part in parts_of(data):
        found: int | None = None
        if isinstance(part, _native.ObjectId):
            info = store.stat(part)
            nbytes = 0 if info is None else info.data_bytes
        elif isinstance(part, str | os.PathLike):
            nbytes, found = _sort_files.size(Path(part))
            file_bytes += nbytes
        elif isinstance(part, _native._TextFile):
            nbytes = part.nbytes
            file_bytes += nbytes
        else:
            nbytes, found = _size_in_memory(part)
        all_bytes += nbytes
        known = known and found is not None
        rows += found or 0
    return all_bytes, file_bytes, rows if known else None


def _size_in_memory(part: Any) -> tuple[int, int | None]:
    if frame_kind(part) == _native.TABLE_PANDAS_FRAME:
        return int(part.memory_usage(index=True, deep=False).sum()), len(part)
    if frame_kind(part) == _native.TABLE_POLARS_FRAME:
        return part.estimated_size(), part.height
    return getattr(part, "nbytes", 0), getattr(part, "num_rows", None)


def sort(
    store: Store,
    data: Any,
    order: list[Key],
    partitions: int | None,
    threads: int | None,
    name: str | None,
    tell: Callable[[int, int], object] | None,
    room: Room,
) -> UnpublishedPartitions:
    """Sorts through a scratch file."""
    assert room.memory_bytes is not None, "a sort that may not spill does not come here"
    kinds = {frame_kind(part) for part in parts_of(data)}
    kind = kinds.pop() if len(kinds) == 1 else None
    return _native.sort_spilling(
        store,
        _tables(store, data),
        order,
        {
            "partitions": partitions,
            "threads": threads,
            "target": target(_native.TABLE_TABLE if kind is None else kind, name),
            "progress": tell,
            "rows": room.rows,
            "rows_bytes": room.rows_bytes,
            "folder": None if room.folder is None else os.fspath(room.folder),
            "scratch_bytes_max": room.spill_bytes_max,
            "memory_bytes": room.memory_bytes,
        },
    )


def _tables(store: Store, data: Any) -> Iterator[Any]:
    """All parts, one after the other: none is held when the next one is requested."""
    for part in parts_of(data):
        if isinstance(part, str | os.PathLike):
            yield from _sort_files.batches(Path(part))
        elif isinstance(part, _native._TextFile):
            yield from _sort_files.batches(part)
        else:
            yield table(store, part)[0]
