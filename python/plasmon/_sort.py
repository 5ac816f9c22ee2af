"""Sorting tables that are larger than comfortable, into the store.

    >>> import plasmon
    >>> with plasmon.sort(frame, ["city", ("price", "descending")]) as result:
    ...     result.to_polars()          # lies in the store's memory

The work is done by ``crates/sort`` (see ``docs/guides/sort.md``) on threads of this process. This
module turns what people have into tables, and results into what they want.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from plasmon import _errors, _native
from plasmon._library import library_of

if TYPE_CHECKING:
    from plasmon._native import ObjectId, UnpublishedPartitions
    from plasmon._sort_types import Target
    from plasmon._store import Store

Direction: TypeAlias = Literal["ascending", "descending"]
By: TypeAlias = str | tuple[str, Direction] | Sequence[str | tuple[str, Direction]]
Spill: TypeAlias = Literal["auto", "always", "never"]
Progress: TypeAlias = bool | Callable[[int, int], object] | None
#: A key as the native half takes it: column, descending, nulls first.
Key: TypeAlias = tuple[str, bool, bool]

_KINDS = {
    ("pandas", "DataFrame"): _native.TABLE_PANDAS_FRAME,
    ("polars", "DataFrame"): _native.TABLE_POLARS_FRAME,
}
#: The most objects that one sort makes (``crates/sort``).
_PARTITIONS_MAX = 4096
_FILES = ".parquet, .csv, .tsv, .json, .jsonl, .ndjson, .arrow, .arrows, .feather or .ipc"


class Sorted:
    """A sorted table in the store: partitions, each with greater keys than the one before.

    It can be read as one table or partition by partition (``store.get(id)``), by this process or
    any other; nothing is copied but for what the wanted form asks for. The objects stay until
    :meth:`delete`, or until the end of the block when it is used as a context manager.
    """

    def __init__(self, store: Store, ids: list[ObjectId], rows: list[int]) -> None:
        self.store = store
        #: The partitions, in order.
        self.ids = ids
        #: How many rows each partition has.
        self.rows = rows

    @property
    def num_rows(self) -> int:
        """The number of rows of all partitions."""
        return sum(self.rows)

    @property
    def nbytes(self) -> int:
        """The bytes that the partitions take in the store."""
        return sum(buffer.nbytes for buffer in self.store.get_buffers(self.ids))

    def to_arrow(self) -> Any:
        """All partitions as one pyarrow table on the store's memory, a chunk for each partition."""
        import pyarrow as pa

        return pa.concat_tables(self.store.get(self.ids, as_="arrow"))

    def to_polars(self) -> Any:
        """All partitions as one polars frame on the store's memory."""
        import polars as pl

        return pl.concat(self.store.get(self.ids, as_="polars"), rechunk=False)

    def to_pandas(self) -> Any:
        """All partitions as one pandas frame; on the store's memory when there is one partition."""
        if len(self.ids) == 1:
            return self.store.get(self.ids[0], as_="pandas")
        import pandas as pd

        frames = self.store.get(self.ids, as_="pandas")
        # A range for an index says nothing once the rows have moved; any other index moved along.
        ranges = all(isinstance(frame.index, pd.RangeIndex) for frame in frames)
        return pd.concat(frames, ignore_index=ranges)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Writes the rows to a Parquet, CSV or Arrow file, by its ending.

        Raises ValueError for other endings, and OSError; a file that was begun is removed then.
        """
        from plasmon import _sort_files

        _sort_files.write(Path(path), self.store, self.ids)

    def delete(self) -> None:
        """Deletes the partitions; one that is being read is freed by its last reader."""
        self.store.delete(self.ids)

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __len__(self) -> int:
        return self.num_rows

    def __iter__(self) -> Iterator[Any]:
        """The partitions, one after the other, as they would come from ``store.get``."""
        return (self.store.get(id) for id in self.ids)

    def __enter__(self) -> Sorted:
        return self

    def __exit__(self, *raised: object) -> None:
        self.delete()

    def __repr__(self) -> str:
        return f"<plasmon.Sorted: {self.num_rows:,} rows in {len(self.ids)} partitions>"


def keys(by: By, nulls: str) -> list[Key]:
    """The sort keys for the native half. Raises ValueError and TypeError."""
    if nulls not in {"first", "last"}:
        raise ValueError(f'nulls come "first" or "last", found {nulls!r}')
    if isinstance(by, str) or (isinstance(by, tuple) and _is_pair(by)):
        by = [cast("str | tuple[str, Direction]", by)]
    found: list[Key] = []
    for key in by:
        column, direction = key if isinstance(key, tuple) and _is_pair(key) else (key, "ascending")
        if not isinstance(column, str):
            raise TypeError(f"a key is a column's name, or (name, direction), found {key!r}")
        if any(column == other for other, _, _ in found):
            raise ValueError(f'column "{column}" is named twice in the order')
        found.append((column, direction == "descending", nulls == "first"))
    if not found:
        raise ValueError("no column to sort by was given: name at least one")
    return found


def _is_pair(key: tuple[Any, ...]) -> bool:
    return len(key) == 2 and key[1] in {"ascending", "descending"}


def sort(
    data: Any,
    by: By,
    *,
    nulls: Literal["first", "last"] = "last",
    partitions: int | None = None,
    threads: int | None = None,
    name: str | None = None,
    progress: Progress = None,
    spill: Spill = "auto",
    spill_dir: str | os.PathLike[str] | None = None,
    spill_bytes_max: int | None = None,
    memory_bytes: int | None = None,
    store: Store | None = None,
) -> Sorted:
    """Sorts rows into the store and returns a :class:`Sorted` of the partitions that were made.

    ``data`` is a pandas or polars frame, an Arrow table, anything with the Arrow PyCapsule
    interface, the path of a Parquet, CSV or Arrow file, the id of a table in the store, or a list
    of any of these, which is sorted as one table. ``by`` names a column, or several, the most
    significant first; ``("price", "descending")`` in place of a name turns the order round.
    Missing values come last, or first if ``nulls`` says so, in either direction. NaN is greater
    than any number. Rows with equal keys stay in their order.

    ``partitions`` is the number of objects to make; by default as few as can be. ``threads`` share
    the work, by default one for each core, 256 at most. ``name`` names the result: the only
    partition, or ``name/0000`` and so on. ``progress`` is True for a line on the standard error, or
    a function of steps done and steps in all. ``store`` is the store to sort into; by default
    :func:`connect` finds one.

    ``spill`` says what happens when rows do not fit the memory or the store: by default they are
    sorted in parts through a scratch file without a name in ``spill_dir`` (else ``$TMPDIR``, else
    ``/var/tmp``), with ``memory_bytes`` of memory (else half of what is free, and less for a small
    store). ``"always"`` does so in any case, ``"never"`` refuses. The result then has as many
    partitions as the memory asks for, unless ``partitions`` asks for more. The scratch file takes
    ``spill_bytes_max`` at most (else what its file system has, but for its last part).

    Raises ValueError for an order or a number that is invalid, TypeError for data or columns
    that cannot be sorted, NoRoom with the bytes that are needed and there, before the work is
    begun where that can be told, and OSError for the scratch file. After an error, and after
    Ctrl-C, nothing is left in the store.
    """
    order = keys(by, nulls)
    if spill not in {"auto", "always", "never"}:
        raise ValueError(f'spill is "auto", "always" or "never", found {spill!r}')
    for what, number, most in (
        ("partitions", partitions, _PARTITIONS_MAX),
        ("threads", threads, None),
        ("spill_bytes_max", spill_bytes_max, None),
        ("memory_bytes", memory_bytes, None),
    ):
        if number is not None and number < 1:
            raise ValueError(f"{what} must be 1 or more, found {number}")
        if number is not None and most is not None and number > most:
            raise ValueError(f"{what} must be {most:,} or less, found {number:,}")
    if store is None:
        from plasmon._store import connect

        store = connect()
    from plasmon import _sort_files, _sort_spilling

    data = _sort_files.opened(parts_of(data))
    room = _sort_spilling.Room.of(store, data, spill, spill_dir, spill_bytes_max, memory_bytes)
    # Until this function returns, nothing else has the partitions, and what ends it before,
    # Ctrl-C at its last line as well, deletes them.
    made: UnpublishedPartitions | None = None
    try:
        with _Line.of(progress) as tell:
            if not room.spills:
                try:
                    made = _in_memory(store, data, order, partitions, threads, name, tell)
                except _errors.NoRoom:
                    # All partitions at once were too much for what others have in the store.
                    if room.memory_bytes is None:
                        raise
            if made is None:
                made = _sort_spilling.sort(
                    store, data, order, partitions, threads, name, tell, room
                )
        return _published(store, made)
    except BaseException:
        if made is not None:
            made.delete()
        raise


def _published(store: Store, made: UnpublishedPartitions) -> Sorted:
    found = made.partitions
    made.publish()
    return Sorted(store, [id for id, _ in found], [rows for _, rows in found])


def _in_memory(
    store: Store,
    data: Any,
    order: list[Key],
    partitions: int | None,
    threads: int | None,
    name: str | None,
    tell: Callable[[int, int], object] | None,
) -> UnpublishedPartitions:
    """Sorts rows that fit the memory and the store."""
    tables, kind = _tables(store, data)
    return _native.sort_into(
        store,
        tables,
        order,
        {
            "partitions": partitions,
            "only": None,
            "threads": threads,
            "target": target(kind, name),
            "progress": tell,
        },
    )


def sort_partition(
    data: Any,
    by: By,
    *,
    part: int,
    partitions: int,
    nulls: Literal["first", "last"] = "last",
    threads: int = 1,
    name: str | None = None,
    store: Store,
) -> ObjectId:
    """Makes one of the partitions that :func:`sort` would make of the same data; its id.

    For schedulers that make each partition in another process: calls that are given the same data,
    order and number of partitions agree on what is in each. Takes what :func:`sort` takes;
    ``name`` is the name of this partition.

    Raises what :func:`sort` raises, and ValueError when there is no such partition.
    """
    if not 0 <= part < partitions:
        raise ValueError(f"part is 0 to {partitions - 1}, found {part}")
    from plasmon import _sort_files

    tables, kind = _tables(store, _sort_files.opened(parts_of(data)))
    made: UnpublishedPartitions | None = None
    try:
        made = _native.sort_into(
            store,
            tables,
            keys(by, nulls),
            {
                "partitions": partitions,
                "only": (part, part + 1),
                "threads": threads,
                "target": target(kind, name),
                "progress": None,
            },
        )
        return _published(store, made).ids[0]
    except BaseException:
        if made is not None:
            made.delete()
        raise


def target(kind: int, name: str | None) -> Target:
    """Where the partitions of a sort go, and as what."""
    return {"kind": kind, "name": name}


def parts_of(data: Any) -> list[Any]:
    """The tables that are sorted as one."""
    parts = list(data) if isinstance(data, list | tuple) else [data]
    if not parts:
        raise ValueError("there is nothing to sort: the list of tables is empty")
    return parts


def frame_kind(part: Any) -> int | None:
    """The kind of a pandas or polars frame, None for anything else."""
    kinds = (_KINDS.get((library_of(base), base.__name__)) for base in type(part).__mro__)
    return next((kind for kind in kinds if kind is not None), None)


def _tables(store: Store, data: Any) -> tuple[list[Any], int]:
    """What offers Arrow data for each part of ``data``, and what a partition comes back as."""
    found = [table(store, part) for part in parts_of(data)]
    kinds = {kind for _, kind in found}
    return [one for one, _ in found], kinds.pop() if len(kinds) == 1 else _native.TABLE_TABLE


def table(store: Store, part: Any) -> tuple[Any, int]:
    """One part of the data as something that offers Arrow data, and its kind."""
    if isinstance(part, _native.ObjectId):
        part = store.get_buffer(part)
    if isinstance(part, _native.Buffer):
        header = part.header
        if part.tag != _native.TAG_ARROW_STREAM:
            raise TypeError(f"object {part.id} holds no table: only tables can be sorted")
        return part, header[0] if header else _native.TABLE_TABLE
    if isinstance(part, str | os.PathLike):
        from plasmon import _sort_files

        return _sort_files.read(Path(part)), _native.TABLE_TABLE
    kind = frame_kind(part)
    if kind == _native.TABLE_PANDAS_FRAME:
        from plasmon import _pandas_tables

        return _pandas_tables.table_of_frame(part), kind
    if kind is not None:
        return part, kind
    if hasattr(part, "__arrow_c_stream__"):
        return part, _native.TABLE_TABLE
    if hasattr(part, "__arrow_c_array__"):
        return part, _native.TABLE_RECORD_BATCH
    raise TypeError(
        f"cannot sort a {type(part).__module__}.{type(part).__qualname__}: give a pandas or polars "
        f"frame, an Arrow table, the id of a table, or the path of a {_FILES} file"
    )


class _Line:
    """Progress on the standard error, redrawn in place."""

    def __init__(self) -> None:
        self._drawn = -1

    @staticmethod
    def of(progress: Progress) -> Any:
        """A context that gives the function to call with progress, or None."""
        from contextlib import nullcontext

        if progress is True:
            return _Line()
        return nullcontext(progress or None)

    def __enter__(self) -> Callable[[int, int], object]:
        return self.tell

    def tell(self, done: int, total: int) -> None:
        """Draws the line when it has changed."""
        import sys

        percent = 100 * done // max(total, 1)
        if percent != self._drawn:
            self._drawn = percent
            bar = "#" * (percent * 40 // 100)
            sys.stderr.write(f"\rsorting [{bar:<40}] {min(percent, 100):3} %")
            sys.stderr.flush()

    def __exit__(self, *raised: object) -> None:
        import sys

        if self._drawn >= 0:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()
