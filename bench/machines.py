"""Machines of a measurement: network namespaces, each with an address of its own on one bridge.

::

    harness ── bridge 10.N.M.1 ─┬─ veth ─ machine 0, 10.N.M.2
                                ├─ veth ─ machine 1, 10.N.M.3
                                └─ veth ─ ..

A process of its own removes them, with whatever runs in them, when they are closed and also when
the harness ends in any other way: it waits for the end of a pipe that only the harness has.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.environments import MissingError
from bench.worker import UnsupportedError

#: Removes the bridge `$1` and the namespaces after it.
_JANITOR = """
trap '' HUP INT TERM
read -r _
bridge=$1
shift
for namespace; do
    for _ in $(seq 200); do
        pids=$(ip netns pids "$namespace")
        [ "$pids" ] || break
        kill -9 $pids
        sleep 0.05
    done
    ip netns del "$namespace"
done
ip link del "$bridge"
"""
#: Subnets are 10.200.0.0/24 to 10.249.255.0/24.
_SUBNETS = 50 * 256
_numbers = itertools.count()


class Machines:
    """So many machines, until they are closed."""

    def __init__(self, count: int) -> None:
        reason = _obstacle()
        if reason is not None:
            raise UnsupportedError(f"network namespaces cannot be made: {reason}")
        self.bridge = f"pb{os.getpid()}-{next(_numbers)}"
        self._subnet = _free_subnet()
        self._count = count
        names = [self._name(at) for at in range(count)]
        self._janitor = subprocess.Popen(
            ["sh", "-c", _JANITOR, "sh", self.bridge, *names],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            # Ctrl-C is for the harness alone.
            process_group=0,
        )
        try:
            self._make()
        except BaseException:
            self.close()
            raise

    def told(self) -> dict[str, Any]:
        """What workers are told: the bridge and its address, and of each machine its own.

        A machine's end of the bridge has the name of its namespace.
        """
        nodes = [
            {"namespace": self._name(at), "address": self.address(at)} for at in range(self._count)
        ]
        return {"bridge": self.bridge, "address": self.host, "nodes": nodes}

    @property
    def host(self) -> str:
        """The address of this machine itself on the bridge."""
        return self._address(1)

    def address(self, at: int) -> str:
        """The address of a machine."""
        return self._address(2 + at)

    def inside(self, at: int) -> list[str]:
        """What a command begins with that runs on a machine."""
        return ["ip", "netns", "exec", self._name(at)]

    def received_bytes(self, at: int) -> int:
        """The bytes that came to a machine so far."""
        # What this end of the link sends is what the machine receives.
        return int(Path(f"/sys/class/net/{self._name(at)}/statistics/tx_bytes").read_text())

    def unplug(self, at: int) -> None:
        """Pulls the cable of a machine out: nothing goes in or out any more."""
        _ip("link", "set", self._name(at), "down")

    def plug(self, at: int) -> None:
        """Puts the cable of a machine in again."""
        _ip("link", "set", self._name(at), "up")

    @contextlib.contextmanager
    def blocked(self, at: int, other: str) -> Iterator[None]:
        """What a machine sends to an address vanishes for a while; the other way nothing changes.

        A route that leads nowhere, and not a rule of a firewall: not every kernel has one.
        """
        route = ("blackhole", f"{other}/32")
        _ip("-n", self._name(at), "route", "add", *route)
        try:
            yield
        finally:
            _ip("-n", self._name(at), "route", "del", *route)

    @contextlib.contextmanager
    def slowed(self, at: int, mbit_per_s: int) -> Iterator[None]:
        """Only so much goes through the cable of a machine for a while, in each direction."""
        bucket = f"root tbf rate {mbit_per_s}mbit burst 64kb latency 100ms".split()
        ends = (["dev", self._name(at)], ["dev", "eth0"])
        inside = (["tc"], ["tc", "-n", self._name(at)])
        for program, device in zip(inside, ends, strict=True):
            _run([*program, "qdisc", "add", *device, *bucket])
        try:
            yield
        finally:
            for program, device in zip(inside, ends, strict=True):
                _run([*program, "qdisc", "del", *device, "root"])

    def close(self) -> None:
        """Removes them."""
        assert self._janitor.stdin is not None
        with contextlib.suppress(OSError):
            self._janitor.stdin.close()
        self._janitor.wait()

    def _name(self, at: int) -> str:
        return f"{self.bridge}-{at}"

    def _address(self, host: int) -> str:
        return f"{self._subnet}.{host}"

    def _make(self) -> None:
        _ip("link", "add", self.bridge, "type", "bridge")
        _ip("addr", "add", f"{self.host}/24", "dev", self.bridge)
        _ip("link", "set", self.bridge, "up")
        for at in range(self._count):
            name = self._name(at)
            _ip("netns", "add", name)
            _ip("link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
            _ip("link", "set", name, "master", self.bridge, "up")
            _ip("-n", name, "addr", "add", f"{self.address(at)}/24", "dev", "eth0")
            _ip("-n", name, "link", "set", "eth0", "up")
            _ip("-n", name, "link", "set", "lo", "up")


@contextlib.contextmanager
def machines(count: int) -> Iterator[dict[str, Any]]:
    """So many machines for a while, as workers are told of them."""
    made = Machines(count)
    try:
        yield made.told()
    finally:
        made.close()


def _obstacle() -> str | None:
    """Why namespaces cannot be made, if they cannot."""
    if os.geteuid() != 0:
        return "only root may"
    name = f"pb{os.getpid()}-{next(_numbers)}"
    try:
        _ip("netns", "add", name)
        _ip("netns", "del", name)
    except FileNotFoundError:
        return "ip is not installed: apt-get install iproute2"
    except MissingError as error:
        return str(error)
    return None


def _free_subnet() -> str:
    """The first three numbers of addresses that this machine does not have."""
    used = _ip("-o", "-4", "addr") + _ip("-4", "route")
    for step in range(_SUBNETS):
        number = (os.getpid() * 61 + step) % _SUBNETS
        subnet = f"10.{200 + number // 256}.{number % 256}"
        if f"{subnet}." not in used:
            return subnet
    raise UnsupportedError("no subnet of 10.200.0.0 to 10.249.0.0 is free")


def _ip(*words: str) -> str:
    return _run(["ip", *words])


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise MissingError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout
