"""What a table must pass. Each check draws its own choices from the table's seed."""

from __future__ import annotations

import functools
import traceback
from collections.abc import Callable
from typing import Any

import pyarrow as pa

import plasmon

from . import files
from .exact import Order, exact
from .failure import Failure, same, same_values
from .made import Make

#: Rows of tables of which each value is appended by itself.
_APPENDED_MAX = 65


def check(seed: int, store: plasmon.Store, *, spilling: bool = True) -> None:
    """Raises :class:`Failure` with what a seed shows."""
    for at, (name, run) in enumerate(CHECKS.items()):
        if spilling or run is not _sort_spilling:
            _check(name, run, seed * len(CHECKS) + at, store)


def _check(name: str, run: Any, seed: int, store: plasmon.Store) -> None:
    try:
        run(Make(seed), store)
    except Failure as failure:
        raise Failure(f"{name}: {failure}") from failure
    except Exception as error:
        text = "".join(traceback.format_exception(error)[-4:])
        raise Failure(f"{name}: {type(error).__name__}: {error}\n{text}") from error


def _put_and_get(make: Make, store: plasmon.Store) -> None:
    table = make.table()
    id = store.put(table)
    found = store.get(id)
    if found.schema != table.schema or found.schema.metadata != table.schema.metadata:
        raise Failure(f"the schema became {found.schema}, it was {table.schema}")
    for one, other in zip(table.schema, found.schema, strict=True):
        if (_metadata(one), one.nullable) != (_metadata(other), other.nullable):
            raise Failure(f"the field {one} became {other}")
    same("put and get", table, found)
    store.delete(id)


def _metadata(field: Any) -> dict[bytes, bytes]:
    """Metadata of a field: where a type is an extension, pyarrow gives none or an empty one."""
    return dict(field.metadata or {})


# Sorting


def _keyed(make: Make) -> tuple[Any, list[Any], str]:
    """A table with a row number, an order of one to five of its columns, and where nulls come."""
    # The columns of the key are of types that a sort takes.
    table = make.table(rare=False, rows=make.choice([0, 1, 40, 120, 300]))
    while not table.num_columns:
        table = make.table(rare=False, rows=table.num_rows)
    names = [name for name in table.column_names if is_sortable(table.schema.field(name).type)]
    numbers = pa.chunked_array([pa.array(range(table.num_rows), pa.int64())])
    table = table.append_column("row", numbers)
    names = make.random.sample(names, make.random.randint(1, len(names))) if names else ["row"]
    by = [(name, make.choice(["ascending", "descending"])) for name in names]
    return table, by, make.choice(["first", "last"])


def is_sortable(kind: Any) -> bool:
    """Whether the guide says how values of a type are ordered."""
    if isinstance(kind, pa.BaseExtensionType):
        return is_sortable(kind.storage_type)
    test = pa.types
    if test.is_interval(kind) or test.is_union(kind):
        return False
    if test.is_dictionary(kind):
        return is_sortable(kind.value_type)
    return all(is_sortable(kind.field(at).type) for at in range(kind.num_fields))


def expected_rows(table: Any, by: list[Any], nulls: str) -> list[int]:
    """The numbers of the rows in the order that the guide promises."""
    orders = []
    for name, direction in by:
        kind = table.schema.field(name).type
        order = Order(kind, descending=direction == "descending", nulls_first=nulls == "first")
        orders.append((order, exact(table[name])))

    def compare(one: int, other: int) -> int:
        for order, values in orders:
            if found := order.compare(values[one], values[other]):
                return found
        return 0

    return sorted(range(table.num_rows), key=functools.cmp_to_key(compare))


def _check_sorted(make: Make, store: plasmon.Store, **options: Any) -> None:
    table, by, nulls = _keyed(make)
    wanted = expected_rows(table, by, nulls)
    parts = make.choice([None, 1, 2, 3])
    what = f"by {by}, nulls {nulls}, {parts} partitions of {table.schema.types}"
    with plasmon.sort(table, by, nulls=nulls, partitions=parts, store=store, **options) as result:
        found = result.to_arrow()
        if found["row"].to_pylist() != wanted:
            raise Failure(f"{what}: the rows are {found['row'].to_pylist()}, not {wanted}")
        found.validate(full=True)
        for name in table.column_names:
            values = exact(table[name])
            same_values(f"{what}: {name}", [values[row] for row in wanted], found[name])
        del found


def _sort_in_memory(make: Make, store: plasmon.Store) -> None:
    _check_sorted(make, store, spill="never", threads=make.choice([1, 2]))


def _sort_spilling(make: Make, store: plasmon.Store) -> None:
    _check_sorted(make, store, spill="always", memory_bytes=make.choice([1 << 20, 16 << 20]))


def _sort_parts(make: Make, store: plasmon.Store) -> None:
    table, by, nulls = _keyed(make)
    wanted, count = expected_rows(table, by, nulls), make.choice([1, 2, 3])
    parts = [
        plasmon.sort_partition(table, by, part=part, partitions=count, nulls=nulls, store=store)
        for part in range(count)
    ]
    found = [row for id in parts for row in store.get(id)["row"].to_pylist()]
    store.delete(parts)
    if found != wanted:
        what = f"by {by}, nulls {nulls}, {count} parts of {table.schema.types}"
        raise Failure(f"{what}: the rows are {found}, not {wanted}")


# Building


def is_built(kind: Any) -> bool:
    """Whether there is a builder for a type."""
    test = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return is_built(kind.storage_type)
    if test.is_dictionary(kind):
        return is_built(kind.value_type)
    if test.is_string_view(kind) or test.is_binary_view(kind):
        return False
    return all(is_built(kind.field(at).type) for at in range(kind.num_fields))


def _build_of_arrays(make: Make, store: plasmon.Store) -> None:
    table = _buildable(make.table(rare=False))
    if not table.num_columns:
        return
    with store.table_builder(table.schema) as builder:
        cut = make.random.randint(0, table.num_rows)
        for part in (table[:cut], table[cut:]):
            if make.chance(0.5):
                builder.extend(part)
            else:
                builder.extend({name: part[name] for name in part.column_names})
        nulls = [builder.column(name).null_count for name in table.column_names]
        if nulls != [column.null_count for column in table.columns]:
            raise Failure(f"{nulls} nulls of {table.schema.types}")
        id = builder.finish()
    found = store.get(id)
    store.delete(id)
    if found.schema != table.schema or found.schema.metadata != table.schema.metadata:
        raise Failure(f"the schema became {found.schema}, it was {table.schema}")
    same("extend with arrays", table, found)


def _buildable(table: Any) -> Any:
    """The columns of which there are builders, and whose dictionaries are of one order."""
    names = [
        field.name
        for field in table.schema
        if is_built(field.type) and "ordered=1" not in str(field.type)
    ]
    return table.select(names)


def _build_of_values(make: Make, store: plasmon.Store) -> None:
    table = _buildable(make.table(rare=False, rows=make.choice([0, 1, 9, _APPENDED_MAX])))
    names = [name for name in table.column_names if _is_python(table[name])]
    table = table.select(names)
    if not names:
        return
    rows = table.to_pylist()
    with store.table_builder(table.schema) as builder:
        cut = make.random.randint(0, len(rows))
        for row in rows[:cut]:
            builder.append(row)
        builder.extend({name: [row[name] for row in rows[cut:]] for name in names})
        id = builder.finish()
    found = store.get(id)
    store.delete(id)
    same("append and extend with values", table, found)


def _is_python(column: Any) -> bool:
    """Whether Python has the values of a column, so that pyarrow makes the same of them again."""
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        # Values of some are objects of their own.
        return False
    if not pa.types.is_dictionary(kind) and "dictionary<" in str(kind):
        # Of missing parents alone pyarrow makes keys of a dictionary without values.
        return False
    try:
        again = pa.array(column.to_pylist(), kind)
    except Exception:
        return False
    return exact(again) == exact(column)


CHECKS: dict[str, Callable[[Make, plasmon.Store], None]] = {
    "put and get": _put_and_get,
    "sort in memory": _sort_in_memory,
    "sort that spills": _sort_spilling,
    "sort part by part": _sort_parts,
    "build of arrays": _build_of_arrays,
    "build of values": _build_of_values,
    "files": files.of_other_writers,
    "text": files.of_text,
    "command": files.of_the_command,
}
