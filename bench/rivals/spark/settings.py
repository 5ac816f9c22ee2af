"""The settings of applications: the same with all shuffle managers, except the manager."""

from __future__ import annotations

PACKAGE = "org.apache.spark.shuffle.plasmon"
CELEBORN = "org.apache.spark.shuffle.celeborn"
EXECUTORS = 2

#: SQL without what adapts a plan to what is shuffled.
FIXED_PLANS = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "32",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
}


def conf(
    manager: str, jar: str, executor_mb: int, store_bytes: int = 0, adaptive: bool = False
) -> dict[str, str]:
    """The settings of an application.

    Its own store has the given number of bytes, or as many as the package chooses. With adaptive
    execution SQL has Spark's default settings.
    """
    settings = {
        "spark.master": f"local-cluster[{EXECUTORS},1,{executor_mb}]",
        "spark.executor.memory": f"{executor_mb}m",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.port": "0",
        "spark.ui.showConsoleProgress": "false",
        "spark.network.timeout": "100000s",
        "spark.worker.timeout": "100000",
        "spark.executor.heartbeatInterval": "10000s",
        # The sums over all stages are what the harness asks for.
        "spark.ui.retainedStages": "100000",
    }
    if not adaptive:
        settings |= FIXED_PLANS
    if manager == "plasmon":
        settings |= {
            "spark.shuffle.manager": f"{PACKAGE}.PlasmonShuffleManager",
            "spark.shuffle.sort.io.plugin.class": f"{PACKAGE}.PlasmonShuffleDataIO",
            "spark.driver.extraClassPath": jar,
            "spark.executor.extraClassPath": jar,
        }
        if store_bytes:
            settings["spark.plasmon.store.bytes"] = str(store_bytes)
    return settings


def celeborn_conf(jar: str, endpoints: str, copies: int, timeout_s: int) -> dict[str, str]:
    """What an application has beside with Celeborn's manager, as its documentation advises.

    Its own timeouts are of minutes; these are those of the other managers' applications.
    """
    timeout = f"{timeout_s}s"
    return {
        "spark.shuffle.manager": f"{CELEBORN}.SparkShuffleManager",
        "spark.shuffle.sort.io.plugin.class": f"{CELEBORN}.CelebornShuffleDataIO",
        "spark.driver.extraClassPath": jar,
        "spark.executor.extraClassPath": jar,
        # Records are moved as they are, which those of Java's serializer cannot be.
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.celeborn.master.endpoints": endpoints,
        # Else it hands shuffles to Spark's own manager when it has no worker.
        "spark.celeborn.client.spark.shuffle.fallback.policy": "NEVER",
        "spark.celeborn.client.push.replicate.enabled": str(copies > 1).lower(),
        "spark.celeborn.network.timeout": timeout,
        "spark.celeborn.client.push.timeout": timeout,
        "spark.celeborn.client.fetch.timeout": timeout,
        # A worker that did not answer once is not asked for every block again.
        "spark.celeborn.client.fetch.excludeWorkerOnFailure.enabled": "true",
    }
