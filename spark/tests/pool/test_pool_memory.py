"""What leaves the memory of the nodes first."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from machines import NAMESPACES, PoolSpark, pool_spark
from stores import line as next_line
from table import row

MIB = 1 << 20


def places(spark: PoolSpark, at: int) -> Counter[tuple[str, str]]:
    """How many runs of each shuffle a node has, by where they are there."""
    found: Counter[tuple[str, str]] = Counter()
    with spark.machines.nodes[at].connect() as store:
        for info in store.list():
            if info.namespace.startswith(NAMESPACES):
                found[info.name.split("/")[0], info.state] += 1
    return found


@pytest.mark.slow
def test_finished_shuffles_are_spilled_before_those_in_use(line: str, tmp_path: Path) -> None:
    """On every node: each has a copy of all runs, and room for two of the three shuffles. They were
    spilled in the order of their use, so the first one went, and parts of the one in use."""
    with (
        pool_spark(line, spilling_bytes=32 * MIB) as spark,
        row("finished shuffles go first", line, 3) as made,
    ):
        settings = {"spark_plasmon_copies": "3", "spark_plasmon_run_bytes": "512k"}
        words = ("memory.py", "finished", str(tmp_path))
        running = spark.start(spark.cluster.master, *words, **settings)
        next_line(running)
        for at in range(spark.machines.count):
            found = places(spark, at)
            assert found["shuffle-1", "spilled"] > 0, found
            others = found["shuffle-0", "spilled"] + found["shuffle-2", "spilled"]
            assert others == 0, found
        (tmp_path / "go-on").touch()
        assert spark.finish(running).results() == {"finished": [1000, 1000, 1600]}
        made.account = spark.account()
        spark.until_gone()
