"""What is run with each manager, and what came of it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.worker import Worker

ROOT = Path(__file__).resolve().parents[2]
JAR = ROOT / "spark" / "target" / "plasmon-spark.jar"
PYTHON = ROOT / ".venvs" / "spark35" / "bin" / "python"

#: The managers, by what they are called in the account and by what a worker is told.
VANILLA, OURS = "Spark's own", "Plasmon's"
MANAGERS = {VANILLA: ["sort"], OURS: ["plasmon", str(JAR)]}
#: Executors have little memory, so that a job of a few hundred MB is short of it.
EXECUTOR_MB = 640
#: For how long to wait for a job, on a machine that may do something else besides, in seconds.
JOB_TIMEOUT_S = 300.0
#: A tenth of the rows make the classes of a job compiled, before it is timed.
WARM_UP = 10


@dataclass(frozen=True)
class Job:
    """A job that both managers run."""

    key: str
    #: Its title, with the sizes to be filled in.
    words: str
    rows: int
    more: dict[str, int] = field(default_factory=dict)
    #: What is killed in its reduce stage.
    kills: str = ""

    @property
    def title(self) -> str:
        """What the account calls it."""
        return self.words.format(rows=self.rows, **self.more)

    def smaller(self, by: int) -> Job:
        """The same with fewer rows, and fewer blocks."""
        more = {key: max(4, value // by) for key, value in self.more.items()}
        return Job(self.key, self.words, max(100, self.rows // by), more, self.kills)


BLOCKS = Job("blocks", "{count} x {count} blocks of a few bytes", 300_000, {"count": 300})
SPILL = Job("spill", "{rows:,} rows of 100 bytes, in executors of 640 MB", 3_000_000)
KILL = Job("groups", "an executor is killed in the reduce stage", 1_500_000, kills="executor")
JOBS = [BLOCKS, SPILL, KILL]


@dataclass(frozen=True)
class Run:
    """What a job came to with one manager."""

    seconds: float
    result: list[Any]
    spilled_bytes: int
    fetch_wait_s: float
    #: None where nothing is killed.
    map_tasks_again: int | None = None

    @staticmethod
    def of(answer: dict[str, Any]) -> Run:
        """What a worker answered."""
        return Run(
            answer["seconds"],
            answer["result"],
            answer["spilled_bytes"],
            answer["fetch_wait_s"],
            answer.get("map_tasks_again"),
        )


@dataclass
class Account:
    """What happened, by job and manager."""

    jobs: list[Job]
    runs: dict[str, dict[str, Run]] = field(default_factory=dict)
    #: Jobs that were not run, and why.
    left_out: dict[str, str] = field(default_factory=dict)

    def note(self, job: Job, manager: str, run: Run) -> None:
        """Adds a run."""
        self.runs.setdefault(job.title, {})[manager] = run


def play(jobs: list[Job], folder: Path, say: Callable[[str], None]) -> Account:
    """Runs the jobs in an application of each manager, one after the other."""
    account = Account(list(jobs))
    for manager, told in MANAGERS.items():
        say(f"an application with {manager} manager ...")
        directory = Path(tempfile.mkdtemp(prefix=f"{told[0]}-", dir=folder))
        command = [str(PYTHON), "-m", "scripts.demo_spark.worker", *told]
        worker = Worker(command, directory)
        try:
            start = {"op": "start", "directory": str(directory), "capacity_bytes": 0}
            worker.call(start | {"executor_mb": EXECUTOR_MB})
            for job in jobs:
                run = _run(worker, job, directory)
                account.note(job, manager, run)
                say(f"  {job.title}: {run.seconds:.1f} s")
        finally:
            worker.end()
    return account


def _run(worker: Worker, job: Job, directory: Path) -> Run:
    less = job.smaller(WARM_UP)
    warm = {"op": "show", "job": job.key, "rows": less.rows, **less.more}
    if job.kills:
        warm["folder"] = ""
    worker.call(warm, JOB_TIMEOUT_S)
    request: dict[str, Any] = {"op": "show", "job": job.key, "rows": job.rows, **job.more}
    if job.kills:
        marks = tempfile.mkdtemp(prefix="marks-", dir=directory)
        request = {"op": "show_killed", "rows": job.rows, "folder": marks, "here": True}
    return Run.of(worker.call(request, JOB_TIMEOUT_S))
