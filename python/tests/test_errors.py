from __future__ import annotations

import pickle

import pytest

import plasmon
from plasmon import _errors, _native


def test_every_code_has_one_class_and_every_class_is_public():
    for number, key, advice in _native.CODES:
        error = _errors.from_native(number, "text", None, 0, 0, None)
        kind = type(error)
        assert kind is not plasmon.PlasmonError, f"no class for the code {key}"
        assert (kind.code, kind.key, kind.advice) == (number, key, advice)
        assert getattr(plasmon, kind.__name__) is kind
        assert kind.__module__ == "plasmon"


def test_a_code_of_a_newer_daemon_is_still_an_error():
    error = _errors.from_native(60_000, "new", None, 1, 2, None)
    assert type(error) is plasmon.PlasmonError
    assert str(error) == "new"


@pytest.mark.parametrize(
    ("kind", "standard"),
    [
        (plasmon.Absent, KeyError),
        (plasmon.Evicted, KeyError),
        (plasmon.StoreFull, MemoryError),
        (plasmon.TimedOut, TimeoutError),
        (plasmon.NotPermitted, PermissionError),
        (plasmon.Disconnected, ConnectionError),
        (plasmon.Io, OSError),
        (plasmon.BadRequest, ValueError),
        (plasmon.Unsupported, NotImplementedError),
    ],
)
def test_errors_are_also_what_python_calls_them(kind, standard):
    with pytest.raises(standard):
        raise kind("text")


def test_errors_carry_facts_and_survive_pickle():
    id = plasmon.ObjectId(bytes(20))
    error = plasmon.Io("the text", id, 5, 7, 28)
    for one in (error, pickle.loads(pickle.dumps(error))):
        assert type(one) is plasmon.Io
        assert str(one) == "the text"
        assert (one.object_id, one.wanted, one.found, one.errno) == (id, 5, 7, 28)


def test_a_refusal_names_the_object_and_what_to_do(store):
    id = store.new_id()
    with pytest.raises(plasmon.Absent) as caught:
        store.get(id, timeout=0)
    assert caught.value.object_id == id
    assert id.hex() in str(caught.value)
    assert plasmon.Absent.advice in str(caught.value)
