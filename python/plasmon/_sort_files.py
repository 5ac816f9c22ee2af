"""Files that are read as tables, and files that sorted tables are written to.

Files of text are read by ``crates/files``, as the command reads them: a file is the same table for
both. Parquet and Arrow files are pyarrow's.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plasmon import _native

if TYPE_CHECKING:
    from plasmon._native import ObjectId
    from plasmon._store import Store

_FORMATS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".arrows": "stream",
    ".feather": "arrow",
    ".ipc": "arrow",
}


#: Files of text: what separates the columns, None for JSON.
_TEXTS = {".csv": ",", ".tsv": "\t", ".json": None, ".jsonl": None, ".ndjson": None}
_COMPRESSIONS = {".gz": "gzip", ".zst": "zstd"}


def format_of(path: Path) -> str:
    """What a file holds, by its ending; ValueError for one that is not known."""
    text = _text_of(path)
    found = _FORMATS.get(path.suffix.lower(), "text" if text is not None else None)
    if found is None:
        endings = ", ".join({**_FORMATS, **_TEXTS})
        raise ValueError(
            f"{path}: the ending must be one of {endings}, those of text also with .gz or .zst"
        )
    return "text" if text is not None else found


def _text_of(path: Path) -> tuple[str | None, str] | None:
    """The delimiter and the compression of a file of text, by its ending."""
    compression = _COMPRESSIONS.get(path.suffix.lower(), "")
    ending = (Path(path.stem) if compression else path).suffix.lower()
    return (_TEXTS[ending], compression) if ending in _TEXTS else None


def is_text(part: Any) -> bool:
    """Whether a part of some data is the path of a file of text."""
    return isinstance(part, str | os.PathLike) and _text_of(Path(part)) is not None


def opened(parts: list[Any], delimiter: str | None = None) -> list[Any]:
    """The parts with files of text opened. The values of all of them decide the types."""
    described = []
    for path in (Path(part) for part in parts if is_text(part)):
        usual, compression = _text_of(path) or (None, "")
        described.append((path, (delimiter or usual) if usual else None, compression))
    files = iter(_native.open_text_files(described) if described else [])
    return [next(files) if is_text(part) else part for part in parts]


def read(path: Path, *, mapped: bool = True) -> Any:
    """A file as a pyarrow table. Arrow files are mapped, or read into pyarrow's default pool."""
    import pyarrow as pa

    kind = format_of(path)
    if kind == "parquet":
        from pyarrow import parquet

        return parquet.read_table(path)
    if kind == "text":
        return pa.table(opened([path])[0])
    source = pa.memory_map(str(path)) if mapped else pa.OSFile(str(path))
    magic = source.read(6)
    source.seek(0)
    opener = pa.ipc.open_file(source) if magic == b"ARROW1" else pa.ipc.open_stream(source)
    return opener.read_all()


def size(path: Path) -> tuple[int, int | None]:
    """About how many bytes a file's rows take in memory, and how many rows, if that is known."""
    if format_of(path) == "parquet":
        from pyarrow import parquet

        found = parquet.read_metadata(path)
        groups = (found.row_group(at) for at in range(found.num_row_groups))
        return sum(group.total_byte_size for group in groups), found.num_rows
    return path.stat().st_size, None


def batches(part: Path | _native._TextFile) -> Iterator[Any]:
    """A file's rows as pyarrow tables of a moderate size, one after the other."""
    import pyarrow as pa

    if isinstance(part, _native._TextFile):
        reader = pa.RecordBatchReader._import_from_c_capsule(part.__arrow_c_stream__())
        yield reader.schema.empty_table()
        yield from (pa.Table.from_batches([batch]) for batch in reader)
    elif format_of(part) == "parquet":
        from pyarrow import parquet

        with parquet.ParquetFile(part) as file:
            yield file.schema_arrow.empty_table()
            yield from (pa.Table.from_batches([batch]) for batch in file.iter_batches())
    else:
        # Mapped: what was read can be dropped by the system at any time.
        yield read(part)


def write(path: Path, store: Store, ids: list[ObjectId]) -> None:
    """Writes partitions to a file, one after the other."""
    kind = path.suffix.lower() if path.suffix.lower() in {".csv", ".tsv"} else format_of(path)
    if kind == "text":
        raise ValueError(f"{path}: a sorted table is written as .csv, .tsv, Parquet or Arrow")
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
    if kind in {".csv", ".tsv"}:
        from pyarrow import csv

        options = csv.WriteOptions(delimiter=_TEXTS[kind])
        return csv.CSVWriter(path, schema, write_options=options)
    opened = pa.ipc.new_file if kind == "arrow" else pa.ipc.new_stream
    return opened(str(path), schema)
