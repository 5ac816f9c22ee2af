"""A pool of machines on this one: a node on each of some network namespaces, and etcd.

::

    this machine ── bridge ─┬─ veth ─ machine 0: node1
    etcd, node4             ├─ veth ─ machine 1: node2
    (of weight 0)           └─ veth ─ machine 2: node3

The last node is for programs of the harness itself, such as the driver of an application: it keeps
no copies. A node is killed with everything that was started on its machine.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import plasmon
from bench.environments import MissingError
from bench.machines import Machines
from scripts.demo_pool.network import free_port
from scripts.demo_pool.node import Node, Programs
from scripts.demo_pool.processes import DemoError, Etcd, undisturbed, until

#: The port of a node on a machine of its own.
_PORT = 7410
_JOINED_WITHIN_S = 60.0
_RESTARTED_WITHIN_S = 30.0
_PROBE = "@probe:joined"
CAPACITY_BYTES = 512 << 20


class _Network:
    """What `scripts.demo_pool.node` wants to know of the machines; the last one is this machine."""

    kind = "network namespaces"

    def __init__(self, machines: Machines, count: int) -> None:
        self.machines, self.host, self._count = machines, machines.host, count
        self._port = free_port(self.host)

    def address(self, at: int) -> str:
        if at < self._count:
            return f"{self.machines.address(at)}:{_PORT}"
        return f"{self.host}:{self._port}"

    def inside(self, at: int) -> list[str]:
        return self.machines.inside(at) if at < self._count else []

    def received_bytes(self, at: int) -> int | None:
        return self.machines.received_bytes(at) if at < self._count else None

    def cut(self, at: int) -> None:
        if at < self._count:
            self.machines.unplug(at)

    def close(self) -> None:
        self.machines.close()


class PoolMachines:
    """The machines, and their pool, while the value is entered."""

    def __init__(
        self,
        folder: Path,
        daemon: Path,
        count: int = 3,
        capacity_bytes: int = CAPACITY_BYTES,
        *,
        spills: bool = False,
    ) -> None:
        """The folder's path is short, because sockets have short paths.

        Nodes that spill have a tier of files; the others refuse what has no room.
        """
        self._folder, self._programs = folder, Programs(str(daemon))
        self._capacity_bytes, self._count, self._spills = capacity_bytes, count, spills
        self._ends = ExitStack()
        self.nodes: list[Node] = []
        self.machines: Machines

    def __enter__(self) -> PoolMachines:
        daemon = Path(self._programs.daemon)
        for program in (daemon, daemon.with_name("plasmon-poold")):
            if not program.exists():
                raise MissingError(f"{program} is not built")
        try:
            self._start()
        except BaseException:
            self._ends.close()
            raise
        return self

    def __exit__(self, *raised: object) -> None:
        with undisturbed():
            self._ends.close()

    def _start(self) -> None:
        self.machines = Machines(self._count)
        network = _Network(self.machines, self._count)
        self._ends.callback(network.close)
        self._etcd = Etcd(network.host, self._folder)
        self._ends.callback(self._etcd.close)
        self._etcd.wait_until_ready()
        for at in range(self._count + 1):
            node = Node(network, at, self._folder)
            self._ends.callback(node.close)
            self.nodes.append(node)
            more = {} if at < self._count else {"pool_weight": "0"}
            if self._spills:
                more["spill_dir"] = str(self._folder / f"spilled-{at}")
            node.start(self._programs, self._etcd.endpoint, self._capacity_bytes, **more)

    @property
    def count(self) -> int:
        """How many machines there are beside this one."""
        return self._count

    @property
    def own(self) -> Node:
        """The node of this machine."""
        return self.nodes[-1]

    @property
    def host(self) -> str:
        """The address of this machine."""
        return self.machines.host

    def address(self, at: int) -> str:
        """The address of a machine."""
        return self.machines.address(at)

    def wait_until_joined(self) -> None:
        """Returns once the nodes that are up reach each other, and objects have copies on all."""
        live = [node for node in self.nodes if node.is_up]
        why = ""

        def has_joined() -> bool:
            nonlocal why
            try:
                seen = [node.connect().pool.status() for node in live]
                why = "; ".join(str(status) for status in seen)
                if any(one.nodes_live != len(live) or one.unreached for one in seen):
                    return False
                with self.own.connect() as store:
                    copies = sum(node is not self.own for node in live)
                    store.put(b"", name=_PROBE, copies=copies, copies_min=copies)
                    store.delete(_PROBE)
            except plasmon.PlasmonError as error:
                why = str(error)
                return False
            return True

        try:
            until("all nodes take part in the pool", _JOINED_WITHIN_S, has_joined)
        except DemoError as error:
            logs = "".join(node.log_end() for node in self.nodes)
            raise DemoError(f"{error}: {why}{logs}") from error

    def kill(self, at: int, *, silently: bool = True) -> None:
        """Ends a machine as a loss of power does: nothing goes out any more, then all ends.

        If not silently, the kernel of the machine still closes all connections.
        """
        if not silently:
            self.nodes[at].end_processes()
        self.nodes[at].die()

    def kill_program(self, at: int, program: str) -> None:
        """`kill -9` for a program of a node, and waits until another one has taken its place."""
        node = self.nodes[at]
        before = node.processes(program)
        if not before:
            raise DemoError(f"{node.name} has no {program}{node.log_end()}")
        for pid in before:
            os.kill(pid, signal.SIGKILL)

        def is_replaced() -> bool:
            after = node.processes(program)
            return bool(after) and not set(after) & set(before)

        until(f"another {program} starts on {node.name}", _RESTARTED_WITHIN_S, is_replaced)

    def namespaces(self, prefix: str) -> Counter[str]:
        """How many objects the stores of all nodes that are up have, by their namespaces.

        Of those whose namespace begins with the prefix. A copy on a node counts as one.
        """
        found: Counter[str] = Counter()
        for node in self.nodes:
            if node.is_up:
                with node.connect() as store:
                    found.update(info.namespace for info in store.list())
        return Counter({name: n for name, n in found.items() if name.startswith(prefix)})
