"""What one binding puts another one gets: Python and the `plasmon` command."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from .conftest import DEADLINE_S

COMMAND = Path(os.environ.get("PLASMON_COMMAND", Path(sys.executable).parent / "plasmon"))


@pytest.fixture
def command(store):
    """Runs the command on the shared store."""
    if not COMMAND.exists():
        pytest.skip("the command is not installed beside this Python")

    def run(*arguments):
        found = subprocess.run(
            [COMMAND, *map(str, arguments)],
            env={**os.environ, "PLASMON_SOCKET": str(store.socket)},
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        assert found.returncode == 0, found.stderr
        return found.stdout

    return run


@pytest.mark.parametrize("dtype", ["<f8", ">i4", "|b1", "<M8[ns]", "<U3"])
@pytest.mark.parametrize("order", "CF")
def test_arrays_from_files_and_to_files(store, command, tmp_path, dtype, order):
    array = np.asarray(np.arange(6).reshape(2, 3).astype(dtype), order=order)
    np.save(tmp_path / "in.npy", array)
    command("put", tmp_path / "in.npy", "--name", "shared")
    back = store.get("shared", timeout=DEADLINE_S)
    assert back.dtype == array.dtype
    assert back.flags.f_contiguous == array.flags.f_contiguous
    assert np.array_equal(back, array)
    store.delete("shared")
    store.put(array, name="shared")
    command("get", "shared", "--output", tmp_path / "out.npy")
    assert np.array_equal(np.load(tmp_path / "out.npy"), array)
    store.delete("shared")


def test_tables_from_files_and_to_files(store, command, tmp_path):
    table = pa.table({"x": [1, 2, None], "s": ["a", None, "c"], "f": [0.5, 1.5, 2.5]})
    pq.write_table(table, tmp_path / "in.parquet")
    command("put", tmp_path / "in.parquet", "--name", "shared")
    for wanted in ("arrow", "polars", "pandas"):
        assert len(store.get("shared", timeout=DEADLINE_S, as_=wanted)) == 3
    assert store.get("shared").to_pylist() == table.to_pylist()
    assert all(
        b.address % 64 == 0 for c in store.get("shared")["x"].chunks for b in c.buffers() if b
    )
    store.delete("shared")
    store.put(table.to_pandas(), name="shared")
    command("get", "shared", "--output", tmp_path / "out.parquet")
    assert pq.read_table(tmp_path / "out.parquet")["f"].to_pylist() == [0.5, 1.5, 2.5]
    store.delete("shared")


def test_listings_name_the_kinds(store, command):
    ids = [store.put(b"x"), store.put(np.zeros(1)), store.put(pa.table({"x": [1]}))]
    store.flush()
    listed = command("ls", "--json")
    assert all(id.hex() in listed for id in ids)
    store.delete(ids)
