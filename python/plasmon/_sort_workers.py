"""The same sort by several processes.

::

    this process                            worker processes (python -m plasmon._sort_worker)
    puts what is not in the store yet
    chooses the ids of all partitions ────► each reads every input partition where it lies,
                                            works out the bounds (all arrive at the same),
    hears how far they are ◄─────────────── and writes its own share of the result
    returns the ids

Nothing but ids and counts goes through the pipes. When a worker is lost, or Ctrl-C comes, the
others are ended, and every object that could have been made is deleted: the ids are known.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any

from plasmon import _errors, _native
from plasmon._sort import Key, Sorted, WorkerDied, names, put_all
from plasmon._sort_clearing import delete_made

if TYPE_CHECKING:
    from plasmon._native import ObjectId
    from plasmon._store import Store


@dataclass
class _Worker:
    """A worker process and what it is to make."""

    process: subprocess.Popen[bytes]
    partitions: range
    steps: tuple[int, int] = (0, 0)
    rows: list[int] | None = None
    read: bytearray = field(default_factory=bytearray)

    @property
    def pipe(self) -> IO[bytes]:
        """Where it tells how far it is."""
        assert self.process.stdout is not None, "started with a pipe"
        return self.process.stdout

    def give(self, job: dict[str, Any]) -> None:
        """Gives it its job. One that is gone already is noticed when its pipe is read."""
        assert self.process.stdin is not None, "started with a pipe"
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(job).encode() + b"\n")
            self.process.stdin.flush()


def sort(
    store: Store,
    data: Any,
    order: list[Key],
    partitions: int,
    workers: int,
    threads: int | None,
    name: str | None,
    tell: Callable[[int, int], object] | None,
) -> Sorted:
    """Sorts with worker processes."""
    put: list[ObjectId] = []
    made: list[ObjectId] = []
    running: list[_Worker] = []
    try:
        inputs = put_all(store, data, put)
        store.flush()
        shared = {
            "inputs": [id.hex() for id in inputs],
            "by": order,
            "partitions": partitions,
            "threads": threads or 1,
            "kind": _kind(store, inputs),
        }
        options = _options(store, partitions, name)
        # Taken names are refused before anything is deleted that is somebody else's.
        chosen = [_id_of(one) for one in options]
        for id, state in zip(chosen, store.states(chosen), strict=True):
            if state in {"sealed", "spilled", "creating"}:
                raise _errors.Exists(f"sorting: object {id} exists already", id)
        made = chosen
        for share in _shares(partitions, workers):
            own = {"only": [share.start, share.stop], "options": options[share.start : share.stop]}
            running.append(_start(store, share))
            running[-1].give({**shared, **own})
        _follow(running, tell)
    except BaseException:
        _end(running)
        delete_made(store, made)
        raise
    finally:
        _end(running)
        # What was put only to be sorted is not needed any more.
        store.delete(put)
    rows = [count for worker in running for count in worker.rows or []]
    return Sorted(store, made, rows)


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
    # Workers are in a group of their own: Ctrl-C comes here, and from here they are ended.
    process = subprocess.Popen(
        [sys.executable, "-m", "plasmon._sort_worker", str(store.socket)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        process_group=0,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    return _Worker(process, share)


def _follow(running: list[_Worker], tell: Callable[[int, int], object] | None) -> None:
    """Reads what the workers tell until each has answered."""
    with selectors.DefaultSelector() as selector:
        for worker in running:
            selector.register(worker.pipe, selectors.EVENT_READ, worker)
        while selector.get_map():
            for key, _ in selector.select():
                if not _read(key.data):
                    selector.unregister(key.fileobj)
                    _check_end(key.data)
            if tell is not None:
                tell(sum(one.steps[0] for one in running), sum(one.steps[1] for one in running))


def _read(worker: _Worker) -> bool:
    """Takes what a worker has told; false at the end of it."""
    chunk = os.read(worker.pipe.fileno(), 1 << 16)
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
        f"{share.stop - 1}, {how}; the store is as it was before, sort again"
    )
    raise WorkerDied(text, worker.process.pid, share, code)


def _end(running: list[_Worker]) -> None:
    """Ends the workers that still run and waits until they are gone."""
    for worker in running:
        if worker.process.poll() is None and worker.rows is None:
            worker.process.kill()
    for worker in running:
        for pipe in (worker.process.stdin, worker.process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        worker.process.wait()
