"""The HDF5 suite: the same program on all sides, and a figure for everything that is promised."""

from __future__ import annotations

import pytest

from bench.ours.hdf5_worker import Hdf5
from bench.rivals.protocol import UnsupportedError
from bench.run import Results
from bench.suites import hdf5

PROMISED = {
    "write_ratio_native",
    "read_ratio_native",
    "compound_write_ratio",
    "compound_read_ratio",
    "member_of_8_ratio",
    "member_of_32_ratio",
    "store_write_ratio_native",
    "second_process_ms",
    "mpi_write_ratio_2",
    "mpi_write_ratio_4",
}


def test_every_promised_figure_is_computed_and_has_a_target():
    results = Results()
    for case in hdf5.CASES:
        for entry in case.entries:
            taken = {hdf5.NATIVE: 4e6, hdf5.OURS: 2e6, hdf5.STORE: 1e6}[entry.side]
            results.rounds[case.name, entry.label, "free"] = [[taken, taken]]
    figures = {figure.name: figure for figure in hdf5.FIGURES}
    assert set(figures) >= PROMISED
    for name in PROMISED:
        assert figures[name].target is not None
        wanted = 4 if name.startswith("store") else 2
        assert figures[name].compute(results) == wanted


def test_only_the_environment_differs(monkeypatch, tmp_path):
    monkeypatch.setenv("HDF5_PLUGIN_PATH", "elsewhere")
    alone = Hdf5(None)._environment("/c", sync=True)
    assert not [name for name in alone if name.startswith("HDF5_")]
    ours = Hdf5("backend=files")._environment("/c", sync=False)
    assert ours["HDF5_VOL_CONNECTOR"] == "plasmon backend=files"
    assert ours["HDF5_PLUGIN_PATH"] == "/c"
    synced = Hdf5("backend=files")._environment("/c", sync=True)
    assert synced["HDF5_VOL_CONNECTOR"] == "plasmon backend=files sync=yes"


def kernel(folder, text):
    """A program that says something instead of measuring."""
    program = folder / "kernel"
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)
    return str(program)


def test_times_are_read_and_failures_are_reported(tmp_path):
    side = Hdf5("backend=files")
    side.op_start(str(tmp_path), 0)

    def run(text):
        return side.op_run(kernel(tmp_path, text), "/c", "write-columns", 10)

    assert run("echo 12 99; echo 13 101") == {"samples": [12.0, 13.0]}
    with pytest.raises(RuntimeError, match="H5Fcreate failed"):
        run("echo kernel: H5Fcreate failed >&2; exit 1")
    with pytest.raises(UnsupportedError, match="no backend"):
        run("echo the connector has no setting backend=files >&2; exit 1")
    assert list(tmp_path.glob("hdf5-*")) == []
