"""What the store of an application may take, what it gives back, and what Spark shows of it."""

from __future__ import annotations

import json
import re
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from stores import ask, line
from submitting import Spark, submitter

MIB = 1 << 20

#: Where the objects of each shuffle are.
PLACES = """
import collections, json, plasmon, sys
found = collections.Counter()
for it in plasmon.connect(sys.argv[1]).list():
    found[it.name.split("/")[0], it.state] += 1
print(json.dumps([[*where, count] for where, count in found.items()]))
"""


def test_a_store_that_does_not_fit_is_refused_at_the_start(spark35: Spark, tmp_path: Path) -> None:
    finished = spark35.run(
        "local-cluster[2,1,1024]", "memory.py", "blocks", str(tmp_path), spark_plasmon_memory="0.99"
    )
    assert finished.code != 0
    assert "spark.plasmon.memory=0.99 asks for a store of" in finished.log
    assert "2 executors of 1.4 GiB" in finished.log
    assert not list(spark35.scratch.glob("plasmon-spark-*"))


@pytest.mark.slow
def test_the_stores_of_two_applications_do_not_take_all_memory(
    spark35: Spark, tmp_path: Path
) -> None:
    """Each took half of the machine, beside the heaps of both."""
    with closing(submitter("3.5")) as others:
        other = next(others)
        running = spark35.start("local[2]", "memory.py", "finished", str(tmp_path))
        line(running)
        # It sees the first one in the temporary directory that they share.
        job = ("local[2]", "memory.py", "blocks", str(tmp_path))
        shared = {"spark_driver_extraJavaOptions": f"-Djava.io.tmpdir={spark35.scratch}"}
        second = other.run(*job, **shared)
        assert second.code == 0, second.log[-4000:]
        assert re.search("store holds up to .* the driver 1.4 GiB, 1 other application", second.log)
        refused = other.run(*job, **shared, spark_plasmon_memory="0.6")
        assert refused.code != 0
        assert "spark.plasmon.memory=0.6 asks for a store of" in refused.log
        assert "and the stores of other applications that run" in refused.log
        (tmp_path / "go-on").touch()
        assert spark35.finish(running).results() == {"finished": [1000, 1000, 1600]}


@pytest.mark.slow
def test_finished_shuffles_are_spilled_before_those_in_use(spark: Spark, tmp_path: Path) -> None:
    """The third one found no room: the first is older, but the second was marked last."""
    settings = {"spark_plasmon_store_bytes": "32m", "spark_plasmon_run_bytes": "512k"}
    running = spark.start("local[2]", "memory.py", "finished", str(tmp_path), **settings)
    socket = line(running)["socket"]
    places: Counter[str] = Counter()
    for shuffle, state, count in json.loads(ask(PLACES, socket)):
        places[f"{shuffle} {state}"] += count
    assert places["shuffle-1 spilled"] > 0, places
    assert places["shuffle-0 spilled"] == places["shuffle-2 spilled"] == 0, places
    (tmp_path / "go-on").touch()
    assert spark.finish(running).results() == {"finished": [1000, 1000, 1600]}


@pytest.mark.slow
def test_the_memory_of_queries_does_not_add_up(spark: Spark, tmp_path: Path) -> None:
    """234 MB became 1643 MB over two queries: what they had shuffled stayed for half an hour."""
    settings = {"spark_plasmon_store_bytes": "32m", "spark_sql_adaptive_enabled": "true"}
    finished = spark.run("local[2]", "memory.py", "queries", str(tmp_path), **settings)
    held, left, written = finished.results()["queries"]
    assert max(held) > 0.6 * 32 * MIB, "they fill the store"
    # The last one may still be held when the collector runs.
    assert left <= 1.1 * held[0], (held, left)
    assert written < 4 * MIB


def test_the_ui_and_the_metrics_show_the_store(spark: Spark, tmp_path: Path) -> None:
    settings = {"spark_ui_enabled": "true", "spark_ui_port": "0"}
    settings |= {"spark_plasmon_store_bytes": "64m"}
    finished = spark.run("local[2]", "memory.py", "shown", str(tmp_path), **settings)
    (page, other), metrics, records = finished.results()["shown"]
    assert records == 300
    assert metrics["capacityBytes"] == 64 * MIB
    assert 300 * 10_000 < metrics["usedBytes"] < 64 * MIB
    assert metrics["objects"] >= 4
    assert {"spilledBytes", "spillWrittenBytes", "restoredBytes", "roomWaits"} <= set(metrics)
    assert "<td>Capacity</td><td>64.0 MiB</td>" in page
    assert "the store holds up to 64 MiB of the" in page
    assert "finished: the first to leave the memory" in page
    for each in (page, other):
        assert "/plasmon/" in each, "every page leads to the tab"


@pytest.mark.slow
def test_executors_count_their_waits_for_room(spark: Spark, tmp_path: Path) -> None:
    sink = "spark_metrics_conf_executor_sink_csv_"
    settings = {
        f"{sink}class": "org.apache.spark.metrics.sink.CsvSink",
        f"{sink}period": "1",
        f"{sink}directory": str(tmp_path),
    }
    cluster = "local-cluster[2,1,1024]"
    spark.run(cluster, "memory.py", "blocks", str(tmp_path), **settings).results()
    # One of them may have run all tasks.
    found = {file.name.split(".", 2)[2] for file in tmp_path.glob("*.plasmon.*.csv")}
    assert found == {"plasmon.roomWaits.csv", "plasmon.roomWaitMs.csv"}


def reads(folder: Path) -> dict[str, Any]:
    """Sums of what an application's tasks say of their reads."""
    names = ["Local Blocks Fetched", "Remote Blocks Fetched", "Total Records Read"]
    sums: Counter[str] = Counter(dict.fromkeys(names, 0))
    waited = ran = 0
    for file in folder.rglob("*"):
        for event in file.read_text().splitlines() if file.is_file() else []:
            if '"SparkListenerTaskEnd"' not in event:
                continue
            task = json.loads(event)["Task Metrics"]
            sums.update({name: task["Shuffle Read Metrics"][name] for name in names})
            waited += task["Shuffle Read Metrics"]["Fetch Wait Time"]
            ran += task["Executor Run Time"]
    assert 0 <= waited <= ran
    return dict(sums)


@pytest.mark.slow
def test_blocks_and_records_are_counted_as_spark_does(spark35: Spark, tmp_path: Path) -> None:
    """A block that was in several runs counted for each of them."""
    found = []
    with closing(submitter("3.5", plasmon=False)) as others:
        for each, name in ((spark35, "ours"), (next(others), "sparks")):
            folder = tmp_path / name
            folder.mkdir()
            settings = {
                "spark_eventLog_enabled": "true",
                "spark_eventLog_compress": "false",
                "spark_eventLog_dir": f"file://{folder}",
            }
            done = each.run("local[2]", "memory.py", "blocks", str(tmp_path), **settings)
            found.append((done.results(), reads(folder)))
    assert found[0] == found[1]
    assert found[0][1]["Local Blocks Fetched"] > 0
