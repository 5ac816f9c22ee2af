"""Stores that tests start, look into and damage, and applications that they talk to."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from submitting import DEADLINE_S, ROOT

#: Changes an object of a store: takes it away, or puts another in its place: with a byte that is
#: wrong ("damage"), or with one record more in partition 0 than it has and a checksum that is right
#: ("miscount"), as docs/formats/spark-shuffle.md has it.
CHANGE = """
import struct, sys, plasmon

def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ 0x82F63B78 * (crc & 1)
    return crc ^ 0xFFFFFFFF

def miscount(run):
    (partitions,) = struct.unpack_from("<I", run, 8)
    at, size, records, checksum = struct.unpack_from("<4I", run, 64)
    payload = 64 + 16 * partitions
    section = run[payload + at : payload + at + size]
    assert records > 0 and crc32c(run[64:76] + section) == checksum
    struct.pack_into("<I", run, 72, records + 1)
    struct.pack_into("<I", run, 76, crc32c(run[64:76] + section))

socket, namespace, prefix, what = sys.argv[1:]
store = plasmon.connect(socket)
(victim,) = [o for o in store.list(namespace=namespace) if o.name.startswith(prefix)][:1]
with store.get_buffer(victim.id) as held:
    damaged = bytearray(held)
store.delete(victim.id)
if what != "remove":
    if what == "miscount":
        miscount(damaged)
    else:
        damaged[-1] ^= 1
    with store.create(len(damaged), name=victim.name, namespace=namespace) as writer:
        memoryview(writer)[:] = damaged
print(victim.name)
"""


def ask(code: str, *arguments: str) -> str:
    """What a program prints that may import the package."""
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def change(socket: str, namespace: str, prefix: str, what: str) -> str:
    """The name of the object that was taken away or put in another's place."""
    return ask(CHANGE, socket, namespace, prefix, what)


def remove_all(socket: str, namespace: str, prefix: str) -> int:
    """Takes all objects with such names away; how many there were."""
    code = (
        "import sys, plasmon; socket, namespace, prefix = sys.argv[1:];"
        "store = plasmon.connect(socket);"
        "found = [o.id for o in store.list(namespace=namespace) if o.name.startswith(prefix)];"
        "[store.delete(id) for id in found]; print(len(found))"
    )
    return int(ask(code, socket, namespace, prefix))


def objects(socket: str | Path) -> int:
    """How many objects a store has."""
    code = "import sys, plasmon; print(len(plasmon.connect(sys.argv[1]).list()))"
    return int(ask(code, str(socket)))


def daemon_pid(socket: str) -> int:
    """The process of a store's daemon."""
    code = "import sys, plasmon; print(plasmon.connect(sys.argv[1]).status().pid)"
    return int(ask(code, socket))


def processes(socket: str) -> list[int]:
    """A store's keeper and its daemon, in this order: a keeper would replace a daemon at once."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (folder / "cmdline").read_text().split("\0")
            ours = any(socket in word for word in words)
            if ours and Path(words[0]).name in ("plasmon-keeper", "plasmond"):
                found.append(("--role=keeper" not in words, int(folder.name)))
    return [pid for _, pid in sorted(found)]


def kill_store(socket: str) -> None:
    """Kills a store's daemon and its keeper; when this returns, both are gone."""
    killed = processes(socket)
    assert len(killed) == 2, f"a daemon and a keeper, found {killed}"
    watched = [os.pidfd_open(pid) for pid in killed]
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    for process in watched:
        assert select.select([process], [], [], 60)[0], "a killed process lives on"
        os.close(process)


def until(socket: str | Path, wanted: int) -> None:
    """Waits until the store has this number of objects."""
    deadline = time.monotonic() + 60
    while (found := objects(socket)) != wanted:
        assert time.monotonic() < deadline, f"{found} objects, wanted {wanted}"
        time.sleep(0.1)


def until_said(log: Path, pattern: str, times: int) -> None:
    """Waits until an application's log has this number of matches."""
    deadline = time.monotonic() + DEADLINE_S
    while len(re.findall(pattern, text := log.read_text())) < times:
        assert time.monotonic() < deadline, text[-4000:]
        time.sleep(0.1)


def until_empty(socket: str | Path) -> None:
    """Waits for the last object to go."""
    deadline = time.monotonic() + 60
    while (left := objects(socket)) > 0:
        assert time.monotonic() < deadline, f"{left} objects stay"


@contextmanager
def store(folder: Path, capacity: str) -> Generator[Path]:
    """A store that no application starts or ends; its socket."""
    socket = folder / "test.sock"
    read, write = os.pipe()
    flags = ["--socket", str(socket), "--capacity-bytes", capacity, "--keeper", "false"]
    program = ROOT / "target" / "release" / "plasmond"
    daemon = subprocess.Popen([program, *flags, "--ready-fd", str(write)], pass_fds=[write])
    try:
        os.close(write)
        assert os.read(read, 200), "the store did not start"
        yield socket
    finally:
        os.close(read)
        daemon.terminate()
        daemon.wait()


def marks(folder: Path, prefix: str) -> list[str]:
    """The files that tasks left."""
    return sorted(file.name for file in folder.glob(f"{prefix}*"))


def until_marked(folder: Path, prefix: str, count: int) -> None:
    """Waits until tasks have left this number of files."""
    deadline = time.monotonic() + DEADLINE_S
    while len(found := marks(folder, prefix)) < count:
        assert time.monotonic() < deadline, found
        time.sleep(0.05)


def line(process: subprocess.Popen[str]) -> dict[str, Any]:
    """The next line of JSON that an application prints."""
    assert process.stdout is not None
    deadline = time.monotonic() + DEADLINE_S
    while True:
        ready, _, _ = select.select([process.stdout], [], [], deadline - time.monotonic())
        assert ready, "the application printed nothing"
        text = process.stdout.readline()
        assert text, "the application ended"
        if text.startswith("{"):
            return json.loads(text)
