"""Adaptive execution and streams do with Plasmon's manager what they do with Spark's own."""

from __future__ import annotations

from pathlib import Path

import pytest
from submitting import Spark

#: As in queries.py, which only Spark's interpreter can import.
FILES, ROWS = 4, 500


@pytest.mark.slow
def test_plans_change_while_they_run_and_streams_go_batch_by_batch(
    spark: Spark, tmp_path: Path
) -> None:
    settings = {"spark_sql_adaptive_skewJoin_skewedPartitionFactor": "1.5"}
    found = spark.run("local[2]", "queries.py", str(tmp_path), **settings).results()
    keys = [[key, sum(range(key, 5_000, 10))] for key in range(10)]
    assert found["coalesced"] == [True, keys]
    # As with Spark's own manager: 10 MB, of which its codec leaves a tenth of one.
    assert found["planned"] == [0]
    skewed = [n % 400 if n % 20 == 0 else 7 for n in range(80_000)]
    sums = [80_000, sum(range(80_000)), 3 * sum(skewed), "y" * 40]
    assert found["split"] == [True, sums]
    few = [n % 997 for n in range(20_000) if n % 997 % 100 == 3]
    assert found["local"] == [True, [len(few), 2 * sum(few)]]
    numbers = [(n % 7, file * ROWS + n) for file in range(FILES) for n in range(ROWS)]
    by_key = [[n for key, n in numbers if key == wanted] for wanted in range(7)]
    expected = [[key, sum(found), len(found)] for key, found in enumerate(by_key)]
    assert found["stream"] == [FILES, expected]
