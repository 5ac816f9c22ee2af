"""The story: a table is put on one node and read on all of them, a node dies, and nothing is lost.

What is seen on the way is written into an :class:`Account`; whether it is as it should be is
decided in :mod:`checks`.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scripts.demo_pool.network import make
from scripts.demo_pool.node import Copy, Node, Programs
from scripts.demo_pool.processes import DemoError, Etcd, undisturbed, until
from scripts.demo_pool.worker import Worker, WorkerError

NODES = 3
NAME = "@demo:table"
_PROBE = "@demo:probe"
_READABLE = ("sealed", "spilled")
_JOINED_WITHIN_S = 60.0
_REPAIRED_WITHIN_S = 90.0
#: How long readers read before a node dies, and after the copies are repaired.
_READ_S = 1.0
#: A store holds the table, with room for what comes and goes.
_ROOM = 1.5
_ROOM_BYTES = 128 << 20


@dataclass(frozen=True)
class Plan:
    """What is to be done."""

    nbytes: int
    copies: int
    #: Processes that read on each node.
    readers: int
    #: The node that dies, from 0.
    victim: int
    network: str


@dataclass(frozen=True)
class Holding:
    """What a node holds at one moment."""

    up: bool
    copy: Copy | None = None
    #: The memory of stores that all of its processes have together.
    shared_bytes: int = 0
    #: What came through the network since the moment before; None where that is not counted.
    received_bytes: int | None = None


@dataclass(frozen=True)
class Moment:
    """What all nodes hold at one moment."""

    what: str
    nodes: dict[str, Holding]

    def kept(self) -> int:
        """How many nodes keep a copy for the pool."""
        return sum(_is_kept(holding.copy) for holding in self.nodes.values())

    def received_bytes(self) -> int | None:
        """What came to all nodes together."""
        counts = [holding.received_bytes for holding in self.nodes.values()]
        known = [count for count in counts if count is not None]
        return sum(known) if known else None


@dataclass
class Reads:
    """The reads of one process while a node died."""

    reader: str
    before: int
    after: int
    longest_s: float
    wrong: int
    errors: list[str]


@dataclass
class Account:
    """What happened."""

    plan: Plan
    network: str = ""
    rows: int = 0
    columns: int = 0
    table_bytes: int = 0
    object_bytes: int = 0
    joined_s: float = 0.0
    put_s: float = 0.0
    #: Seconds of the first get on each node, of all of its readers at once, and of later ones.
    first_get_s: dict[str, float] = field(default_factory=dict)
    later_get_s: dict[str, float] = field(default_factory=dict)
    #: The checksum of what was put, and those of what was read, by reader.
    digest: str = ""
    digests: dict[str, str] = field(default_factory=dict)
    #: The node that died, and after how many seconds there were enough copies again.
    victim: str = ""
    repaired_s: float | None = None
    reads: list[Reads] = field(default_factory=list)
    moments: list[Moment] = field(default_factory=list)

    def moment(self, what: str) -> Moment:
        """A moment by what had happened."""
        return next(moment for moment in self.moments if moment.what == what)


#: The moments, in their order.
JOINED, PUT, GOT, READ, KILLED, REPAIRED = (
    "all nodes are up",
    "the table is put",
    "every node has got it",
    "all processes have read it",
    "a node is killed",
    "the copies are repaired",
)


class Scene:
    """The nodes, and what is done with them. Closed, nothing of it is left."""

    def __init__(self, plan: Plan, folder: Path, say: Callable[[str], None]) -> None:
        self._plan, self._folder, self._say = plan, folder, say
        self._ends = ExitStack()
        self._nodes: list[Node] = []
        self._received: dict[str, int | None] = {}
        self.account = Account(plan)

    def __enter__(self) -> Scene:
        return self

    def __exit__(self, *raised: object) -> None:
        with undisturbed():
            self._ends.close()

    def play(self) -> Account:
        """Everything, in its order."""
        self._start()
        self._join()
        self._put()
        self._get()
        self._kill_while_they_read()
        self._read_anew()
        return self.account

    def _start(self) -> None:
        programs = Programs.find()
        network = make(self._plan.network, NODES)
        self._ends.callback(network.close)
        self.account.network = network.kind
        self._say(f"starting etcd and {NODES} nodes ({network.kind})")
        etcd = Etcd(network.host, self._folder)
        self._ends.callback(etcd.close)
        etcd.wait_until_ready()
        capacity = int(self._plan.nbytes * _ROOM) + _ROOM_BYTES
        for at in range(NODES):
            node = Node(network, at, self._folder)
            self._ends.callback(node.close)
            node.start(programs, etcd.endpoint, capacity)
            self._nodes.append(node)

    def _join(self) -> None:
        """Waits until an object can have a copy on every node."""
        start = time.monotonic()
        writer = self._nodes[0].add_worker()
        attempts, why = iter(range(1_000_000)), ""

        def has_joined() -> bool:
            nonlocal why
            name = f"{_PROBE}-{next(attempts)}"
            found = writer.ask("probe", name=name, copies=NODES)
            why = found.get("why", "")
            return bool(found["joined"])

        try:
            until("all nodes take part in the pool", _JOINED_WITHIN_S, has_joined)
        except DemoError as error:
            logs = "".join(node.log_end() for node in self._nodes)
            raise DemoError(f"{error}: {why}{logs}") from error
        self.account.joined_s = time.monotonic() - start
        self._note(JOINED)

    def _put(self) -> None:
        self._say(f"making a table of {self._plan.nbytes:,} bytes and putting it on node1")
        seed = random.randrange(1 << 32)
        made = (
            self._nodes[0]
            .workers[0]
            .ask("put", name=NAME, nbytes=self._plan.nbytes, copies=self._plan.copies, seed=seed)
        )
        account = self.account
        account.rows, account.columns = made["rows"], made["columns"]
        account.table_bytes, account.put_s = made["nbytes"], made["put_s"]
        account.digest = made["digest"]
        moment = self._note(PUT)
        copies = [held.copy for held in moment.nodes.values() if held.copy is not None]
        account.object_bytes = max((copy.nbytes for copy in copies), default=0)

    def _get(self) -> None:
        for node in self._nodes:
            self._say(f"{self._plan.readers} processes get it on {node.name}")
            readers = [node.add_worker() for _ in range(self._plan.readers)]
            # At the same time: where the table is not, it is brought once.
            found = _ask_all(readers, "get", name=NAME)
            self.account.first_get_s[node.name] = max(one["get_s"] for one in found)
        self._note(GOT)
        self._say("all of them read every value")
        self._check_values(self._readers())
        for node in self._nodes:
            later = node.workers[-1].ask("get_later", name=NAME)
            self.account.later_get_s[node.name] = later["get_s"]
        self._note(READ)

    def _readers(self) -> list[Worker]:
        """The readers on nodes that are up. The first process of node1 is the one that put."""
        up = [node for node in self._nodes if node.is_up]
        return [worker for node in up for worker in node.workers[1 if node.at == 0 else 0 :]]

    def _check_values(self, readers: list[Worker]) -> None:
        found = _ask_all(readers, "digest")
        names = [reader.name for reader in readers]
        self.account.digests |= {
            name: one["digest"] for name, one in zip(names, found, strict=True)
        }

    def _kill_while_they_read(self) -> None:
        for reader in self._readers():
            reader.tell("read", name=NAME)
        time.sleep(_READ_S)
        victim = self._nodes[self._plan.victim]
        self.account.victim = victim.name
        if not _is_kept(victim.copy_of(NAME)):
            raise DemoError(f"{victim.name} keeps no copy of the table: choose another --kill")
        self._say(f"{victim.name} is killed while {len(self._readers())} processes read")
        killed = time.monotonic()
        victim.die()
        survivors = self._readers()
        self._note(KILLED)
        self._wait_until_repaired(killed)
        time.sleep(_READ_S)
        self.account.reads = [_stop(reader, killed) for reader in survivors]
        self._note(REPAIRED)

    def _wait_until_repaired(self, killed: float) -> None:
        """The account says whether it happened."""
        live = [node for node in self._nodes if node.is_up]

        def is_repaired() -> bool:
            return sum(_is_kept(node.copy_of(NAME)) for node in live) >= self._plan.copies

        try:
            until("the copies are repaired", _REPAIRED_WITHIN_S, is_repaired)
        except DemoError:
            return
        self.account.repaired_s = time.monotonic() - killed

    def _read_anew(self) -> None:
        """A new process on each node that is left finds the same table."""
        self._say("new processes on the nodes that are left read every value")
        new = [node.add_worker() for node in self._nodes if node.is_up]
        _ask_all(new, "get", name=NAME)
        self._check_values(new)

    def _note(self, what: str) -> Moment:
        """Writes down what each node holds."""
        moment = Moment(what, {node.name: self._holding(node) for node in self._nodes})
        self.account.moments.append(moment)
        return moment

    def _holding(self, node: Node) -> Holding:
        if not node.is_up:
            return Holding(up=False)
        received, before = node.received_bytes(), self._received.get(node.name)
        self._received[node.name] = received
        since = received - (before or 0) if received is not None else None
        return Holding(True, node.copy_of(NAME), node.shared_bytes(), since)


def _is_kept(copy: Copy | None) -> bool:
    return copy is not None and copy.kept and copy.state in _READABLE


def _ask_all(workers: list[Worker], command: str, **arguments: Any) -> list[dict[str, Any]]:
    """The answers of all, which work at the same time."""
    for worker in workers:
        worker.tell(command, **arguments)
    return [worker.answer() for worker in workers]


def _stop(reader: Worker, killed: float) -> Reads:
    """Ends the reads of a process."""
    try:
        reader.tell("stop")
        found = reader.answer()
        reader.answer()
    except (WorkerError, BrokenPipeError) as error:
        return Reads(reader.name, 0, 0, 0.0, 0, [str(error)])
    after = sum(ended > killed for ended in found["ended"])
    before = len(found["ended"]) - after
    return Reads(reader.name, before, after, found["longest_s"], found["wrong"], found["errors"])
