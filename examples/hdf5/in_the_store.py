"""An HDF5 program and its reader share memory: what is closed or flushed is a table at once.

    python examples/hdf5/in_the_store.py

Starts its own store, runs an ordinary h5py program whose datasets go there, and reads them
from another process without HDF5. Then it shows a table of the store as an HDF5 file.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

import plasmon
import plasmon.hdf5

PROGRAM = """
import h5py, numpy as np
with h5py.File("run.h5", "w") as file:
    step = file.create_dataset("energy", data=np.linspace(0, 1, 4_000_000, dtype="f4"))
    step.attrs["unit"] = "J"
    file.flush()
"""
READER = """
import h5py
with h5py.File("view.h5", "r") as file:
    live = file["live"]
    print("HDF5 reads the store's table:", live["x"][:3], "of", live.attrs["plasmon.source"])
"""


def run(code: str, folder: Path, settings: str) -> None:
    """Runs an HDF5 program that does not use Plasmon."""
    connector = {
        "HDF5_PLUGIN_PATH": plasmon.hdf5.plugin_path(),
        "HDF5_VOL_CONNECTOR": f"plasmon {settings}",
    }
    subprocess.run([sys.executable, "-c", code], cwd=folder, env=os.environ | connector, check=True)


with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    daemon = plasmon.start("256m")
    with daemon as store:
        store.put(pa.table({"x": np.arange(10), "y": np.zeros(10)}), name="live")
        store.get("live")  # what the first table of a process takes besides is not timed below
        run(PROGRAM, folder, f"backend=store store={daemon.socket}")
        with plasmon.hdf5.open(folder / "run.h5") as file:
            energy = file["energy"]
            start = time.perf_counter()
            table = energy.table
            taken_ms = 1000 * (time.perf_counter() - start)
            print(
                f"{table.num_rows} rows in {taken_ms:.2f} ms, {energy.attributes}, {energy.object}"
            )
            assert table["energy"][-1].as_py() == 1.0

        view = ["view", "store:live", "--store", daemon.socket, "--out", "view.h5"]
        subprocess.run([sys.executable, "-m", "plasmon.hdf5", *view], cwd=folder, check=True)
        run(READER, folder, "")
