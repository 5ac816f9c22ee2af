"""The columns of foreign Arrow data that HDF5 can show, and where they are."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from plasmon._by_reference import connection
from plasmon.hdf5._plugin import PluginError

#: The endings of files that are taken from a folder.
ENDINGS = (".arrow", ".arrows", ".feather", ".ipc", ".parquet")
_FORMATS = "Arrow, Feather or Parquet"
#: The prefix of objects of a store among the sources.
STORE = "store:"
#: A column of more pieces is read by the connector: HDF5 keeps the list of them in one message.
_SEGMENTS_MAX = 1000
_TABLES, _ARRAY = (1, 4), 2
_NUMBERS = {
    pa.int8(): "i1",
    pa.int16(): "i2",
    pa.int32(): "i4",
    pa.int64(): "i8",
    pa.uint8(): "u1",
    pa.uint16(): "u2",
    pa.uint32(): "u4",
    pa.uint64(): "u8",
    pa.float16(): "f2",
    pa.float32(): "f4",
    pa.float64(): "f8",
    pa.bool_(): "u1",
}


@dataclass(frozen=True)
class Segment:
    """A piece of a file that holds values as HDF5 reads them."""

    file: Path
    offset: int
    bytes: int


@dataclass(frozen=True)
class Column:
    """A column that HDF5 can show. Without segments the connector reads it."""

    name: str
    type: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    segments: list[Segment] | None = None


@dataclass
class Source:
    """A file or an object: its path in the view, and its name for the connector.

    An array has one column without a name.
    """

    path: str
    place: str
    columns: list[Column] = field(default_factory=list)
    #: Each with the reason.
    left_out: list[str] = field(default_factory=list)
    #: Why it is not Arrow data at all.
    refusal: str = ""


def find(names: list[str], store: Path | None, namespace: str) -> list[Source]:
    """Looks at folders, files and objects. Raises PluginError for anything else."""
    found: list[Source] = []
    for name in names:
        if name.startswith(STORE):
            found += _objects(name.removeprefix(STORE), store, namespace)
            continue
        path = Path(name).absolute()
        if path.is_dir():
            files = sorted(file for file in path.rglob("*") if file.suffix in ENDINGS)
            found += [_file(file, str(file.relative_to(path).with_suffix(""))) for file in files]
        elif path.is_file():
            found.append(_file(path, path.stem))
            if found[-1].refusal:
                raise PluginError(f"{name} is not an {_FORMATS} file: {found[-1].refusal}")
        else:
            raise PluginError(f"{name} is neither a file nor a folder; objects are {STORE}NAME")
    if all(source.refusal for source in found):
        raise PluginError(f"no {_FORMATS} data is in {', '.join(names)}: {', '.join(ENDINGS)}")
    return found


def _file(path: Path, shown: str) -> Source:
    source = Source(shown, f"file {path}")
    try:
        with path.open("rb") as file:
            magic = file.read(6)
        if magic.startswith(b"PAR1"):
            _parquet(source, path)
        else:
            _arrow(source, path, is_file=magic == b"ARROW1")
    except (pa.ArrowException, OSError) as error:
        source.refusal = str(error)
        source.left_out.append(f"all of it: {error}")
    return source


def _arrow(source: Source, path: Path, *, is_file: bool) -> None:
    with pa.memory_map(str(path)) as mapped:
        base = mapped.read_buffer(1).address if mapped.size() else 0
        mapped.seek(0)
        reader = pa.ipc.open_file(mapped) if is_file else pa.ipc.open_stream(mapped)
        table = reader.read_all()
        for at, column in enumerate(_distinct(source, table.schema)):
            chunks = table.column(at).chunks
            nulls = sum(chunk.null_count for chunk in chunks)
            shown = _shown(source, column, len(table), nulls)
            if shown is not None and nulls == 0:
                segments = _segments(path, chunks, shown, (base, mapped.size()))
                shown = Column(shown.name, shown.type, shown.dtype, shown.shape, segments)
            source.columns += [shown] if shown else []


def _segments(
    path: Path, chunks: list[pa.Array], column: Column, extent: tuple[int, int]
) -> list[Segment] | None:
    """Where values lie in a mapped file, if they do: not compressed, and not bits."""
    base, size = extent
    segments = []
    row = column.dtype.itemsize * math.prod(column.shape[1:])
    for chunk in chunks:
        if len(chunk) == 0:
            continue
        values, skip = chunk, chunk.offset
        while isinstance(values, pa.ExtensionArray):
            values = values.storage
        while pa.types.is_fixed_size_list(values.type):
            skip *= values.type.list_size
            values = values.values
            skip += values.offset
        if pa.types.is_boolean(values.type):
            return None
        offset = values.buffers()[1].address - base + skip * column.dtype.itemsize
        if not 0 <= offset <= size - len(chunk) * row:
            return None
        segments.append(Segment(path, offset, len(chunk) * row))
    return segments if len(segments) <= _SEGMENTS_MAX else None


def _parquet(source: Source, path: Path) -> None:
    with pq.ParquetFile(path) as file:
        schema, rows = file.schema_arrow, file.metadata.num_rows
        for column in _distinct(source, schema):
            # Numbers with a point have NaN for what is missing.
            counts = not pa.types.is_floating(column.type) and _dtype(column.type) is not None
            nulls = 0
            if counts and column.nullable:
                values = file.read([column.name]).column(0)
                nulls = values.null_count
            shown = _shown(source, column, rows, nulls)
            source.columns += [shown] if shown else []


def _objects(name: str, socket: Path | None, namespace: str) -> Iterator[Source]:
    from plasmon import _native

    where = str(socket.absolute() if socket else _native.default_socket())
    store = connection(where)
    for info in store.list(namespace, name):
        found = str(info.name)
        if name not in ("", found):
            continue
        source = Source(found, f"object {namespace}:{found} in the store {where}")
        if info.tag == _ARRAY:
            array = store.get(found, namespace=namespace, as_="numpy")
            _array(source, np.asarray(array))
        elif info.tag in _TABLES:
            table = pa.table(store.get(found, namespace=namespace, as_="arrow"))
            for at, column in enumerate(_distinct(source, table.schema)):
                shown = _shown(source, column, len(table), table.column(at).null_count)
                source.columns += [shown] if shown else []
        else:
            source.left_out.append("all of it: neither a table nor an array")
        yield source


def _array(source: Source, array: np.ndarray[Any, Any]) -> None:
    kind = array.dtype
    dtype = kind
    if kind.kind in "Mm":
        dtype = np.dtype("i8")
    elif kind.kind == "b":
        dtype = np.dtype("u1")
    if dtype.kind not in "iuf" or dtype.itemsize > 8 or dtype.byteorder == ">":
        source.left_out.append(f"all of it: an array of {kind}")
    elif array.ndim == 0 or not array.flags.c_contiguous:
        source.left_out.append("all of it: a single value, or not in the order of C")
    else:
        source.columns.append(Column("", str(kind), dtype, array.shape))


def _distinct(source: Source, schema: pa.Schema) -> Iterator[pa.Field]:
    """The columns, without those that share a name, which would be ambiguous."""
    for column in schema:
        unique = schema.names.count(column.name) == 1
        yield column if unique else pa.field(column.name, pa.null())


def _shown(source: Source, column: pa.Field, rows: int, nulls: int) -> Column | None:
    found = _dtype(column.type)
    reason = ""
    if pa.types.is_null(column.type):
        reason = "empty, or one of several with this name"
    elif found is None:
        reason = f"{column.type}: HDF5 has no number type like it"
    elif nulls and found[0].kind != "f":
        reason = f"{nulls} missing values, which HDF5 cannot tell from others"
    elif nulls and found[1]:
        reason = f"{nulls} missing rows"
    if reason or found is None:
        source.left_out.append(f"{column.name}: {reason}")
        return None
    return Column(column.name, str(column.type), found[0], (rows, *found[1]))


def _dtype(kind: pa.DataType) -> tuple[np.dtype[Any], tuple[int, ...]] | None:
    """The numbers of a column and the shape of a row, if they are numbers."""
    if isinstance(kind, pa.FixedShapeTensorType):
        found = _dtype(kind.value_type)
        in_order = kind.permutation in (None, list(range(len(kind.shape))))
        return (found[0], (*kind.shape, *found[1])) if found and in_order else None
    if pa.types.is_fixed_size_list(kind):
        found = _dtype(kind.value_type)
        return (found[0], (kind.list_size, *found[1])) if found else None
    if pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
        return np.dtype(f"<i{kind.bit_width // 8}"), ()
    name = _NUMBERS.get(kind)
    return (np.dtype(f"<{name}"), ()) if name else None
