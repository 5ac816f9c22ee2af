"""Measures the cases of a suite: all sides of a case in turns, the others at rest.

::

    for each case, for each pinning:
        wake and pin the sides of the case
        for each round:
            for each side (backwards in every other round):
                thaw it ── ask its worker ── freeze it

A side that cannot be made, ends, or has no answer is reported as missing with the reason, never
dropped. A side that ended is started again for the next case, a few times.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench import environments
from bench.case import FREE, Case, Entry, Samples, Side, Suite
from bench.environments import MissingError
from bench.folders import Folders
from bench.machines import Machines
from bench.stats import Spread, paired_ratio, spread
from bench.worker import UnsupportedError, Worker

CAPACITY_BYTES = 3 << 30
SOURCE_BYTES = 1 << 30
#: Of the network that sides share which run on several: the nodes of a pool.
MACHINES = 3
#: How often a side that fails is started again, so that one bad case does not cost the others.
STARTS_MAX = 8
Key = tuple[str, str, str]
#: What our Rust worker does without any daemon.
WITHOUT_DAEMON = ("limits", "log")
#: The fields of an answer that are its samples.
SAMPLES = ("samples", "batch", "per_s")


@dataclass
class Results:
    """What was measured, by case, entry and pinning."""

    rounds: dict[Key, list[Samples]] = field(default_factory=dict)
    missing: dict[Key, str] = field(default_factory=dict)
    #: The entries that our own code failed to measure, with the reasons: faults, not facts.
    failed: list[str] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    #: The notes of workers beside their samples, round by round.
    notes: dict[Key, list[dict[str, Any]]] = field(default_factory=dict)

    def samples(self, case: str, label: str, pinning: str = FREE.name) -> list[Samples]:
        """The rounds of one entry; :class:`MissingError` when there are none."""
        key = (case, label, pinning)
        if not self.rounds.get(key):
            raise MissingError(f"{label}: {self.missing.get(key, f'{case} was not measured')}")
        return self.rounds[key]

    def spread(self, case: str, label: str, pinning: str = FREE.name) -> Spread:
        """The condensed rounds of one entry."""
        return spread(self.samples(case, label, pinning))

    def median(self, case: str, label: str, pinning: str = FREE.name) -> float:
        """The median of one entry."""
        return self.spread(case, label, pinning).median

    def ratio(self, case: str, top: str, bottom: str, pinning: str = FREE.name) -> float:
        """One entry over another, round by round."""
        return paired_ratio(self.samples(case, top, pinning), self.samples(case, bottom, pinning))


class Context:
    """The living sides of a run."""

    def __init__(self, sides: tuple[Side, ...], scratch: Path, quick: bool) -> None:
        self.sides = {side.name: side for side in sides}
        self.scratch = scratch
        self.quick = quick
        self.pinning = FREE
        self.versions: dict[str, str] = {}
        self.notes: dict[Key, list[dict[str, Any]]] = {}
        #: The entry whose turn it is.
        self.turn: Key = ("", "", "")
        self._workers: dict[str, Worker] = {}
        self._addresses: dict[str, str] = {}
        self._peers: dict[str, Worker] = {}
        self._commands: dict[str, list[str]] = {}
        self._starts: dict[str, int] = {}
        self._lost: dict[str, str] = {}
        self._reasons: dict[str, str] = {}
        self._source: int | None = None
        self._machines: Machines | None = None
        self.folders = Folders(scratch)

    def scale(self, full: int, quick: int) -> int:
        """A count that depends on how much time there is."""
        return quick if self.quick else full

    def source(self) -> str:
        """A file of `SOURCE_BYTES` bytes that workers map to copy from: one memory for all."""
        if self._source is None:
            self._source = os.memfd_create("bench-source")
            block = os.urandom(1 << 20)
            for _ in range(SOURCE_BYTES // len(block)):
                os.write(self._source, block)
        return f"/proc/{os.getpid()}/fd/{self._source}"

    def machines(self) -> dict[str, Any]:
        """Machines that sides share, as workers are told of them."""
        if self._machines is None:
            self._machines = Machines(MACHINES)
        return self._machines.told()

    def worker(self, name: str) -> Worker:
        """The first client of a side, started when it is not running."""
        if name in self._workers:
            return self._workers[name]
        if name in self._lost:
            raise MissingError(self._lost[name])
        if self._starts.get(name, 0) >= STARTS_MAX:
            raise MissingError(f"failed {STARTS_MAX} times, lastly: {self._reasons.get(name)}")
        self._starts[name] = self._starts.get(name, 0) + 1
        self._freeze_all()
        worker, answer = self._launch(name)
        self._workers[name] = worker
        self._addresses[name] = answer["address"]
        return worker

    def note(self, told: Mapping[str, Any]) -> None:
        """Keeps a worker's note beside its samples."""
        kept = {name: value for name, value in told.items() if name not in SAMPLES}
        if kept:
            self.notes.setdefault(self.turn, []).append(kept)

    def peer(self, name: str) -> Worker:
        """A second client of a side, connected to the store that the first one started."""
        self.worker(name)
        if name not in self._peers:
            self._workers[name].thaw()
            peer = Worker(self.command(name), self._directory(name))
            try:
                peer.call({"op": "connect", "address": self._addresses[name]})
            except BaseException:
                peer.end()
                raise
            self._peers[name] = peer
        return self._peers[name]

    @contextmanager
    def fresh(
        self, name: str, settings: Mapping[str, Any] | None = None
    ) -> Iterator[tuple[Worker, dict[str, Any]]]:
        """A store of its own for one measurement, with the answer to its start."""
        self._freeze_all()
        worker, answer = self._launch(name, settings)
        try:
            worker.pin(self.pinning.server_cpu, self.pinning.client_cpu)
            yield worker, answer
        finally:
            worker.end()

    @contextmanager
    def awake(self, name: str) -> Iterator[Worker]:
        """Lets a side run, alone."""
        worker = self.worker(name)
        peer = self._peers.get(name)
        woken = worker.thaw()
        if peer is not None:
            peer.thaw()
        if woken and self.sides[name].settle_ms:
            time.sleep(self.sides[name].settle_ms / 1000)
        try:
            yield worker
        finally:
            if self.sides[name].rests:
                worker.freeze()
                if peer is not None:
                    peer.freeze()

    def pin(self, name: str) -> None:
        """Moves a side to where the current pinning has it."""
        self.worker(name).pin(self.pinning.server_cpu, self.pinning.client_cpu)
        if name in self._peers:
            self._peers[name].pin(None, self.pinning.peer_cpu)

    def lose(self, name: str, reason: str = "") -> None:
        """Ends a side that failed; the next case starts it again."""
        self._reasons[name] = reason
        for living in (self._peers.pop(name, None), self._workers.pop(name, None)):
            if living is not None:
                living.end()

    def end_others(self, needed: set[str]) -> None:
        """Ends the sides that no later case needs, whose memory others may need."""
        for name in set(self._workers) - needed:
            self.lose(name)

    def end(self) -> None:
        """Ends every side."""
        for name in list(self._workers):
            self.lose(name)
        if self._source is not None:
            os.close(self._source)
        if self._machines is not None:
            self._machines.close()
        self.folders.close()

    def command(self, name: str) -> list[str]:
        """How a side's worker is run; makes what it needs."""
        if name not in self._commands:
            side = self.sides[name]
            try:
                program = _program(side.environment)
            except MissingError as missing:
                self._lost[name] = str(missing)
                raise
            self._commands[name] = [str(program), *side.arguments]
        return self._commands[name]

    def _directory(self, name: str) -> Path:
        return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self.scratch))

    def _launch(
        self, name: str, settings: Mapping[str, Any] | None = None
    ) -> tuple[Worker, dict[str, Any]]:
        command = self.command(name)
        given = filled(self, {**self.sides[name].start, **(settings or {})})
        directory = self._directory(name)
        # Our package brings its own daemon; our Rust worker takes the one built beside it.
        side = self.sides[name]
        native = side.environment == "native" and side.arguments[0] not in WITHOUT_DAEMON
        binaries = {"PLASMON_DAEMON": str(environments.our_daemon())} if native else {}
        worker = Worker(command, directory, binaries)
        request = {"op": "start", "directory": str(directory), "capacity_bytes": CAPACITY_BYTES}
        try:
            answer = worker.call({**request, **given})
        except BaseException:
            worker.end()
            raise
        self.versions.update(answer.get("versions", {}))
        return worker, answer

    def _freeze_all(self) -> None:
        for living in (self._workers, self._peers):
            for name, worker in living.items():
                if self.sides[name].rests:
                    worker.freeze()


def _program(environment: str) -> Path:
    if environment == "native":
        return environments.our_worker()
    if environment == "ours":
        return environments.our_package()
    if environment.startswith(environments.WITH_OURS):
        return environments.with_ours(environment.removeprefix(environments.WITH_OURS))
    return environments.rival(environment)


def ask(context: Context, entry: Entry) -> Samples:
    """The usual measurement: the worker is sent the request and answers with samples."""
    with context.awake(entry.side) as worker:
        answer = worker.call(filled(context, entry.request))
    context.note(answer)
    return _samples(answer)


def ask_fresh(context: Context, entry: Entry) -> Samples:
    """Like :func:`ask`, of a store that was started for this one request."""
    with context.fresh(entry.side) as (worker, _):
        answer = worker.call(filled(context, entry.request))
    context.note(answer)
    return _samples(answer)


def _samples(answer: Mapping[str, Any]) -> Samples:
    if "per_s" in answer:
        return [float(answer["per_s"])]
    return [float(sample) for sample in answer["samples"]]


def filled(context: Context, request: Mapping[str, Any]) -> dict[str, Any]:
    """A request with the facts of the run."""
    server_cpu = context.pinning.server_cpu
    known: dict[str, Callable[[], Any]] = {
        "$source": context.source,
        "$server_cpu": lambda: -1 if server_cpu is None else server_cpu,
        "$threads": lambda: os.cpu_count() or 1,
        "$machines": context.machines,
        "$disk": context.folders.on_disk,
        "$memory": context.folders.in_memory,
    }
    return {
        key: known[value]() if isinstance(value, str) and value in known else value
        for key, value in request.items()
    }


def run(
    suite: Suite,
    context: Context,
    chosen: Callable[[str], bool],
    results: Results | None = None,
    measured: Callable[[str], None] = lambda _: None,
) -> Results:
    """Measures every chosen case, beside what is in `results`; `measured` is told of each."""
    results = results or Results()
    context.versions = results.versions
    context.notes = results.notes
    cases = [case for case in suite.cases if chosen(case.name)]
    for number, case in enumerate(cases):
        for pinning in case.pinnings:
            print(f"bench: {case.name}, {pinning.name}", file=sys.stderr, flush=True)
            context.pinning = pinning
            _case(case, context, results)
        context.end_others({entry.side for later in cases[number + 1 :] for entry in later.entries})
        measured(case.name)
    return results


def _case(case: Case, context: Context, results: Results) -> None:
    pinning = context.pinning
    cpus = [pinning.server_cpu, pinning.client_cpu, pinning.peer_cpu]
    if any(cpu is not None and cpu >= (os.cpu_count() or 1) for cpu in cpus):
        for entry in case.entries:
            results.missing[case.name, entry.label, pinning.name] = "this machine has one processor"
        return
    rounds = case.quick_rounds if context.quick else case.rounds
    for number in range(rounds):
        entries = case.entries if number % 2 == 0 else tuple(reversed(case.entries))
        for entry in entries:
            key = (case.name, entry.label, pinning.name)
            if key in results.missing or (entry.rounds is not None and number >= entry.rounds):
                continue
            reason = _turn(entry, context, results, key)
            if reason is not None:
                print(f"bench: {entry.label} is missing: {reason}", file=sys.stderr, flush=True)
                results.missing[key] = reason


def _turn(entry: Entry, context: Context, results: Results, key: Key) -> str | None:
    """One side's turn; the reason when it cannot take it."""
    measure = entry.measure or ask
    context.turn = key
    try:
        if entry.measure is None:
            context.pin(entry.side)
        samples = measure(context, entry)
    except UnsupportedError as unsupported:
        return str(unsupported)
    except MissingError as missing:
        context.lose(entry.side, str(missing))
        if context.sides[entry.side].is_ours:
            case, label, pinning = key
            results.failed.append(f"{case}, {pinning}, {label}: {missing}")
        return str(missing)
    results.rounds.setdefault(key, []).append(samples)
    return None
