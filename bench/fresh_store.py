"""Measurements of a whole store: how long it takes to start, and what memory it takes."""

from __future__ import annotations

import os

from bench.case import Entry, Samples
from bench.environments import MissingError
from bench.run import Context, ask_fresh
from bench.worker import memory_kib

ALIGN_BYTES = 64
ROOMY_BYTES = 9 << 30
SMALL_BYTES = 256 << 20


def start_ms(context: Context, entry: Entry) -> Samples:
    """From the start of the store to the first connection."""
    with context.fresh(entry.side) as (_, answer):
        return [float(answer["start_ns"]) / 1e6]


def recover_s(context: Context, entry: Entry) -> Samples:
    """From the death of a daemon to the first answer of the next one, in a new store."""
    return [nanoseconds / 1e9 for nanoseconds in ask_fresh(context, entry)]


def ask_roomy(context: Context, entry: Entry) -> Samples:
    """What a new store answers that has room for the largest objects here."""
    with context.fresh(entry.side, {"capacity_bytes": ROOMY_BYTES}) as (worker, _):
        answer = worker.call(dict(entry.request))
    return [float(sample) for sample in answer["samples"]]


def ask_crowded(context: Context, entry: Entry) -> Samples:
    """What a new store answers that lets one process have as many connections as it likes."""
    settings = {"settings": [["connections_per_process_max", "4096"]]}
    with context.fresh(entry.side, settings) as (worker, _):
        answer = worker.call(dict(entry.request))
    return [float(sample) for sample in answer["samples"]]


def ask_at_level(context: Context, entry: Entry) -> Samples:
    """What a new, small store of the request's level answers."""
    settings = {"capacity_bytes": SMALL_BYTES, "settings": [["level", entry.request["level"]]]}
    with context.fresh(entry.side, settings) as (worker, _):
        answer = worker.call(dict(entry.request))
    return [float(sample) for sample in answer["samples"]]


def idle_mb(context: Context, entry: Entry) -> Samples:
    """Resident memory of a store with one client and no object, all its processes together."""
    kind = entry.request.get("kind", "Rss")
    with context.fresh(entry.side) as (worker, _):
        servers = worker.servers()
        if not servers:
            raise MissingError("has no server")
        return [memory_kib(servers)[kind] * 1024 / 1e6]


def overhead_bytes(context: Context, entry: Entry) -> Samples:
    """Memory that each small object takes beyond its own bytes.

    Counted over all processes of the store: private memory, and the pages of the files in memory
    that it keeps its own records in. Where objects lie in files together with free space, what an
    object takes there is its size rounded up to the store's alignment.
    """
    objects = entry.request["objects"]
    size = entry.request["object_bytes"]
    with context.fresh(entry.side) as (worker, _):
        servers = worker.servers()
        if not servers:
            raise MissingError("has no server")
        before = _kept_bytes(servers)
        worker.call({"op": "fill", "object_bytes": size, "objects": objects})
        after = _kept_bytes(worker.servers())
        rounded = -(-size // ALIGN_BYTES) * ALIGN_BYTES
        return [(after - before) / objects + rounded - size]


#: Files in memory that hold objects, not records about them.
OBJECT_FILES = ("plasmon-extent", "plasma", "vineyard", "bulk")


def _kept_bytes(pids: list[int]) -> int:
    files: dict[tuple[int, int], int] = {}
    for pid in pids:
        try:
            descriptors = os.listdir(f"/proc/{pid}/fd")
        except OSError:
            continue
        for descriptor in descriptors:
            path = f"/proc/{pid}/fd/{descriptor}"
            try:
                name = os.readlink(path)
                found = os.stat(path)
            except OSError:
                continue
            if name.startswith("/memfd:") and not any(word in name for word in OBJECT_FILES):
                files[found.st_dev, found.st_ino] = found.st_blocks * 512
    return memory_kib(pids)["Pss_Anon"] * 1024 + sum(files.values())


def list_ns(context: Context, entry: Entry) -> Samples:
    """The time of one listing of a store that holds many objects of 100 B."""
    with context.fresh(entry.side) as (worker, _):
        worker.call({"op": "fill", "object_bytes": 100, "objects": entry.request["objects"]})
        answer = worker.call({"op": "list", "count": entry.request["count"]})
        return [float(sample) for sample in answer["samples"]]
