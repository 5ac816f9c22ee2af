"""Tables in files become a table in the store.

pyarrow's readers of Parquet and Arrow files allocate in the store's memory pool, so what they
decode is where it stays, and the put names it. Files of text are read in Rust, as the command
reads them: batch by batch into columns that grow in the store, which never needs more room than the
table itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plasmon import _native, _sort_files
from plasmon import _requirements as needs
from plasmon._errors import StoreFull, TooLarge
from plasmon._memory_pool import default_store, pooled

if TYPE_CHECKING:
    from plasmon._native import ObjectId
    from plasmon._store import Store

#: What the encodings of a file save at most; a file beyond that is certainly too large.
_PARQUET_SHRINKS_MAX = 2
#: Of text. Each row of JSON repeats the names of its columns, of which nothing is kept.
_CSV_SHRINKS_MAX = 4

#: Text of which this process holds the table while it is put. That is quicker than a build, which
#: has an object for each buffer: a small file may have thousands of columns.
_WHOLE_BYTES_MAX = 32 << 20


def _bytes_min(path: Path) -> int:
    """How many bytes the rows of a file take at least."""
    kind = _sort_files.format_of(path)
    size = path.stat().st_size
    if kind == "parquet":
        from pyarrow import parquet

        metadata = parquet.read_metadata(path)
        groups = (metadata.row_group(at) for at in range(metadata.num_row_groups))
        return sum(int(group.total_byte_size) for group in groups) // _PARQUET_SHRINKS_MAX
    if kind == "text":
        return size // _CSV_SHRINKS_MAX if {".csv", ".tsv"} & {*path.suffixes} else 0
    return size // _PARQUET_SHRINKS_MAX


def _paths(files: Any) -> list[Path]:
    one = isinstance(files, (str, os.PathLike))
    return [Path(files)] if one else [Path(file) for file in files]


def ingest(
    files: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    store: Store | None = None,
    delimiter: str | None = None,
    **options: Any,
) -> ObjectId:
    """Reads Parquet, Arrow, CSV and JSON files, by extension, into one table in the store.

        id = plasmon.ingest(["jan.parquet", "feb.parquet"], name="trips", store=store)

    pyarrow decodes Parquet and Arrow files directly into the store, so the put copies nothing;
    where the memory pool is not built there is a warning, and one copy. CSV and JSON, also
    compressed, are read twice, as the command reads them: the values of all rows of all files
    decide the types. ``delimiter`` separates the columns of CSV files, in place of a comma or a
    tab. Takes the options of :meth:`Store.put`. Without ``store`` the table goes to that of
    :func:`plasmon.connect`.

    Raises TooLarge, before anything is read, for files whose table can never fit; StoreFull when
    there is no room for it now, and then nothing of it stays; ValueError for files with different
    columns or an unknown extension, and, with the line and the column, for text that cannot be
    read. While a Parquet file is read, the store also holds the buffers of its reader: for a table
    nearly as large as the store, or one that should wait for room, ``plasmon ingest`` needs less.
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
    names = ", ".join(str(path) for path in paths)
    text = f"the store has no room for the table of {names}"
    advice = "delete objects, or start it with more capacity or with spill_dir"
    if any(_sort_files.is_text(path) for path in paths):
        try:
            files = _sort_files.opened(paths, delimiter)
            if _bytes_about(files) <= _WHOLE_BYTES_MAX:
                return store.put(_read(files), **options)
            return _build(store, files, options)
        except StoreFull as full:
            raise StoreFull(f"{text}: {advice}") from full
    with pooled(store):
        try:
            return store.put(_read(paths), **options)
        except pa.ArrowMemoryError as full:
            raise StoreFull(f"{text}, whose reader needs some, too: {advice}") from full


def _build(store: Store, files: list[Any], options: dict[str, Any]) -> ObjectId:
    """Builds the table batch by batch."""
    builder: Any = None
    try:
        for file in files:
            for batch in _sort_files.batches(file):
                if builder is None:
                    builder = store.table_builder(batch.schema)
                if not batch.schema.equals(builder.schema):
                    path = getattr(file, "path", file)
                    raise ValueError(f"{path} has different columns from the files before")
                # By their places: names may come twice.
                builder._native.extend_arrow(batch)
        id: ObjectId = builder.finish(**options)
        return id
    finally:
        if builder is not None:
            builder.abort()


def _bytes_about(files: list[Any]) -> int:
    """About how many bytes the rows of files that are opened take."""
    return sum(
        file.nbytes if isinstance(file, _native._TextFile) else _sort_files.size(file)[0]
        for file in files
    )


def _read(files: list[Any]) -> Any:
    import pyarrow as pa

    tables = [
        pa.table(file)
        if isinstance(file, _native._TextFile)
        else _sort_files.read(file, mapped=False)
        for file in files
    ]
    for file, table in zip(files, tables, strict=True):
        if not table.schema.equals(tables[0].schema):
            path, first = (getattr(one, "path", one) for one in (file, files[0]))
            raise ValueError(f"{path} has different columns from {first}")
    return pa.concat_tables(tables)
