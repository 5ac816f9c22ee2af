"""`plasmon hdf5 mv`, `cp`, `rm`, `gc`, `pack` and `unpack` on the command line."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from plasmon._command_line import Parser

#: These open files by HDF5 alone.
NAMES = frozenset({"mv", "cp", "rm", "gc", "pack", "unpack"})
#: How often the progress of long work is printed.
_PROGRESS_S = 1.0
#: Adds a command: its name, what it does, and what runs it.
_Add = Callable[[str, str, Callable[[argparse.Namespace], int]], Parser]


class _ProgressPrinter:
    """Prints the progress of work on a terminal."""

    def __init__(self) -> None:
        self._next = time.monotonic() + _PROGRESS_S

    def __call__(self, what: str, done: int, total: int) -> None:
        if sys.stderr.isatty() and time.monotonic() > self._next and total:
            self._next = time.monotonic() + _PROGRESS_S
            print(f"{what} {100 * done // total} % of {total} bytes", file=sys.stderr)


def _print(lines: Iterable[str]) -> int:
    for line in lines:
        print(line)
    return 0


def _mv(arguments: argparse.Namespace) -> int:
    from plasmon.hdf5 import _moving

    return _print(_moving.move(arguments.source, arguments.target, progress=_ProgressPrinter()))


def _cp(arguments: argparse.Namespace) -> int:
    from plasmon.hdf5 import _moving

    return _print(_moving.copy(arguments.source, arguments.target, progress=_ProgressPrinter()))


def _rm(arguments: argparse.Namespace) -> int:
    from plasmon.hdf5 import _moving

    for file in arguments.files:
        told = _moving.remove(file, dry_run=arguments.dry_run)
        _print(f"would remove {line}" if arguments.dry_run else f"removed {line}" for line in told)
    return 0


def _gc(arguments: argparse.Namespace) -> int:
    from plasmon.hdf5 import _collecting

    found = _collecting.find(arguments.folder)
    _print(found.lines())
    for line in found.stays:
        print(line, file=sys.stderr)
    total = sum(leftover.bytes for leftover in found.data)
    what = f"{len(found.data)} folders of data that no file in {arguments.folder} needs, "
    what += f"{total} bytes"
    more = sum(len(stray.files) for stray in found.strays) + len(found.drafts)
    if more:
        what += f", and {more} leftovers of programs that were killed"
    if not found or arguments.dry_run or not (arguments.yes or _agreed(what)):
        print(what)
        return 1 if found.stays else 0
    stays = _collecting.collect(found)
    for line in stays:
        print(line, file=sys.stderr)
    print(f"removed {what}" + (", but for what stays" if stays else ""))
    return 1 if stays or found.stays else 0


def _agreed(what: str) -> bool:
    if not sys.stdin.isatty():
        return False
    print(f"{what}. Remove them? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def _pack(arguments: argparse.Namespace) -> int:
    from plasmon.hdf5 import _packing

    return _print(_packing.pack(arguments.source, arguments.target, progress=_ProgressPrinter()))


def _unpack(arguments: argparse.Namespace) -> int:
    from plasmon.hdf5 import _packing

    return _print(_packing.unpack(arguments.archive, arguments.folder, progress=_ProgressPrinter()))


def add(command: _Add) -> None:
    """Adds the commands."""
    one = command("mv", "move or rename a file together with its data", _mv)
    one.add_argument("source", type=Path, help="an HDF5 file")
    one.add_argument("target", type=Path, help="its new name, or a folder")
    one = command("cp", "copy a file together with its data", _cp)
    one.add_argument("source", type=Path, help="an HDF5 file")
    one.add_argument("target", type=Path, help="the copy's name, or a folder")
    one = command("rm", "remove files together with their data", _rm)
    one.add_argument("files", type=Path, nargs="+", metavar="<FILE>", help="an HDF5 file")
    one.add_argument("--dry-run", action="store_true", help="only list what would be removed")
    one = command("gc", "remove data that no file of a folder needs", _gc)
    one.add_argument("folder", type=Path, nargs="?", default=Path(), help="where (default: here)")
    one.add_argument("--dry-run", action="store_true", help="only list what would be removed")
    one.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    one = command("pack", "write a file and its data as one archive", _pack)
    one.add_argument("source", type=Path, help="an HDF5 file")
    one.add_argument("target", type=Path, help="the archive to write, or a folder")
    one = command("unpack", "unpack such an archive into a folder", _unpack)
    one.add_argument("archive", type=Path, help="an archive written by pack")
    one.add_argument("folder", type=Path, nargs="?", default=Path(), help="where (default: here)")
