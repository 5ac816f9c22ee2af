"""Sorting what does not fit: whether it does, and the way through a scratch file.

::

    tables, one after the other ─► runs: as much as the memory takes, sorted, in the scratch file
    runs ─► partitions, one after the other, sealed in the store, which spills them in turn

The work is that of ``crates/sort/src/external``. The scratch file has no name and goes with this
process; the partitions that are sealed already are deleted by a guard (:mod:`plasmon._sort_guard`)
when this process is killed before all of them are there.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plasmon import _errors, _native, _sort_files
from plasmon._sort import Key, Sorted, Spill, frame_kind, names, parts_of, table
from plasmon._sort_processes import Guard

if TYPE_CHECKING:
    from plasmon._native import ObjectId
    from plasmon._store import Store

#: Of the rows' bytes, what a sort in memory takes besides its input and its result.
_BESIDE_PART = 0.25
#: The least memory that is worth sorting with.
_MEMORY_BYTES_MIN = 64 << 20


@dataclass(frozen=True)
class Room:
    """What a sort needs, and what there is."""

    #: Whether the rows go through a scratch file.
    spills: bool
    #: Whether they do so when it turns out that others have taken the store's room: partitions that
    #: are made one after the other can then be spilled by the store.
    may_spill: bool
    folder: Path
    #: How large the scratch file may be.
    spill_bytes_max: int | None
    memory_bytes: int
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
        status = store.status()
        rows_bytes, file_bytes, rows = _sizes(store, data)
        free = available_bytes()
        place = Path(folder or os.environ.get("TMPDIR") or "/var/tmp")
        # The store's free memory that is still there counts as free; what it may yet take does not.
        fresh = max(status.capacity_bytes - status.used_bytes - status.warm_bytes, 0)
        memory = memory_bytes or max((free - min(fresh, free)) // 2, free // 8, _MEMORY_BYTES_MIN)
        need = int(rows_bytes * (1 + _BESIDE_PART)) + file_bytes
        has = free + status.warm_bytes if memory_bytes is None else memory_bytes + status.warm_bytes
        most = spill_bytes_max
        room = Room(False, spill == "auto" and status.spills, place, most, memory, rows)
        if rows_bytes > status.capacity_bytes and not status.spills:
            raise _no_room(
                "the sorted rows", rows_bytes, "the store", status.capacity_bytes,
                "start it with more capacity or a spill_dir",
            )  # fmt: skip
        if rows_bytes <= status.capacity_bytes and need <= has and spill != "always":
            return room
        if spill == "never":
            if rows_bytes > status.capacity_bytes:
                raise _no_room(
                    "the sorted rows", rows_bytes, "the store", status.capacity_bytes,
                    'allow spill="auto"',
                )  # fmt: skip
            raise _no_room("the sort", need, "this machine", has, 'allow spill="auto"')
        disk = os.statvfs(place)
        disk_bytes = disk.f_bavail * disk.f_frsize
        if rows_bytes > disk_bytes:
            raise _no_room(
                "the scratch file", rows_bytes, f"the file system of {place}", disk_bytes,
                "name another folder with spill_dir",
            )  # fmt: skip
        if most is not None and rows_bytes > most:
            raise _no_room(
                "the scratch file", rows_bytes, "spill_bytes_max", most, "raise it",
            )  # fmt: skip
        return Room(True, False, place, most, memory, rows)


def _no_room(what: str, need: int, where: str, has: int, advice: str) -> _errors.NoRoom:
    text = f"sorting: {what} would need {need:,} bytes and {where} has {has:,}: {advice}"
    return _errors.NoRoom(text, None, wanted=need, found=has)


def available_bytes() -> int:
    """The memory that this process could have, as the system and its control group say."""
    with open("/proc/meminfo") as lines:
        found = next(line for line in lines if line.startswith("MemAvailable"))
    free = int(found.split()[1]) * 1024
    with contextlib.suppress(OSError, ValueError):
        group = Path("/sys/fs/cgroup")
        limit = int((group / "memory.max").read_text())
        free = min(free, max(limit - int((group / "memory.current").read_text()), 0))
    return free


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
    made: list[ObjectId],
    room: Room,
) -> Sorted:
    """Sorts through a scratch file. The ids of the partitions are added to ``made``."""
    kinds = {frame_kind(part) for part in parts_of(data)}
    kind = kinds.pop() if len(kinds) == 1 else None
    guards: list[Guard] = []

    def planned(count: int) -> list[dict[str, Any]]:
        if name is not None:
            options: list[dict[str, Any]] = [{"name": text} for text in names(name, count)]
            ids = [_native.ObjectId.from_name(one["name"]) for one in options]
            # Names that are taken are refused before the guard could delete what is not ours.
            for id, state in zip(ids, store.states(ids), strict=True):
                if state in {"sealed", "spilled", "creating"}:
                    raise _errors.Exists(f"sorting: object {id} exists already", id)
        else:
            ids = [store.new_id() for _ in range(count)]
            options = [{"id": id} for id in ids]
        guards.append(Guard(store, ids))
        guards[-1].ready()
        return options

    try:
        found = _native.sort_spilling(
            store,
            _tables(store, data),
            order,
            {
                "partitions": partitions,
                "threads": threads,
                "kind": _native.TABLE_TABLE if kind is None else kind,
                "planned": planned,
                "progress": tell,
                "rows": room.rows,
                "folder": str(room.folder),
                "scratch_bytes_max": room.spill_bytes_max,
                "memory_bytes": room.memory_bytes,
            },
        )
        store.flush()
        made.extend(id for id, _ in found)
        for guard in guards:
            guard.dismiss()
    except BaseException:
        # Also when all was done and Ctrl-C came before the caller had it.
        for guard in guards:
            guard.clear()
        raise
    return Sorted(store, [id for id, _ in found], [rows for _, rows in found])


def _tables(store: Store, data: Any) -> Iterator[Any]:
    """All parts, one after the other: none is held when the next one is asked for."""
    for part in parts_of(data):
        if isinstance(part, str | os.PathLike):
            yield from _sort_files.batches(Path(part))
        elif isinstance(part, _native._TextFile):
            yield from _sort_files.batches(part)
        else:
            yield table(store, part)[0]
