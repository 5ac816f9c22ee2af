"""A store reads like a dict."""

from __future__ import annotations

import pytest

import plasmon


def test_values_by_key(own):
    store = own()
    id = store.put([1], name="one")
    other = store.put([2])
    store.flush()
    assert store["one"] == store[id] == [1]
    assert store[other] == [2]
    assert "one" in store
    assert id in store
    assert "two" not in store
    assert 7 not in store
    with pytest.raises(KeyError, match="two"):
        store["two"]
    with pytest.raises(TypeError, match="found list"):
        store[["one"]]


def test_keys_are_what_the_objects_are_called(own):
    store = own()
    assert len(store) == 0
    assert store, "a connection to an empty store is no nothing"
    id = store.put(b"")
    store.put(b"", name="named")
    store.put(b"", name="elsewhere", namespace="lab")
    with store.builder("int64") as column:
        column.append(1)
        built = column.finish()
    writer = store.create(8, name="unfinished")
    store.flush()
    assert set(store) == {id, "named", built}
    assert len(store) == 3
    assert dict(store) == {key: store.get(key) for key in store}
    writer.abort()
    del store["named"]
    assert "named" not in store
    with pytest.raises(plasmon.Absent):
        del store["never"]


def test_a_default_comes_instead_of_what_is_not_there(own):
    store = own()
    store.put(1, name="one")
    store.put(2, name="gone")
    assert store.get("one", None) == 1
    assert store.delete("gone") == 1
    assert store.get("gone", "default") == "default"
    assert store.get("never", None) is None
    assert store.get(["one", "never", "gone"], 0) == [1, 0, 0]
    writer = store.create(8, name="unfinished")
    assert store.get("unfinished", None) is None
    writer.abort()
    with pytest.raises(plasmon.NotFound):
        store.get("never")
    with pytest.raises(TypeError, match="a default"):
        store.get("one", "two", "three")


def test_one_delete(own):
    store = own()
    store.put(1, name="a")
    store.put(2, name="b")
    assert store.delete(["a", "never"]) == 1
    with pytest.raises(plasmon.NotFound):
        store.delete(["b", "never"], missing="raise")
    store.put(2, name="c")
    none, absent = store.delete(["c", "never"], missing="raise", errors="return")
    assert none is None
    assert isinstance(absent, plasmon.NotFound)
    store.put(2, name="d")
    assert store.delete(["d", "never"], errors="return") == [None, None]
