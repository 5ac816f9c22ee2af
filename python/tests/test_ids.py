from __future__ import annotations

import copy
import pickle

import pytest

import plasmon
from plasmon import ObjectId


def test_an_id_has_exactly_twenty_bytes():
    assert ObjectId(bytes(20)).binary == bytes(20)
    for length in (0, 19, 21, 40):
        with pytest.raises(ValueError, match=f"20 bytes, found {length}"):
            ObjectId(bytes(length))
    with pytest.raises(TypeError):
        ObjectId("a" * 20)


def test_hexadecimal_digits_come_back():
    id = ObjectId(bytes(range(20)))
    assert str(id) == id.hex() == bytes(range(20)).hex()
    assert ObjectId.from_hex(id.hex()) == id
    assert ObjectId.from_hex(id.hex().upper()) == id
    for text in ("", "0" * 39, "0" * 41, "g" * 40, "é" * 20):
        with pytest.raises(ValueError, match="40 hexadecimal digits"):
            ObjectId.from_hex(text)


def test_ids_are_values():
    id, same, later = ObjectId(bytes(20)), ObjectId(bytes(20)), ObjectId(b"\1" * 20)
    assert id == same
    assert id != later
    assert hash(id) == hash(same)
    assert {id, same, later} == {id, later}
    assert id < later
    assert later >= id
    assert sorted([later, id]) == [id, later]
    assert id != bytes(20)
    with pytest.raises(TypeError):
        assert id < bytes(20)
    assert bytes(later) == b"\1" * 20
    assert eval(repr(later), {"ObjectId": ObjectId}) == later


def test_ids_that_count_in_either_end_hash_apart():
    counted = [
        ObjectId(n.to_bytes(20, order)) for n in range(1, 500) for order in ("big", "little")
    ]
    assert len({hash(id) for id in set(counted)}) == len(set(counted))


def test_ids_survive_pickle_and_copy():
    id = ObjectId.random()
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(id, protocol)) == id
    assert copy.deepcopy(id) == id


def test_random_ids_differ():
    assert len({ObjectId.random() for _ in range(1000)}) == 1000


def test_a_name_is_an_id():
    assert ObjectId.from_name("x") == ObjectId.from_name("x")
    apart = [("a", ""), ("b", ""), ("a", "n"), ("na", ""), ("a", "na")]
    assert len({ObjectId.from_name(*name) for name in apart}) == len(apart)


def test_names_at_and_past_their_limits():
    limits = plasmon._native.LIMITS
    name, namespace = limits["NAME_BYTES_MAX"], limits["NAMESPACE_BYTES_MAX"]
    assert ObjectId.from_name("x" * name, "n" * namespace)
    for bad in [("x" * (name + 1), ""), ("x", "n" * (namespace + 1)), ("", ""), ("a\nb", "")]:
        with pytest.raises(ValueError, match="name"):
            ObjectId.from_name(*bad)


def test_ids_of_a_store_are_new(store):
    assert len({store.new_id() for _ in range(1000)}) == 1000
