"""The ways of giving a table to other processes that the demo compares.

A way prepares the table once, then says for each worker how it gets at it. All of them but pickle
read in place, so they differ in what they ask of the program, which is printed beside the figures.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from multiprocessing import resource_tracker, shared_memory
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plasmon.demo.workers import Pool, Source, pool

if TYPE_CHECKING:
    import pyarrow as pa

    import plasmon

#: Where Linux keeps shared memory by name.
_SHM = Path("/dev/shm")
#: The size of a copy of the table over that of the table.
_ROOM = 1.02


class UnavailableWay(Exception):
    """A way that cannot run here; the text has the reason."""


@dataclass
class Way:
    """A way of sharing."""

    name: str
    #: What it requires of a program, in a line.
    asks: str
    #: The processes besides the workers that must be there for them to read.
    holders: list[int] = field(default_factory=list)
    #: Whether the workers are forked from the process that has the table.
    forks: bool = False
    #: How many readers are tried at most.
    readers_max: int = 16
    #: How often the job is done; the fastest counts.
    runs: int = 3
    #: How long the preparation took, without the start of servers; None: all of it counts.
    prepare_s: float | None = None

    def hurry(self) -> None:
        """Asks for one run of the job and few readers."""
        self.runs = 1
        self.readers_max = min(self.readers_max, 4)

    def pool(self) -> AbstractContextManager[Pool]:
        """The processes that read."""
        return pool()

    def source(self, columns: list[str] | None = None) -> Source:
        """How a worker gets at the table; ``columns`` are those that it needs."""
        raise NotImplementedError

    @contextmanager
    def prepared(self, table: pa.Table) -> Iterator[None]:
        """The work that is done once, before there are workers."""
        del table
        yield


@dataclass
class StoreSource:
    """A name in the store."""

    socket: str
    name: str
    _store: plasmon.Store | None = None

    def open(self) -> pa.Table:
        import plasmon

        if self._store is None:
            self._store = plasmon.connect(self.socket, start=False)
        return self._store.get(self.name, timeout=30)


class Plasmon(Way):
    """The store."""

    def __init__(self, store: plasmon.Store, name: str, put_s: float) -> None:
        super().__init__("plasmon", "a daemon that runs; one copy at put", prepare_s=put_s)
        self._store, self._name = store, name
        self.holders = [store.status().pid]

    def source(self, columns: list[str] | None = None) -> Source:
        return StoreSource(str(self._store.socket), self._name)


#: The table that a fork takes along.
_inherited: list[Any] = []


class InheritedSource:
    """The table that was there before the fork."""

    def open(self) -> pa.Table:
        return _inherited[0]


class Fork(Way):
    """Children that inherit the parent's memory."""

    def __init__(self) -> None:
        asks = "children only, and only what was there before the fork; nothing comes back"
        super().__init__("fork", asks, [os.getpid()], forks=True)

    def source(self, columns: list[str] | None = None) -> Source:
        return InheritedSource()

    @contextmanager
    def prepared(self, table: pa.Table) -> Iterator[None]:
        _inherited[:] = [table]
        try:
            yield
        finally:
            _inherited.clear()


@dataclass
class FileSource:
    """An Arrow file, mapped."""

    path: str

    def open(self) -> pa.Table:
        import pyarrow as pa

        with pa.memory_map(self.path) as mapped:
            return pa.ipc.open_file(mapped).read_all()


class MappedFile(Way):
    """An Arrow file that every process maps."""

    def __init__(self, folder: Path) -> None:
        asks = "a file to name, place and delete; a write changes what others read"
        super().__init__("mapped Arrow file", asks)
        self._folder = folder

    def source(self, columns: list[str] | None = None) -> Source:
        return FileSource(self._path)

    @contextmanager
    def prepared(self, table: pa.Table) -> Iterator[None]:
        import pyarrow as pa

        check_room(self._folder, table)
        handle, self._path = tempfile.mkstemp(dir=self._folder, suffix=".arrow")
        os.close(handle)
        try:
            with pa.OSFile(self._path, "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
                writer.write_table(table)
            yield
        finally:
            os.unlink(self._path)


@dataclass
class BlockSource:
    """A block of shared memory that holds an Arrow stream."""

    name: str
    _block: shared_memory.SharedMemory | None = None

    def open(self) -> pa.Table:
        import pyarrow as pa

        self._block = shared_memory.SharedMemory(self.name)
        return pa.ipc.open_stream(pa.py_buffer(self._block.buf)).read_all()


class SharedMemory(Way):
    """:mod:`multiprocessing.shared_memory`, with the table written into it as an Arrow stream."""

    def __init__(self) -> None:
        asks = "room in /dev/shm, a size known before, a process to unlink it; all can write"
        super().__init__("shared_memory", asks)

    def source(self, columns: list[str] | None = None) -> Source:
        return BlockSource(self._block.name)

    @contextmanager
    def prepared(self, table: pa.Table) -> Iterator[None]:
        check_room(_SHM, table)
        # The workers share one tracker with this process, so that a block is unlinked once.
        resource_tracker.ensure_running()
        self._block = shared_memory.SharedMemory(create=True, size=stream_bytes(table))
        try:
            _write_stream(table, self._block.buf)
            # Only the workers map it from here on.
            self._block.close()
            yield
        finally:
            self._block.unlink()
            self._block.close()


@dataclass
class ArraySource:
    """An array that joblib wrote, which it maps."""

    path: str

    def open(self) -> pa.Table:
        import joblib
        import pyarrow as pa

        array = joblib.load(self.path, mmap_mode="r")
        return pa.ipc.open_stream(pa.py_buffer(array)).read_all()


class JoblibMemmap(Way):
    """joblib's memory maps, which are of arrays: the table is a stream in one."""

    def __init__(self, folder: Path) -> None:
        asks = "NumPy arrays only: tables have to be made into one, and files again"
        super().__init__("joblib memmap", asks)
        # As joblib chooses: memory if there is room in it, else files.
        self._folder = folder

    def source(self, columns: list[str] | None = None) -> Source:
        return ArraySource(self._path)

    @contextmanager
    def prepared(self, table: pa.Table) -> Iterator[None]:
        try:
            import joblib
        except ImportError as error:
            raise UnavailableWay("not installed") from error
        import numpy as np

        folder = _SHM if _has_room(_SHM, table) else self._folder
        check_room(folder, table)
        with tempfile.TemporaryDirectory(dir=folder, prefix="plasmon-demo-") as inside:
            array = np.empty(stream_bytes(table), np.uint8)
            _write_stream(table, array)
            self._path = str(Path(inside) / "table.joblib")
            joblib.dump(array, self._path)
            del array
            yield


@dataclass
class PipeSource:
    """The table itself, which the pipe pickles."""

    table: Any

    def open(self) -> pa.Table:
        return self.table


class Pickle(Way):
    """The table through a pipe, as :mod:`multiprocessing` sends arguments."""

    def __init__(self, columns_only: bool) -> None:
        name = "pickle, needed columns" if columns_only else "pickle, whole table"
        super().__init__(name, "nothing, and a copy for each process", [os.getpid()])
        self._columns_only = columns_only
        # Once is seconds, and more readers would need gigabytes.
        self.runs = 1
        self.readers_max = 0 if columns_only else 4

    def source(self, columns: list[str] | None = None) -> Source:
        is_part = self._columns_only and columns
        return PipeSource(self._table.select(columns) if is_part else self._table)

    @contextmanager
    def prepared(self, table: pa.Table) -> Iterator[None]:
        _check_memory(table, 1 if self._columns_only else 5)
        self._table = table
        yield


def stream_bytes(table: pa.Table) -> int:
    """How many bytes a table takes as an Arrow stream."""
    import pyarrow as pa

    counter = pa.MockOutputStream()
    with pa.ipc.new_stream(counter, table.schema) as writer:
        writer.write_table(table)
    return int(counter.size())


def _write_stream(table: pa.Table, memory: Any) -> None:
    """Writes a table as an Arrow stream into memory; nothing refers to the memory afterwards."""
    import pyarrow as pa

    with (
        pa.FixedSizeBufferWriter(pa.py_buffer(memory)) as sink,
        pa.ipc.new_stream(sink, table.schema) as writer,
    ):
        writer.write_table(table)


def _free(folder: Path) -> int:
    if not folder.is_dir():
        return 0
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


def _has_room(folder: Path, table: pa.Table) -> bool:
    return _free(folder) > table.nbytes * _ROOM and os.access(folder, os.W_OK)


def check_room(folder: Path, table: pa.Table) -> None:
    """Raises UnavailableWay where a folder has no room for a copy of the table."""
    # Memory that is promised and not there is a SIGBUS when it is written to.
    if not _has_room(folder, table):
        free, needed = _free(folder) / 1e6, table.nbytes * _ROOM / 1e6
        text = f"not possible here: {folder} has {free:,.0f} MB free, {needed:,.0f} MB are needed"
        raise UnavailableWay(text)


def _check_memory(table: pa.Table, copies: int) -> None:
    found = Path("/proc/meminfo").read_text().partition("MemAvailable:")[2].split()
    free = int(found[0]) * 1024 if found else 0
    needed = int(table.nbytes * copies * 1.3)
    if free < needed:
        text = f"{free / 1e6:,.0f} MB of memory are free, {needed / 1e6:,.0f} MB needed"
        raise UnavailableWay(f"not possible here: {text}")
