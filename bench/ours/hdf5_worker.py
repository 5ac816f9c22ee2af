"""Runs the HDF5 kernel with HDF5 alone, or through the connector, and times a second process.

The kernel is a separate C program (`hdf5_kernel.c`) that is the same on all sides: only its
environment differs. Only the side whose data lies in a store starts one.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from bench.rivals.protocol import Answer, UnsupportedError, serve

RUN_TIMEOUT_S = 40
TMPFS = "/dev/shm"
#: The connector's message for a setting that this build has not.
NO_SETTING = "the connector has no setting"
#: The dataset that a second process looks at.
WATCHED = "latest/Timestep_0/x.arrow"


class Hdf5:
    """One side: HDF5 alone, or the connector with one of its backends."""

    def __init__(self, settings: str | None) -> None:
        #: What follows the connector's name; none: HDF5 alone.
        self.settings = settings
        self.directory = ""

    def op_start(self, directory: str, capacity_bytes: int) -> Answer:
        self.directory = directory
        return {"address": "", "versions": {"HDF5": "1.14.5"}}

    def op_stop(self) -> Answer:
        return {}

    def op_run(
        self,
        program: str,
        connector: str,
        operation: str,
        particles: int,
        members: int = 8,
        repetitions: int = 2,
        place: str = "disk",
        sync: bool = False,
        ranks: int = 0,
        collective: bool = False,
    ) -> Answer:
        """Nanoseconds of each repetition."""
        with self._folder(place) as folder:
            command = ["mpiexec.mpich", "-n", str(ranks)] if ranks else []
            command += [program, operation, f"{folder}/particles.h5"]
            command += [str(particles), str(members), str(repetitions)]
            command += ["sync"] * sync + ["collective"] * collective
            done = subprocess.run(
                command,
                env=self._environment(connector, sync),
                capture_output=True,
                text=True,
                check=False,
                timeout=RUN_TIMEOUT_S,
            )
        if NO_SETTING in done.stderr:
            raise UnsupportedError(f"this build has no backend for {self.settings!r}")
        if done.returncode != 0:
            raise RuntimeError(f"{operation}: {(done.stderr or done.stdout).strip()[-400:]}")
        return {"samples": [float(line.split()[0]) for line in done.stdout.splitlines()]}

    def op_watch(self, program: str, connector: str, particles: int, repetitions: int) -> Answer:
        """Nanoseconds until this process has a column as Arrow and has read its last value.

        They begin when the file was closed in the kernel's process.
        """
        samples = []
        with self._folder("disk") as folder:
            path = f"{folder}/particles.h5"
            command = [program, "write-columns", path, str(particles), "8", "1", "keep"]
            for turn in range(-1, repetitions):
                with subprocess.Popen(
                    command,
                    env=self._environment(connector, sync=False),
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                ) as kernel:
                    assert kernel.stdout is not None
                    closed_ns = int(kernel.stdout.readline().split()[1])
                    table = pa.ipc.open_file(pa.memory_map(f"{path}.arrow/{WATCHED}")).read_all()
                    value = table.column(0)[-1].as_py()
                    if turn >= 0:
                        samples.append(float(time.monotonic_ns() - closed_ns))
                # The next file takes this one's place, and its memory is freed with the last view.
                del table
                if value != (particles - 1) % 1000:
                    raise RuntimeError(f"the second process sees {value}")
        return {"samples": samples}

    def _environment(self, connector: str, sync: bool) -> dict[str, str]:
        environment = {key: text for key, text in os.environ.items() if key[:5] != "HDF5_"}
        if self.settings is not None:
            words = ["plasmon", self.settings, "sync=yes" if sync else ""]
            environment["HDF5_PLUGIN_PATH"] = connector
            environment["HDF5_VOL_CONNECTOR"] = " ".join(filter(None, words))
        return environment

    def _folder(self, place: str) -> tempfile.TemporaryDirectory[str]:
        within = Path(TMPFS) if place == "tmpfs" else Path(self.directory)
        if shutil.disk_usage(within).free < 4 << 30:
            raise UnsupportedError(f"{within} has too little room")
        return tempfile.TemporaryDirectory(prefix="hdf5-", dir=within)


class StoreHdf5(Hdf5):
    """The connector with a store that this process keeps."""

    def __init__(self) -> None:
        super().__init__("backend=store")
        self._store: Any = None

    def op_start(self, directory: str, capacity_bytes: int) -> Answer:
        import plasmon

        socket = f"{directory}/plasmon.sock"
        settings = {"capacity_bytes": str(capacity_bytes)}
        self._store = plasmon.connect(socket, start=True, settings=settings)
        self.settings = f"backend=store store={socket}"
        versions = {"HDF5": "1.14.5", "plasmon": plasmon.__version__}
        return {**super().op_start(directory, capacity_bytes), "versions": versions}

    def op_stop(self) -> Answer:
        if self._store is not None:
            self._store.disconnect()
        return {}


#: The sides, by what the worker is started with.
SIDES: dict[str, Callable[[], Hdf5]] = {
    "alone": lambda: Hdf5(None),
    "files": lambda: Hdf5("backend=files"),
    "store": StoreHdf5,
}

if __name__ == "__main__":
    serve(SIDES[sys.argv[1]]())
