"""Runs sequences of operations one after the other, and counts what they saw."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import conftest

from operations.sequences import Failure, Sequence, Side

#: The first sequence's seed. `make test` runs the same ones each time; `make test-hdf5` draws it. A
#: sequence that fails is run again with its own, and one of them.
SEED = int(os.environ.get("PLASMON_HDF5_SEED", "1"))
#: Progress is reported after this many.
TOLD_EACH = 100

Tell = Callable[[str], None]


def run(kind: type[Sequence], count: int, folder: Path, tell: Tell) -> Counter[str]:
    """Runs sequences of a kind, on three sides: the connector, HDF5 alone, and the package."""
    sides = (
        Side(folder, conftest.connector_environment()),
        Side(folder, conftest.plain_environment()),
        Side(folder, conftest.plain_environment()),
    )
    counts: Counter[str] = Counter()
    try:
        for done, seed in enumerate(range(SEED, SEED + count)):
            home = folder / str(seed)
            for side, name in zip(sides, ("ours", "native", "ours"), strict=True):
                side.folder = home / name
            sequence = kind(seed, *sides)
            try:
                sequence.run()
            except Failure as failure:
                raise AssertionError(f"seed {seed}: {failure}") from None
            counts.update(sequence.counts)
            shutil.rmtree(home)
            if (done + 1) % TOLD_EACH == 0:
                tell(f"{done + 1} of {count} sequences from seed {SEED}: {dict(counts)}")
    finally:
        for side in sides:
            side.close()
    tell(f"{count} sequences from seed {SEED}: {dict(counts)}, 0 wrong")
    return counts
