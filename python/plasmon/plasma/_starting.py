"""Starting a store for the duration of a block."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

from plasmon._external_store import open_external_store
from plasmon._plasma_store import StoreOptions, daemon_command

from ._ids import DEPRECATED

#: How long a store may take until it listens, without and with valgrind.
_READY_S = 10.0
_READY_VALGRIND_S = 60.0
_POLL_S = 0.001

_VALGRIND = [
    "valgrind",
    "--track-origins=yes",
    "--leak-check=full",
    "--show-leak-kinds=all",
    "--error-exitcode=1",
]
_PROFILER = ["valgrind", "--tool=callgrind"]


@contextlib.contextmanager
def start_plasma_store(
    plasma_store_memory: int,
    use_valgrind: bool = False,
    use_profiler: bool = False,
    plasma_directory: str | None = None,
    use_hugepages: bool = False,
    external_store: str | None = None,
) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Runs a store of this many bytes for the duration of a block.

    Gives the path of its socket and its process. `plasma_directory` must exist but is not used:
    objects lie in anonymous memory. `use_hugepages` needs reserved huge pages. `external_store` is
    an endpoint such as `hashtable://name` or `file:///directory`, to which evicted objects go.
    Raises RuntimeError when the store does not start.
    """
    warnings.warn(DEPRECATED, DeprecationWarning, stacklevel=3)
    if use_valgrind and use_profiler:
        raise ValueError("Cannot use valgrind and profiler at the same time.")
    prefix = _VALGRIND if use_valgrind else _PROFILER if use_profiler else []
    with contextlib.ExitStack() as stack:
        directory = tempfile.mkdtemp(prefix="plasma-")
        stack.callback(shutil.rmtree, directory, ignore_errors=True)
        name = str(Path(directory, "plasma.sock"))
        options = StoreOptions(
            socket=name,
            memory_bytes=plasma_store_memory,
            directory=plasma_directory,
            hugepages=use_hugepages,
        )
        spill = None
        if external_store is not None:
            external = open_external_store(external_store)
            stack.callback(external.close)
            spill = external.directory()
        process = subprocess.Popen(prefix + daemon_command(options, spill))
        stack.callback(_end, process)
        _await_ready(process, name, _READY_VALGRIND_S if prefix else _READY_S)
        yield name, process


def _await_ready(process: subprocess.Popen[bytes], name: str, timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while process.poll() is None and time.monotonic() < deadline:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
            if probe.connect_ex(name) == 0:
                return
        time.sleep(_POLL_S)
    code = process.poll()
    if code is None:
        raise RuntimeError(f"plasma_store does not listen after {timeout_s:.0f} s")
    raise RuntimeError(f"plasma_store exited unexpectedly with code {code}")


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.kill()
    process.wait()
