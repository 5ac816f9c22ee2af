"""Stops a program between two of its steps, or lets its disk be full from a step on.

The program is a child of this process. Each of its system calls that changes a file waits until
this process answers it (seccomp's notification): it goes on, fails, or the child is killed first.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import os
import platform
import select
import signal
import socket
import stat
import struct
from collections.abc import Callable
from dataclasses import dataclass

#: What is done to the program. "torn" is a kill in the middle of a write.
KINDS = ("kill", "torn", "full")
#: How long a program may take between two of its steps.
STEP_TIMEOUT_MS = 60_000

#: The system calls that are steps, by machine.
_CALLS = {
    "x86_64": {
        "write": 1, "pwrite64": 18, "writev": 20, "pwritev": 296, "pwritev2": 328,
        "ftruncate": 77, "truncate": 76, "fallocate": 285, "open": 2, "creat": 85, "openat": 257,
        "mkdir": 83, "mkdirat": 258, "rename": 82, "renameat": 264, "renameat2": 316,
        "unlink": 87, "unlinkat": 263, "rmdir": 84, "link": 86, "linkat": 265,
        "symlink": 88, "symlinkat": 266, "sendfile": 40, "copy_file_range": 326,
    },
    "aarch64": {
        "write": 64, "pwrite64": 68, "writev": 66, "pwritev": 70, "pwritev2": 287,
        "ftruncate": 46, "truncate": 45, "fallocate": 47, "openat": 56, "mkdirat": 34,
        "renameat": 38, "renameat2": 276, "unlinkat": 35, "linkat": 37, "symlinkat": 36,
        "sendfile": 71, "copy_file_range": 285,
    },
}  # fmt: skip
#: Those that need room for a name.
_NAMING = {"mkdir", "mkdirat", "link", "linkat", "symlink", "symlinkat", "creat"}
#: Where a call has its flags for opening.
_FLAGS_AT = {"open": 1, "openat": 2}
_OPENS_ANEW = os.O_CREAT | os.O_TRUNC

_SECCOMP = {"x86_64": 317, "aarch64": 277}
_PIDFD_GETFD = 438
_SET_MODE_FILTER, _NEW_LISTENER = 1, 1 << 3
_ALLOW, _NOTIFY = 0x7FFF0000, 0x7FC00000
_NO_NEW_PRIVILEGES = 38
_RECEIVE, _SEND, _CONTINUE = 0xC0502100, 0xC0182101, 1
_NOTIFICATION = struct.Struct("=QIIiIQ6Q")
_ANSWER = struct.Struct("=QqiI")


@dataclass(frozen=True)
class Outcome:
    """How a program ended, and after how many steps."""

    #: "done", "killed", or the error that the program got.
    how: str
    steps: int
    #: Whether the fault came: a program may have ended before that.
    hit: bool


class Unavailable(Exception):
    """Programs cannot be stopped at their steps here."""


def run(work: Callable[[], None], kind: str, at: int, *, orderly: bool) -> Outcome:
    """Runs something in a child, with a fault at one of its steps.

    A child that ends in an orderly way runs what libraries have registered for the end.
    """
    if platform.machine() not in _CALLS:
        raise Unavailable(f"the system calls of {platform.machine()} are not known")
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        ours.close()
        _be_watched(work, theirs, orderly=orderly)
    theirs.close()
    try:
        return _Watch(child, kind, at).follow(ours)
    finally:
        ours.close()


def _be_watched(work: Callable[[], None], link: socket.socket, *, orderly: bool) -> None:
    """The child: its system calls are watched from here on."""
    told = {"how": "done"}
    try:
        _send_listener(link)
        work()
    except BaseException as error:
        told = {"how": f"{type(error).__name__}: {error}"}
    link.send(json.dumps(told).encode())
    if orderly:
        ctypes.CDLL(None).exit(0)
    os._exit(0)


def _send_listener(link: socket.socket) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    calls = _CALLS[platform.machine()]
    # Loads the call's number, jumps to the notification if it is one of these, and allows others.
    program = struct.pack("=HBBI", 0x20, 0, 0, 0)
    for index, number in enumerate(calls.values()):
        program += struct.pack("=HBBI", 0x15, len(calls) - index, 0, number)
    program += struct.pack("=HBBI", 0x06, 0, 0, _ALLOW)
    program += struct.pack("=HBBI", 0x06, 0, 0, _NOTIFY)
    buffer = ctypes.create_string_buffer(program)
    filter_of = struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(buffer))
    pointer = ctypes.create_string_buffer(filter_of)
    if libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) != 0:
        raise Unavailable("the kernel refuses prctl")
    number = _SECCOMP[platform.machine()]
    listener = libc.syscall(number, _SET_MODE_FILTER, _NEW_LISTENER, pointer)
    if listener < 0:
        raise Unavailable(f"the kernel refuses seccomp: {os.strerror(ctypes.get_errno())}")
    socket.send_fds(link, [b"listener"], [listener])
    os.close(listener)


class _Watch:
    """Answers the system calls of a child."""

    def __init__(self, child: int, kind: str, at: int) -> None:
        self._child, self._kind, self._at = child, kind, at
        self._names = {number: name for name, number in _CALLS[platform.machine()].items()}
        self._steps = 0
        self._hit = False

    def follow(self, link: socket.socket) -> Outcome:
        """Until the child ends."""
        message, listeners, _, _ = socket.recv_fds(link, 4096, 1)
        if not listeners:
            os.waitpid(self._child, 0)
            raise Unavailable(json.loads(message)["how"])
        (listener,) = listeners
        try:
            while self._wait(listener):
                self._answer(listener)
        finally:
            os.close(listener)
            os.waitpid(self._child, 0)
        told = link.recv(65536)
        how = json.loads(told)["how"] if told else "killed"
        return Outcome(how, self._steps, self._hit)

    def _wait(self, listener: int) -> bool:
        poll = select.poll()
        poll.register(listener, select.POLLIN)
        events = poll.poll(STEP_TIMEOUT_MS)
        if not events:
            os.kill(self._child, signal.SIGKILL)
            raise AssertionError(f"the program hangs after {self._steps} steps")
        return bool(events[0][1] & select.POLLIN)

    def _answer(self, listener: int) -> None:
        notification = bytearray(_NOTIFICATION.size)
        try:
            fcntl.ioctl(listener, _RECEIVE, notification)
        except FileNotFoundError:
            return
        number, _pid, _flags, call, _arch, _at, *arguments = _NOTIFICATION.unpack(notification)
        error, value = self._decide(self._names[call], arguments)
        flags = 0 if error or value is not None else _CONTINUE
        answer = bytearray(_ANSWER.pack(number, value or 0, -error, flags))
        try:
            fcntl.ioctl(listener, _SEND, answer)
        except FileNotFoundError:
            # It was killed.
            return

    def _decide(self, call: str, arguments: list[int]) -> tuple[int, int | None]:
        """What a call is answered: an error, a value of our own, or neither."""
        flags_at = _FLAGS_AT.get(call)
        if flags_at is not None and not arguments[flags_at] & _OPENS_ANEW:
            return 0, None
        self._steps += 1
        if self._steps < self._at:
            return 0, None
        if self._kind == "full":
            return self._when_full(call, arguments)
        if not self._hit:
            self._hit = True
            if self._kind == "torn" and call in {"write", "pwrite64"}:
                self._write_part(call, arguments)
            os.kill(self._child, signal.SIGKILL)
        return errno.EIO, None

    def _when_full(self, call: str, arguments: list[int]) -> tuple[int, int | None]:
        if call in {"write", "pwrite64"}:
            if not self._needs_room(call, arguments):
                return 0, None
            first, self._hit = not self._hit, True
            # The first one finds a little room.
            part = self._write_part(call, arguments) if first else 0
            return (0, part) if part else (errno.ENOSPC, None)
        opens = call in _FLAGS_AT and not self._exists(call, arguments)
        if opens or call in _NAMING or call in {"fallocate", "sendfile", "copy_file_range"}:
            self._hit = True
            return errno.ENOSPC, None
        return 0, None

    def _exists(self, call: str, arguments: list[int]) -> bool:
        if call == "open":
            folder, at = f"/proc/{self._child}/cwd", arguments[0]
        else:
            number = ctypes.c_int32(arguments[0] & 0xFFFFFFFF).value
            name = "cwd" if number < 0 else f"fd/{number}"
            folder, at = f"/proc/{self._child}/{name}", arguments[1]
        path = self._memory(at, 4096).split(b"\0", 1)[0]
        return os.path.exists(os.path.join(folder.encode(), path))

    def _needs_room(self, call: str, arguments: list[int]) -> bool:
        file = self._shared(arguments[0])
        try:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                return False
            now = os.lseek(file, 0, os.SEEK_CUR)
            start = arguments[3] if call == "pwrite64" else now
            end, size = start + arguments[2], os.fstat(file).st_size
            is_hole = end <= size and start < end and os.lseek(file, start, os.SEEK_HOLE) < end
            needs = end > size or is_hole
            os.lseek(file, now, os.SEEK_SET)
            return needs
        finally:
            os.close(file)

    def _write_part(self, call: str, arguments: list[int]) -> int:
        """Writes the first half of what the child is about to write; how much that is."""
        part, file = arguments[2] // 2, self._shared(arguments[0])
        try:
            if part == 0 or not stat.S_ISREG(os.fstat(file).st_mode):
                return 0
            content = self._memory(arguments[1], part)
            if call == "write":
                return os.write(file, content)
            return os.pwrite(file, content, arguments[3])
        finally:
            os.close(file)

    def _shared(self, file: int) -> int:
        """A file that the child has open, with its position."""
        child = os.pidfd_open(self._child)
        found = ctypes.CDLL(None).syscall(_PIDFD_GETFD, child, file, 0)
        os.close(child)
        if found < 0:
            raise Unavailable("the kernel refuses pidfd_getfd")
        return int(found)

    def _memory(self, at: int, count: int) -> bytes:
        with open(f"/proc/{self._child}/mem", "rb", buffering=0) as memory:
            memory.seek(at)
            return memory.read(count)
