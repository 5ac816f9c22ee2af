"""Files are copied, moved and written in every order: each gives its own values or none."""

from __future__ import annotations

import os
import time
from pathlib import Path

import conftest
from operations.sequences import Failure, Sequence, Side

#: `make test-hdf5` runs more.
SEQUENCES = int(os.environ.get("PLASMON_HDF5_SEQUENCES", "100"))
SEED = int(os.environ.get("PLASMON_HDF5_SEED", str(time.time_ns() % 1_000_000)))


def test_each_file_gives_its_own_values_or_none(tmp_path: Path) -> None:
    """A sequence that fails is run again with its seed: PLASMON_HDF5_SEED, and one of them."""
    ours, native = tmp_path / "ours", tmp_path / "native"
    sides = (
        Side(ours, conftest.connector_environment()),
        Side(native, conftest.plain_environment()),
        Side(ours, conftest.plain_environment()),
    )
    read = refused = 0
    try:
        for seed in range(SEED, SEED + SEQUENCES):
            for side, folder in zip(sides, (ours, native, ours), strict=True):
                side.folder = folder / str(seed)
            sequence = Sequence(seed, *sides)
            try:
                sequence.run()
            except Failure as failure:
                raise AssertionError(f"seed {seed}: {failure}") from None
            read, refused = read + sequence.read, refused + sequence.refused
    finally:
        for side in sides:
            side.close()
    print(f"{SEQUENCES} sequences from seed {SEED}: {read} reads, {refused} refused, 0 wrong")
    # Most files can be read: a connector that refuses everything would pass the rest.
    assert refused < read * 0.4
