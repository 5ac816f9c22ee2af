"""Compares values with the JSON that describes the golden vectors (spec/objects/README.md)."""

from __future__ import annotations

import datetime
import decimal
import pathlib
import uuid
import zoneinfo

import pyarrow as pa

import plo_reader as plo

SOURCES = ["specified", "registered", "importable", "pickled"]
MAKES = ["attributes", "state", "call", "new", "new_ex", "value"]
EPOCH = datetime.datetime(1970, 1, 1)


class Mismatch(AssertionError):
    """What was read is not what was described."""


class Matching:
    """Goes through a value and its description. Values that have an ``id`` are remembered."""

    def __init__(self):
        self.known = {}

    def match(self, value, want, path="root"):
        def expect(fits):
            if not fits:
                raise Mismatch(f"{path}: {value!r:.200} is not {want!r:.200}")

        if want is None or isinstance(want, bool):
            expect(value is want)
        elif isinstance(want, str):
            expect(type(value) is str and value == want)
        elif "ref" in want:
            expect(self.known[want["ref"]] is value)
        else:
            if "id" in want:
                self.known[want["id"]] = value
            ((tag, described),) = ((k, v) for k, v in want.items() if k in TAGS)
            expect(TAGS[tag](self, value, described, want, path) is not False)

    def all(self, values, described, path):
        values = list(values)
        if len(values) != len(described):
            raise Mismatch(f"{path}: {len(values)} values instead of {len(described)}")
        for at, (value, want) in enumerate(zip(values, described, strict=True)):
            self.match(value, want, f"{path}[{at}]")
        return True

    def sequence(self, kind):
        return lambda value, described, path: (
            type(value) is kind and self.all(value, described, path)
        )

    def unordered(self, values, described, path):
        left = list(values)
        for want in described:
            found = next((value for value in left if self.fits(value, want)), left)
            if found is left:
                raise Mismatch(f"{path}: no item is {want!r:.200}")
            left = [value for value in left if value is not found]
        return not left

    def fits(self, value, want):
        try:
            self.match(value, want)
        except Mismatch:
            return False
        return True

    def pairs(self, value, described, path):
        return (
            type(value) is dict
            and self.all(value.keys(), [key for key, _ in described], path + " keys")
            and self.all(value.values(), [item for _, item in described], path)
        )

    def object(self, value, want, path):
        cls = value.cls
        source, make = SOURCES.index(cls.source), MAKES.index(cls.make)
        return (
            (cls.name, source, make, cls.version)
            == (want["class"], want["source"], want["make"], want.get("version", 0))
            and list(cls.fields) == want.get("fields", [])
            and self.all(value.fields.values(), want["parts"], path)
        )


def zone_of(zone):
    if zone is None:
        return None
    if zone is datetime.UTC:
        return "UTC"
    if isinstance(zone, zoneinfo.ZoneInfo | plo.Zone):
        return {"key": zone.key}
    offset = zone.utcoffset(None)
    name = zone.tzname(None)
    unnamed = name == datetime.timezone(offset).tzname(None)
    return {"offset": offset // datetime.timedelta(microseconds=1), "name": "" if unnamed else name}


def clock(value, kind):
    if type(value) is not kind:
        raise Mismatch(f"{value!r} is no {kind.__name__}")
    moment = value if kind is datetime.datetime else datetime.datetime.combine(EPOCH, value)
    micros = (moment.replace(tzinfo=None, fold=0) - EPOCH) // datetime.timedelta(microseconds=1)
    return [micros, value.fold, zone_of(value.tzinfo)]


def is_float(value, text):
    """NaN is NaN; zeros have signs."""
    return type(value) is float and repr(value) == text


def is_tensor(value, want):
    return (
        isinstance(value, plo.Tensor)
        and value.kind == ["numpy", "memoryview"][want.get("kind", 0)]
        and value.dtype.text == want["dtype"]
        and list(value.shape) == want["shape"]
        and want.get("strides") in (None, list(value.strides))
        and value.tobytes().hex() == want["data"]
    )


def is_path(value, want):
    kinds = [pathlib.Path(), pathlib.PurePosixPath(), pathlib.PureWindowsPath()]
    return type(value) is type(kinds[want[0]]) and str(value) == want[1]


def is_arrow(value, want):
    table = pa.ipc.open_stream(bytes.fromhex(want["stream"])).read_all()
    if isinstance(value, plo.ArrowData):
        return (value.kind, value.text) == (want["kind"], want["text"]) and value.table == table
    if isinstance(value, pa.Table | pa.RecordBatch):
        return pa.table(value) == table
    return value.to_pylist() == table.column(0).to_pylist()


def is_pickle(kind):
    return lambda value, want, whole: (
        value.kind == kind
        and value.data.hex() == want
        and [bytes(part).hex() for part in value.buffers] == whole.get("buffers", [])
    )


def plain(check):
    """A tag whose check needs no more than the value and what is described."""
    return lambda matching, value, want, whole, path: check(value, want)


def within(check):
    """A tag of something that holds values."""
    return lambda matching, value, want, whole, path: check(matching)(value, want, path)


TAGS = {
    "int": plain(lambda v, w: type(v) is int and v == int(w)),
    "float": plain(is_float),
    "bytes": plain(lambda v, w: type(v) is bytes and v.hex() == w),
    "bytearray": plain(lambda v, w: type(v) is bytearray and v.hex() == w),
    "surrogates": plain(lambda v, w: v.encode("utf-8", "surrogatepass").hex() == w),
    "list": within(lambda m: m.sequence(list)),
    "tuple": within(lambda m: m.sequence(tuple)),
    "set": within(lambda m: lambda v, w, p: type(v) is set and m.unordered(v, w, p)),
    "frozenset": within(lambda m: lambda v, w, p: type(v) is frozenset and m.unordered(v, w, p)),
    "dict": within(lambda m: m.pairs),
    "array": within(
        lambda m: lambda v, w, p: list(v.shape) == w["shape"] and m.all(v.items, w["items"], p)
    ),
    "object": within(lambda m: m.object),
    "complex": plain(lambda v, w: is_float(v.real, w[0]) and is_float(v.imag, w[1])),
    "date": plain(lambda v, w: type(v) is datetime.date and (v - EPOCH.date()).days == w),
    "datetime": plain(lambda v, w: clock(v, datetime.datetime) == w),
    "time": plain(lambda v, w: clock(v, datetime.time) == w),
    "timedelta": plain(lambda v, w: [v.days, v.seconds, v.microseconds] == w),
    "tzinfo": plain(lambda v, w: zone_of(v) == w),
    "decimal": plain(lambda v, w: type(v) is decimal.Decimal and str(v) == w),
    "uuid": plain(lambda v, w: type(v) is uuid.UUID and str(v) == w),
    "path": plain(is_path),
    "singleton": plain(lambda v, w: {"Ellipsis": ..., "NotImplemented": NotImplemented}[w] is v),
    "type": plain(lambda v, w: (v.__name__ if isinstance(v, type) else v.name) == w),
    "global": plain(lambda v, w: v == plo.Global(w)),
    "tensor": plain(is_tensor),
    "scalar": plain(lambda v, w: (v.dtype.text, v.data.hex()) == (w["dtype"], w["data"])),
    "dtype": plain(lambda v, w: v.text == w),
    "arrow": plain(is_arrow),
    "pickle": lambda m, v, w, whole, p: is_pickle("pickle")(v, w, whole),
    "cloudpickle": lambda m, v, w, whole, p: is_pickle("cloudpickle")(v, w, whole),
}
