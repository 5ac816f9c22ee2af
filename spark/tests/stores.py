"""Stores that tests start, look into and damage, and applications that they talk to."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from submitting import DEADLINE_S, ROOT

#: Changes an object of a store: takes it away, or puts a damaged copy in its place.
CHANGE = """
import sys, plasmon
socket, namespace, prefix, what = sys.argv[1:]
store = plasmon.connect(socket)
(victim,) = [o for o in store.list(namespace=namespace) if o.name.startswith(prefix)][:1]
with store.get_buffer(victim.id) as held:
    damaged = bytearray(held)
store.delete(victim.id)
if what == "damage":
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
    """The name of the object that was removed or damaged."""
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
