"""What a check raises, and the comparison of tables with all their bits."""

from __future__ import annotations

from typing import Any

from .exact import exact


class Failure(Exception):
    """A table does not come back as what went in, or not in the order that was asked for."""


def same(what: str, wanted: Any, found: Any) -> None:
    """Whether two tables have the same values, in the same rows."""
    if wanted.column_names != found.column_names or wanted.num_rows != found.num_rows:
        text = f"{wanted.num_rows} rows of {wanted.column_names}"
        raise Failure(f"{what}: {text} became {found.num_rows} of {found.column_names}")
    found.validate(full=True)
    for at, name in enumerate(wanted.column_names):
        kind = wanted.schema.field(at).type
        same_values(f"{what}, {name} of {kind}", exact(wanted.column(at)), found.column(at))


def same_values(what: str, wanted: list[Any], found: Any) -> None:
    values = exact(found)
    if values == wanted:
        return
    pairs = enumerate(zip(wanted, values, strict=False))
    row, (one, other) = next((at, both) for at, both in pairs if both[0] != both[1])
    raise Failure(f"{what}: row {row}: {one!r:.200} became {other!r:.200}")
