"""Tables in files become a table in the store, without a copy.

pyarrow's readers allocate in the store's memory pool, so what they decode is where it stays, and
the put names it. ``plasmon ingest`` on the command line does the same work in Rust, whose readers
allocate by themselves: it copies each batch once and never needs more room than the table itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plasmon import _requirements as needs
from plasmon import _sort_files
from plasmon._errors import StoreFull, TooLarge
from plasmon._memory_pool import default_store, pooled

if TYPE_CHECKING:
    from plasmon._native import ObjectId
    from plasmon._store import Store

#: What the encodings of a file save at most, of what is then said to be too large for certain.
_PARQUET_SHRINKS_MAX = 2
_CSV_SHRINKS_MAX = 4


def _bytes_min(path: Path) -> int:
    """How many bytes the rows of a file take at least."""
    kind = _sort_files.format_of(path)
    size = path.stat().st_size
    if kind == "parquet":
        from pyarrow import parquet

        metadata = parquet.read_metadata(path)
        groups = (metadata.row_group(at) for at in range(metadata.num_row_groups))
        return sum(int(group.total_byte_size) for group in groups) // _PARQUET_SHRINKS_MAX
    return size // (_CSV_SHRINKS_MAX if kind in {"csv", "tsv"} else _PARQUET_SHRINKS_MAX)


def _paths(files: Any) -> list[Path]:
    one = isinstance(files, (str, os.PathLike))
    return [Path(files)] if one else [Path(file) for file in files]


def ingest(
    files: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    store: Store | None = None,
    **options: Any,
) -> ObjectId:
    """Reads Parquet, CSV and Arrow files, by their endings, into one table in the store.

        id = plasmon.ingest(["jan.parquet", "feb.parquet"], name="trips", store=store)

    What pyarrow decodes lies in the store at once, so the put copies nothing; where the memory pool
    is not built there is a warning, and one copy. Takes the options of :meth:`Store.put`. Without a
    store it is that of :func:`plasmon.connect`.

    Raises TooLarge, before anything is read, for files whose table can never fit; StoreFull when
    there is no room for it now, and then nothing of it stays; ValueError for files of other columns
    or of an ending that is not known. While a file is read the store also holds what its reader
    works with: for a table nearly as large as the store, or one that should wait for room,
    ``plasmon ingest`` needs less.
    """
    pa = needs.pyarrow(
        "plasmon.ingest reads files with pyarrow, the command `plasmon ingest` without it"
    )
    store = store if store is not None else default_store()
    paths = _paths(files)
    if not paths:
        raise ValueError("no file was given")
    least, capacity = sum(_bytes_min(path) for path in paths), store.capacity
    if least > capacity:
        text = f"the table needs at least {least:,} bytes and the store holds {capacity:,}"
        raise TooLarge(f"{text}: start it with more capacity, or ingest fewer files at a time")
    with pooled(store):
        try:
            return store.put(_read(paths), **options)
        except pa.ArrowMemoryError as full:
            names = ", ".join(str(path) for path in paths)
            text = f"the store has no room for the table of {names}, whose reader needs some, too"
            text += ": delete objects, or start it with more capacity or with spill_dir"
            raise StoreFull(text) from full


def _read(paths: list[Path]) -> Any:
    import pyarrow as pa

    tables = [_sort_files.read(path, mapped=False) for path in paths]
    for path, table in zip(paths, tables, strict=True):
        if not table.schema.equals(tables[0].schema):
            raise ValueError(f"{path} has other columns than {paths[0]}")
    return pa.concat_tables(tables)
