"""Files that are read as tables, and files that sorted tables are written to.

Files of text are read by ``crates/files``, as the command reads them: a file is the same table for
both. Parquet and Arrow files are pyarrow's.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Iterator
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
#: Units of timestamps, the finest last.
_UNITS = ("s", "ms", "us", "ns")
_COMPRESSIONS = {".gz": "gzip", ".zst": "zstd"}


def format_of(path: Path) -> str:
    """The type of a file by its extension. Raises ValueError for an unknown one."""
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

        with parquet.ParquetFile(path) as file:
            declared = _declared(file)
        return _cast(parquet.read_table(path, **_coerced(declared)), declared)
    if kind == "text":
        return pa.table(opened([path])[0])
    source = pa.memory_map(str(path)) if mapped else pa.OSFile(str(path))
    magic = source.read(6)
    source.seek(0)
    opener = pa.ipc.open_file(source) if magic == b"ARROW1" else pa.ipc.open_stream(source)
    return opener.read_all()


def _declared(file: Any) -> dict[str, Any]:
    """The types that the writer of a Parquet file has noted and pyarrow does not give back.

    Columns of 96 bits it reads in nanoseconds without a zone, and years that nanoseconds do not
    hold wrap round; days that were ``date64`` it reads as ``date32``. The command reads what was
    noted.
    """
    import pyarrow as pa

    noted = (file.metadata.metadata or {}).get(b"ARROW:schema")
    if noted is None:
        return {}
    columns = (file.schema.column(at) for at in range(len(file.schema)))
    wide = any(column.physical_type == "INT96" for column in columns)
    schema, declared = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(noted))), {}
    for field in file.schema_arrow:
        if schema.names.count(field.name) == file.schema_arrow.names.count(field.name) == 1:
            kind = _noted(field.type, schema.field(field.name).type, wide=wide)
            if kind != field.type or (wide and _units_of(kind)):
                declared[field.name] = kind
    return declared


def _noted(found: Any, noted: Any, *, wide: bool) -> Any:
    """A type that was found with the noted timestamps, where they are wide, and days."""
    import pyarrow as pa

    if pa.types.is_date32(found) and pa.types.is_date64(noted):
        return noted
    if wide and found == pa.timestamp("ns") and pa.types.is_timestamp(noted):
        return noted
    if found.id != noted.id or found.num_fields != noted.num_fields:
        return found
    pairs = ((found.field(at), noted.field(at)) for at in range(found.num_fields))
    inner = [one.with_type(_noted(one.type, other.type, wide=wide)) for one, other in pairs]
    make: dict[str, Callable[[], Any]] = {
        "Type_STRUCT": lambda: pa.struct(inner),
        "Type_LIST": lambda: pa.list_(inner[0]),
        "Type_LARGE_LIST": lambda: pa.large_list(inner[0]),
        "Type_FIXED_SIZE_LIST": lambda: pa.list_(inner[0], found.list_size),
        "Type_MAP": lambda: pa.map_(*inner[0].type, keys_sorted=found.keys_sorted),
    }
    by_id = {getattr(pa.lib, name): way for name, way in make.items()}
    return by_id[found.id]() if found.id in by_id else found


def _coerced(declared: dict[str, Any]) -> dict[str, str]:
    """The finest unit of the timestamps, as an option of pyarrow's reader."""
    units = {unit for kind in declared.values() for unit in _units_of(kind)}
    return {"coerce_int96_timestamp_unit": max(units, key=_UNITS.index)} if units else {}


def _units_of(kind: Any) -> set[str]:
    """The units of the timestamps in a type."""
    import pyarrow as pa

    if pa.types.is_timestamp(kind):
        return {kind.unit}
    inner = (kind.field(at).type for at in range(kind.num_fields))
    return {unit for kind in inner for unit in _units_of(kind)}


def _cast(table: Any, declared: dict[str, Any]) -> Any:
    """The table with columns of these types."""
    for name, kind in declared.items():
        at = table.schema.get_field_index(name)
        field = table.schema.field(at).with_type(kind)
        table = table.set_column(at, field, table.column(at).cast(kind))
    return table


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
            declared = _declared(file)
        with parquet.ParquetFile(part, **_coerced(declared)) as file:
            yield _cast(file.schema_arrow.empty_table(), declared)
            for batch in file.iter_batches():
                yield _cast(pa.Table.from_batches([batch]), declared)
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
