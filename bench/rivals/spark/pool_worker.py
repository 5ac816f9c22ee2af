"""A Spark application on the machines of a pool, whose jobs are timed.

Run as `pool_worker plasmon JAR`, `pool_worker sort` or `pool_worker celeborn`. The harness has
started the machines, and on them Spark's daemons and those of Celeborn, and tells their addresses;
it also kills a machine, when a job has said that it is time.
"""

from __future__ import annotations

import json
import os
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark import TaskContext
from pyspark.sql import SparkSession

from bench.rivals.protocol import Answer, serve
from bench.rivals.spark.settings import celeborn_conf
from bench.rivals.spark.worker import Application

#: Parts of the job in which a machine is killed.
MAPS, REDUCES = 12, 9
#: One executor on each machine.
CORES = "3"
#: What is lost is missed after seconds, with all managers alike.
TIMEOUT_S = 12
MISSED = {
    "spark.network.timeout": f"{TIMEOUT_S}s",
    "spark.network.timeoutInterval": "2s",
    "spark.executor.heartbeatInterval": "2s",
}


class PoolApplication(Application):
    """One application with one shuffle manager, and executors on all machines."""

    def op_start(  # type: ignore[override]
        self,
        directory: str,
        capacity_bytes: int,
        master: str,
        host: str,
        socket: str,
        copies: int,
        celeborn: dict[str, str] | None = None,
    ) -> Answer:
        """Notes where the application is to run, and where Celeborn does."""
        self._master, self._host, self._copies = master, host, copies
        self._celeborn = celeborn
        os.environ["PLASMON_SOCKET"] = socket
        # Where the driver's part of Celeborn listens.
        os.environ["CELEBORN_LOCAL_HOSTNAME"] = host
        # Where the driver's interface is asked for sums; it listens on the loopback device alone.
        os.environ["SPARK_PUBLIC_DNS"] = "127.0.0.1"
        answer = super().op_start(directory, capacity_bytes)
        if celeborn is not None:
            answer["versions"]["celeborn"] = celeborn["version"]
        return answer

    def _conf(self) -> dict[str, str]:
        settings = super()._conf() | MISSED
        settings |= {
            "spark.master": self._master,
            "spark.driver.host": self._host,
            "spark.driver.bindAddress": self._host,
            "spark.executor.cores": "1",
            "spark.cores.max": CORES,
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
            "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
        }
        if self.jar:
            settings["spark.plasmon.copies"] = str(self._copies)
        if self._celeborn is not None:
            at = self._celeborn
            settings |= celeborn_conf(at["jar"], at["endpoints"], self._copies, TIMEOUT_S)
        return settings

    def op_run_killed(self, rows: int, folder: str) -> Answer:
        """Runs a job in whose reduce stage the harness kills a machine.

        The sample is its wall time; beside it how many map tasks ran again, and failed stages.
        """
        spark = self.session()
        # Classes are compiled, as in the jobs that lose nothing.
        made(spark, rows // 10, "").count()
        begin = time.perf_counter_ns()
        counted = made(spark, rows, folder).count()
        taken = time.perf_counter_ns() - begin
        again = len(list(Path(folder).glob("map-*"))) - MAPS
        return {
            "samples": [taken],
            "told": counted,
            "map_tasks_again": again,
            "failed_stages": self._failed_stages(),
        }

    def _failed_stages(self) -> int:
        context = self.session().sparkContext
        url = f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}/stages"
        with urllib.request.urlopen(f"{url}?status=failed") as answer:
            return len(json.load(answer))


def made(spark: SparkSession, rows: int, folder: str) -> Any:
    """The groups of pairs; tasks leave files in the folder, if there is one."""

    def leave(what: str) -> None:
        if folder:
            Path(folder, what).touch()

    def work(index: int, numbers: Iterator[int]) -> Iterator[tuple[int, int]]:
        for number in numbers:
            yield number % 100, hash(str(number) * 20)
        leave(f"map-{index}-{TaskContext.get().taskAttemptId()}")

    def read(index: int, pairs: Iterator[Any]) -> Iterator[Any]:
        leave("reduces")
        yield from pairs

    mapped = spark.sparkContext.parallelize(range(rows), MAPS).mapPartitionsWithIndex(work)
    return mapped.groupByKey(REDUCES).mapPartitionsWithIndex(read)


if __name__ == "__main__":
    serve(PoolApplication(*sys.argv[1:]))
