"""Notes beside an Arrow stream: what it does not carry of a polars or pyarrow object.

The notes are the text of the table's value header (``docs/formats/values.md``), JSON::

    {"wide": [[path, "Int128"], ..], "sorted": [[column, descending], ..]}      polars
    {"metadata": [[column or null, [[key, value], ..]], ..]}                    pyarrow, hexadecimal

polars' integers of 128 bits are strings in the stream, and Arrow metadata that is not UTF-8 is
taken out of it. A path says which column, and which child within it, has the type.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from plasmon.objects._names import not_serializable

_WIDE = ("Int128", "UInt128")


def check_names(value: Any, names: Iterable[str], kinds: Iterable[Any]) -> None:
    """Refuses a name with a zero byte, where libraries end names that they pass to each other."""
    nested = (str(kind) for kind in kinds if getattr(kind, "num_fields", 1))
    for name in (*names, *nested):
        if "\0" in name:
            text = f"cannot keep {name!r} as Arrow data: a name in it has a zero byte"
            raise not_serializable(text, value)


def check_arrow_names(value: Any) -> None:
    """:func:`check_names` of pyarrow's data."""
    schema = getattr(value, "schema", None)
    names, kinds = (schema.names, schema.types) if schema is not None else ([], [value.type])
    check_names(value, names, kinds)


# polars


def take_polars(value: Any) -> tuple[Any, str]:
    """A polars frame or series that Arrow has every type of, and notes of what it was."""
    import polars as pl

    frame = hasattr(value, "columns")
    columns = value.get_columns() if frame else [value]
    unusual = {pl.Object, pl.Int128, pl.UInt128, pl.List, pl.Array, pl.Struct}
    wide: list[Any] = []
    ordered: list[Any] = []
    for at, column in enumerate(columns):
        dtype = column.dtype
        check_names(value, [column.name], ())
        leaves = _leaves(dtype) if type(dtype) in unusual else ()
        for path, leaf, names in [*leaves]:
            check_names(value, names, ())
            if type(leaf) is pl.Object:
                raise _refused_objects(value, column.name)
            if str(leaf) in _WIDE:
                wide.append([[at, *path], str(leaf)])
                columns[at] = columns[at].cast(_replaced(columns[at].dtype, path, pl.String))
        flags = column.flags if len(column) > 1 else {}
        if flags.get("SORTED_ASC") or flags.get("SORTED_DESC"):
            ordered.append([at, bool(flags.get("SORTED_DESC"))])
    notes = {key: found for key, found in (("wide", wide), ("sorted", ordered)) if found}
    if wide:
        value = pl.DataFrame(columns) if frame else columns[0]
    return value, json.dumps(notes) if notes else ""


def give_polars(value: Any, text: str) -> Any:
    """The note of :func:`take_polars`."""
    if not text:
        return value
    import polars as pl

    notes = json.loads(text)
    frame = hasattr(value, "columns")
    columns = value.get_columns() if frame else [value]
    for path, leaf in notes.get("wide", ()):
        if leaf not in _WIDE:
            raise ValueError(f"there is no type {leaf!r}")
        at, *rest = path
        columns[at] = columns[at].cast(_replaced(columns[at].dtype, rest, getattr(pl, leaf)))
    for at, descending in notes.get("sorted", ()):
        columns[at] = columns[at].set_sorted(descending=bool(descending))
    return pl.DataFrame(columns) if frame else columns[0]


_Leaf = tuple[tuple[int, ...], Any, tuple[str, ...]]


def _leaves(dtype: Any, path: tuple[int, ...] = (), names: tuple[str, ...] = ()) -> Iterator[_Leaf]:
    """The types that a type consists of, each with its path and the names on it."""
    fields = getattr(dtype, "fields", None)
    inner = getattr(dtype, "inner", None)
    if isinstance(fields, list):
        for at, field in enumerate(fields):
            yield from _leaves(field.dtype, (*path, at), (*names, field.name))
    elif inner is not None:
        yield from _leaves(inner, (*path, 0), names)
    else:
        yield path, dtype, names


def _replaced(dtype: Any, path: Any, leaf: Any) -> Any:
    """A type with another one at the end of a path."""
    import polars as pl

    if not path:
        return leaf
    at, *rest = path
    if isinstance(dtype, pl.Struct):
        fields = {field.name: field.dtype for field in dtype.fields}
        name = dtype.fields[at].name
        return pl.Struct({**fields, name: _replaced(fields[name], rest, leaf)})
    if isinstance(dtype, pl.List):
        return pl.List(_replaced(dtype.inner, rest, leaf))
    if isinstance(dtype, pl.Array):
        return pl.Array(_replaced(dtype.inner, rest, leaf), dtype.size)
    raise ValueError(f"there is nothing within {dtype}")


def _refused_objects(value: Any, name: str) -> TypeError:
    what = f"the column {name!r} of type Object" if hasattr(value, "columns") else "a polars Object"
    text = f"cannot keep {what}: polars cannot write it; keep it as a list, or in a pandas frame"
    return not_serializable(text, value)


def refuse_lazy(value: Any) -> TypeError:
    """The error of a polars query that has not been run."""
    text = "cannot keep a polars LazyFrame, which is a query, not data: put lazy.collect()"
    return not_serializable(text, value)


def is_panic(error: BaseException) -> bool:
    """Whether polars failed with something that is not an Exception."""
    return type(error).__name__ == "PanicException"


# pyarrow


def take_metadata(value: Any) -> tuple[Any, str] | None:
    """Arrow data without metadata that is not UTF-8, and a note of it; None if there is none."""
    import pyarrow as pa

    schema = getattr(value, "schema", None)
    if not isinstance(schema, pa.Schema):
        return None
    notes: list[Any] = []
    fields = []
    for at, field in enumerate(schema):
        if _is_text(field.metadata):
            fields.append(field)
        else:
            notes.append([at, _hexadecimal(field.metadata)])
            fields.append(field.remove_metadata())
    metadata = schema.metadata
    if not _is_text(metadata):
        notes.append([None, _hexadecimal(metadata)])
        metadata = None
    if not notes:
        return None
    plain = type(value).from_arrays(value.columns, schema=pa.schema(fields, metadata))
    return plain, json.dumps({"metadata": notes})


def give_metadata(table: Any, text: str) -> Any:
    """The note of :func:`take_metadata`."""
    if not text:
        return table
    import pyarrow as pa

    fields, metadata = list(table.schema), table.schema.metadata
    for at, pairs in json.loads(text).get("metadata", ()):
        found = {bytes.fromhex(key): bytes.fromhex(value) for key, value in pairs}
        if at is None:
            metadata = found
        else:
            fields[at] = fields[at].with_metadata(found)
    return type(table).from_arrays(table.columns, schema=pa.schema(fields, metadata))


def _is_text(metadata: dict[bytes, bytes] | None) -> bool:
    try:
        for pair in (metadata or {}).items():
            for part in pair:
                part.decode()
    except UnicodeDecodeError:
        return False
    return True


def _hexadecimal(metadata: dict[bytes, bytes]) -> list[list[str]]:
    return [[key.hex(), value.hex()] for key, value in metadata.items()]
