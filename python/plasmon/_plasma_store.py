"""The `plasma_store` command: Plasma's flags, served by Plasmon's daemon.

The flags are checked as Plasma checked them, then this process becomes the daemon. With an
external store it stays, to clean up after the daemon::

    plasma_store ── no -e ──► exec plasmond
                 └─ -e ─────► plasmond as a child; signals are passed on; clean up
"""

from __future__ import annotations

import argparse
import ctypes
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from plasmon._external_store import ExternalStore, open_external_store
from plasmon._store import _daemon

PROGRAM = "plasma-store-server"

_PR_SET_PDEATHSIG = 1

USAGE = """\
plasma-store-server: Shared-memory server for Arrow data.
Usage: plasma_store -s SOCKET -m BYTES [-d DIRECTORY] [-e ENDPOINT] [-h]

  -s SOCKET     socket where the store will listen for requests, required
  -m BYTES      amount of memory in bytes to use for objects, required
  -d DIRECTORY  accepted for old command lines; it must exist, but objects lie in anonymous memory
  -e ENDPOINT   external store for evicted objects: hashtable://NAME or file:///DIRECTORY
  -h            use huge pages; some must be reserved
"""


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """The options of a Plasma store."""

    socket: str
    memory_bytes: int
    directory: str | None = None
    hugepages: bool = False


class StartError(ValueError):
    """The store cannot be started with these options."""


def _reserved_hugepages() -> int:
    found = re.search(r"^HugePages_Total:\s+(\d+)", Path("/proc/meminfo").read_text(), re.M)
    return int(found[1]) if found else 0


def check(options: StoreOptions) -> None:
    """Raises StartError when the options cannot work."""
    if options.memory_bytes <= 0:
        raise StartError(f"-m must be a positive number of bytes, is {options.memory_bytes}")
    if options.directory is not None and not Path(options.directory).is_dir():
        raise StartError(f"there is no directory {options.directory} (-d)")
    if options.hugepages and not _reserved_hugepages():
        raise StartError(
            "huge pages (-h) are asked for and none are reserved: "
            "reserve some with sysctl vm.nr_hugepages=N, or leave the flag out"
        )


def daemon_command(options: StoreOptions, spill: Path | None) -> list[str]:
    """The daemon's command line for a Plasma store. Raises StartError when it cannot work."""
    check(options)
    daemon = _daemon()
    if daemon is None:
        raise StartError("there is no plasmond beside this Python or in PLASMON_DAEMON")
    settings = {
        "socket": options.socket,
        "capacity-bytes": str(options.memory_bytes),
        # Plasma's capacity holds to the byte.
        "count-content": "true",
        # A Plasma store is one process: when it is gone, so are its objects.
        "keeper": "false",
    }
    if options.hugepages:
        settings["collapse"] = "true"
    if spill is not None:
        settings |= {"spill-dir": str(spill), "spill-cache": "true"}
    return [daemon, *(f"--{key}={value}" for key, value in settings.items())]


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        fail(message)


def fail(message: str) -> NoReturn:
    """Says why there is no store, and ends."""
    print(f"{PROGRAM}: {message}", file=sys.stderr)
    raise SystemExit(1)


def _parse(arguments: Sequence[str]) -> tuple[StoreOptions, str | None]:
    parser = _Parser(prog=PROGRAM, add_help=False, allow_abbrev=False)
    parser.add_argument("-s", "--s")
    parser.add_argument("-m", "--m")
    parser.add_argument("-d", "--d")
    parser.add_argument("-e", "--e")
    parser.add_argument("-h", "--h", action="store_true")
    parser.add_argument("-help", "--help", action="store_true")
    given, rest = parser.parse_known_args(arguments)
    unknown = [argument for argument in rest if argument.startswith("-")]
    if unknown:
        fail(f"unknown command line flag '{unknown[0].lstrip('-').partition('=')[0]}'")
    if given.help:
        print(USAGE, end="")
        raise SystemExit(0)
    missing = []
    if not given.s:
        missing.append("socket for incoming connections with -s")
    if not given.m:
        missing.append("the amount of memory (in bytes) to use with -m")
    if missing:
        fail(f"please specify {', and '.join(missing)}")
    if not re.fullmatch(r"-?[0-9]+", given.m):
        fail("-m switch takes memory in bytes, with no letter suffix allowed")
    options = StoreOptions(
        socket=given.s, memory_bytes=int(given.m), directory=given.d or None, hugepages=given.h
    )
    return options, given.e or None


def _refuse_live(path: str) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
        try:
            found = probe.connect_ex(path)
        except OSError as error:
            fail(f"cannot use the socket {path}: {error}")
        if found == 0:
            fail(f"a store already listens on {path}: use it, or give another socket")


def _end_with_parent() -> None:
    # If this process is killed, no process passes signals on.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _run(command: list[str], external: ExternalStore) -> int:
    """Runs the daemon and passes signals on to it; its exit code."""
    passed_on = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    # Blocked until the child is there to pass them on to.
    signal.pthread_sigmask(signal.SIG_BLOCK, passed_on)

    def before_exec() -> None:
        _end_with_parent()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, passed_on)

    try:
        with subprocess.Popen(command, preexec_fn=before_exec) as process:  # noqa: PLW1509
            for number in passed_on:
                signal.signal(number, lambda *_: process.terminate())
            signal.pthread_sigmask(signal.SIG_UNBLOCK, passed_on)
            return process.wait()
    finally:
        external.close()


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs a Plasma store; the arguments are those of the command line unless given."""
    options, endpoint = _parse(sys.argv[1:] if arguments is None else arguments)
    try:
        check(options)
        _refuse_live(options.socket)
        if endpoint is None:
            command = daemon_command(options, None)
            os.execv(command[0], command)
        external = open_external_store(endpoint)
        command = daemon_command(options, external.directory())
    except (ValueError, OSError) as error:
        fail(str(error))
    raise SystemExit(_run(command, external))


if __name__ == "__main__":
    main()
