"""Files that are sorted, and files that sorted tables are written to."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from plasmon._native import ObjectId
    from plasmon._store import Store

_FORMATS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "tsv",
    ".arrow": "arrow",
    ".arrows": "stream",
    ".feather": "arrow",
    ".ipc": "arrow",
}


def format_of(path: Path) -> str:
    """What a file holds, by its ending; ValueError for one that is not known."""
    found = _FORMATS.get(path.suffix.lower())
    if found is None:
        raise ValueError(f"{path}: the ending must be one of {', '.join(_FORMATS)}")
    return found


def read(path: Path, *, mapped: bool = True) -> Any:
    """A file as a pyarrow table. Arrow files are mapped, or read into pyarrow's default pool."""
    import pyarrow as pa

    kind = format_of(path)
    if kind == "parquet":
        from pyarrow import parquet

        return parquet.read_table(path)
    if kind in {"csv", "tsv"}:
        from pyarrow import csv

        delimiter = "\t" if kind == "tsv" else ","
        return csv.read_csv(path, parse_options=csv.ParseOptions(delimiter=delimiter))
    source = pa.memory_map(str(path)) if mapped else pa.OSFile(str(path))
    magic = source.read(6)
    source.seek(0)
    opened = pa.ipc.open_file(source) if magic == b"ARROW1" else pa.ipc.open_stream(source)
    return opened.read_all()


def size(path: Path) -> tuple[int, int | None]:
    """About how many bytes a file's rows take in memory, and how many rows, if that is known."""
    if format_of(path) == "parquet":
        from pyarrow import parquet

        found = parquet.read_metadata(path)
        groups = (found.row_group(at) for at in range(found.num_row_groups))
        return sum(group.total_byte_size for group in groups), found.num_rows
    return path.stat().st_size, None


def batches(path: Path) -> Iterator[Any]:
    """A file's rows as pyarrow tables of a moderate size, one after the other."""
    import pyarrow as pa

    kind = format_of(path)
    if kind == "parquet":
        from pyarrow import parquet

        with parquet.ParquetFile(path) as file:
            yield file.schema_arrow.empty_table()
            yield from (pa.Table.from_batches([batch]) for batch in file.iter_batches())
    elif kind in {"csv", "tsv"}:
        from pyarrow import csv

        options = csv.ParseOptions(delimiter="\t" if kind == "tsv" else ",")
        with csv.open_csv(path, parse_options=options) as reader:
            yield reader.schema.empty_table()
            yield from (pa.Table.from_batches([batch]) for batch in reader)
    else:
        # Mapped: what was read can be dropped by the system at any time.
        yield read(path)


def write(path: Path, store: Store, ids: list[ObjectId]) -> None:
    """Writes partitions to a file, one after the other."""
    kind = format_of(path)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        first = store.get(ids[0], as_="arrow")
        with _writer(kind, unfinished, first.schema) as writer:
            for id in ids:
                writer.write_table(store.get(id, as_="arrow"))
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def _writer(kind: str, path: Path, schema: Any) -> Any:
    import pyarrow as pa

    if kind == "parquet":
        from pyarrow import parquet

        return parquet.ParquetWriter(path, schema)
    if kind in {"csv", "tsv"}:
        from pyarrow import csv

        options = csv.WriteOptions(delimiter="\t" if kind == "tsv" else ",")
        return csv.CSVWriter(path, schema, write_options=options)
    opened = pa.ipc.new_file if kind == "arrow" else pa.ipc.new_stream
    return opened(str(path), schema)
