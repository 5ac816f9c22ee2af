"""An application of the demo, with one shuffle manager, in Spark's environment.

Run as `worker plasmon JAR` or `worker sort`, and asked by :mod:`scripts.demo_spark.scene`.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from bench.rivals.protocol import Answer, serve
from bench.rivals.spark.worker import Application
from scripts.demo_spark.jobs import JOBS, MAPS
from scripts.demo_spark.marks import KILLED, KILLED_WITHIN_S, REDUCE, map_tasks_again


class Demo(Application):
    """Runs jobs, and says what they cost beside their result."""

    def op_show(self, job: str, **parameters: Any) -> Answer:
        """Runs a job that loses nothing; the session's classes are those of an earlier one."""
        return self._show(job, parameters)

    def op_show_killed(self, rows: int, folder: str, here: bool) -> Answer:
        """Runs the job in whose reduce stage a process is killed: here, an executor."""
        if here:
            threading.Thread(target=_kill_executor, args=(Path(folder),), daemon=True).start()
        answer = self._show("groups", {"rows": rows, "folder": folder})
        return answer | {"map_tasks_again": map_tasks_again(Path(folder), MAPS)}

    def _show(self, job: str, parameters: dict[str, Any]) -> Answer:
        spark = self.session()
        before = self.sums()
        begin = time.monotonic()
        result = JOBS[job](spark, **parameters)
        seconds = time.monotonic() - begin
        sums = {name: value - before[name] for name, value in self.sums().items()}
        return {
            "seconds": seconds,
            "result": result,
            "spilled_bytes": sums["spilled_bytes"],
            "fetch_wait_s": sums["fetch_wait_ms"] / 1e3,
        }


def _kill_executor(folder: Path) -> None:
    """Kills the executor of the first reduce task that has read its input."""
    end = time.monotonic() + KILLED_WITHIN_S * 5
    while time.monotonic() < end:
        for mark in folder.glob(f"{REDUCE}*"):
            os.kill(int(mark.name.rpartition("-")[2]), signal.SIGKILL)
            (folder / KILLED).touch()
            return
        time.sleep(0.01)


if __name__ == "__main__":
    serve(Demo(*sys.argv[1:]))
