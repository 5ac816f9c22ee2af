"""The tables of TPC-H as Parquet files, made once and kept beside what is built."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from bench.tpch import tables

FOLDER = Path(__file__).resolve().parent
NAMES = (*tables.TABLES, "orders", "lineitem")


def made_from() -> str:
    """A digest of the programs that make the tables: others make other files."""
    sources = sorted(FOLDER.glob("*.py"))
    return hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:12]


def folder(scale: float, parent: Path) -> Path:
    """The folder of the files at this scale, ``<table>.parquet`` each; made when it is missing."""
    wanted = parent / f"tpch-{scale:g}-{made_from()}"
    if not wanted.exists():
        parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=wanted.name, dir=parent))
        try:
            _write(scale, partial)
            os.rename(partial, wanted)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise
    return wanted


def _write(scale: float, target: Path) -> None:
    for name, pieces in tables.TABLES.items():
        _write_table(target / f"{name}.parquet", pieces(scale))
    with (
        _Writer(target / "orders.parquet") as orders,
        _Writer(target / "lineitem.parquet") as items,
    ):
        for made, its_items in tables.orders_with_items(scale):
            orders.write(made)
            items.write(its_items)


def _write_table(path: Path, pieces: Iterator[pa.Table]) -> None:
    with _Writer(path) as writer:
        for piece in pieces:
            writer.write(piece)


class _Writer:
    """A file whose columns are those of its first piece; each piece is a row group."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writer: pq.ParquetWriter | None = None

    def __enter__(self) -> _Writer:
        return self

    def __exit__(self, *_: object) -> None:
        if self._writer is not None:
            self._writer.close()

    def write(self, piece: pa.Table) -> None:
        """Lists of words become strings, as readers elsewhere expect them."""
        plain = pa.table(
            {
                name: column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column
                for name, column in zip(piece.column_names, piece.columns, strict=True)
            }
        )
        if self._writer is None:
            self._writer = pq.ParquetWriter(
                self._path, plain.schema, compression="snappy", store_decimal_as_integer=True
            )
        self._writer.write_table(plain, row_group_size=plain.num_rows)
