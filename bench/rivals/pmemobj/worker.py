"""libpmemobj by a small program in C, which this worker compiles; see `pmemobj.c`."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from bench.rivals.protocol import Answer, UnsupportedError, serve

SOURCE = Path(__file__).with_name("pmemobj.c")
_POOL_BYTES_MIN = 256 << 20
_WITHIN_S = 40.0


class PmemObj:
    """A pool that is made anew for each measurement."""

    def __init__(self) -> None:
        self._folder = Path()
        self._program = Path()
        self._forced = False

    def op_start(
        self, directory: str, capacity_bytes: int, folder: str, forced: bool = False
    ) -> Answer:
        """Compiles the program. `forced`: memory counts as persistent memory."""
        del capacity_bytes
        self._folder, self._forced = Path(folder), forced
        self._program = Path(directory) / "pmemobj"
        compiler = shutil.which("cc")
        if compiler is None:
            raise UnsupportedError("needs a C compiler")
        command = [compiler, "-O2", str(SOURCE), "-o", str(self._program), "-lpmemobj", "-pthread"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if "libpmemobj.h" in done.stderr and "No such file" in done.stderr:
            raise UnsupportedError("libpmemobj is not installed: apt-get install libpmemobj-dev")
        if done.returncode != 0:
            raise RuntimeError(done.stderr.strip())
        return {"address": folder, "start_ns": 0, "versions": {"libpmemobj": _version()}}

    def op_put(self, object_bytes: int, count: int, way: str) -> Answer:
        """One object, one transaction."""
        pool = self._folder / "pool"
        # Nothing is freed, the first put is not counted, and no object fills its place exactly.
        size = max(_POOL_BYTES_MIN, (count + 3) * object_bytes * 5 // 4)
        words = [str(word) for word in (pool, size, object_bytes, count, way)]
        # The pages are there before they are written, as those of our log are.
        prefault = {"PMEMOBJ_CONF": "prefault.at_create=1"}
        force = {"PMEM_IS_PMEM_FORCE": "1"} if self._forced else {}
        try:
            done = subprocess.run(
                [str(self._program), *words],
                env={**os.environ, **prefault, **force},
                capture_output=True,
                text=True,
                timeout=_WITHIN_S,
                check=False,
            )
        finally:
            pool.unlink(missing_ok=True)
        if done.returncode != 0:
            raise RuntimeError(done.stderr.strip())
        return {"samples": [float(line) for line in done.stdout.split()], "batch": 1}


def _version() -> str:
    command = ["pkg-config", "--modversion", "libpmemobj"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return "unknown"
    return done.stdout.strip() or "unknown"


if __name__ == "__main__":
    serve(PmemObj())
