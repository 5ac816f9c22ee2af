"""Times of pandas without pickle: frequencies, periods, moments, spans and dateutil's zones."""

from __future__ import annotations

import re
import zoneinfo
from collections.abc import Callable
from typing import Any

from plasmon.objects._errors import BrokenObject, broken, guarded

_Reduced = tuple[Any, ...]

#: Attributes of a DateOffset that are no arguments.
_DERIVED = {"_offset", "_use_relativedelta", "n", "normalize"}

#: The keys of zones, none of which leads out of the folder of zones.
_ZONE_KEY = re.compile(r"[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*")


def _wrong(what: str) -> BrokenObject:
    return broken(f"pandas {what} made of the wrong contents")


def own_way(value: Any) -> _Reduced:
    """How the object itself describes how to make it again."""
    reduced: _Reduced = value.__reduce_ex__(5)
    return reduced


# Frequencies


def take_offset(value: Any) -> _Reduced:
    """An offset by its class's name and arguments; a DateOffset's arguments have names."""
    name = type(value).__qualname__
    kind, arguments, *rest = value.__reduce__()
    if kind is not type(value) or _offset_class(name) is not kind:
        return own_way(value)
    if not rest:
        return make_offset, (name, list(arguments), {})
    named = {key: found for key, found in rest[0].items() if key not in _DERIVED}
    if not all(type(found) in {int, float} for found in named.values()):
        return own_way(value)
    return make_offset, (name, [value.n, value.normalize], named)


@guarded
def make_offset(name: Any, arguments: Any, named: Any) -> Any:
    """A frequency such as the end of every third month."""
    kind = _offset_class(name) if type(name) is str else None
    if kind is None or type(arguments) is not list or type(named) is not dict:
        raise _wrong("offset")
    return kind(*arguments, **named)


def _offset_class(name: str) -> Any:
    from pandas.tseries import offsets

    found: Any = getattr(offsets, name, None)
    known = isinstance(found, type) and issubclass(found, offsets.BaseOffset)
    return found if known and found.__qualname__ == name else None


def is_offset(value: Any) -> bool:
    """Whether a value is a frequency."""
    from pandas.tseries import offsets

    return isinstance(value, offsets.BaseOffset)


# Moments, spans and periods


def take_timestamp(value: Any) -> _Reduced:
    """The clock counts from 1970 in UTC, with a zone or without one."""
    return make_timestamp, (value._value, value.unit, value.tzinfo)


def take_timedelta(value: Any) -> _Reduced:
    """A count of units."""
    return make_timedelta, (value._value, value.unit)


def take_period(value: Any) -> _Reduced:
    """A count of a frequency."""
    return make_period, (value.ordinal, value.freq)


def take_interval(value: Any) -> _Reduced:
    """Two ends, and which of them belong to it."""
    return make_interval, (value.left, value.right, value.closed)


@guarded
def make_timestamp(value: Any, unit: Any, zone: Any) -> Any:
    """A moment, in its own resolution."""
    import numpy as np
    import pandas as pd

    made = pd.Timestamp(np.datetime64(*_clock(value, unit)))
    return made if zone is None else made.tz_localize("UTC").tz_convert(zone)


@guarded
def make_timedelta(value: Any, unit: Any) -> Any:
    """A span of time, in its own resolution."""
    import numpy as np
    import pandas as pd

    return pd.Timedelta(np.timedelta64(*_clock(value, unit)))


def _clock(value: Any, unit: Any) -> tuple[Any, Any]:
    if type(value) is not int or unit not in {"s", "ms", "us", "ns"}:
        raise _wrong("time")
    return value, unit


@guarded
def make_period(ordinal: Any, freq: Any) -> Any:
    """A period, such as a month."""
    import pandas as pd

    if type(ordinal) is not int or not is_offset(freq):
        raise _wrong("period")
    return pd.Period(ordinal=ordinal, freq=freq)


@guarded
def make_interval(left: Any, right: Any, closed: Any) -> Any:
    """An interval between two ends."""
    import pandas as pd

    return pd.Interval(left, right, closed)


# Zones of dateutil


def take_zone(value: Any) -> _Reduced:
    """A zone of dateutil by its key, if the key finds the same zone."""
    from dateutil import tz

    kind = type(value)
    if kind is tz.tzutc:
        return make_zone, ("utc",)
    if kind is tz.tzlocal:
        return make_zone, ("local",)
    if kind is tz.tzoffset:
        name, seconds = value._name, value._offset
        if name is None or type(name) is str:
            return make_zone, ("offset", name, seconds)
        return own_way(value)
    key = _zone_key(value)
    if key is None or not _ZONE_KEY.fullmatch(key) or tz.gettz(key) != value:
        return own_way(value)
    return make_zone, ("key", key)


def _zone_key(value: Any) -> str | None:
    """The key of a zone; before dateutil 4 only its file shows it."""
    key = getattr(value, "_key", None)
    if type(key) is str:
        return key
    _, folder, key = str(getattr(value, "_filename", "")).partition("/zoneinfo/")
    return key if folder else None


@guarded
def make_zone(kind: Any, *parts: Any) -> Any:
    """A zone of dateutil."""
    from dateutil import tz

    if kind == "utc" and not parts:
        return tz.tzutc()
    if kind == "local" and not parts:
        return tz.tzlocal()
    if kind == "offset" and len(parts) == 2:
        return tz.tzoffset(*parts)
    if kind != "key" or len(parts) != 1 or type(parts[0]) is not str:
        raise _wrong("zone")
    if not _ZONE_KEY.fullmatch(parts[0]):
        raise _wrong("zone")
    found = tz.gettz(parts[0])
    if found is None:
        raise zoneinfo.ZoneInfoNotFoundError(f"no time zone is found with key {parts[0]}")
    return found


#: By the type's name; those of pandas' offsets are found by their base.
TAKERS: dict[str, Callable[[Any], Any]] = {
    "Timestamp": take_timestamp,
    "Timedelta": take_timedelta,
    "Period": take_period,
    "Interval": take_interval,
}

_ZONES = ("tzutc", "tzlocal", "tzoffset", "tzfile")


def zone_taker(kind: type) -> Callable[[Any], Any] | None:
    """The reducer of a zone of dateutil."""
    return take_zone if kind.__qualname__ in _ZONES else None


CALLABLES: dict[str, Callable[..., Any]] = {
    "pandas:Timestamp": make_timestamp,
    "pandas:Timedelta": make_timedelta,
    "pandas:Period": make_period,
    "pandas:Interval": make_interval,
    "pandas:offset": make_offset,
    "dateutil:zone": make_zone,
}
