"""What the demo prints."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from plasmon.demo.tasks import Task, lines
from plasmon.demo.workers import WORKERS, Outcome

#: How far above one copy the workers' share of the store may lie: pages of other objects.
_SLACK = 1.10


@dataclass
class Facts:
    """What was worked on."""

    path: str
    rows: int
    columns: int
    table_bytes: int
    read_s: float
    put_s: float
    tasks: list[Task]
    object_bytes: int = 0
    daemon_rss: int = 0


def one_copy(ours: Outcome, facts: Facts) -> bool:
    """Whether the processes together hold no more of the store in memory than one table."""
    return 0 < ours.usage.shared_pss <= facts.object_bytes * _SLACK + (16 << 20)


def as_text(outcomes: list[Outcome], facts: Facts) -> str:
    """The report for a person."""
    ours = outcomes[0]
    out = [
        f"{facts.path}: {facts.rows:,} rows, {facts.columns} columns,"
        f" {_mb(facts.table_bytes)} in memory",
        f"read from Parquet in {facts.read_s:.2f} s, put into the store in {facts.put_s:.2f} s"
        f" ({facts.table_bytes / facts.put_s / 1e9:.1f} GB/s, once)",
        "",
        f"The answers, computed by {WORKERS} processes that read the table in place:",
    ]
    for number, (task, answer) in enumerate(zip(facts.tasks, ours.answers, strict=True), 1):
        out.append(f"  {number}. {task.describe()}  [{ours.compute_s[number - 1]:.2f} s]")
        out.extend(f"       {line}" for line in lines(answer))
    out += ["", *_times(outcomes, facts), "", *_proof(ours, facts)]
    return "\n".join(out)


def _times(outcomes: list[Outcome], facts: Facts) -> list[str]:
    head = f"{'':<24}{'hand over':>12}{'all answers':>13}{'memory of all':>15}{'per table':>11}"
    rows = [head]
    for outcome in outcomes:
        memory = outcome.usage.pss
        rows.append(
            f"{outcome.way:<24}{_time(outcome.share_s):>12}{_time(outcome.total_s):>13}"
            f"{_mb(memory):>15}{memory / facts.table_bytes:>10.2f}x"
        )
    for outcome in outcomes[1:]:
        faster = outcome.share_s / outcomes[0].share_s
        whole = outcome.total_s / outcomes[0].total_s
        rows.append(
            f"Against {outcome.way}: handed over {faster:,.0f} times faster,"
            f" the whole job {whole:.1f} times faster."
        )
    return rows


def _proof(ours: Outcome, facts: Facts) -> list[str]:
    usage = ours.usage
    verdict = "one copy" if one_copy(ours, facts) else "MORE THAN ONE COPY"
    return [
        f"Proof, from the kernel's accounts while all {WORKERS} workers held the table:",
        f"  the table's object                                {_mb(facts.object_bytes):>10}",
        f"  store pages mapped, added over all processes (RSS) {_mb(usage.shared_rss):>9}",
        f"  store pages in memory, each counted once (PSS)     {_mb(usage.shared_pss):>9}",
        f"  so memory holds {verdict}: {usage.shared_pss / facts.object_bytes:.2f} tables.",
    ]


def _mb(count: float) -> str:
    return f"{count / 1e6:,.0f} MB"


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"


def as_json(outcomes: list[Outcome], facts: Facts) -> str:
    """The report for a program."""
    ways = [
        {
            "way": outcome.way,
            "share_s": outcome.share_s,
            "total_s": outcome.total_s,
            "compute_s": outcome.compute_s,
            "usage": asdict(outcome.usage),
            "answers": [answer.to_pylist() for answer in outcome.answers],
        }
        for outcome in outcomes
    ]
    document = {"facts": asdict(facts), "ways": ways, "one_copy": one_copy(outcomes[0], facts)}
    return json.dumps(document, default=str, indent=2)
