"""Functions, modules and types that are written by value, as cloudpickle does it.

A function was a pickle by itself: what it shared with the rest of the value was there twice.
"""

from __future__ import annotations

import types
import typing
import weakref
import xml.etree.ElementTree
from typing import Any

import pytest

from plasmon import NotSerializable, PickleRefused, SerializationContext, loads

cloudpickle = pytest.importorskip("cloudpickle")

CLOUD = SerializationContext("cloudpickle")


def back(value: Any) -> Any:
    return CLOUD.loads(CLOUD.dumps(value))


def test_what_a_function_holds_is_shared_with_the_rest():
    shared = [1]

    def add(number: int) -> list[int]:
        shared.append(number)
        return shared

    def look() -> list[int]:
        return shared

    new_add, new_look, new = back([add, look, shared])
    assert new_add(2) is new_look() is new
    assert new == [1, 2]
    assert shared == [1]


def test_functions_of_one_module_have_the_same_globals():
    there = {"__name__": "__main__", "count": 0}
    exec("def up():\n global count\n count += 1\ndef now(): return count", there)
    elsewhere = {"__name__": "__main__", "count": 7}
    exec("def now(): return count", elsewhere)
    for _ in range(2):
        up, now, other = back((there["up"], there["now"], elsewhere["now"]))
        up()
        assert (now(), other()) == (1, 7)
        assert now.__globals__ is up.__globals__ is not other.__globals__
        assert now.__globals__["__name__"] == "__main__"


def test_functions_of_many_modules_are_not_mixed_up():
    """What the globals of a function begin with is remembered of a limited number of modules."""
    for number in range(5000):
        there = {"__name__": f"made_{number}", "number": number}
        exec("def one(): return number\ndef two(): return number", there)
        one, two = back((there["one"], there["two"]))
        assert one() == two() == number
        assert one.__globals__ is two.__globals__
        assert one.__globals__["__name__"] == f"made_{number}"


def test_a_function_may_refer_to_itself():
    def down(number: int) -> int:
        return number and down(number - 1) + 1

    again = back({"f": down, "g": [down]})
    assert again["f"](10) == 10
    assert again["g"][0] is again["f"]


def test_what_a_function_is_besides_its_code():
    def described(a: int, /, b: str = "b", *rest: float, c: None = None) -> bytes:
        """Says what it does."""
        return repr((a, b, rest, c)).encode()

    described.tag = [described]
    again = back(described)
    assert again(1, c=2) == described(1, c=2)
    assert again.__doc__ == described.__doc__
    assert again.__defaults__ == ("b",)
    assert again.__kwdefaults__ == {"c": None}
    assert again.__qualname__ == described.__qualname__
    assert again.__annotations__ == described.__annotations__
    assert again.tag[0] is again


def test_a_module_is_that_module():
    """It was named by whatever module had imported it before."""
    assert back([xml.etree, xml.etree.ElementTree]) == [xml.etree, xml.etree.ElementTree]
    made = types.ModuleType("made_here")
    made.value = [1]
    assert back(made).value == [1]
    with pytest.raises(NotSerializable):
        SerializationContext("std").dumps(xml.etree)


def test_types_that_only_cloudpickle_takes():
    variable = typing.TypeVar("variable", bound=int)
    first, second = back((variable, variable))
    assert first is second
    assert first.__bound__ is int

    class Key:
        pass

    key = Key()
    again, keys = back([weakref.WeakSet([key]), [key]])
    assert list(again) == keys


def test_a_class_from_no_module():
    class Foreign:
        pass

    Foreign.__module__ = None
    with pytest.raises(NotSerializable, match="Foreign"):
        SerializationContext().dumps(Foreign())


def test_a_module_is_chosen_to_be_written_by_value():
    name = xml.etree.ElementTree.iselement
    assert b"_make_function" not in CLOUD.dumps(name)
    cloudpickle.register_pickle_by_value(xml.etree)
    try:
        written = CLOUD.dumps(name)
    finally:
        cloudpickle.unregister_pickle_by_value(xml.etree)
    assert b"_make_function" in written
    assert CLOUD.loads(written) is not name


def test_nothing_of_it_is_read_without_pickle():
    with pytest.raises(PickleRefused):
        loads(CLOUD.dumps(lambda: 1))
