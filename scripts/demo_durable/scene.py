"""What is done: puts, deletes while a node is away, and a loss of power of all machines.

Power is lost as far as processes can lose it: all of a node are killed at the same time, with the
keeper, so nothing of its memory is left. What a disk loses beyond that is tested with virtual
machines (``make test-power``).
"""

from __future__ import annotations

import hashlib
import random
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import plasmon
from scripts.demo_pool.network import make
from scripts.demo_pool.node import Node, Programs
from scripts.demo_pool.processes import Etcd, undisturbed, until

NODES = 3
_CAPACITY_BYTES = 256 << 20
_JOINED_WITHIN_S = 60.0
_BACK_WITHIN_S = 120.0
_GET_WITHIN_S = 30.0


@dataclass(frozen=True)
class Plan:
    """What is to be done."""

    objects: int
    nbytes: int
    copies: int
    network: str


@dataclass
class Account:
    """What happened."""

    plan: Plan
    put_s: float = 0.0
    back_s: float = 0.0
    #: The checksum of each object that is to be there, by its name.
    wanted: dict[str, str] = field(default_factory=dict)
    deleted: list[str] = field(default_factory=list)
    #: Objects that were missing or different afterwards, with the node that was asked.
    wrong: list[str] = field(default_factory=list)
    #: Deleted objects that were there afterwards.
    risen: list[str] = field(default_factory=list)
    #: Objects that their store does not call durable.
    volatile: list[str] = field(default_factory=list)


class Scene:
    """The nodes, and what is done with them. Closed, nothing of it is left."""

    def __init__(self, plan: Plan, folder: Path, say: Callable[[str], None]) -> None:
        self._plan, self._folder, self._say = plan, folder, say
        self._ends = ExitStack()
        self._nodes: list[Node] = []
        self._programs = Programs.find()
        self.account = Account(plan)

    def __enter__(self) -> Scene:
        return self

    def __exit__(self, *raised: object) -> None:
        with undisturbed():
            self._ends.close()

    def play(self) -> Account:
        """Everything, in its order."""
        self._begin()
        self._put()
        self._delete_while_one_is_away()
        self._switch_off_and_on()
        self._look()
        return self.account

    def _begin(self) -> None:
        network = make(self._plan.network, NODES)
        self._ends.callback(network.close)
        self._say(f"starting etcd and {NODES} nodes with logs ({network.kind})")
        self._etcd = Etcd(network.host, self._folder)
        self._ends.callback(self._etcd.close)
        self._etcd.wait_until_ready()
        for at in range(NODES):
            node = Node(network, at, self._folder)
            self._ends.callback(node.close)
            self._nodes.append(node)
            self._start(node)
        self._wait_for_all("probe-begin")

    def _start(self, node: Node) -> None:
        log = self._folder / node.name / "log"
        node.start(self._programs, self._etcd.endpoint, _CAPACITY_BYTES, durable_dir=str(log))

    def _wait_for_all(self, probe: str) -> None:
        """Waits until an object can have a copy on every node."""
        attempts = iter(range(1_000_000))

        def has_joined() -> bool:
            name = f"@demo:{probe}-{next(attempts)}"
            try:
                with self._nodes[0].connect() as store:
                    store.put(b"probe", name=name, copies=NODES, copies_min=NODES, durable=True)
            except (plasmon.NotEnoughNodes, plasmon.Unreachable):
                return False
            return True

        until("all nodes take part in the pool", _JOINED_WITHIN_S, has_joined)

    def _put(self) -> None:
        plan = self._plan
        self._say(f"putting {plan.objects} durable objects with {plan.copies} copies each")
        begin = time.monotonic()
        for number in range(plan.objects):
            name = f"@demo:object-{number}"
            value = random.randbytes(random.randint(1, 2 * plan.nbytes))
            with self._nodes[number % NODES].connect() as store:
                store.put(value, name=name, copies=plan.copies, durable=True)
            self.account.wanted[name] = hashlib.sha256(value).hexdigest()
        self.account.put_s = time.monotonic() - begin

    def _delete_while_one_is_away(self) -> None:
        away = self._nodes[-1]
        self._say(f"{away.name} loses its power, and some of the objects are deleted")
        away.end_processes()
        names = random.sample(sorted(self.account.wanted), max(1, self._plan.objects // 4))
        for name in names:

            def is_deleted(name: str = name) -> bool:
                try:
                    with self._nodes[0].connect() as store:
                        store.delete(name)
                except plasmon.Unreachable:
                    return False
                return True

            # The pool has to see first that the node is away.
            until(f"{name} is deleted", _GET_WITHIN_S, is_deleted)
            del self.account.wanted[name]
            self.account.deleted.append(name)

    def _switch_off_and_on(self) -> None:
        self._say("all nodes and etcd are switched off, and on again")
        for node in self._nodes:
            node.end_processes()
        self._etcd.restart()
        begin = time.monotonic()
        for node in self._nodes:
            self._start(node)
        self._wait_for_all("probe-end")
        probe = next(iter(self.account.wanted))

        def is_back() -> bool:
            try:
                with self._nodes[0].connect() as store:
                    store.get_buffer(probe, timeout=1.0)
            except plasmon.PlasmonError:
                return False
            return True

        until("the objects are back", _BACK_WITHIN_S, is_back)
        self.account.back_s = time.monotonic() - begin

    def _look(self) -> None:
        self._say("every object is read on every node")
        for node in self._nodes:
            with node.connect() as store:
                for name, digest in self.account.wanted.items():
                    self._look_at(node, store, name, digest)
                for name in self.account.deleted:
                    if store.contains(name):
                        self.account.risen.append(f"{name} on {node.name}")

    def _look_at(self, node: Node, store: plasmon.Store, name: str, digest: str) -> None:
        try:
            value = store.get(name, timeout=_GET_WITHIN_S)
            is_durable = store.stat(name).durable
        except plasmon.PlasmonError as error:
            self.account.wrong.append(f"{name} on {node.name}: {error}")
            return
        if hashlib.sha256(value).hexdigest() != digest:
            self.account.wrong.append(f"{name} on {node.name}: it has other bytes")
        if not is_durable:
            self.account.volatile.append(f"{name} on {node.name}")
