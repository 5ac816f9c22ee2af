"""A sequence of operations, drawn from a seed, done on both sides and compared after each."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import tarfile
from collections import Counter
from pathlib import Path
from typing import Any

#: The names that files have.
NAMES = ("a.h5", "b.h5", "c.h5", "a.0.h5", "q/a.h5", "q/b.h5")
DATASETS = ("x", "y", "g/x", "g/z")
KINDS = ("i4", "f8", "u2", "i8")
OPERATIONS = 14
#: After how many operations the package reads the files, too.
READER_SHARE = 0.3
ANSWER_TIMEOUT_S = 60


class Side:
    """A folder, and a process that uses HDF5 in it."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder = folder
        self._worker = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("worker.py"))],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, action: str, *arguments: Any) -> Any:
        """Lets the process do something; the error is raised."""
        assert self._worker.stdin is not None
        assert self._worker.stdout is not None
        self._worker.stdin.write(json.dumps([action, arguments]) + "\n")
        self._worker.stdin.flush()
        line = self._worker.stdout.readline()
        assert line, f"the worker ended with {self._worker.wait()}"
        answer = json.loads(line)
        if "error" in answer:
            raise OSError(answer["error"])
        return answer["done"]

    def close(self) -> None:
        """Ends the process."""
        assert self._worker.stdin is not None
        self._worker.stdin.close()
        self._worker.wait(ANSWER_TIMEOUT_S)


# What is done. Each takes a folder and what was drawn for it, and raises OSError when it cannot.


def _copy(folder: Path, one: str, other: str) -> None:
    shutil.copyfile(folder / one, folder / other)


def _copy_all(folder: Path, one: str, other: str) -> None:
    """`cp -r` of a file and everything that lies beside it under its name."""
    shutil.copyfile(folder / one, folder / other)
    data, target = (folder / f"{name}.arrow" for name in (one, other))
    if data.is_dir() and not target.exists():
        shutil.copytree(data, target, symlinks=True)


def _move(folder: Path, one: str, other: str) -> None:
    os.replace(folder / one, folder / other)


def _move_all(folder: Path, one: str, other: str) -> None:
    os.replace(folder / one, folder / other)
    data, target = (folder / f"{name}.arrow" for name in (one, other))
    if data.is_dir() and not target.exists():
        data.rename(target)


def _remove(folder: Path, one: str, _other: str) -> None:
    (folder / one).unlink()


def _remove_data(folder: Path, one: str, _other: str) -> None:
    shutil.rmtree(folder / f"{one}.arrow", ignore_errors=True)


def _link(folder: Path, one: str, other: str) -> None:
    if (folder / one).is_symlink():
        # A second name of a symbolic link may be the name that it leads to.
        return
    (folder / other).unlink(missing_ok=True)
    os.link(folder / one, folder / other)


def _symlink(folder: Path, one: str, other: str) -> None:
    if not (folder / one).is_symlink() and (folder / one).parent == (folder / other).parent:
        (folder / other).unlink(missing_ok=True)
        os.symlink(Path(one).name, folder / other)


def _archive(folder: Path, _one: str, _other: str) -> None:
    """Everything goes into an archive and comes out of it: other inodes, the same names."""
    archive = folder.with_name(f"{folder.name}.tar")
    with tarfile.open(archive, "w") as tar:
        tar.add(folder, ".")
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="tar")
    archive.unlink()
    (folder / "q").mkdir(exist_ok=True)


def _atomic(folder: Path, one: str, _other: str) -> None:
    os.replace(folder / f"{one}.tmp", folder / one)


FILE_OPERATIONS = (_copy, _copy_all, _move, _move_all, _remove, _remove_data, _link, _symlink)


class Failure(Exception):
    """A file gives other values than native HDF5, or something of others is gone."""


class Sequence:
    """One sequence."""

    def __init__(self, seed: int, ours: Side, native: Side, reader: Side) -> None:
        self._random = random.Random(seed)
        self._ours, self._native, self._reader = ours, native, reader
        self._done: list[str] = []
        self._others: dict[Path, bytes] = {}
        #: How many datasets were read, and how many gave an error.
        self.counts = Counter(read=0, refused=0)

    def run(self) -> None:
        """Does everything, and compares after each operation."""
        for side in (self._ours, self._native):
            (side.folder / "q").mkdir(parents=True)
        self._write(self._random.choice(NAMES), "w")
        for _ in range(OPERATIONS):
            self._step()
            self._compare()

    def _step(self) -> None:
        draw = self._random.random()
        name = self._random.choice(self._files() or NAMES)
        if draw < 0.15:
            self._write(self._random.choice(NAMES), "w")
        elif draw < 0.5:
            self._write(name, self._random.choice(("a", "r+")))
        elif draw < 0.58:
            self._atomic_save(name)
        elif draw < 0.62:
            self._both(_archive, name, name)
        elif draw < 0.67:
            self._plant()
        elif draw < 0.78:
            command = self._random.choice(("copy", "copy", "move", "remove", "gc", "pack"))
            self._tool(command, name, self._random.choice(NAMES))
        else:
            operation = self._random.choice(FILE_OPERATIONS)
            self._both(operation, name, self._random.choice(NAMES))

    def _files(self) -> list[str]:
        folder = self._native.folder
        return [str(path.relative_to(folder)) for path in sorted(folder.rglob("*.h5"))]

    def _changes(self) -> list[dict[str, Any]]:
        made = []
        for _ in range(self._random.randint(1, 3)):
            what = self._random.choice(
                (*"make make make fill fill append delete rename copy attribute comment".split(),)
            )
            made.append(
                {
                    "what": what,
                    "name": self._random.choice(DATASETS),
                    "to": self._random.choice(DATASETS),
                    "kind": self._random.choice(KINDS),
                    "grows": self._random.random() < 0.3,
                    "seed": self._random.randrange(2**31),
                }
            )
        return made

    def _write(self, name: str, mode: str) -> None:
        # One change at a time: what the connector refuses is left out on the other side, too.
        changes = self._changes()
        self._done.append(f"write {name} {mode} {[change['what'] for change in changes]}")
        first: list[dict[str, Any]] = [] if mode == "w" else changes[:1]
        rest = changes[len(first) :]
        for change in [first, *([one] for one in rest)]:
            if not self._run_writer(name, mode, change):
                return
            mode = "r+"

    def _run_writer(self, name: str, mode: str, changes: list[dict[str, Any]]) -> bool:
        arguments = [mode, changes]
        before = self._before(name)
        try:
            self._ours.ask("write", str(self._ours.folder / name), *arguments)
        except OSError as error:
            self._done.append(f"  refused: {error}")
            self._restore(name, before)
            return False
        try:
            self._native.ask("write", str(self._native.folder / name), *arguments)
        except OSError as error:
            raise self._failure(f"HDF5 alone refuses {name}: {error}") from error
        return True

    def _before(self, name: str) -> bytes | None:
        path = self._ours.folder / name
        return path.read_bytes() if path.exists() else None

    def _restore(self, name: str, before: bytes | None) -> None:
        """What HDF5 itself did of a change that was refused is taken back."""
        path = self._ours.folder / name
        if before is None:
            if not path.is_symlink():
                path.unlink(missing_ok=True)
        elif path.exists():
            with path.open("r+b") as file:
                file.write(before)
                file.truncate()

    def _atomic_save(self, name: str) -> None:
        self._done.append(f"atomic save of {name}")
        if self._run_writer(f"{name}.tmp", "w", self._changes()[:1]):
            self._both(_atomic, name, name)

    def _both(self, operation: Any, one: str, other: str) -> None:
        self._done.append(f"{operation.__name__[1:]} {one} {other}")
        if one == other and operation is not _archive and operation is not _atomic:
            return
        outcomes = []
        for side in (self._native, self._ours):
            try:
                operation(side.folder, one, other)
                outcomes.append("")
            except (OSError, shutil.Error) as error:
                outcomes.append(type(error).__name__)
        if outcomes[0] != outcomes[1]:
            raise self._failure(f"the sides differ: {outcomes}")
        if operation in {_remove_data, _move_all, _archive, _copy_all}:
            # These are the user's own: what they remove and move is theirs to look after.
            self._others.clear()

    def _tool(self, command: str, one: str, other: str) -> None:
        """What `plasmon hdf5` does; a copy and a packed file have their own data."""
        self._done.append(f"plasmon hdf5 {command} {one} {other}")
        folder = self._ours.folder
        if command == "gc":
            paths = [str((folder / one).parent)]
        else:
            paths = [
                str(folder / name) for name in ((one,) if command == "remove" else (one, other))
            ]
        try:
            self._reader.ask("tool", command, *paths)
        except OSError as error:
            self._done.append(f"  refused: {error}")
            return
        if command in {"move", "pack"}:
            # Data is moved with its whole folder, and what others have put there with it.
            self._others.clear()
        native = {"copy": _copy, "pack": _copy, "move": _move, "remove": _remove}.get(command)
        if native is not None:
            native(self._native.folder, one, other)
        if command in {"copy", "pack"}:
            self._write(other, "r+")

    def _plant(self) -> None:
        """Puts a foreign file where data lies."""
        folders = [path for path in self._ours.folder.rglob("*.arrow") if path.is_dir()]
        folders += [path for folder in folders for path in folder.iterdir() if path.is_dir()]
        if not folders:
            return
        name = self._random.choice(("other.arrow", "notes.txt", "x~9.arrow"))
        path = self._random.choice(folders).resolve() / name
        self._done.append(f"plant {path.relative_to(self._ours.folder.resolve())}")
        path.write_bytes(b"foreign")
        self._others[path] = b"foreign"

    def _compare(self) -> None:
        ours = self._ours.ask("files", str(self._ours.folder))
        native = self._native.ask("files", str(self._native.folder))
        if ours.keys() != native.keys():
            raise self._failure(f"there are {sorted(ours)}, and should be {sorted(native)}")
        for name, wanted in native.items():
            self._same(name, ours[name], wanted)
        if self._random.random() < READER_SHARE:
            for name, found in self._reader.ask("tables", str(self._ours.folder)).items():
                self._same_tables(name, found, native[name])
        for path, content in self._others.items():
            if not path.exists() or path.read_bytes() != content:
                raise self._failure(f"{path}, a foreign file, is gone")

    def _same(self, name: str, found: dict[str, Any], wanted: dict[str, Any]) -> None:
        if "error" in wanted or "error" in found:
            if "error" in wanted and "error" in found:
                return
            raise self._failure(f"{name}: {found} and {wanted}")
        if found.keys() != wanted.keys():
            raise self._failure(f"{name} has {sorted(found)}, and should have {sorted(wanted)}")
        for dataset, about in wanted.items():
            mine = found[dataset]
            self.counts["read"] += 1
            if "error" in mine:
                self.counts["refused"] += 1
                mine = {**mine, "values": about["values"]}
                del mine["error"]
            if mine != about:
                raise self._failure(f"{name}:{dataset} is {mine}, and should be {about}")

    def _same_tables(self, name: str, found: dict[str, Any], wanted: dict[str, Any]) -> None:
        for dataset, values in found.items():
            self.counts["read"] += 1
            if isinstance(values, str):
                self.counts["refused"] += 1
            elif values != wanted[dataset]["values"]:
                raise self._failure(
                    f"{name}:{dataset} is the table {values}, not {wanted[dataset]}"
                )

    def _failure(self, what: str) -> Failure:
        done = "\n  ".join(self._done)
        return Failure(f"{what[:2000]}\nafter\n  {done}")
