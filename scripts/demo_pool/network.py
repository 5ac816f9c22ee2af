"""Where the nodes are: in network namespaces that a bridge joins, or on addresses of one machine.

    demo ── bridge 10.N.M.1 (etcd) ─┬─ veth ─ namespace of node1, 10.N.M.2
                                    ├─ veth ─ namespace of node2, 10.N.M.3
                                    └─ veth ─ namespace of node3, 10.N.M.4

A namespace needs root. It is what a machine is to the others: cutting its link leaves them without
a sign of what happened, and the counters of the link say what went in and out.
"""

from __future__ import annotations

import contextlib
import os
import random
import secrets
import shutil
import socket
import subprocess
from pathlib import Path
from typing import Protocol

#: The port of a node where no other process has that address.
_PORT = 7410
_COMMAND_TIMEOUT_S = 30.0
_SUBNETS = range(200, 250)


class NetworkError(Exception):
    """The network cannot be made here."""


class Network(Protocol):
    """What a node is connected to."""

    #: What it is, for the report.
    kind: str
    #: The address of the machine itself, for etcd.
    host: str

    def address(self, at: int) -> str:
        """The address and port of a node, as ``ADDR:PORT``."""

    def inside(self, at: int) -> list[str]:
        """What a command begins with that runs on a node."""

    def received_bytes(self, at: int) -> int | None:
        """The bytes that came to a node so far; None where they are not counted for each."""

    def cut(self, at: int) -> None:
        """Nothing goes in or out of a node from now on, if that can be done."""

    def close(self) -> None:
        """Removes everything; again and again if need be."""


class Namespaces:
    """Network namespaces."""

    kind = "network namespaces"

    def __init__(self, count: int) -> None:
        if os.geteuid() != 0 or not shutil.which("ip"):
            raise NetworkError("network namespaces need root and the program ip (iproute2)")
        self._tag = f"pd{secrets.token_hex(2)}"
        self._subnet = _free_subnet()
        self.host = f"{self._subnet}.1"
        self._count = count
        try:
            self._make()
        except NetworkError:
            self.close()
            raise

    def _make(self) -> None:
        bridge = self._tag
        _ip("link", "add", bridge, "type", "bridge")
        _ip("addr", "add", f"{self.host}/24", "dev", bridge)
        _ip("link", "set", bridge, "up")
        for at in range(self._count):
            name, link = self._namespace(at), self._link(at)
            _ip("netns", "add", name)
            _ip("link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", name)
            _ip("link", "set", link, "master", bridge, "up")
            _ip("-n", name, "addr", "add", f"{self._ip_of(at)}/24", "dev", "eth0")
            _ip("-n", name, "link", "set", "eth0", "up")
            _ip("-n", name, "link", "set", "lo", "up")

    def _namespace(self, at: int) -> str:
        return f"{self._tag}-node{at + 1}"

    def _link(self, at: int) -> str:
        return f"{self._tag}n{at + 1}"

    def _ip_of(self, at: int) -> str:
        return f"{self._subnet}.{at + 2}"

    def address(self, at: int) -> str:
        return f"{self._ip_of(at)}:{_PORT}"

    def inside(self, at: int) -> list[str]:
        return ["ip", "netns", "exec", self._namespace(at)]

    def received_bytes(self, at: int) -> int | None:
        # What this end of the link sends is what the node receives.
        counter = Path(f"/sys/class/net/{self._link(at)}/statistics/tx_bytes")
        return int(counter.read_text())

    def cut(self, at: int) -> None:
        _ip("link", "set", self._link(at), "down")

    def close(self) -> None:
        for at in range(self._count):
            # The link goes with its namespace, which may have been made without it.
            for words in (("netns", "del", self._namespace(at)), ("link", "del", self._link(at))):
                with contextlib.suppress(NetworkError):
                    _ip(*words)
        with contextlib.suppress(NetworkError):
            _ip("link", "del", self._tag)


class Loopback:
    """Addresses of the loopback device, for users who may not make namespaces."""

    kind = "addresses of the loopback device"
    host = "127.0.0.1"

    def __init__(self, count: int) -> None:
        self._addresses = []
        for at in range(count):
            host = f"127.0.0.{at + 2}"
            self._addresses.append(f"{host}:{free_port(host)}")

    def address(self, at: int) -> str:
        return self._addresses[at]

    def inside(self, at: int) -> list[str]:
        del at
        return []

    def received_bytes(self, at: int) -> int | None:
        del at
        return None

    def cut(self, at: int) -> None:
        """Cannot be done; the killed processes close their connections."""

    def close(self) -> None:
        """There is nothing to remove."""


def make(kind: str, count: int) -> Network:
    """A network of a kind: ``namespaces``, ``loopback``, or with ``auto`` what can be had."""
    if kind == "loopback":
        return Loopback(count)
    try:
        return Namespaces(count)
    except NetworkError:
        if kind == "namespaces":
            raise
        return Loopback(count)


def free_port(host: str) -> int:
    """A port of an address that no program listens on now."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def _free_subnet() -> str:
    """The first three bytes of addresses that this machine does not have."""
    used = _ip("-o", "-4", "addr") + _ip("-4", "route")
    found = [f"10.{second}.{random.randrange(256)}" for second in _SUBNETS]
    free = [subnet for subnet in found if subnet.rsplit(".", 1)[0] + "." not in used]
    if not free:
        raise NetworkError("no subnet of 10.200.0.0 to 10.249.0.0 is free")
    return random.choice(free)


def _ip(*words: str) -> str:
    """Runs the program ip."""
    try:
        done = subprocess.run(
            ["ip", *words], capture_output=True, text=True, timeout=_COMMAND_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NetworkError(f"ip {' '.join(words)}: {error}") from error
    if done.returncode:
        raise NetworkError(f"ip {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout
