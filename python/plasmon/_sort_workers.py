"""The same sort by several processes.

::

    this process                            worker processes (python -m plasmon._sort_worker)
    puts what is not in the store yet
    chooses the ids of all partitions ────► each reads every input partition where it lies,
                                            works out the bounds (all arrive at the same),
    hears how far they are ◄─────────────── and writes its own share of the result
    returns the ids

Nothing but ids and counts goes through the pipes. When a worker is lost, or Ctrl-C comes, the
others are ended, and every object that could have been made is deleted: the ids are known. When
this process itself is killed, a guard deletes them, and the copy of the input.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from plasmon import _errors, _native
from plasmon._sort import Key, Sorted, WorkerDied, names, parts_of, put_all
from plasmon._sort_clearing import delete_made
from plasmon._sort_processes import Guard, Process

if TYPE_CHECKING:
    from plasmon._native import ObjectId
    from plasmon._store import Store


@dataclass
class _Worker:
    """A worker process and what it is to make."""

    running: Process
    partitions: range
    steps: tuple[int, int] = (0, 0)
    rows: list[int] | None = None
    read: bytearray = field(default_factory=bytearray)

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The process itself."""
        return self.running.process


def sort(
    store: Store,
    data: Any,
    order: list[Key],
    partitions: int,
    workers: int,
    threads: int | None,
    name: str | None,
    tell: Callable[[int, int], object] | None,
    made: list[ObjectId],
) -> Sorted:
    """Sorts with worker processes. The ids of the partitions are added to ``made``."""
    options = _options(store, partitions, name)
    # Taken names are refused before anything is deleted that is another's.
    chosen = [_id_of(one) for one in options]
    for id, state in zip(chosen, store.states(chosen), strict=True):
        if state in {"sealed", "spilled", "creating"}:
            raise _errors.Exists(f"sorting: object {id} exists already", id)
    parts = parts_of(data)
    put = [store.new_id() for part in parts if not isinstance(part, _native.ObjectId)]
    running: list[_Worker] = []
    guard = Guard(store, [*put, *chosen])
    try:
        inputs = put_all(store, parts, put)
        store.flush()
        shared = {
            "inputs": [id.hex() for id in inputs],
            "by": order,
            "partitions": partitions,
            "threads": threads or 1,
            "kind": _kind(store, inputs),
        }
        for share in _shares(partitions, workers):
            own = {"only": [share.start, share.stop], "options": options[share.start : share.stop]}
            running.append(_start(store, share))
            running[-1].running.tell({**shared, **own})
        guard.ready()
        _follow(running, tell)
        made.extend(chosen)
        _end(running)
        # What was put only to be sorted is not needed any more.
        store.delete(put)
        guard.dismiss()
    except BaseException:
        _end(running)
        delete_made(store, [*put, *chosen])
        guard.clear()
        raise
    rows = [count for worker in running for count in worker.rows or []]
    return Sorted(store, chosen, rows)


def _kind(store: Store, inputs: list[ObjectId]) -> int:
    """What a partition comes back as: what all inputs are."""
    kinds = set()
    for buffer in store.get_buffers(inputs):
        if buffer.tag != _native.TAG_ARROW_STREAM:
            raise TypeError(f"object {buffer.id} holds no table: only tables can be sorted")
        kinds.add(buffer.header[0] if buffer.header else _native.TABLE_TABLE)
    return kinds.pop() if len(kinds) == 1 else _native.TABLE_TABLE


def _options(store: Store, partitions: int, name: str | None) -> list[dict[str, str]]:
    if name is not None:
        return [{"name": text} for text in names(name, partitions)]
    return [{"id": store.new_id().hex()} for _ in range(partitions)]


def _id_of(options: dict[str, str]) -> ObjectId:
    if "name" in options:
        return _native.ObjectId.from_name(options["name"])
    return _native.ObjectId.from_hex(options["id"])


def _shares(partitions: int, workers: int) -> list[range]:
    """Consecutive partitions for each worker, as evenly as they can be dealt out."""
    count = min(workers, partitions)
    bounds = [partitions * at // count for at in range(count + 1)]
    return [range(bounds[at], bounds[at + 1]) for at in range(count)]


def _start(store: Store, share: range) -> _Worker:
    return _Worker(Process("_sort_worker", store), share)


def _follow(running: list[_Worker], tell: Callable[[int, int], object] | None) -> None:
    """Reads what the workers tell until each has answered."""
    with selectors.DefaultSelector() as selector:
        for worker in running:
            selector.register(worker.running.told, selectors.EVENT_READ, worker)
        while selector.get_map():
            for key, _ in selector.select():
                if not _read(key.data):
                    selector.unregister(key.fileobj)
                    _check_end(key.data)
            if tell is not None:
                tell(sum(one.steps[0] for one in running), sum(one.steps[1] for one in running))


def _read(worker: _Worker) -> bool:
    """Takes what a worker has told; false at the end of it."""
    chunk = os.read(worker.running.told.fileno(), 1 << 16)
    *lines, rest = bytes(worker.read + chunk).split(b"\n")
    worker.read = bytearray(rest)
    for line in lines:
        _hear(worker, json.loads(line))
    return bool(chunk)


def _hear(worker: _Worker, told: dict[str, Any]) -> None:
    if "steps" in told:
        worker.steps = (told["steps"][0], told["steps"][1])
    elif "rows" in told:
        worker.rows = told["rows"]
    else:
        raise _remade(told["error"])


def _remade(error: dict[str, Any]) -> Exception:
    """The exception that a worker ended with."""
    kind = {"ValueError": ValueError, "TypeError": TypeError}.get(error["type"])
    if kind is not None:
        return kind(error["text"])
    known = getattr(_errors, error["type"], None)
    if isinstance(known, type) and issubclass(known, _errors.PlasmonError):
        return known(error["text"], None)
    return RuntimeError(f"a worker failed with {error['type']}: {error['text']}")


def _check_end(worker: _Worker) -> None:
    """A worker has closed its pipe: it answered, or it died."""
    code = worker.process.wait()
    if worker.rows is not None:
        return
    how = f"ended with code {code}"
    if code < 0:
        how = f"was killed by {signal.Signals(-code).name}"
    share = worker.partitions
    text = (
        f"worker process {worker.process.pid}, which was to make partitions {share.start} to "
        f"{share.stop - 1}, {how}{worker.running.last_words()}; the store is as it was before, "
        "sort again"
    )
    raise WorkerDied(text, worker.process.pid, share, code)


def _end(running: list[_Worker]) -> None:
    """Ends the workers that still run and waits until they are gone."""
    for worker in running:
        if worker.process.poll() is None and worker.rows is None:
            worker.process.kill()
    for worker in running:
        worker.running.end()
