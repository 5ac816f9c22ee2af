"""Which Python values a column takes: those that its type holds without a loss.

pyarrow converts more than that: 1.5 to an integer is 1, a date's time of day is dropped, and a time
with a zone is another time in a column without one. So values are looked at before pyarrow does::

    type of the value ── in the column's rules: always taken, or asked by a quick test
                      └─ not there: converted, read back, and compared

Rules are by the exact types of the values, which are few in a list: a list of a million integers is
passed with one look at their types (``_native.kinds_of``), which costs less than converting them.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from itertools import chain
from operator import attrgetter
from typing import Any

from plasmon import _native

#: A test of a value; True where each value of a type is taken, or refused by pyarrow.
_Rule = Callable[[Any], bool] | bool

_NONE = type(None)
_LISTS = {list, tuple, _NONE}
_DICTS = {dict, _NONE}
_DAY_S = 86_400
_UNITS_PER_S = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
#: Units that hold what Python's times have.
_FINE = {"us", "ns"}
#: The largest finite values.
_FLOAT_MAX = {16: 65504.0, 32: 3.4028234663852886e38}


class Misfit(ValueError):
    """A value that a column's type cannot hold, with the reason."""


def text_of(value: Any) -> str:
    """A value for an error, no longer than a line."""
    try:
        text = repr(value)
    except Exception:
        text = "a value without a text"
    text = text if len(text) <= 80 else text[:77] + "..."
    return f"{text} ({type(value).__name__})"


class Values:
    """The values that a type takes, and those that need no conversion to be kept."""

    __slots__ = (
        "_depth",
        "_fields",
        "_item",
        "_key",
        "_leaf",
        "_rules",
        "_special",
        "nested",
        "quick",
        "type",
    )

    def __init__(self, type: Any) -> None:
        import pyarrow as pa

        kind = type
        while isinstance(kind, pa.BaseExtensionType):
            kind = kind.storage_type
        if pa.types.is_dictionary(kind):
            kind = kind.value_type
        self.type = kind
        self._fields: dict[str, Values] = {}
        self._item: Values | None = None
        self._key: Values | None = None
        self._rules: dict[Any, _Rule] = {_NONE: True}
        self._special: Callable[[Any], _Rule | None] = _no_rule
        kinds = pa.types
        if kinds.is_struct(kind):
            self._fields = {field.name: Values(field.type) for field in kind}
        elif kinds.is_map(kind):
            self._key, self._item = Values(kind.key_type), Values(kind.item_type)
        elif kinds.is_nested(kind):
            self._item = Values(kind.value_type)
        else:
            self._rules |= _rules(kind)
            self._special = _special(kind)
        # What lies in lists, and in lists of these, if it has no parts itself.
        self._depth, self._leaf = 0, self
        #: Whether its values have parts.
        self.nested: bool = bool(self._fields or self._item)
        if self._item is not None and self._key is None and not self._item._leaf.nested:
            self._depth, self._leaf = self._item._depth + 1, self._item._leaf
        #: By exact types whose values never change: True, or the test that one is taken.
        self.quick: dict[Any, _Rule] = {_NONE: True, **_quick(kind)}

    def copied(self, value: Any) -> Any:
        """A value that cannot change any more, if that needs no conversion to know that it fits.

        Raises :class:`LookupError` for others, which may fit as well.
        """
        rule = self.quick.get(type(value))
        if rule is True or (callable(rule) and rule(value)):
            return value
        if type(value) is list and self._item is not None and self._key is None:
            size = getattr(self.type, "list_size", len(value))
            if size == len(value) <= _COPIED_MAX:
                return [self._item.copied(one) for one in value]
        elif self._item is not None and type(value).__name__ == "ndarray":
            size = getattr(self.type, "list_size", len(value))
            if value.ndim == 1 and size == len(value) and self._item.takes_all(value.dtype):
                return value.copy()
        elif type(value) is dict and value.keys() <= self._fields.keys():
            return {name: self._fields[name].copied(one) for name, one in value.items()}
        raise LookupError

    def check(self, value: Any) -> None:
        """Raises :class:`Misfit` for a value that would lose something."""
        if value is None:
            return
        if self._fields:
            if type(value) is dict:
                self._check_structs([value])
            else:
                self._check_struct(value)
        elif self._key is not None and self._item is not None:
            for key, item in _pairs(value):
                self._key.check(key)
                self._item.check(item)
        elif self._item is not None:
            if type(value) is list:
                self._item.check_all(value)
            else:
                self._check_list(value, self._item)
        else:
            rule = self._rule(type(value))
            if rule is not True and not (rule(value) if callable(rule) else self._returns(value)):
                raise Misfit(f"{text_of(value)} would come back as another value")

    def check_all(self, values: list[Any]) -> None:
        """:meth:`check` of many values at once."""
        if self._depth:
            inner = _native.kinds_of(values, self._depth)
            if inner is not None and self._leaf.takes_kinds(inner):
                return
        kinds = _native.kinds_of(values) or set()
        if self._item is not None and self._key is None:
            if kinds <= _LISTS:
                self._item.check_all([*chain.from_iterable(filter(None, values))])
                return
            if self._item.takes_arrays(values, kinds):
                return
        elif self._fields and kinds <= _DICTS:
            self._check_structs([value for value in values if value is not None])
            return
        if self._fields or self._item is not None:
            for value in values:
                self.check(value)
            return
        for kind in kinds:
            rule = self._rule(kind)
            if rule is not True and not self._fits_all(kind, kinds, values):
                for value in values:
                    if type(value) is kind:
                        self.check(value)

    def takes_kinds(self, kinds: set[Any]) -> bool:
        """Whether the type holds all values of these types, or pyarrow refuses them."""
        return all(self._rule(kind) is True for kind in kinds)

    def _fits_all(self, kind: Any, kinds: set[Any], values: list[Any]) -> bool:
        """Whether one check covers all values of a type together."""
        whole = _WHOLE.get(kind)
        if whole is None or not kinds <= {kind, _NONE}:
            return False
        if _NONE in kinds:
            values = [value for value in values if value is not None]
        return whole(self.type, values)

    def _rule(self, kind: Any) -> _Rule | None:
        rule = self._rules.get(kind)
        if rule is None:
            rule = self._special(kind)
            if rule is not None:
                self._rules[kind] = rule
        return rule

    def _returns(self, value: Any) -> bool:
        """Whether a value is equal to what is read after it was converted."""
        import pyarrow as pa

        if isinstance(value, pa.Scalar):
            # pyarrow takes none of another type.
            return True
        back = pa.scalar(value, self.type).as_py()
        return back is None or bool(back == value)

    def _check_structs(self, values: list[dict[Any, Any]]) -> None:
        if not set().union(*values) <= self._fields.keys():
            for value in values:
                self._check_names(value)
        for name, inner in self._fields.items():
            inner.check_all([value.get(name) for value in values])

    def _check_names(self, value: Mapping[Any, Any]) -> None:
        unknown = [name for name in value if name not in self._fields]
        if unknown:
            raise Misfit(f"{text_of(value)} has {unknown!r}, of which {self.type} has no field")

    def _check_struct(self, value: Any) -> None:
        if isinstance(value, tuple | list):
            # Pairs of names and values, or the values of all fields in their order.
            paired = all(isinstance(one, tuple) and len(one) == 2 for one in value)
            value = dict(value if paired else zip(self._fields, value, strict=True))
        if isinstance(value, Mapping):
            self._check_names(value)
            for name, inner in self._fields.items():
                inner.check(value.get(name))

    def _check_list(self, value: Any, item: Values) -> None:
        if isinstance(value, str | Mapping):
            raise Misfit(f"{text_of(value)} is not a list, which {self.type} takes")
        if hasattr(value, "dtype") and hasattr(value, "tolist"):
            if not item.takes_all(value.dtype):
                item.check_all(value.tolist())
        elif isinstance(value, Iterator):
            raise Misfit(f"{text_of(value)} can be read only once: make a list of it")
        elif isinstance(value, Iterable) and not isinstance(value, bytes | bytearray):
            item.check_all([*value])

    def takes_all(self, dtype: Any) -> bool:
        """Whether the type holds all values of a NumPy element type."""
        known = self._rules.get(dtype)
        if known is None:
            import pyarrow as pa

            try:
                known = bool(pa.from_numpy_dtype(dtype) == self.type)
            except (pa.ArrowException, TypeError):
                known = False
            self._rules[dtype] = known
        return known is True

    def takes_arrays(self, values: list[Any], kinds: set[Any]) -> bool:
        """Whether values are NumPy arrays of elements that the type holds."""
        if {kind.__name__ for kind in kinds} != {"ndarray"}:
            return False
        return all(map(self.takes_all, set(map(attrgetter("dtype"), values))))


def _pairs(value: Any) -> Iterable[tuple[Any, Any]]:
    if isinstance(value, Iterator):
        raise Misfit(f"{text_of(value)} can be read only once: make a list of it")
    pairs = value.items() if isinstance(value, Mapping) else value
    for pair in pairs:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise Misfit(f"{text_of(pair)} is not a key with its value")
    return pairs


def _no_rule(_kind: Any) -> None:
    return None


def _are_times(type: Any, values: list[Any]) -> bool:
    """Whether neither times nor a column have a zone; those with one are checked one by one."""
    import pyarrow as pa

    if not pa.types.is_timestamp(type) or type.tz is not None:
        return False
    steps = 1_000_000 // min(_UNITS_PER_S[type.unit], 1_000_000)
    if steps > 1 and any(part % steps for part in map(attrgetter("microsecond"), values)):
        return False
    return set(map(attrgetter("tzinfo"), values)) <= {None}


def _are_finite(type: Any, values: list[Any]) -> bool:
    """Whether floats fit in floats of fewer bits, apart from rounding."""
    import pyarrow as pa
    import pyarrow.compute

    if not pa.types.is_floating(type) or not values:
        return False
    found = pa.compute.min_max(pa.array(values, pa.float64())).as_py()
    largest = _FLOAT_MAX[type.bit_width]
    return all(one is not None and abs(one) <= largest for one in found.values())


#: Tests of many values of one type.
_WHOLE: dict[Any, Callable[[Any, list[Any]], bool]] = {
    datetime.datetime: _are_times,
    float: _are_finite,
}

# Rules: what pyarrow would take and change


def _rules(type: Any) -> dict[Any, _Rule]:
    """Rules of a type without children. True also where pyarrow refuses what does not fit."""
    import pyarrow as pa

    kinds = pa.types
    if kinds.is_timestamp(type) or kinds.is_time(type) or kinds.is_duration(type):
        return _time_rules(type)
    rules: dict[Any, _Rule] = {}
    if kinds.is_integer(type):
        rules = {int: True, bool: True}
    elif kinds.is_floating(type):
        whole: _Rule = True if type.bit_width == 64 else _stays_finite(type)
        rules = {int: True, bool: True, float: whole}
    elif kinds.is_date64(type):
        rules = {datetime.date: True, int: lambda it: it % (_DAY_S * 1000) == 0, **_DATETIMES}
    elif kinds.is_date(type):
        rules = {datetime.date: True, int: True, **_DATETIMES}
    elif kinds.is_decimal(type):
        rules = {Decimal: True, int: True}
    return rules


def _time_rules(type: Any) -> dict[Any, _Rule]:
    """Rules of timestamps, times of a day and durations. Integers are what Arrow has in memory."""
    import pyarrow as pa

    if pa.types.is_timestamp(type):
        return {datetime.datetime: _time_rule(type, zoned=type.tz is not None), int: True}
    if pa.types.is_time(type):
        day = range(_DAY_S * _UNITS_PER_S[type.unit])
        return {datetime.time: _time_rule(type, zoned=False), int: day.__contains__}
    fits: _Rule = True if type.unit in _FINE else _whole(_UNITS_PER_S[type.unit])
    return {datetime.timedelta: fits, int: True}


def _special(type: Any) -> Callable[[Any], _Rule | None]:
    """Rules of types of values that are not known beforehand, such as NumPy's."""
    import numbers

    import pyarrow as pa

    kinds = pa.types
    if kinds.is_integer(type):
        return lambda kind: True if issubclass(kind, numbers.Integral) else None
    if kinds.is_floating(type):
        finite = _stays_finite(type) if type.bit_width < 64 else True
        return lambda kind: finite if issubclass(kind, float | numbers.Real) else None
    if any(is_one(type) for is_one in (kinds.is_timestamp, kinds.is_time, kinds.is_duration)):
        return _no_rule
    if kinds.is_date(type) or kinds.is_decimal(type):
        return _no_rule
    # Bytes, text, booleans, nulls and intervals: pyarrow refuses what it would change.
    return lambda _kind: True


def _stays_finite(type: Any) -> Callable[[Any], bool]:
    largest = _FLOAT_MAX[type.bit_width]

    def stays_finite(value: Any) -> bool:
        value = float(value)
        return abs(value) <= largest or not math.isfinite(value)

    return stays_finite


#: A time of day would be dropped, and a zone.
_DATETIMES: dict[Any, _Rule] = {
    datetime.datetime: lambda it: it.tzinfo is None and it.time() == datetime.time()
}


def _time_rule(type: Any, *, zoned: bool) -> Callable[[Any], bool]:
    """Times of a zone go to a column with one, and others not; none is finer than the unit."""
    step = 1_000_000 // min(_UNITS_PER_S[type.unit], 1_000_000)

    def fits(value: Any) -> bool:
        return (value.tzinfo is not None) is zoned and value.microsecond % step == 0

    if step > 1:
        return fits
    return lambda value: (value.tzinfo is not None) is zoned


def _whole(per_second: int) -> Callable[[Any], bool]:
    return lambda value: value.microseconds % (1_000_000 // per_second) == 0


def _quick(type: Any) -> dict[Any, _Rule]:
    """Exact types of values that cannot change and need no conversion to know that they fit."""
    import pyarrow as pa

    kinds = pa.types
    if kinds.is_integer(type):
        bits = type.bit_width
        whole = range(-(1 << bits - 1), 1 << bits - 1)
        if kinds.is_unsigned_integer(type):
            whole = range(1 << bits)
        return {int: whole.__contains__}
    if kinds.is_floating(type):
        return {float: True if type.bit_width == 64 else _stays_finite(type)}
    if kinds.is_boolean(type):
        return {bool: True}
    if kinds.is_string(type) or kinds.is_large_string(type):
        return {str: lambda it: len(it) <= _KEPT_BYTES and (it.isascii() or _is_unicode(it))}
    if kinds.is_binary(type) or kinds.is_large_binary(type):
        return {bytes: lambda it: len(it) <= _KEPT_BYTES}
    return {}


#: Longer lists are converted, which is quicker than to look at each item.
_COPIED_MAX = 64

#: Longer values are appended by themselves, so that few bytes wait.
_KEPT_BYTES = 4096


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
