"""An application of the demo on the machines of a pool, in Spark's environment.

Run as `pool_worker plasmon JAR` or `pool_worker sort`, and asked by
:mod:`scripts.demo_spark.machines`.
"""

from __future__ import annotations

import os
import sys

from bench.rivals.protocol import Answer, serve
from bench.rivals.spark.pool_worker import CORES, MISSED
from scripts.demo_spark.worker import Demo

#: One executor on each machine, and all of them from the first task on.
EXECUTORS = {
    "spark.executor.cores": "1",
    "spark.cores.max": CORES,
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
}


class PoolDemo(Demo):
    """Runs the jobs of the demo with executors on all machines."""

    def op_start_on(
        self, directory: str, executor_mb: int, master: str, host: str, socket: str, copies: int
    ) -> Answer:
        """Notes where the application is to run, and how many copies outputs have."""
        os.environ["PLASMON_SOCKET"] = socket
        # Where the driver's interface is asked for sums; it listens on the loopback device alone.
        os.environ["SPARK_PUBLIC_DNS"] = "127.0.0.1"
        self._more = MISSED | EXECUTORS
        self._more |= {
            "spark.master": master,
            "spark.driver.host": host,
            "spark.driver.bindAddress": host,
        }
        if self.jar:
            self._more |= {"spark.plasmon.pool": "@demo", "spark.plasmon.copies": str(copies)}
        return self.op_start(directory, 0, executor_mb=executor_mb)

    def _conf(self) -> dict[str, str]:
        return super()._conf() | self._more


if __name__ == "__main__":
    serve(PoolDemo(*sys.argv[1:]))
