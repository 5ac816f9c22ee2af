"""Random files of other writers, read by the package and by the command."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet

import plasmon

from .exact import exact
from .failure import Failure, same, same_values
from .made import Make

#: The command is started for one in this many tables: that takes longer than all the rest.
_COMMAND_EVERY = 10
#: What the command refuses, and says so: lists of no rows that pyarrow writes with the offsets of a
#: slice, intervals of Parquet without their Arrow type, ordered dictionaries that differ by batch.
_REFUSED = (
    "is larger than values length 0",
    "has Parquet intervals",
    "an ordered dictionary come in another order",
)
#: What a writer raises that has no place for a type, or cannot read what it wrote.
_UNFIT = (pa.ArrowException, NotImplementedError, OSError, TypeError, ValueError)


def of_other_writers(make: Make, store: plasmon.Store) -> None:
    """A Parquet or Arrow file is what pyarrow reads from it."""
    with tempfile.TemporaryDirectory(prefix="tables-") as folder:
        found = _file(make, Path(folder), FORMATS)
        if found is not None:
            path, writer, wanted = found
            id = plasmon.ingest(path, store=store)
            got = store.get(id)
            # pyarrow leaves days in milliseconds and the units of 96 bits, which the file notes.
            for at, field in enumerate(got.schema):
                if wanted.schema.field(at).type != field.type:
                    wanted = wanted.set_column(at, field, wanted.column(at).cast(field.type))
            same(f"ingest of {path.suffix} of {writer}", wanted, got)
            del got
            store.delete(id)


def of_the_command(make: Make, store: plasmon.Store) -> None:
    """The command reads each file as the package does."""
    if not make.chance(1 / _COMMAND_EVERY):
        return
    with tempfile.TemporaryDirectory(prefix="tables-") as folder:
        found = _file(make, Path(folder), FORMATS + TEXT_FORMATS)
        if found is None:
            return
        path, writer, _ = found
        try:
            _check_command(path, writer, store)
        finally:
            store.delete(["ours", "theirs"])


def _check_command(path: Path, writer: str, store: plasmon.Store) -> None:
    ours = store.get(plasmon.ingest(path, name="ours", store=store))
    command = shutil.which("plasmon", path=str(Path(sys.executable).parent))
    assert command is not None
    arguments = [command, "ingest", str(path), "--name", "theirs", "--socket", store.socket]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    if any(text in done.stderr for text in _REFUSED):
        return
    if done.returncode:
        kinds = ours.schema.types
        raise Failure(f"{path.suffix} of {writer}: {kinds}: {done.stderr.strip():.400}")
    theirs = store.get("theirs")
    # Of Parquet the command reads all dictionaries that were noted, pyarrow those of strings.
    if theirs.schema != ours.schema and "dictionary" not in str(theirs.schema):
        raise Failure(f"{path.suffix} of {writer}: {theirs.schema}, not {ours.schema}")
    same(f"the command's {path.suffix} of {writer}", ours, theirs)


def _file(make: Make, folder: Path, formats: Any) -> tuple[Path, str, Any] | None:
    """A random file: its path, its writer, and what pyarrow reads from it."""
    ending, writer, write, read = make.choice(formats)
    path = folder / f"table.{ending}"
    if (ending, writer, write, read) in TEXT_FORMATS:
        table = _plain(make)
        write(make, table, path)
        return path, writer, table
    table = make.table(rare=False)
    # pyarrow's Parquet writer ends the process at slices of lists of no items.
    table = table.select([field.name for field in table.schema if "[0]" not in str(field.type)])
    if not table.num_columns:
        return None
    try:
        write(make, table, path)
        return path, writer, read(path)
    except _UNFIT:
        return None


# Parquet and Arrow


def _write_parquet(make: Make, table: Any, path: Path) -> None:
    # Without timestamps of 96 bits: readers disagree on years that these do not hold.
    pa.parquet.write_table(
        table,
        path,
        compression=make.choice(["none", "snappy", "gzip", "zstd", "lz4", "brotli"]),
        use_dictionary=make.chance(0.5),
        data_page_version=make.choice(["1.0", "2.0"]),
        version=make.choice(["1.0", "2.4", "2.6"]),
        row_group_size=make.choice([None, 7, 100]),
        data_page_size=make.choice([None, 64]),
        store_schema=make.chance(0.7),
    )


def _write_stream(_: Make, table: Any, path: Path) -> None:
    with pa.ipc.new_stream(path, table.schema) as writer:
        writer.write_table(table)


def _read_stream(path: Path) -> Any:
    with pa.ipc.open_stream(path) as reader:
        return reader.read_all()


def _write_feather(make: Make, table: Any, path: Path) -> None:
    pa.feather.write_feather(table, path, make.choice(["lz4", "zstd", "uncompressed"]))


def _write_polars(_: Make, table: Any, path: Path) -> None:
    import polars as pl

    kept = [field.name for field in table.schema if not _misread_by_polars(field.type)]
    if not kept:
        raise NotImplementedError("polars has none of the types")
    frame: Any = pl.from_arrow(table.select(kept))
    frame.write_parquet(path) if path.suffix == ".parquet" else frame.write_ipc(path)


def _misread_by_polars(kind: Any) -> bool:
    """Whether polars panics at a type, or takes it for another one."""
    text = str(kind)
    misread = ("decimal32", "decimal64", "decimal256", "interval", "extension", "map", "union")
    return any(
        part in text for part in (*misread, "halffloat", "dictionary", "fixed_size_list", "null")
    )


def _write_duckdb(make: Make, table: Any, path: Path) -> None:
    import duckdb

    options = {"row_group_size": make.choice([2048, 122880])}
    if path.suffix == ".parquet":
        options["compression"] = make.choice(["snappy", "zstd", "gzip", "uncompressed"])
    try:
        with duckdb.connect() as connection:
            relation = connection.from_arrow(table)
            if path.suffix == ".parquet":
                relation.write_parquet(str(path), **options)
            else:
                relation.write_csv(str(path))
    except duckdb.Error as error:
        raise NotImplementedError("DuckDB has no place for a type") from error


# Text


def _plain(make: Make) -> Any:
    """A table of types that text has, with a column of row numbers."""
    rows = make.choice([1, 2, 9, 100, 3000])
    columns = {"row": pa.array(range(rows), pa.int64())}
    for at in range(make.choice([1, 2, 5, 40])):
        kind, draw = make.choice(_DRAWN)
        share = make.choice([0, 0, 0.3, 0.99])
        values = [None if make.chance(share) else draw(make) for _ in range(rows)]
        columns[f"c{at}"] = (
            pa.array(values, kind) if any(value is not None for value in values) else pa.nulls(rows)
        )
    return pa.table(columns)


def _letters(make: Make) -> str:
    """A string that is not a number, date or missing value, with what needs quotes."""
    return (
        "s"
        + "".join(
            make.choice([*"ab \",;\t'#\n\u00e4\u20ac", "\r\n", "\U0001f600"]) for _ in range(4)
        )
        + "z"
    )


_DAY_US = 86_400_000_000
_DRAWN: tuple[tuple[Any, Callable[[Make], Any]], ...] = (
    (pa.int64(), lambda make: make.random.randint(-(1 << make.choice([1, 20, 63])), 1 << 20)),
    (pa.float64(), lambda make: make.random.uniform(-1, 1) * 10 ** make.random.randint(-12, 12)),
    (pa.string(), _letters),
    (pa.bool_(), lambda make: make.chance(0.5)),
    (pa.date32(), lambda make: make.random.randint(-25_000, 40_000)),
    (pa.timestamp("us"), lambda make: make.random.randint(-25_000 * _DAY_US, 40_000 * _DAY_US)),
)


def _write_csv(make: Make, table: Any, path: Path) -> None:
    style = make.choice(["needed", "all_valid"])
    options = pa.csv.WriteOptions(quoting_style=style, delimiter=_delimiter(path))
    pa.csv.write_csv(table, path, options)


def _delimiter(path: Path) -> str:
    return "\t" if ".tsv" in path.name else ","


def _write_csv_pandas(_: Make, table: Any, path: Path) -> None:
    import pandas as pd

    frame = table.to_pandas(types_mapper=pd.ArrowDtype)
    frame.to_csv(path, index=False, sep=_delimiter(path))


def _write_csv_polars(_: Make, table: Any, path: Path) -> None:
    import polars as pl

    frame: Any = pl.from_arrow(table)
    frame.write_csv(path)


def _write_json(_: Make, table: Any, path: Path) -> None:
    import polars as pl

    frame: Any = pl.from_arrow(table)
    frame.write_ndjson(path)


def of_text(make: Make, store: plasmon.Store) -> None:
    """CSV of other writers is what they wrote."""
    with tempfile.TemporaryDirectory(prefix="tables-") as folder:
        ending, writer, write, _ = make.choice([one for one in TEXT_FORMATS if "csv" in one[0]])
        path, wanted = Path(folder) / f"table.{ending}", _plain(make)
        write(make, wanted, path)
        found = store.get(plasmon.ingest(path, name="text", store=store))
        for field in wanted.schema:
            what = f"{ending} of {writer}: {field}"
            column = found[field.name]
            if pa.types.is_timestamp(field.type):
                column = column.cast(field.type)
            if column.type != field.type:
                raise Failure(f"{what} became {column.type}")
            same_values(what, exact(wanted[field.name]), column)
        del found, column
        store.delete("text")


FORMATS: tuple[tuple[str, str, Callable[..., Any], Callable[..., Any]], ...] = (
    ("parquet", "pyarrow", _write_parquet, pa.parquet.read_table),
    ("parquet", "polars", _write_polars, pa.parquet.read_table),
    ("parquet", "DuckDB", _write_duckdb, pa.parquet.read_table),
    ("feather", "pyarrow", _write_feather, pa.feather.read_table),
    ("arrow", "polars", _write_polars, pa.feather.read_table),
    ("arrows", "pyarrow", _write_stream, _read_stream),
)
TEXT_FORMATS: tuple[tuple[str, str, Callable[..., Any], None], ...] = (
    ("csv", "pyarrow", _write_csv, None),
    ("tsv", "pyarrow", _write_csv, None),
    ("csv.gz", "pandas", _write_csv_pandas, None),
    ("csv", "polars", _write_csv_polars, None),
    ("csv", "DuckDB", _write_duckdb, None),
    ("jsonl", "polars", _write_json, None),
)
