"""Where pickle gives back a value, so do we: cycles through keys and arguments, hidden attributes.

What is here was written once and came back as something else, or could not be read at all.
"""

from __future__ import annotations

import array
import collections
import ctypes
import datetime as dt
import mmap
import pickle
import types
from typing import Any

import pytest

import plasmon
from plasmon import NotSerializable, SerializationContext

from . import classes

np = pytest.importorskip("numpy")

from ..random_values import numpy_values, standard  # noqa: E402, F401
from ..random_values.compare import differences  # noqa: E402

STANDARD = SerializationContext("std")


def back(value: Any) -> Any:
    return STANDARD.loads(STANDARD.dumps(value))


# Arrays. How one is written depends on its elements, not on its class: a list that began with an
# array of strings had all others taken for such, which read invalid memory.


def _foreign() -> Any:
    return np.array(["a", "bc"], dtype=np.dtypes.StringDType())


def _fields() -> Any:
    return np.array([(1, None)], [("a", int), ("b", object)])


def _in_objects(*items: Any) -> Any:
    array = np.empty(len(items), object)
    for at, item in enumerate(items):
        array[at] = item
    return array


@pytest.mark.parametrize("first", [_foreign, _fields])
@pytest.mark.parametrize(
    "holder",
    [
        lambda *items: list(items),
        lambda *items: items,
        lambda *items: dict(enumerate(items)),
        lambda *items: {"many": [*items] * 5},
        _in_objects,
        lambda *items: [classes.Plain(item) for item in items] * 3,
    ],
    ids=["list", "tuple", "dict", "many", "objects", "rows"],
)
def test_arrays_of_all_kinds_follow_one_another(first, holder):
    others = (np.arange(3), np.array([1, None]), np.ones((2, 2), "F", "F"), first())
    value = holder(first(), *others)
    again, wanted = back(value), pickle.loads(pickle.dumps(value))
    assert repr(again) == repr(wanted) or [repr(part.value) for part in again] == [
        repr(part.value) for part in wanted
    ]


def test_objects_may_lie_at_odd_addresses():
    """Fields of packed records do."""
    records = np.zeros(3, [("flag", "u1"), ("object", object)])
    records["object"] = ["a", None, ["b"]]
    for value in (records["object"][1:2], records["object"], records["object"][::-1]):
        assert back([value])[0].tolist() == value.tolist()


# Dicts that a key of theirs refers to.


class Key:
    def __init__(self, value: Any) -> None:
        self.value = value


class Hashed(Key):
    """Its hash needs its state."""

    def __hash__(self) -> int:
        return hash(self.name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Hashed) and self.name == other.name

    def __init__(self, name: str, value: Any) -> None:
        super().__init__(value)
        self.name = name


class Ordered(collections.OrderedDict):
    pass


class Plainest(dict):
    pass


class Counted(collections.Counter):
    pass


class Holder:
    """Gives its parts to its constructor, as a list that it makes for that."""

    def __init__(self, parts: Any) -> None:
        self.parts = list(parts)

    def __reduce__(self) -> Any:
        return Holder, (list(self.parts),)


KINDS = {
    "OrderedDict": collections.OrderedDict,
    "defaultdict": lambda: collections.defaultdict(int),
    "Counter": collections.Counter,
    "dict": dict,
    "subclass of OrderedDict": Ordered,
    "subclass of dict": Plainest,
    "subclass of Counter": Counted,
}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("key", [Key, lambda value: Hashed("k", value)], ids=["key", "hashed"])
def test_a_key_may_refer_to_its_dict(kind, key):
    value = kind()
    value[key([value])] = 5
    try:
        pickle.loads(pickle.dumps(value))
    except AttributeError:
        pytest.skip("for pickle, too, the key is needed before it has its state")
    again = back({"in": value})["in"]
    assert type(again) is type(value)
    ((found, five),) = again.items()
    assert found.value[0] is again
    assert again[found] == five == 5


def test_what_is_copied_is_whole_before_what_is_kept():
    """A key's constructor keeps a dict that leads back: the counter copied nothing at all."""
    value = Counted()
    kept: dict[str, Any] = {}
    value[Own(kept)] = 5
    kept["back"] = [value]
    pickle.loads(pickle.dumps(value))
    again = back([value])[0]
    ((key, count),) = again.items()
    assert count == 5
    assert key.other["back"][0] is again


def test_what_a_constructor_is_given_is_whole():
    value = Holder([])
    value.parts += [Key(value), 7]
    again = back([value])[0]
    assert type(again) is Holder
    assert again.parts[0].value is again
    assert again.parts[1] == 7


# Small values that were written and could not be read.


@pytest.mark.parametrize("empty", [np.str_(""), np.bytes_(b""), np.void(b"")], ids=repr)
def test_empty_scalars(empty):
    for value in (empty, [empty], [empty, type(empty)(empty)], {"a": (empty, 1)}):
        again = plasmon.loads(plasmon.dumps(value))
        assert repr(again) == repr(value)


RECORDS = np.rec.array([(1, 2.0), (3, 4.0)], names="a,b")
ALIGNED = np.dtype([("a", "u1"), ("b", "f8")], align=True)
UNIT = np.dtype("f8", metadata={"unit": "m"})


@pytest.mark.parametrize(
    "value",
    [
        *(RECORDS, RECORDS[0], RECORDS.view(np.ndarray), ALIGNED, UNIT, np.ones(3, UNIT)),
        *(np.zeros((2, 3), ALIGNED, "F"), np.zeros(2, ALIGNED)[0], np.dtype((np.record, ALIGNED))),
        np.array([["a", "b"], ["c", "d"]], np.dtypes.StringDType()).T,
    ],
    ids=repr,
)
def test_element_types_that_are_more_than_a_name(value):
    again = plasmon.loads(plasmon.dumps([value]))[0]
    assert differences(value, again) == []


def test_objects_keep_their_order():
    for value in (np.array([[1, None], ["a", 2j]], order="F"), np.full((2, 3, 4), None).T):
        again = plasmon.loads(plasmon.dumps([value, value]))[1]
        assert again.flags.f_contiguous
        assert not again.flags.c_contiguous
        assert again.tolist() == value.tolist()


def test_what_is_between_fields_is_no_memory_of_ours():
    """A copy of some of the elements had anything in there: it was written to the store."""
    value = np.zeros(6, ALIGNED)[::2]
    wanted = value.view("V16").tobytes()
    for _ in range(20):
        again = plasmon.loads(plasmon.dumps([value]))[0]
        assert again.view("V16").tobytes() == wanted


def test_methods_of_objects_in_the_value():
    value: list[Any] = [1]
    value += [value.append, value.__len__, "a".join, dict.fromkeys, type(...), type(NotImplemented)]
    again = back(value)
    assert again[1].__self__ is again
    assert again[2]() == 7
    assert again[3](["b", "c"]) == "bac"
    assert again[4:] == value[4:]
    method = value.append
    value.append(method)
    assert back(method).__self__[1].__self__ is not None


def test_what_only_cloudpickle_takes():
    pytest.importorskip("cloudpickle")
    context = SerializationContext("cloudpickle")

    def closure() -> Any:
        return shared

    shared = [1]
    cell = closure.__closure__[0]
    proxy = types.MappingProxyType({"a": shared})
    again = context.loads(context.dumps([cell, cell, proxy, shared, {1: 2}.keys(), property(len)]))
    assert again[0] is again[1]
    assert again[0].cell_contents is again[2]["a"] is again[3]
    assert list(again[4]) == [1]
    assert again[5].fget is len
    for value in (cell, proxy):
        with pytest.raises(NotSerializable):
            STANDARD.dumps(value)


class Lent(bytes):
    pass


class Lending(array.array):
    pass


@pytest.mark.parametrize("value", [Lent(b"abc"), Lending("i", [1])])
def test_what_lends_memory_is_still_of_its_type(store, value):
    for again in (store.get(store.put(value)), store.get(store.put([value]))[0]):
        assert type(again) is type(value)
        assert bytes(again) == bytes(value)
    mapped = mmap.mmap(-1, 10)
    assert type(store.get(store.put(mapped))) is memoryview
    with pytest.raises(TypeError, match="format"):
        store.put((ctypes.c_int * 2)(1, 2))


def test_scalars_of_arrow(store):
    pa = pytest.importorskip("pyarrow")
    for value in (pa.scalar("x"), pa.scalar(b"x"), pa.scalar(3), pa.scalar([1])):
        again = store.get(store.put(value))
        assert type(again) is type(value)
        assert again.equals(value)


def test_zones_with_an_empty_name():
    zone = dt.timezone(dt.timedelta(hours=1), "")
    for value in (zone, dt.datetime(2026, 1, 1, tzinfo=zone), dt.time(1, tzinfo=zone)):
        assert repr(back([value])[0]) == repr(value)
        with pytest.raises(NotSerializable):
            plasmon.dumps(value)


# Attributes that a descriptor of the class hides.


class Checked:
    def __init__(self, size: Any) -> None:
        self.__dict__["size"] = size
        self.__dict__["other"] = -1

    @property
    def size(self) -> Any:
        return self.__dict__["size"]


@pytest.mark.parametrize("count", [1, 20])
def test_hidden_attributes(count):
    value = [Checked(number) for number in range(count)]
    registered = SerializationContext()
    registered.register(Checked)
    for context in (STANDARD, registered):
        again = context.loads(context.dumps(value))
        assert [list(vars(one).items()) for one in again] == [
            list(vars(one).items()) for one in value
        ]
        assert [one.size for one in again] == list(range(count))


def test_polynomials_of_numpy():
    value = np.poly1d([1.0, 2.0, 3.0])
    again = back([value])[0]
    assert again(2) == value(2)
    assert again.coeffs.tolist() == [1.0, 2.0, 3.0]


class Own:
    def __reduce__(self) -> Any:
        return Own, (self.other,)

    def __init__(self, other: Any = None) -> None:
        self.other = other


def test_arguments_may_hold_the_object():
    value = Own()
    value.other = [(value, 1)]
    again = back(value)
    assert again.other[0][0] is again
    # Pickle takes this apart forever.
    value.other = (value,)
    with pytest.raises((NotSerializable, ValueError), match="own arguments"):
        back(value)


class Named:
    """Is called with values and with names."""

    def __new__(cls, *values: Any, unit: Any = None) -> Named:
        made = super().__new__(cls)
        made.values, made.unit = values, unit
        return made

    values: tuple[Any, ...]
    unit: Any

    def __getnewargs_ex__(self) -> Any:
        return self.values, {"unit": self.unit}


class Later:
    """Gets its state later."""

    def __init__(self) -> None:
        self.held: Any = None


@pytest.mark.parametrize("where", ["alone", "in a list", "from its argument", "in the names"])
@pytest.mark.parametrize("wrap", [lambda item: (item,), lambda item: ((1, item), [2])])
def test_an_argument_that_refers_back_where_others_are_given_by_name(where: str, wrap: Any):
    """What is given by name was not met yet, and the object was said to be needed for its own
    arguments."""
    holder = Later()
    if where == "in the names":
        holder.held = Named(1, unit=wrap(holder))
    else:
        holder.held = Named(*wrap(holder), unit=[3])
    value = {"in a list": [holder.held, holder], "from its argument": holder}.get(
        where, holder.held
    )
    again = back(value)
    assert differences(pickle.loads(pickle.dumps(value, 5)), again) == []
    assert differences(value, again) == []
