"""The results of Spark's suites are compared with docs/spark-suites.md, in both directions."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from spark_suites import DIFFERENCES, JOINED, KNOWN, Outcome, mended, outcome, unwritten, written

ROOT = Path(__file__).resolve().parents[2]
LOG = """JoinSuite:
- one (1 second, 20 milliseconds)
26/11/23 05:33:27 INFO ShutdownHookManager: Shutdown hook called
26/11/23 05:33:27 INFO Application: the shuffle is in the store at /tmp/x.sock
- two: of several *** FAILED *** (734 milliseconds)
  java.lang.AssertionError: assertion failed
- three !!! IGNORED !!!
Run completed in 1 minute, 6 seconds.
"""
PAGE = """| Spark | suite | Spark's manager | ours |
| 3.5.7 | JoinSuite | 10, 0 | 9, 1 |
| JoinSuite, SortingSuite | two: of several | a file |
| JoinSuite | four |
"""


def test_what_the_runner_prints() -> None:
    assert outcome(LOG) == Outcome(["one"], ["two: of several"], True, True)
    assert not outcome(LOG.partition("Run completed")[0]).completed


def test_the_tables_of_the_page() -> None:
    found = written(PAGE)
    assert found["JoinSuite"] == {"two: of several", "four"}
    assert found["SortingSuite"] == {"two: of several"}
    assert found["ShuffleSuite"] == set()
    assert sorted(found) == sorted(KNOWN)


def test_differences_that_are_not_written_are_reported() -> None:
    ours = Outcome(["one"], ["two"], True, True)
    theirs = Outcome(["one", "two"], [], True, True)
    (said,) = unwritten(ours, theirs, set())
    assert said == "fails, and is not in spark-suites.md: two"
    assert unwritten(ours, None, set()) == [said]
    assert unwritten(ours, theirs, {"two"}) == []
    # What fails with Spark's manager, too, is not a difference.
    assert unwritten(ours, Outcome(["one"], ["two"], True, True), set()) == []


def test_a_test_that_did_not_run_is_a_difference() -> None:
    theirs = Outcome(["one", "two"], [], True, True)
    assert unwritten(Outcome(["one"], [], True, True), theirs, set()) == ["did not run: two"]
    (said,) = unwritten(Outcome(["one", "two"], [], False, True), theirs, set())
    assert said == "the suite did not complete"


def test_a_suite_that_overlooks_the_manager_is_reported() -> None:
    """Suites of the core take no system properties: all of them pass with Spark's own manager."""
    theirs = Outcome(["one"], [], True, False)
    assert unwritten(theirs, theirs, set()) == ["no test used Plasmon's manager"]
    driver = ROOT / "spark/src/main/java/org/apache/spark/shuffle/plasmon/Application.java"
    assert JOINED in driver.read_text("utf-8")


def test_a_written_difference_that_passes_is_reported() -> None:
    ours = Outcome(["one"], ["two"], True, True)
    assert mended(ours, {"two"}) == []
    assert mended(ours, {"one"}) == ["passes, and is in spark-suites.md: one"]


def test_the_page_is_read() -> None:
    found = written(DIFFERENCES.read_text("utf-8"))
    assert len(found["ShuffleSuite"]) == 4
    assert found["PairRDDFunctionsSuite"] == found["SortingSuite"] == found["JoinSuite"] == set()
