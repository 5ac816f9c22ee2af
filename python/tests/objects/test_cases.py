"""Every value of the table comes back as what it was or is refused by name."""

from __future__ import annotations

import importlib.util

import pytest

import plasmon
from plasmon import NotSerializable, SerializationContext

from .cases import Case, every_case

CASES = every_case()
TRUSTED = SerializationContext("cloudpickle")
STANDARD = SerializationContext("std")


def _ids(case: Case) -> str:
    return case.name


def _require(case: Case) -> None:
    needs = (*case.needs, *(("cloudpickle",) if case.level == "cloudpickle" else ()))
    for library in needs:
        if importlib.util.find_spec(library) is None:
            pytest.skip(f"needs {library}")


def test_the_names_are_those_of_one_case_each():
    names = [case.name for case in CASES]
    assert len(set(names)) == len(names)
    assert len(names) > 84


@pytest.mark.parametrize("form", ["small", "stream"])
@pytest.mark.parametrize("case", CASES, ids=_ids)
def test_a_value_comes_back_as_it_was(case: Case, form: str):
    _require(case)
    value = case.make()
    back = TRUSTED.loads(TRUSTED.dumps(value, form=form))
    assert case.holds(value, back), repr(back)[:200]


@pytest.mark.parametrize("case", CASES, ids=_ids)
def test_without_pickle_it_comes_back_or_is_refused(case: Case):
    _require(case)
    value = case.make()
    if case.level:
        with pytest.raises(NotSerializable):
            plasmon.dumps(value)
    else:
        assert case.holds(value, plasmon.loads(plasmon.dumps(value)))


@pytest.mark.parametrize("case", CASES, ids=_ids)
def test_what_pickle_wrote_is_refused_without_it(case: Case):
    _require(case)
    if not case.level:
        pytest.skip("needs no pickle")
    data = TRUSTED.dumps(case.make())
    with pytest.raises(plasmon.PickleRefused, match="pickle"):
        plasmon.loads(data)
    if case.level == "cloudpickle":
        with pytest.raises((plasmon.PickleRefused, NotSerializable)):
            STANDARD.loads(STANDARD.dumps(case.make()))


@pytest.mark.parametrize("case", CASES, ids=_ids)
def test_canonical_bytes_hold_the_same_value(case: Case):
    _require(case)
    context = TRUSTED.clone(canonical=True)
    value = case.make()
    assert case.holds(value, context.loads(context.dumps(value)))


@pytest.mark.parametrize("case", CASES, ids=_ids)
def test_a_store_gives_back_what_was_put(case: Case, store: plasmon.Store):
    _require(case)
    value = {"in a value": [case.make(), case.name]}
    back = store.get(store.put(value))
    assert case.holds(value["in a value"][0], back["in a value"][0])
