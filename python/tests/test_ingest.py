"""Tables in files that become one table in the store."""

from __future__ import annotations

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
    with pytest.raises(ValueError, match=r"other\.parquet has other columns"):
        store.ingest([files / "t.parquet", tmp_path / "other.parquet"])


def test_a_table_that_never_fits_is_told_before(own, tmp_path):
    with own(capacity=16 * MIB) as store:
        path = tmp_path / "large.parquet"
        random = np.random.default_rng(1).random(6 * MIB)
        pq.write_table(pa.table({"x": random}), path, use_dictionary=False)
        with pytest.raises(plasmon.TooLarge, match=r"at least .* bytes and the store holds"):
            store.ingest(path)


def test_a_full_store_is_told_and_left_as_it_was(own, table, tmp_path):
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
