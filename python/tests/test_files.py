"""Files of other writers: the command and the package make the same table of them.

They had a reader each. Of the same CSV file one made strings and the other nulls, floats of whole
numbers that floats do not hold, and the command dropped what came after 10,000 empty lines. The
seed is printed when a file differs; ``SEED=... COUNT=1`` as environment of this file's tests shows
it again.
"""

from __future__ import annotations

import csv
import datetime
import gzip
import io
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import plasmon
from plasmon import _ingest, _sort_files

from .conftest import DEADLINE_S

PLASMON = Path(sys.executable).parent / "plasmon"
FILES = int(os.environ.get("COUNT", "10"))
FIRST = int(os.environ.get("SEED", "1"))
SEEDS = range(FIRST, FIRST + FILES)

NULL_WORDS = ("NA", "N/A", "n/a", "NULL", "null", "#N/A", "#NA")
#: What fields of a column are drawn of; most columns draw of one or two of these.
FIELDS = [
    ["1", "-2", "+3", "007", " 4 ", "9223372036854775807"],
    ["9223372036854775808", "18446744073709551615"],
    ["18446744073709551616", "-9223372036854775809", "9" * 40],
    ["1.5", "-.5", "2.", "1e3", "-1E-3", "NaN", "inf", "-Infinity"],
    ["1e999", "0x10", "1_000", "--1", "1.2.3", "."],
    ["true", "False", "TRUE"],
    ["2024-02-29", "1900-01-01", "9999-12-31", "0001-01-01"],
    ["2024-02-30", "2024-1-1", "24-01-01"],
    ["12:30", "23:59:59"],
    ["2024-01-01T10:00:00", "2024-01-01 10:00", "1969-12-31T23:59:59.5", "2024-01-01 1:00"],
    ["2024-01-01T10:00:00.123456", "2024-01-01T10:00:00.123456789"],
    ["2024-01-01T10:00:00Z", "2024-01-01 10:00:00+01:00", "2024-01-01T10:00:00.25-0530"],
    ["a", "ä, ö", 'say "so"', "two\nlines", " blank ", "-", "e5", "x" * 300],
    [*NULL_WORDS, ""],
]


def run(store: plasmon.Store, *arguments: object) -> None:
    """Runs the command, which must succeed."""
    found = subprocess.run(
        [PLASMON, *map(str, arguments)],
        env={**os.environ, "PLASMON_SOCKET": str(store.socket)},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert found.returncode == 0, f"{arguments}: {found.stderr}"


def shape(table: pa.Table) -> list[tuple[str, str, str]]:
    """A table such that two that are the same compare equal, also with NaN in them."""
    columns = zip(table.schema, table.columns, strict=True)
    return [(field.name, str(field.type), repr(it.to_pylist())) for field, it in columns]


def tables_of(store: plasmon.Store, path: Path) -> list[pa.Table]:
    """What a file is for each way in."""
    run(store, "put", path, "--name", "put", "--replace")
    run(store, "ingest", path, "--name", "ingested", "--replace")
    ids = ["put", "ingested", store.ingest(path)]
    most, _ingest._WHOLE_BYTES_MAX = _ingest._WHOLE_BYTES_MAX, 0
    try:
        ids.append(store.ingest(path))
        found = [store.get(id, as_="arrow") for id in ids]
        return [*found, _sort_files.read(path), pa.concat_tables(_sort_files.batches(path))]
    finally:
        _ingest._WHOLE_BYTES_MAX = most
        store.delete(ids)


def drawn_csv(draw: random.Random) -> tuple[list[str], list[list[str]], bytes]:
    """Names, fields and the text of a CSV file."""
    names = [f"c{at}" for at in range(draw.randint(1, 5))]
    columns = []
    rows = draw.choice([0, 1, 5, 40])
    for _ in names:
        kinds = draw.sample(FIELDS, draw.choice([1, 1, 2]))
        if draw.random() < 0.5:
            kinds.append([""])
        columns.append([draw.choice(draw.choice(kinds)) for _ in range(rows)])
    fields = [list(row) for row in zip(*columns, strict=True)]
    text = io.StringIO()
    ending = draw.choice(["\n", "\r\n", "\r"])
    # Python's writer quotes a line feed only where it ends lines.
    least = csv.QUOTE_ALL if ending == "\r" else csv.QUOTE_MINIMAL
    quoting = draw.choice([least, least, csv.QUOTE_ALL])
    writer = csv.writer(text, quoting=quoting, lineterminator=ending)
    writer.writerow(names)
    writer.writerows(fields)
    return names, fields, text.getvalue().encode()


def means(field: str, kind: pa.DataType, value: object) -> bool:
    """Whether a value of a column says what the field of the file says."""
    if value is None:
        return field == "" or (field in NULL_WORDS and not pa.types.is_string(kind))
    bare = field.strip()
    if pa.types.is_string(kind):
        return value == field
    if pa.types.is_integer(kind):
        return value == int(bare)
    if pa.types.is_floating(kind):
        return repr(value) == repr(float(bare))
    if pa.types.is_boolean(kind):
        return value is (bare.lower() == "true")
    if pa.types.is_date(kind):
        return value == datetime.date.fromisoformat(bare)
    if pa.types.is_time(kind):
        return value == datetime.time.fromisoformat(bare)
    assert pa.types.is_timestamp(kind), kind
    text = bare.replace("Z", "+00:00").replace("-0530", "-05:30")
    if len(text) > 26 and text[19] == "." and kind.unit == "ns":
        value, text = value.to_pydatetime(warn=False), text[:26]
    read = datetime.datetime.fromisoformat(text)
    return value == read


@pytest.mark.parametrize("seed", SEEDS)
def test_csv_is_the_same_table_for_the_command_and_the_package(store, tmp_path, seed):
    draw = random.Random(seed)
    names, rows, text = drawn_csv(draw)
    path = tmp_path / draw.choice(["t.csv", "t.csv.gz"])
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    found = tables_of(store, path)
    assert all(shape(one) == shape(found[0]) for one in found), f"SEED={seed}: {text!r}"
    table = found[0]
    assert table.column_names == names
    assert table.num_rows == len(rows)
    for at, column in enumerate(table.columns):
        for row, value in zip(rows, column.to_pylist(), strict=True):
            assert means(row[at], column.type, value), f"SEED={seed}: {row[at]!r} is {value!r}"


def drawn_json(draw: random.Random, depth: int = 0) -> object:
    """A function that draws values of one column."""
    kind = draw.choice(["int", "float", "str", "bool", "mixed", *(["list", "dict"] * (depth < 2))])
    if kind == "list":
        item = drawn_json(draw, depth + 1)
        return lambda: [item() for _ in range(draw.randint(0, 3))]
    if kind == "dict":
        fields = {f"k{at}": drawn_json(draw, depth + 1) for at in range(draw.randint(1, 3))}
        return lambda: {key: value() for key, value in fields.items() if draw.random() < 0.9}
    values = {
        "int": [0, -1, 2**63 - 1, -(2**63)],
        "float": [0.5, -1e300, 3, 1e-5],
        "str": ["", "a", "ä\n", '"', "NA", "1"],
        "bool": [True, False],
        "mixed": [2**64 - 1, 1],
    }[kind]
    return lambda: None if draw.random() < 0.2 else draw.choice(values)


@pytest.mark.parametrize("seed", SEEDS)
def test_json_is_the_same_table_for_the_command_and_the_package(store, tmp_path, seed):
    draw = random.Random(seed)
    columns = {f"c{at}": drawn_json(draw) for at in range(draw.randint(1, 4))}
    rows = [
        {"all": at, **{name: value() for name, value in columns.items() if draw.random() < 0.9}}
        for at in range(draw.choice([1, 5, 40]))
    ]
    path = tmp_path / draw.choice(["t.json", "t.jsonl", "t.ndjson"])
    array = draw.random() < 0.5
    path.write_text(json.dumps(rows) if array else "\n".join(map(json.dumps, rows)))
    found = tables_of(store, path)
    assert all(shape(one) == shape(found[0]) for one in found), f"SEED={seed}: {rows}"
    for row, read in zip(rows, found[0].to_pylist(), strict=True):
        assert all(is_in(row.get(name), value) for name, value in read.items()), f"SEED={seed}"


def is_in(wrote: object, read: object) -> bool:
    """Whether a value was read as it was written; fields that were left out are null."""
    if isinstance(wrote, dict) and isinstance(read, dict):
        return all(is_in(wrote.get(key), value) for key, value in read.items())
    if isinstance(wrote, list) and isinstance(read, list):
        return len(wrote) == len(read) and all(map(is_in, wrote, read))
    return wrote == read


#: Columns that Parquet files of pyarrow have, and values of them.
DAY_S = 86_400
COLUMNS = {
    "int": pa.array([1, None, -(2**63)]),
    "unsigned": pa.array([2**64 - 1, None, 0], pa.uint64()),
    "float": pa.array([0.1, None, float("nan")]),
    "half": pa.array([0.5, None, 2.0], pa.float16()),
    "text": pa.array(["", None, "ä"]),
    "large": pa.array([b"", None, b"\0"], pa.large_binary()),
    "words": pa.array(["a", None, "a"]).dictionary_encode(),
    "decimal": pa.array([1, None, -2], pa.decimal128(20, 0)),
    "lists": pa.array([[1, None], None, []], pa.list_(pa.int32())),
    "structs": pa.array([{"a": 1}, None, {"a": None}]),
    "time": pa.array([1, None, 2], pa.time64("us")),
    "date": pa.array([0, None, -1], pa.date32()),
    "null": pa.nulls(3),
} | {
    f"{unit} {zone}": pa.array([DAY_S, None, -DAY_S], pa.timestamp("s")).cast(
        pa.timestamp(unit, zone)
    )
    for unit in ("ms", "us", "ns")
    for zone in (None, "UTC", "Europe/Zurich")
}


@pytest.mark.parametrize("seed", SEEDS)
def test_parquet_is_the_same_table_for_the_command_and_the_package(store, tmp_path, seed):
    """Brotli was unknown to the command, and moments of 96 bits lost unit and zone in the package.

    Years that nanoseconds do not hold wrapped round.
    """
    draw = random.Random(seed)
    table = pa.table({name: COLUMNS[name] for name in draw.sample([*COLUMNS], 4)})
    far = pa.array([datetime.datetime(1, 1, 1), None, datetime.datetime(9999, 12, 31)])
    if "ns" not in str(table.schema):
        table = table.append_column("far", far)
    path = tmp_path / "t.parquet"
    options = {
        "compression": draw.choice(["brotli", "gzip", "lz4", "zstd", "snappy", "none"]),
        "use_deprecated_int96_timestamps": draw.random() < 0.5,
        "version": draw.choice(["1.0", "2.4", "2.6"]),
        "row_group_size": draw.choice([1, 10]),
    }
    if options["version"] != "2.6":
        names = [name for name in table.column_names if not name.startswith("ns")]
        table = table.select(names)
    pq.write_table(table, path, **options)
    found = tables_of(store, path)
    told = f"SEED={seed}: {options} {table.schema}"
    assert all(shape(one) == shape(found[0]) for one in found), told
    assert repr(found[0].to_pylist()) == repr(table.to_pylist()), told


def test_seconds_stay_moments_in_parquet(store, tmp_path):
    """The command wrote timestamps and times in seconds as plain integers."""
    moment, time = (
        pa.array([DAY_S, None], pa.timestamp("s", "UTC")),
        pa.array([1, None], "time32[s]"),
    )
    table = pa.table({"t": moment, "clock": time, "items": pa.array([[1], None]).cast(SECONDS)})
    store.put(table, name="seconds")
    run(store, "get", "seconds", "-o", tmp_path / "s.parquet")
    store.delete("seconds")
    found = pq.read_table(tmp_path / "s.parquet")
    assert found.schema.field("t").type == pa.timestamp("ms", "UTC")
    assert found.schema.field("clock").type == pa.time32("ms")
    assert found.to_pylist() == table.to_pylist()


SECONDS = pa.list_(pa.timestamp("s"))


def test_a_value_that_comes_late_is_there(store, tmp_path):
    path = tmp_path / "late.csv"
    path.write_text("n,late\n" + "".join(f"{n},\n" for n in range(20_000)) + "20000,2.5\n")
    for table in tables_of(store, path):
        assert table["late"].to_pylist()[-1] == 2.5
        assert table.num_rows == 20_001
    with plasmon.sort(path, ("n", "descending"), store=store) as result:
        assert result.to_arrow().to_pylist()[0] == {"n": 20_000, "late": 2.5}


def test_files_of_one_table_decide_its_types_together(store, tmp_path):
    one, two = tmp_path / "1.csv", tmp_path / "2.csv"
    one.write_text("x,s\n1,\n")
    two.write_text("x,s\n1.5,a\n")
    wanted = [{"x": 1.0, "s": None}, {"x": 1.5, "s": "a"}]
    assert store.get(store.ingest([one, two])).to_pylist() == wanted
    for spill in ("never", "always"):
        with plasmon.sort([two, one], "x", spill=spill, store=store) as result:
            assert result.to_arrow().to_pylist() == wanted


def test_what_is_wrong_with_a_file_is_reported_with_its_line(store, tmp_path):
    path = tmp_path / "wrong.csv"
    for text, told in [
        ("a,b\n1,2\n3\n", r"wrong\.csv cannot be read as CSV: line 3 has 1 fields"),
        ('a\n"b\n', r"line 2 has a quote that is not closed"),
        ("a;b\n1;2\n", r"delimiter=';' in Python"),
        ("", r"it is empty"),
    ]:
        path.write_text(text)
        for read in (store.ingest, lambda path: plasmon.sort(path, "a", store=store)):
            with pytest.raises(ValueError, match=told):
                read(path)
    path.write_text("a;b\n1;2\n")
    assert store.get(store.ingest(path, delimiter=";")).to_pylist() == [{"a": 1, "b": 2}]
    with pytest.raises(FileNotFoundError, match=r"none\.csv"):
        store.ingest(tmp_path / "none.csv")
