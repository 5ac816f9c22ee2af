"""What must hold, and whether it did."""

from __future__ import annotations

from dataclasses import dataclass

from scripts.demo_spark.scene import OURS, VANILLA, Account


@dataclass(frozen=True)
class Check:
    """One thing that must hold."""

    what: str
    holds: bool


def all_of(account: Account) -> list[Check]:
    """Every check. Times are no check: they depend on the machine."""
    found = []
    for job in account.jobs:
        if job.title in account.left_out:
            continue
        runs = account.runs.get(job.title, {})
        ours, theirs = runs.get(OURS), runs.get(VANILLA)
        same = ours is not None and theirs is not None and ours.result == theirs.result
        found.append(Check(f"{job.title}: both managers have the same result", same))
        if ours is None:
            continue
        if job.kills:
            again = ours.map_tasks_again
            found.append(Check(f"{job.title}: no map task runs again with {OURS}", again == 0))
        spilled = ours.spilled_bytes
        found.append(Check(f"{job.title}: nothing is spilled to local files", spilled == 0))
    return found
