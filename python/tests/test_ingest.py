"""Tables in files that become one table in the store."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

import plasmon

from .conftest import MIB, settles

pytestmark = pytest.mark.usefixtures("built_pool")

ROWS = 50_000


@pytest.fixture
def table():
    words = pa.array([None if n % 5 == 0 else f"word {n % 100}" for n in range(ROWS)])
    return pa.table({"n": np.arange(ROWS), "x": np.arange(ROWS) / 7, "w": words})


@pytest.fixture
def files(table, tmp_path):
    """The table in a file of each kind."""
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=20_000)
    pyarrow.feather.write_feather(table, tmp_path / "t.feather", compression="uncompressed")
    with pa.ipc.new_stream(str(tmp_path / "t.arrows"), table.schema) as writer:
        writer.write_table(table)
    pyarrow.csv.write_csv(table, tmp_path / "t.csv")
    return tmp_path


@pytest.mark.parametrize("kind", ["parquet", "feather", "arrows"])
def test_files_of_every_kind_are_not_copied(store, other, files, table, kind):
    pool = store.memory_pool()
    before = pool.stats()
    id = store.ingest([files / f"t.{kind}"] * 2, name=f"ingested {kind}")
    after = pool.stats()
    found = other.get(id)
    assert found.equals(pa.concat_tables([table, table]))
    assert after["copied_bytes"] == before["copied_bytes"]
    assert after["shared_bytes"] - before["shared_bytes"] >= 2 * ROWS * 16


@pytest.mark.parametrize("most", [0, 1 << 30])
def test_text_is_built_in_the_store_or_put_as_a_whole(
    store, other, files, table, monkeypatch, most
):
    monkeypatch.setattr("plasmon._ingest._WHOLE_BYTES_MAX", most)
    id = store.ingest([files / "t.csv", files / "t.parquet"], name="ingested text")
    assert other.get(id).equals(pa.concat_tables([table, table]))
    with pytest.raises(plasmon.Exists):
        store.ingest(files / "t.csv", name="ingested text")
    store.delete(id)


def test_one_file_and_the_options_of_put(store, files):
    id = plasmon.ingest(str(files / "t.parquet"), store=store, name="kept short", policy="cache")
    found = store.stat(id)
    assert (found.name, found.policy) == ("kept short", "cache")


def test_what_cannot_be_ingested_says_why(store, files, table, tmp_path):
    with pytest.raises(ValueError, match="no file was given"):
        store.ingest([])
    with pytest.raises(FileNotFoundError, match=r"missing\.parquet"):
        store.ingest(tmp_path / "missing.parquet")
    with pytest.raises(ValueError, match=r"t\.txt: the ending must be one of"):
        store.ingest(tmp_path / "t.txt")
    pq.write_table(table.select(["n"]), tmp_path / "other.parquet")
    with pytest.raises(ValueError, match=r"other\.parquet has different columns"):
        store.ingest([files / "t.parquet", tmp_path / "other.parquet"])


def test_a_table_that_never_fits_is_reported_before(own, tmp_path):
    with own(capacity=16 * MIB) as store:
        path = tmp_path / "large.parquet"
        random = np.random.default_rng(1).random(6 * MIB)
        pq.write_table(pa.table({"x": random}), path, use_dictionary=False)
        with pytest.raises(plasmon.TooLarge, match=r"at least .* bytes and the store holds"):
            store.ingest(path)


def test_a_full_store_is_reported_and_left_as_it_was(own, table, tmp_path):
    with own(capacity=16 * MIB) as store:
        path = tmp_path / "zeroes.parquet"
        # Zeroes take little in a file.
        pq.write_table(pa.table({"x": np.zeros(6 * MIB)}), path)
        with pytest.raises(plasmon.StoreFull, match=r"zeroes\.parquet"):
            store.ingest(path)
        # The reader's threads let go of what they had a little later.
        settles(lambda: store.status().used_bytes == 0)
        store.delete(store.put(table))


def test_tables_of_the_pool_make_room_for_each_other(own, tmp_path):
    """They are spilled with their members, and come back whole."""
    spill_dir = tmp_path / "spilled"
    spill_dir.mkdir()
    with own(capacity=32 * MIB, spill_dir=str(spill_dir)) as store:
        ids = []
        for number in range(4):
            path = tmp_path / f"{number}.parquet"
            pq.write_table(pa.table({"x": np.full(MIB + MIB // 4, number)}), path)
            ids.append(store.ingest(path))
        assert store.status().spilled > 0
        for number, id in enumerate(ids):
            found = store.get(id, timeout=30)["x"].to_numpy()
            assert len(found) == MIB + MIB // 4
            assert (found == number).all()


@pytest.fixture
def by_command(store, tmp_path):
    """What the command makes of a file, as the package gives it."""
    names = []

    def ingest(path):
        names.append(f"by the command {len(names)}")
        program = Path(sys.executable).with_name("plasmon")
        arguments = [program, "ingest", path, "--name", names[-1], "--socket", store.socket]
        subprocess.run(arguments, check=True, capture_output=True, text=True)
        return store.get(names[-1])

    yield ingest
    store.delete(names)


def test_strings_as_views_are_taken_as_they_are(store, by_command, tmp_path):
    """polars writes its strings so: the command named another type and failed."""
    table = pa.table({"s": pa.array(["a", None, "longer than twelve"], pa.string_view())})
    pyarrow.feather.write_feather(table, tmp_path / "t.arrow", compression="uncompressed")
    for found in (by_command(tmp_path / "t.arrow"), store.get(store.ingest(tmp_path / "t.arrow"))):
        assert found.schema == table.schema
        assert found == table


@pytest.mark.parametrize("wide", [False, True])
def test_what_a_writer_of_parquet_notes_is_read(store, by_command, tmp_path, wide):
    """Zones of seconds were UTC for the command; days in milliseconds date32 for the package."""
    berlin = pa.timestamp("s", "Europe/Berlin")
    days = pa.array([[0, None], [86_400_000]], pa.list_(pa.date64()))
    table = pa.table({"t": pa.array([1, None], berlin), "in": [[1], [2]], "d": days})
    table = table.set_column(1, "in", pa.array([[1], [None]], pa.list_(berlin)))
    path = tmp_path / "t.parquet"
    pq.write_table(table, path, use_deprecated_int96_timestamps=wide)
    ours, theirs = store.get(store.ingest(path)), by_command(path)
    assert ours.schema == theirs.schema
    assert {ours.schema.field("t").type.tz, ours.schema.field("in").type.value_type.tz} == {
        "Europe/Berlin"
    }
    assert ours.schema.field("d").type.value_type == pa.date64()
    assert ours == theirs
    assert ours.cast(table.schema) == table


def test_types_of_parquet_itself_are_read(store, by_command, tmp_path):
    """Without a note UUIDs were 16 bytes for the command, and JSON was a string."""
    uuids = pa.ExtensionArray.from_storage(
        pa.uuid(), pa.array([b"0123456789abcdef", None], pa.binary(16))
    )
    json = pa.ExtensionArray.from_storage(pa.json_(), pa.array([None, "{}"]))
    table = pa.table({"u": uuids, "j": json})
    pq.write_table(table, tmp_path / "t.parquet", store_schema=False)
    ours, theirs = (
        store.get(store.ingest(tmp_path / "t.parquet")),
        by_command(tmp_path / "t.parquet"),
    )
    assert ours.schema == theirs.schema == table.schema
    assert ours == theirs


def test_intervals_keep_their_months_or_are_refused(store, by_command, tmp_path):
    """The command's reader dropped the months."""
    duckdb = pytest.importorskip("duckdb")
    path = tmp_path / "t.parquet"
    duckdb.sql("select interval 14 months as i").write_parquet(str(path))
    assert store.get(store.ingest(path))["i"][0].as_py()[:4] == b"\x0e\0\0\0"
    with pytest.raises(subprocess.CalledProcessError) as raised:
        by_command(path)
    assert "has Parquet intervals (months" in raised.value.stderr
