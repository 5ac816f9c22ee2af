"""The account of the demo, for people and for programs."""

from __future__ import annotations

import json
from dataclasses import asdict

from scripts.demo_pool.checks import Check
from scripts.demo_pool.scene import NAME, Account, Holding, Moment


def as_json(account: Account, checks: list[Check]) -> str:
    """Everything, as one document."""
    document = {**asdict(account), "checks": [asdict(check) for check in checks]}
    return json.dumps(document, indent=2)


def as_text(account: Account, checks: list[Check]) -> str:
    """The account for a person."""
    out = [
        f"{NAME}: {account.rows:,} rows, {account.columns} columns,"
        f" {_mb(account.table_bytes)}, {account.plan.copies} copies;"
        f" {account.plan.readers} processes read on each node",
        f"Nodes: {account.network}",
        "",
        "Times",
        *_times(account),
        "",
        *_table(account),
        "",
        *_reads(account),
        "",
        "Checks",
        *(line for check in checks for line in _check(check)),
    ]
    return "\n".join(out)


def _times(account: Account) -> list[str]:
    rate = account.table_bytes / account.put_s / 1e9 if account.put_s else 0.0
    lines = [
        ("all nodes take part in the pool", f"{account.joined_s:.1f} s after the start"),
        ("put on node1, until all copies are there", f"{account.put_s:.2f} s, {rate:.2f} GB/s"),
    ]
    for name, seconds in account.first_get_s.items():
        later = account.later_get_s.get(name, 0.0)
        lines.append((f"first get on {name}", f"{_time(seconds)}; later ones {_time(later)}"))
    if account.repaired_s is None:
        lines.append((f"{account.victim} killed", "not repaired"))
    else:
        lines.append((f"{account.victim} killed, repaired after", f"{account.repaired_s:.1f} s"))
    return [f"  {what:<44}{how}" for what, how in lines]


def _table(account: Account) -> list[str]:
    names = list(account.moments[0].nodes)
    head = [
        "What each node holds: a copy that the pool keeps, or a cache, and MB of stores' memory"
    ]
    if account.moments[0].received_bytes() is not None:
        head.append("in all of its processes; + MB that came to it since the line before")
    else:
        head.append("in all of its processes")
    head.append(f"  {'':<28}" + "".join(f"{name:>24}" for name in names))
    return head + [_row(moment, names) for moment in account.moments]


def _row(moment: Moment, names: list[str]) -> str:
    return f"  {moment.what:<28}" + "".join(f"{_held(moment.nodes[name]):>24}" for name in names)


def _held(holding: Holding) -> str:
    if not holding.up:
        return "dead"
    copy = "nothing"
    if holding.copy is not None:
        copy = "copy" if holding.copy.kept else "cache"
        copy = copy if holding.copy.state == "sealed" else f"{copy} ({holding.copy.state})"
    came = holding.received_bytes
    moved = "" if came is None else f"{'+' + _megabytes(came):>8}"
    return f"{copy} {_megabytes(holding.shared_bytes):>6}{moved}"


def _reads(account: Account) -> list[str]:
    lines = [f"Reads while {account.victim} was killed"]
    for one in account.reads:
        lines.append(
            f"  {one.reader}: {one.before:,} before, {one.after:,} after,"
            f" the longest {one.longest_s * 1e3:.0f} ms, {one.wrong} wrong"
        )
    return lines


def _check(check: Check) -> list[str]:
    return [f"  {'ok  ' if check.holds else 'FAIL'}  {check.what}", f"          {check.found}"]


def _mb(nbytes: int) -> str:
    return f"{_megabytes(nbytes)} MB"


def _megabytes(nbytes: int) -> str:
    return f"{nbytes / 1e6:,.0f}"


def _time(seconds: float) -> str:
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds * factor >= 1:
            return f"{seconds * factor:.2f} {unit}"
    return f"{seconds * 1e9:.0f} ns"
