"""The account of the demo, for people and for programs."""

from __future__ import annotations

import json
from dataclasses import asdict

from scripts.demo_spark.checks import Check
from scripts.demo_spark.scene import MANAGERS, OURS, VANILLA, Account, Job, Run


def as_json(account: Account, checks: list[Check]) -> str:
    """Everything, as one document."""
    document = {**asdict(account), "checks": [asdict(check) for check in checks]}
    return json.dumps(document, indent=2)


def as_text(account: Account, checks: list[Check]) -> str:
    """The account for a person."""
    head = f"  {'':<14}{'seconds':>9}{'fetch wait':>12}{'spilled':>10}{'map tasks again':>17}"
    out = []
    for job in account.jobs:
        out += ["", _title(account, job)]
        if job.title in account.left_out:
            out.append(f"  left out: {account.left_out[job.title]}")
            continue
        out.append(head)
        runs = account.runs[job.title]
        out += [_row(name, runs[name]) for name in MANAGERS if name in runs]
    out += ["", *(f"{'ok  ' if check.holds else 'FAIL'}  {check.what}" for check in checks)]
    return "\n".join(out[1:])


def ratio(runs: dict[str, Run]) -> float | None:
    """The time with ours over that with Spark's own."""
    if OURS not in runs or VANILLA not in runs or not runs[VANILLA].seconds:
        return None
    return runs[OURS].seconds / runs[VANILLA].seconds


def _title(account: Account, job: Job) -> str:
    found = ratio(account.runs.get(job.title, {}))
    return job.title if found is None else f"{job.title}: {found:.2f} of the time"


def _row(name: str, run: Run) -> str:
    again = "" if run.map_tasks_again is None else str(run.map_tasks_again)
    spilled = f"{run.spilled_bytes / 1e6:,.0f} MB"
    return f"  {name:<14}{run.seconds:>9.1f}{run.fetch_wait_s:>10.1f} s{spilled:>10}{again:>17}"
