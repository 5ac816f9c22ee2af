"""Unchanged HDF5 programs through the connector, beside HDF5 alone.

The program is the kernel of VPIC-IO and BD-CATS-IO (`bench/ours/hdf5_kernel.c`), linked to HDF5
1.14.5. All sides run the same program in turns; what differs is its environment.
"""

from __future__ import annotations

import functools
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench import environments
from bench.case import Case, Entry, Figure, Median, Ratio, Samples, Side, Suite, at_least, at_most
from bench.environments import ROOT, MissingError
from bench.run import Context, Results, filled

NATIVE = "hdf5"
OURS = "plasmon"
STORE = "plasmon-store"

PARTICLES = 8 << 20
#: Records of 32 members are four times as wide.
WIDE_PARTICLES = 4 << 20
QUICK_PART = 64
LIBRARY = ROOT / ".hdf5" / "1.14.5"
KERNEL = ROOT / "bench" / "ours" / "hdf5_kernel.c"

WORK = {
    NATIVE: "HDF5 alone; its file",
    OURS: "the connector; the skeleton, and an Arrow file for each dataset",
    STORE: "the connector; the skeleton, and tables in the store",
}


@functools.cache
def _library(kind: str) -> Path:
    """HDF5 1.14.5 of a kind, built when it is missing."""
    command = [str(ROOT / "scripts" / "hdf5_library.sh"), kind]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    if built.returncode != 0:
        lines = built.stderr.strip().splitlines()
        raise MissingError(f"HDF5 1.14.5 cannot be built: {lines[-1] if lines else 'no word'}")
    return LIBRARY / kind


@functools.cache
def _program(folder: Path, ranks: bool) -> Path:
    """The kernel, for one process or for several."""
    library = _library("parallel" if ranks else "serial")
    compiler = shutil.which("mpicc.mpich" if ranks else "cc")
    if compiler is None:
        raise MissingError("needs a C compiler" + (" for MPI" if ranks else ""))
    into = folder / ("hdf5-kernel-ranks" if ranks else "hdf5-kernel")
    command = [compiler, "-O2", f"-I{library}/include", *["-DRANKS"] * ranks, str(KERNEL)]
    command += [f"-L{library}/bin", "-lhdf5", f"-Wl,-rpath,{library}/bin", "-o", str(into)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise MissingError(f"the kernel cannot be compiled: {done.stderr.strip()[-300:]}")
    return into


@functools.cache
def _connector(folder: Path) -> Path:
    """A folder with the connector, built like the one that is installed."""
    within = folder / "connector"
    within.mkdir()
    shutil.copy2(environments.our_connector(), within)
    return within


def _measure(context: Context, entry: Entry) -> Samples:
    request = dict(entry.request)
    particles = request["particles"]
    request["particles"] = context.scale(particles, particles // QUICK_PART)
    request["program"] = str(_program(context.scratch, bool(request.get("ranks"))))
    request["connector"] = str(_connector(context.scratch))
    with context.awake(entry.side) as worker:
        answer = worker.call(filled(context, request))
    return [float(sample) for sample in answer["samples"]]


def _entry(side: str, request: Mapping[str, Any]) -> Entry:
    return Entry(side, {"op": "run", **request}, WORK[side], measure=_measure)


def _case(
    name: str,
    title: str,
    operation: str,
    sides: tuple[str, ...] = (NATIVE, OURS),
    **more: Any,
) -> Case:
    request = {"operation": operation, "particles": PARTICLES, **more}
    entries = tuple(_entry(side, request) for side in sides)
    return Case(name, title, entries, rounds=4, quick_rounds=1)


def _ranks(ranks: int, collective: bool) -> Case:
    manner = "collective" if collective else "independent"
    return _case(
        f"mpi_{ranks}_{manner}",
        f"VPIC: 8 columns written by {ranks} processes, {manner}",
        "write-columns",
        ranks=ranks,
        collective=collective,
    )


ALL = (NATIVE, OURS, STORE)
CASES = (
    _case("write", "VPIC: 8 columns written, disk", "write-columns", ALL),
    _case("write_tmpfs", "the same, tmpfs", "write-columns", ALL, place="tmpfs"),
    _case("write_sync", "the same, disk, with fsync", "write-columns", sync=True),
    _case("records_write", "VPIC: records of 8 members written, disk", "write-records"),
    _case("records_write_tmpfs", "the same, tmpfs", "write-records", place="tmpfs"),
    _case("records_write_sync", "the same, disk, with fsync", "write-records", sync=True),
    _case("read_full", "BD-CATS: 8 columns read, disk", "read-columns-full"),
    _case("read_full_tmpfs", "the same, tmpfs", "read-columns-full", place="tmpfs"),
    _case("read_partial", "BD-CATS: the first half of 8 columns", "read-columns-partial"),
    _case("read_strided", "BD-CATS: 16 of every 64 rows of 8 columns", "read-columns-strided"),
    _case("records_read", "BD-CATS: records of 8 members read, disk", "read-records"),
    _case("records_read_tmpfs", "the same, tmpfs", "read-records", place="tmpfs"),
    _case("member_of_8", "one member of records of 8", "read-member"),
    _case(
        "member_of_32",
        "one member of records of 32",
        "read-member",
        members=32,
        particles=WIDE_PARTICLES,
    ),
    *(_ranks(ranks, collective) for ranks in (2, 4) for collective in (False, True)),
    Case(
        "second_process",
        "from H5Fclose to the last value of a column in another process, as Arrow",
        (
            Entry(
                OURS,
                {"op": "watch", "particles": PARTICLES, "repetitions": 3},
                "the path is known; pyarrow maps the file",
                measure=_measure,
            ),
        ),
        rounds=4,
        quick_rounds=1,
    ),
)


def _ratio(name: str, what: str, case: str, limit: float | None, side: str = OURS) -> Figure:
    target = None if limit is None else at_least(limit)
    return Figure(
        name, f"time of HDF5 alone over ours: {what}", "x", Ratio(case, NATIVE, side), target
    )


def _second_process_ms(results: Results) -> float:
    return Median("second_process", OURS)(results) / 1e6


FIGURES = (
    _ratio("write_ratio_native", "8 columns written, disk", "write", 1),
    _ratio("write_ratio_native_tmpfs", "the same, tmpfs", "write_tmpfs", 1),
    _ratio("write_ratio_native_sync", "the same, disk, with fsync", "write_sync", None),
    _ratio("read_ratio_native", "8 columns read, disk", "read_full", 1),
    _ratio("read_ratio_native_tmpfs", "the same, tmpfs", "read_full_tmpfs", 1),
    _ratio("read_partial_ratio", "half of 8 columns read", "read_partial", 1),
    _ratio("read_strided_ratio", "16 of every 64 rows read", "read_strided", 1),
    _ratio("compound_write_ratio", "records written, disk", "records_write", 0.9),
    _ratio("compound_write_ratio_tmpfs", "the same, tmpfs", "records_write_tmpfs", 0.9),
    _ratio("compound_write_ratio_sync", "the same, with fsync", "records_write_sync", None),
    _ratio("compound_read_ratio", "records read, disk", "records_read", 0.8),
    _ratio("compound_read_ratio_tmpfs", "the same, tmpfs", "records_read_tmpfs", 0.8),
    _ratio("member_of_8_ratio", "one member of 8", "member_of_8", 12),
    _ratio("member_of_32_ratio", "one member of 32", "member_of_32", 40),
    _ratio("store_write_ratio_native", "into the store; HDF5 to disk", "write", 2, STORE),
    _ratio("store_write_ratio_tmpfs", "into the store; HDF5 to tmpfs", "write_tmpfs", None, STORE),
    _ratio("mpi_write_ratio_2", "2 processes, independent", "mpi_2_independent", 1),
    _ratio("mpi_write_ratio_4", "4 processes, independent", "mpi_4_independent", 1),
    _ratio("mpi_write_ratio_2_collective", "2 processes, collective", "mpi_2_collective", 1),
    _ratio("mpi_write_ratio_4_collective", "4 processes, collective", "mpi_4_collective", 1),
    Figure(
        "second_process_ms",
        "until a second process has a closed dataset as Arrow",
        "ms",
        _second_process_ms,
        at_most(1),
    ),
)

SIDES = (
    Side(NATIVE, "Python", ("-m", "bench.ours.hdf5_worker", "alone"), ""),
    Side(OURS, "Python", ("-m", "bench.ours.hdf5_worker", "files"), ""),
    Side(STORE, "Python", ("-m", "bench.ours.hdf5_worker", "store"), "ours"),
)

SUITE = Suite("hdf5", SIDES, CASES, FIGURES, page="docs/benchmarks/hdf5.md")
