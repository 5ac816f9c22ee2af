"""How much memory a store takes of the machine, whatever its clients have mapped."""

from __future__ import annotations

import contextlib
import os
import random
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import plasmon

BLOCK_BYTES = 512
SIZES = (64 << 10, 1 << 20, 5 << 20, 16 << 20)
#: Objects that a process keeps at most: with three processes several times what there is room for.
KEPT = 24
#: Between two looks.
PAUSE_S = 0.01


def resident_bytes(pids: Iterable[int]) -> int:
    """The bytes of all extents that these processes have open or mapped, each counted once."""
    found: dict[int, int] = {}
    for pid in pids:
        for folder in (Path(f"/proc/{pid}/fd"), Path(f"/proc/{pid}/map_files")):
            try:
                for entry in os.scandir(folder):
                    _note(entry.path, found)
            except OSError:
                # A process that ended meanwhile holds nothing.
                continue
    return sum(found.values())


def _note(path: str, found: dict[int, int]) -> None:
    try:
        if "memfd:plasmon-extent" in os.readlink(path):
            stat = os.stat(path)
            found[stat.st_ino] = stat.st_blocks * BLOCK_BYTES
    except OSError:
        return


@contextlib.contextmanager
def stopped(pid: int) -> Iterator[None]:
    """Has a process do nothing meanwhile."""
    os.kill(pid, signal.SIGSTOP)
    try:
        # Each of its threads stops separately.
        while not all(_is_stopped(task) for task in Path(f"/proc/{pid}/task").iterdir()):
            time.sleep(0)
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def _is_stopped(task: Path) -> bool:
    try:
        state = (task / "stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        # The thread has ended.
        return True
    return state in "TtZX"


def peak_share(address: str, level: str, seconds: float, busy: int, idle: int) -> float:
    """The most memory that the extents took at once, over the store's capacity.

    Processes put, read and delete objects of several sizes for some seconds; others read what they
    find, again and again for a moment, and sit idle in between with all of it mapped.

    The daemon is stopped while the extents are looked at, for they are looked at one after the
    other: one that was given up after it was counted, and the one that came in its place, would
    both count. All memory is made by the daemon, and what others let go meanwhile was there.
    """
    with plasmon.connect(address, start=False) as store:
        status = store.status()
        strict = level == "shared"
        roles = ["busy"] * busy + ["idle"] * idle
        command = [sys.executable, "-m", "bench.ours.residency", address, str(int(strict))]
        workers = [
            subprocess.Popen([*command, role], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
            for role in roles
        ]
        pids = [status.pid, status.keeper_pid, *(worker.pid for worker in workers)]
        peak, end = 0, time.monotonic() + seconds
        while time.monotonic() < end:
            with stopped(status.pid):
                peak = max(peak, resident_bytes(pids))
            time.sleep(PAUSE_S)
        for worker in workers:
            worker.communicate()
            if worker.returncode:
                raise RuntimeError(f"a process of the measurement failed: {worker.returncode}")
        if store.status().sealed_total < len(roles):
            raise RuntimeError("the processes have done nothing")
        return peak / status.capacity_bytes


def _be_busy(store: plasmon.Store, made: list[plasmon.ObjectId], strict: bool) -> None:
    try:
        guarded = strict and random.random() < 0.5
        made.append(store.put(bytes(random.choice(SIZES)), strict=guarded))
        store.get_buffer(made[-1], timeout=0).release()
    except plasmon.StoreFull:
        time.sleep(0.001)
    while len(made) > random.randrange(KEPT):
        store.delete(made.pop(0))


def _be_idle(store: plasmon.Store) -> None:
    for info in store.list():
        try:
            store.get_buffer(info.id, timeout=0).release()
        except plasmon.PlasmonError:
            # It was deleted since it was listed.
            continue


def _main(address: str, strict: str, role: str) -> None:
    made: list[plasmon.ObjectId] = []
    with plasmon.connect(address, start=False) as store:
        # Until the standard input ends.
        while not select.select([0], [], [], 0 if role == "busy" else 0.5)[0]:
            if role == "busy":
                _be_busy(store, made, bool(int(strict)))
            else:
                _be_idle(store)
        if made:
            store.delete(made)


if __name__ == "__main__":
    _main(*sys.argv[1:])
