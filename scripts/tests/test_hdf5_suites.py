"""The output of foreign suites is read correctly."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from hdf5_suites import Outcome, Pair, api_outcome, comparable, confirmed, pytest_outcome, table

API = """156/170 (91.76%) API tests passed with VOL connector 'x'
2/170 (1.18%) API tests did not pass with VOL connector 'x'
15/170 (8.82%) API tests were skipped with VOL connector 'x'
"""
RANKS = """At least 30/34 (88.24%) API tests passed across all ranks with VOL connector 'x'
0/34 (0.00%) API tests did not pass across all ranks with VOL connector 'x'
4/34 (11.76%) API tests were skipped with VOL connector 'x'
"""
PYTEST = """PASSED a.py::one
PASSED a.py::two[x - y]
FAILED a.py::three - AssertionError
SKIPPED [2] a.py:4: no reason
"""


def test_hdf5_counts() -> None:
    assert api_outcome(API, 1) == Outcome(156, 2, 15)
    assert api_outcome(RANKS, 0) == Outcome(30, 0, 4)
    assert api_outcome("Testing H5Fcreate", -11).broken == "ended with -11"


def test_pytest_names() -> None:
    outcome = pytest_outcome(PYTEST, 1)
    assert (outcome.passed, outcome.failed, outcome.skipped) == (2, 1, 2)
    assert "a.py::one" in outcome.names
    assert pytest_outcome(PYTEST, -6).broken == "ended with -6"


@pytest.mark.parametrize(
    ("native", "ours", "good"),
    [
        (Outcome(10, 0, 1), Outcome(10, 0, 1), True),
        (Outcome(10, 0, 1), Outcome(11, 0, 0), True),
        (Outcome(10, 0, 1), Outcome(9, 0, 2), False),
        (Outcome(10, 0, 1), Outcome(10, 1, 1), False),
        (Outcome(10, 0, 1), Outcome(broken="ended with -11"), False),
        (Outcome(0, 0, 0), Outcome(0, 0, 0), False),
    ],
)
def test_never_fewer_than_hdf5_alone(native: Outcome, ours: Outcome, good: bool) -> None:
    pair = Pair("api x", native, ours)
    assert pair.good == good
    assert ("NOT GOOD" in table([pair])) == (not good)


def test_what_hides_connectors_is_not_compared() -> None:
    names = frozenset({"tests/test_h5pl.py::test_append", "tests/test_file.py::test_create"})
    assert comparable(Outcome(2, 1, 0, names)).passed == 1
    assert comparable(Outcome(broken="ended with -11")).broken


def test_what_could_be_arrow_and_is_not_is_a_fault() -> None:
    good = "ARROW 2 of 2 datasets that can be"
    bad = "NOT ARROW int8 of shape (3,): chunked"
    assert confirmed(f"...\n{good}\n1 passed") == (good,)
    assert confirmed(f"{bad}\nARROW 1 of 2 datasets that can be\n") == (bad,)
    native = Outcome(1, 0, 0, frozenset("a"))
    for line, fine in ((good, True), (bad, False)):
        pair = Pair("h5py", native, native, confirmed=(line,))
        assert pair.good == fine
        assert line in table([pair])


def test_what_may_be_lost_is_known_by_name() -> None:
    native = Outcome(3, 1, 0, frozenset("abc"))
    ours = Outcome(2, 2, 0, frozenset("ab"))
    for differences, good in (("c", True), ("ac", True), ("a", False), ("", False)):
        pair = Pair("h5py", native, ours, ("c",), frozenset(differences))
        assert pair.good == good
        assert f"only with HDF5 alone, {'known' if good else 'UNKNOWN'}: c" in table([pair])
