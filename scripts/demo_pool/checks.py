"""What must hold, and whether it did."""

from __future__ import annotations

from dataclasses import dataclass

from scripts.demo_pool.scene import GOT, JOINED, NODES, PUT, READ, Account

#: How far above one copy the memory of a node may lie: other objects, and what is being freed.
_MEMORY_SLACK = 1.10
_MEMORY_SLACK_BYTES = 32 << 20
#: How far above the bytes of the table what went over the network may lie: headers, messages.
_NETWORK_SLACK = 1.15
_NETWORK_SLACK_BYTES = 8 << 20


@dataclass(frozen=True)
class Check:
    """One thing that must hold."""

    what: str
    holds: bool
    #: What was found, in words.
    found: str


def all_of(account: Account) -> list[Check]:
    """Every check."""
    network = [] if account.moment(JOINED).received_bytes() is None else _network(account)
    return [*_copies(account), *_contents(account), *_memory(account), *_reads(account), *network]


def _copies(account: Account) -> list[Check]:
    wanted, put = account.plan.copies, account.moment(PUT).kept()
    repaired = account.moments[-1].kept()
    when = account.repaired_s
    return [
        Check(f"the put left {wanted} copies", put == wanted, f"{put} nodes keep one"),
        Check(
            f"after the death of {account.victim} there are {wanted} copies again",
            when is not None and repaired == wanted,
            f"{repaired} nodes keep one"
            + ("" if when is None else f", {when:.1f} s after the kill"),
        ),
    ]


def _contents(account: Account) -> list[Check]:
    wrong = [name for name, digest in account.digests.items() if digest != account.digest]
    # The readers of all nodes before, and a new process on each node that is left.
    wanted = NODES * account.plan.readers + NODES - 1
    count = len(account.digests)
    found = f"wrong on {', '.join(wrong)}" if wrong else f"{count} processes found the same values"
    return [
        Check(
            "every process read the values that were put",
            not wrong and count == wanted and bool(account.digest),
            found,
        )
    ]


def _memory(account: Account) -> list[Check]:
    limit = account.object_bytes * _MEMORY_SLACK + _MEMORY_SLACK_BYTES
    held = {name: one.shared_bytes for name, one in account.moment(READ).nodes.items()}
    found = ", ".join(f"{name} {nbytes / 1e6:,.0f} MB" for name, nbytes in held.items())
    return [
        Check(
            "each node has one copy in memory, however many processes read",
            all(account.object_bytes * 0.9 < nbytes <= limit for nbytes in held.values()),
            f"{found}; the object has {account.object_bytes / 1e6:,.0f} MB",
        )
    ]


def _reads(account: Account) -> list[Check]:
    failed = [f"{one.reader}: {error}" for one in account.reads for error in one.errors]
    wrong = sum(one.wrong for one in account.reads)
    idle = [one.reader for one in account.reads if not one.after]
    reads = sum(one.after for one in account.reads)
    longest_s = max((one.longest_s for one in account.reads), default=0.0)
    return [
        Check(
            "readers on the other nodes went on",
            bool(account.reads) and not idle and not failed and not wrong,
            f"{reads:,} reads after the kill, {wrong} wrong, {len(failed)} failed, the longest "
            f"{longest_s * 1e3:.0f} ms" + "".join(f"; {text}" for text in failed[:3]),
        )
    ]


def _network(account: Account) -> list[Check]:
    """The table goes over the network once to each node that needs it."""
    nbytes = account.object_bytes

    def moved(what: str, moment: str, times: int) -> Check:
        found = account.moment(moment).received_bytes() or 0
        limit = times * nbytes * _NETWORK_SLACK + _NETWORK_SLACK_BYTES
        wanted = {0: "nothing", 1: "the table once"}.get(times, f"the table {times} times")
        return Check(
            f"{what} moved {wanted}",
            times * nbytes <= found <= limit,
            f"{found / 1e6:,.0f} MB moved",
        )

    without = sum(one.copy is None for one in account.moment(PUT).nodes.values())
    return [
        moved("the put", PUT, account.plan.copies - 1),
        moved("the first gets on all nodes", GOT, without),
        moved("all later gets and reads", READ, 0),
    ]
