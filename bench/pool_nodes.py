"""Measurements of the processes of a pool: what moves between nodes, and what memory they take."""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket

from bench.case import Entry, Samples
from bench.environments import MissingError
from bench.machines import machines
from bench.run import Context
from bench.worker import Worker, memory_kib, read_bytes

PROGRAM = b"plasmon-poold"
#: Nodes of a pool.
NODES = 3
#: The node that fetches; the first one puts.
FETCHING = "node2"
#: From Linux: a descriptor of another process, and where `struct tcp_info` has its bytes.
_PIDFD_GETFD = 438
_BYTES_RECEIVED = slice(128, 136)
_TCP_INFO_BYTES = 192


def start_ms(context: Context, entry: Entry) -> Samples:
    """From the start of the first node until every node takes copies and leads records."""
    with context.fresh(entry.side) as (_, answer):
        return [float(answer["start_ns"]) / 1e6]


def idle_mb(context: Context, entry: Entry) -> Samples:
    """The memory of each pool daemon of a pool that has just started and has no objects."""
    with context.fresh(entry.side) as (worker, _):
        return [memory_kib([pid])["Pss"] * 1024 / 1e6 for pid in pool_daemons(worker)]


def failover_ms(context: Context, entry: Entry) -> Samples:
    """What a new pool answers that loses a node."""
    with context.fresh(entry.side) as (worker, _):
        answer = worker.call(dict(entry.request))
    return [float(sample) for sample in answer["samples"]]


def cut_off_ms(context: Context, entry: Entry) -> Samples:
    """What a new pool of machines of its own answers that loses the network of a node."""
    with (
        machines(NODES) as own,
        context.fresh(entry.side, {"machines": own}) as (worker, _),
    ):
        answer = worker.call(dict(entry.request))
    return [float(sample) for sample in answer["samples"]]


def moved_share(context: Context, entry: Entry) -> Samples:
    """The bytes that came to a node whose processes got one object at once, over its bytes."""
    context.pin(entry.side)
    with context.awake(entry.side) as worker:
        (pid,) = pool_daemons(worker, FETCHING)
        before = received_bytes(pid)
        context.note({"get_ns": worker.call(dict(entry.request))["samples"]})
        moved = received_bytes(pid) - before
    return [moved / entry.request["object_bytes"]]


def pool_daemons(worker: Worker, node: str = "") -> list[int]:
    """The pool daemons that came from a worker: that of one node, or all."""
    found = [
        pid for pid in worker.marked() if is_pool_daemon(read_bytes(f"/proc/{pid}/cmdline"), node)
    ]
    if not found:
        raise MissingError("has no pool daemon")
    return found


def is_pool_daemon(line: bytes, node: str = "") -> bool:
    """Whether a command line is that of a pool daemon whose store lies in the folder of a node."""
    program, *arguments = line.split(b"\0")
    wanted = f"/{node}/".encode() if node else b""
    return program.endswith(PROGRAM) and any(wanted in argument for argument in arguments)


def received_bytes(pid: int) -> int:
    """What came to a process over the TCP connections that it has open."""
    handle = os.pidfd_open(pid)
    try:
        return sum(_received(handle, number) for number in _sockets(pid))
    finally:
        os.close(handle)


def _sockets(pid: int) -> list[int]:
    folder = f"/proc/{pid}/fd"
    return [int(name) for name in os.listdir(folder) if _is_socket(f"{folder}/{name}")]


def _is_socket(descriptor: str) -> bool:
    """Whether a descriptor is one; what is closed meanwhile is none."""
    with contextlib.suppress(FileNotFoundError):
        return os.readlink(descriptor).startswith("socket:")
    return False


def _received(handle: int, number: int) -> int:
    """What one descriptor of another process received; 0 if it is no TCP connection."""
    descriptor = ctypes.CDLL(None, use_errno=True).syscall(_PIDFD_GETFD, handle, number, 0)
    if descriptor < 0:
        raise MissingError(f"its sockets cannot be read: {os.strerror(ctypes.get_errno())}")
    with socket.socket(fileno=descriptor) as taken:
        is_tcp = taken.family in (socket.AF_INET, socket.AF_INET6)
        if not is_tcp or taken.type != socket.SOCK_STREAM:
            return 0
        told = taken.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
    return int.from_bytes(told[_BYTES_RECEIVED], "little")
