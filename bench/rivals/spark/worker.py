"""A Spark application with two executors, whose jobs are timed.

Run as `worker plasmon JAR` or `worker sort`.

The application lives as long as the worker, so that every job but the first finds warm executors.
It is stopped as a whole while another side is measured, hence the long timeouts.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

from pyspark import SparkContext, __version__
from pyspark.sql import SparkSession

from bench.rivals.protocol import Answer, serve
from bench.rivals.spark.jobs import JOBS
from bench.rivals.spark.settings import conf
from bench.rivals.spark.volume import Volume

#: What the stages of a job add up to, by the names of Spark's REST interface.
SUMS = {
    "fetch_wait_ms": "shuffleFetchWaitTime",
    "write_ns": "shuffleWriteTime",
    "written_bytes": "shuffleWriteBytes",
    "spilled_bytes": "diskBytesSpilled",
    "tasks": "numCompleteTasks",
    "run_ms": "executorRunTime",
}
#: The prefix of the driver's settings for its executors.
INTERNAL = "spark.plasmon.internal"
#: What the harness gives all processes of one worker.
MARK = "PLASMON_BENCH_MARK"
#: How often a short job runs for one answer.
RUNS_MAX = 5
#: An executor's program.
EXECUTOR = b"CoarseGrainedExecutorBackend"


def tier_bytes(context: SparkContext) -> dict[str, int]:
    """What the application's own store has written to its spill tier and read from it.

    Executors read sections in the tier's files by themselves, which the store does not count. What
    the kernel counts as read by them is also what they load and hear from the driver: a few MB.
    """
    jvm = context._jvm
    assert jvm is not None
    told = context._jsc.sc().conf()
    words = (told.get(f"{INTERNAL}.socket"), "bench", told.get(f"{INTERNAL}.namespace"))
    store = jvm.org.plasmon.shuffle.NativeStore.connect(*words, 30_000, False)
    figures = store.figures()
    store.close()
    written, restored = figures.spillWrittenBytes(), figures.restoredBytes()
    return {"tier_written_bytes": written, "tier_read_bytes": restored + read_by_executors()}


def read_by_executors() -> int:
    """How many bytes the executors of this application have read, from any source."""
    mark = os.environ.get(MARK, "").encode()
    found = 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes()
            is_ours = EXECUTOR in command and mark in (folder / "environ").read_bytes()
            if is_ours:
                found += int((folder / "io").read_text().split()[1])
        except OSError:
            # It has ended, or is another user's.
            continue
    return found


def told(result: Any) -> Any:
    """A job's result as it is sent: of rows their number and a digest, in any order."""
    if not isinstance(result, list):
        return result
    lines = sorted("|".join(map(_text, row)) for row in result)
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    return {"rows": len(lines), "digest": digest}


def _text(value: Any) -> str:
    # Sums of floats depend on the order of partitions, which adaptive execution decides.
    return f"{value:.9g}" if isinstance(value, float) else str(value)


class Application:
    """One application with one shuffle manager."""

    def __init__(self, manager: str, jar: str = "") -> None:
        self.manager = manager
        self.jar = jar
        self.spark: SparkSession | None = None
        self.directory = Path()
        self.executor_mb = 1024
        #: Whether SQL has Spark's default settings, adaptive execution among them.
        self.adaptive = False
        #: Whether shuffle files go to a slow volume, and that volume.
        self.is_throttled = False
        self.volume: Volume | None = None
        #: The size of the application's own store; 0: the package chooses.
        self.store_bytes = 0
        self.kills = 0
        #: Jobs that ran before, and whose classes are compiled.
        self.warmed: set[str] = set()

    def op_start(
        self,
        directory: str,
        capacity_bytes: int,
        executor_mb: int = 1024,
        throttled: bool = False,
        adaptive: bool = False,
        store_bytes: int = 0,
    ) -> Answer:
        """Only notes the request: an application takes longer to start than the harness waits."""
        self.directory = Path(directory)
        self.executor_mb = executor_mb
        self.is_throttled = throttled
        self.adaptive = adaptive
        self.store_bytes = store_bytes
        return {"address": "", "start_ns": 0, "versions": {"spark": __version__}}

    def session(self) -> SparkSession:
        if self.spark is None:
            os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
            os.environ["SPARK_WORKER_DIR"] = str(self.directory / "work")
            local = self.directory
            if self.is_throttled:
                local = self.directory / "volume"
                self.volume = Volume(local)
            os.environ["SPARK_LOCAL_DIRS"] = str(local)
            builder = SparkSession.builder.appName(f"bench {self.manager}")
            for key, value in self._conf().items():
                builder = builder.config(key, value)
            self.spark = builder.getOrCreate()
        return self.spark

    def _conf(self) -> dict[str, str]:
        return conf(self.manager, self.jar, self.executor_mb, self.store_bytes, self.adaptive)

    def op_run(
        self,
        job: str,
        store_bytes: int = 0,
        name: str = "",
        seconds: float = 0,
        **parameters: Any,
    ) -> Answer:
        """Runs a job; the sample is its wall time, beside it the sums over its stages.

        Its first run is not a sample: how long that took is noted as cold. A job that takes less
        than so many seconds runs several times, and has as many samples. The size of the store
        counts when the application is started, with its first job.
        """
        self.store_bytes = store_bytes or self.store_bytes
        self.session()
        name = name or job
        noted: dict[str, Any] = {}
        if job == "kill":
            self.kills += 1
            folder = self.directory / f"marks-{self.kills}"
            folder.mkdir()
            parameters["folder"] = str(folder)
        elif name not in self.warmed:
            noted["cold_ns"] = self._timed(job, parameters)[0]
        before = self.sums()
        taken, result = self._timed(job, parameters)
        samples = [taken]
        while sum(samples) < seconds * 1e9 and len(samples) < RUNS_MAX:
            samples.append(self._timed(job, parameters)[0])
        after = self.sums()
        if name not in self.warmed:
            self.warmed.add(name)
            noted.setdefault("cold_ns", taken)
        sums = {key: after[key] - before[key] for key in after}
        return {"samples": samples, "told": told(result), **noted, **sums}

    def _timed(self, job: str, parameters: dict[str, Any]) -> tuple[int, Any]:
        begin = time.perf_counter_ns()
        result = JOBS[job](self.session(), **parameters)
        return time.perf_counter_ns() - begin, result

    def sums(self) -> dict[str, int]:
        """What all stages so far add up to, and what the store has moved."""
        context = self.session().sparkContext
        url = f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}/stages"
        with urllib.request.urlopen(url) as answer:
            stages = json.load(answer)
        sums = {name: sum(stage[key] for stage in stages) for name, key in SUMS.items()}
        return sums | (tier_bytes(context) if self.store_bytes and self.jar else {})

    def op_stop(self) -> None:
        # First, because stopping takes a while, and a worker that takes too long is killed: what is
        # still open stays until it is closed.
        if self.volume is not None:
            self.volume.remove()
        if self.spark is not None:
            self.spark.stop()


if __name__ == "__main__":
    serve(Application(*sys.argv[1:]))
