"""Files are copied, moved and written in every order: each gives its own values or none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from operations import running
from operations.faulty import FaultySequence
from operations.sequences import Sequence
from operations.steps import Unavailable

#: `make test-hdf5` runs more.
SEQUENCES = int(os.environ.get("PLASMON_HDF5_SEQUENCES", "100"))
FAULTY_SEQUENCES = int(os.environ.get("PLASMON_HDF5_FAULTY_SEQUENCES", "15"))


@pytest.fixture
def tell(capsys: pytest.CaptureFixture[str]) -> running.Tell:
    """Prints what a long run has done."""

    def tell(what: str) -> None:
        if max(SEQUENCES, FAULTY_SEQUENCES) > running.TOLD_EACH:
            with capsys.disabled():
                print(f"\n{what}", flush=True)

    return tell


def test_each_file_gives_its_own_values_or_none(tmp_path: Path, tell: running.Tell) -> None:
    counts = running.run(Sequence, SEQUENCES, tmp_path, tell)
    # Most files can be read: a connector that refuses everything would pass the rest.
    assert counts["refused"] < counts["read"] * 0.4


def test_after_a_kill_or_on_a_full_disk_too(tmp_path: Path, tell: running.Tell) -> None:
    """A program is stopped before any of its system calls, in the middle of a write, or gets no
    room from then on. Its file has what it had before or what the program had got to; HDF5 can
    damage its own part, and then every read is an error."""
    try:
        counts = running.run(FaultySequence, FAULTY_SEQUENCES, tmp_path, tell)
    except OSError as error:
        if Unavailable.__name__ in str(error):
            pytest.skip(str(error))
        raise
    assert counts["accidents"] > 0
    # HDF5 damages its file in a part of the accidents; data is missing in hardly any.
    assert counts["damaged"] < counts["accidents"] * 0.5
    assert counts["lost"] < counts["accidents"] * 0.1 + 3
