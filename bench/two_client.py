"""Measurements that take two clients of one store."""

from __future__ import annotations

import itertools

from bench.case import Entry, Samples
from bench.environments import MissingError
from bench.run import Context
from bench.stats import median

_series = itertools.count(1)


def wake(context: Context, entry: Entry) -> Samples:
    """How long after one client seals an object another one, asleep, has it.

    The request gives `count` and `gap_us`; the sealing client sleeps for the gap before each seal,
    in which the waiting one falls asleep as well.
    """
    series = next(_series)
    peer = context.peer(entry.side)
    with context.awake(entry.side) as sealer:
        context.pin(entry.side)
        # The waiter takes the client's place, the sealer the peer's.
        peer.pin(None, context.pinning.client_cpu)
        sealer.pin(context.pinning.server_cpu, context.pinning.peer_cpu)
        count = entry.request["count"]
        peer.send({"op": "wake_wait", "series": series, "count": count})
        sealer.send({"op": "wake_seal", "series": series, **entry.request})
        sealed = sealer.receive()["stamps"]
        woken = peer.receive()["stamps"]
    return [float(end - begin) for begin, end in zip(sealed, woken, strict=True)]


def scaling(context: Context, entry: Entry) -> Samples:
    """How many times as many gets two readers do as one of them alone."""
    peer = context.peer(entry.side)
    request = {"op": "get_rate", **entry.request}
    with context.awake(entry.side) as first:
        context.pin(entry.side)
        alone = [float(worker.call(request)["per_s"]) for worker in (first, peer)]
        first.send(request)
        peer.send(request)
        together = float(first.receive()["per_s"]) + float(peer.receive()["per_s"])
    if not median(alone):
        raise MissingError("no get was done")
    return [together / median(alone)]
