"""An ordinary h5py program. It uses neither Arrow nor Plasmon.

Run as it is, it writes a plain HDF5 file. With the connector its datasets become Arrow files:

    HDF5_PLUGIN_PATH=$(plasmon hdf5 plugin-path) HDF5_VOL_CONNECTOR=plasmon \
        python examples/hdf5/unchanged.py
"""

import sys

import h5py
import numpy as np

path = sys.argv[1] if len(sys.argv) > 1 else "particles.h5"
count = 100_000
random = np.random.default_rng(1)

with h5py.File(path, "w") as file:
    step = file.create_group("step 0")
    for name in ("x", "y", "z"):
        step[name] = random.random(count, dtype="f4")
    step["x"].attrs["unit"] = "m"
    step.create_dataset("field", data=random.random((100, 16, 16)))
    energies = np.zeros(count, dtype=[("id", "i8"), ("energy", "f8")])
    energies["id"] = np.arange(count)
    energies["energy"] = random.random(count)
    step.create_dataset("energies", data=energies)
    step["note"] = "written by an ordinary program"

with h5py.File(path, "r") as file:
    step = file["step 0"]
    fast = step["energies"]["energy"] > 0.9
    inner = step["field"][10:20, 4:12, 8].mean()
    print(f"{path}: {len(step['x'])} particles, {fast.sum()} of them fast, field {inner:.3f}")
