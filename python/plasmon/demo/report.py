"""The demo's report."""

from __future__ import annotations

import json
import textwrap
from dataclasses import asdict, dataclass

from plasmon.demo.compare import Outcome, Survival
from plasmon.demo.tasks import Task, lines
from plasmon.demo.workers import READ_ROWS

#: How far above one copy the workers' share of the store may lie: pages of other objects.
_SLACK = 1.10
_WIDTH = 100
#: A preparation that takes less is not counted.
_NOTHING_S = 0.002


@dataclass
class Facts:
    """The demo's input."""

    path: str
    rows: int
    columns: int
    table_bytes: int
    read_s: float
    put_s: float
    tasks: list[Task]
    object_bytes: int = 0
    daemon_rss: int = 0
    survival: Survival | None = None
    #: The file with the picture, or why there is none.
    picture: str = ""
    #: Whether each way did the job once.
    quick: bool = False


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
        f"The job: {len(facts.tasks)} processes, each with one question about the whole table,"
        " which they read in place",
    ]
    for number, (task, answer) in enumerate(zip(facts.tasks, ours.answers, strict=True), 1):
        out.append(f"  {number}. {task.describe()}  [{ours.compute_s[number - 1]:.2f} s]")
        out.extend(f"       {line}" for line in lines(answer))
    out += ["", *_times(outcomes, facts), "", *_readers(outcomes, facts), ""]
    if facts.survival is not None:
        out += [*_survival(facts.survival), ""]
    return "\n".join([*out, *_proof(ours, facts)])


def _times(outcomes: list[Outcome], facts: Facts) -> list[str]:
    head = ("prepare", "hand over", "all answers", "memory of all", "per table")
    best = "" if facts.quick else ": the fastest of three runs, with pickle of one"
    rows = [f"The same job in other ways, just now{best}"]
    rows.append(f"  {'':<23}" + "".join(f"{title:>14}" for title in head))
    shown = [outcome for outcome in outcomes if not outcome.missing]
    for outcome in outcomes:
        if outcome.missing:
            rows.append(f"  {outcome.way:<23}  {outcome.missing}")
            continue
        prepare = _time(outcome.prepare_s) if outcome.prepare_s > _NOTHING_S else "-"
        cells = [
            prepare,
            _time(outcome.share_s),
            _time(outcome.total_s),
            _mb(outcome.usage.pss),
            f"{outcome.usage.pss / facts.table_bytes:.2f}x",
        ]
        rows.append(f"  {outcome.way:<23}" + "".join(f"{cell:>14}" for cell in cells))
    rows += ["", *_words(outcomes[0], facts), ""]
    if shown[1:]:
        compared = ("handed over", "all answers", "with prepare")
        titles = "".join(f"{title:>14}" for title in compared)
        rows.append(f"  {'plasmon against ..':<26}{titles}")
        rows += [_against(outcomes[0], outcome) for outcome in shown[1:]]
    rows += ["", "What each asks of a program:"]
    rows += [f"  {outcome.way:<23}{outcome.asks}" for outcome in outcomes]
    return rows


def _words(ours: Outcome, facts: Facts) -> list[str]:
    """The legend of the columns."""
    each = ours.usage.pss / facts.table_bytes
    rest = (ours.usage.pss - ours.usage.shared_pss) / 1e6
    text = (
        "Prepare is done once, before the processes: the put, the write to a file; starting a store"
        " or Ray is not in it. Hand over is the time until all processes have the table, all"
        " answers until the last of them has answered. Memory of all is what the processes take"
        " together when each has looked at every page of its table, the daemon or the sender"
        " included, where others need it to read; a page that several share is counted once. Per"
        f" table is that memory divided by the table's: {each:.2f}x are the one copy of the table"
        f" that all read, {ours.usage.shared_pss / facts.table_bytes:.2f}x, and {rest:,.0f} MB that"
        " the processes need for themselves, for Python, pyarrow and what they compute with. No way"
        " has less than 1.00x; a copy for each process has one more for each."
    )
    return ["  " + line for line in textwrap.wrap(text, _WIDTH - 2)]


def _against(ours: Outcome, other: Outcome) -> str:
    """How we stand beside another way, also where we lose."""
    whole = _times_as_fast(other.total_s, ours.total_s)
    with_preparing = _times_as_fast(other.prepare_s + other.total_s, ours.prepare_s + ours.total_s)
    handed = _times_as_fast(other.share_s, ours.share_s)
    found = (handed, whole, with_preparing)
    return f"  .. {other.way:<23}" + "".join(f"{one:>14}" for one in found)


#: Within this share two times are alike: each was taken once.
_ALIKE = 0.10


def _times_as_fast(theirs: float, ours: float) -> str:
    ratio = theirs / ours
    if abs(ratio - 1) <= _ALIKE:
        return "alike"
    return f"{ratio:,.1f}x faster" if ratio > 1 else f"{1 / ratio:,.1f}x slower"


def _readers(outcomes: list[Outcome], facts: Facts) -> list[str]:
    shown = [outcome for outcome in outcomes if outcome.readers]
    counts = [*shown[0].readers] if shown else []
    rows = ["More and more readers, each of which has looked at every page: memory of all, in MB"]
    rows.append(f"  {'readers':<23}" + "".join(f"{count:>10}" for count in counts))
    for outcome in shown:
        cells = [
            f"{outcome.readers[count].pss / 1e6:,.0f}" if count in outcome.readers else "-"
            for count in counts
        ]
        rows.append(f"  {outcome.way:<23}" + "".join(f"{cell:>10}" for cell in cells))
        if outcome is outcomes[0]:
            table = [f"{usage.shared_pss / 1e6:,.0f}" for usage in outcome.readers.values()]
            rows.append(f"  {'  of it the table':<23}" + "".join(f"{cell:>10}" for cell in table))
    if shown:
        first, last = (shown[0].readers[count].pss for count in (counts[0], counts[-1]))
        if len(counts) > 1:
            each = (last - first) / (counts[-1] - counts[0]) / 1e6
            rows.append(
                f"  Each further reader of plasmon takes {each:,.0f} MB, which are its own, not the"
                " table's."
            )
        limited = [outcome for outcome in shown if len(outcome.readers) < len(counts)]
        if limited:
            names = ", ".join(outcome.way for outcome in limited)
            rows.append(f"  Not tried with more readers, for time and memory: {names}.")
    rows.append(f"  {facts.picture}")
    return rows


def _survival(found: Survival) -> list[str]:
    verdict = "none failed" if not found.wrong else f"{found.wrong:,} FAILED"
    return [
        f"Then the daemon, process {found.killed}, was killed with -9 while {found.readers}"
        f" processes got the table and added {READ_ROWS:,} rows up, again and again:",
        f"  the keeper's next daemon, process {found.next}, answered after"
        f" {_time(found.away_s)} and had taken a new object after {_time(found.put_s)};",
        f"  the readers read the table {found.reads:,} times, {found.reads_while_away:,} of them"
        f" while there was no daemon; {verdict}, the longest took {_time(found.longest_s)}.",
    ]


def _proof(ours: Outcome, facts: Facts) -> list[str]:
    usage = ours.usage
    verdict = "one copy" if one_copy(ours, facts) else "MORE THAN ONE COPY"
    return [
        f"Proof, from the kernel's accounts while all {len(facts.tasks)} workers held the table:",
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
            "asks": outcome.asks,
            "missing": outcome.missing,
            "prepare_s": outcome.prepare_s,
            "share_s": outcome.share_s,
            "total_s": outcome.total_s,
            "compute_s": outcome.compute_s,
            "usage": asdict(outcome.usage),
            "readers": {count: asdict(usage) for count, usage in outcome.readers.items()},
            "answers": [answer.to_pylist() for answer in outcome.answers],
        }
        for outcome in outcomes
    ]
    document = {"facts": asdict(facts), "ways": ways, "one_copy": one_copy(outcomes[0], facts)}
    return json.dumps(document, default=str, indent=2)
