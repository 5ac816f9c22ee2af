"""Values of NumPy: all element types, orders, strides and flags."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from .compare import CONSTANTS, Compare, attributes, comparison
from .registry import Make, generator

_PLAIN = "?bBhHiIlLqQefdgFDG"
_TEXTS = ["S0", "S3", "U0", "U2", "V5", "V0"]
# Those without a unit have values without a text, and that cannot be keys.
_TIMES = ["M8[ns]", "M8[D]", "m8[us]", "M8[25s]"]


def _dtype(make: Make, *, objects: bool = True, depth: int = 2) -> Any:
    kind = make.choice(["plain", "plain", "text", "time", "fields", "object", "strings", "meta"])
    if kind == "text":
        return np.dtype(make.choice(_TEXTS)).newbyteorder(make.choice("<>"))
    if kind == "time":
        return np.dtype(make.choice(_TIMES)).newbyteorder(make.choice("<>"))
    if kind == "fields" and depth:
        return _fields(make, objects=objects, depth=depth)
    if kind == "object" and objects:
        return np.dtype("O")
    if kind == "strings" and objects and depth == 2:
        missing = make.choice([{}, {"na_object": None}, {"na_object": float("nan")}])
        return np.dtypes.StringDType(**missing)
    plain = np.dtype(make.choice(_PLAIN))
    if kind == "meta":
        return np.dtype(plain, metadata={"unit": make.text()})
    return plain.newbyteorder(make.choice("<>=")) if make.chance(0.3) else plain


def _fields(make: Make, *, objects: bool, depth: int) -> Any:
    names = make.random.sample(["a", "b", "ä", "c d", ""], make.random.randint(1, 3))
    parts = []
    for name in names:
        kind = _dtype(make, objects=objects, depth=depth - 1)
        shape = (make.choice([(), (2,), (2, 3)]),) if kind.itemsize else ()
        title = ("title " + name, name or "f") if make.chance(0.1) else name
        parts.append((title, kind, *shape))
    return np.dtype(parts, align=make.chance(0.3))


def _shape(make: Make) -> tuple[int, ...]:
    return tuple(
        make.choice([1, 2, 3, 5, 0 if make.chance(0.2) else 4])
        for _ in range(make.choice([0, 1, 1, 1, 2, 2, 3, 4]))
    )


def _elements(make: Make, dtype: Any, shape: tuple[int, ...]) -> Any:
    if dtype.kind == "T":
        return np.array([make.choice(["", "a", "ä" * 30]) for _ in range(_size(shape))], dtype)
    if dtype.hasobject:
        made = np.zeros(_size(shape), dtype)
        if dtype.kind == "O":
            for at in range(len(made)):
                made[at] = make.value()
        return made
    data = make.random.randbytes(_size(shape) * dtype.itemsize)
    if dtype.kind in "UV" or dtype.names:
        # Strings and fields hold no bytes that are not theirs.
        data = bytes(len(data))
    if not dtype.itemsize:
        return np.zeros(_size(shape), dtype)
    made = np.frombuffer(bytearray(data), dtype)
    return (made.view("u1") & 1).view("?") if dtype.kind == "b" else made


def _size(shape: tuple[int, ...]) -> int:
    return int(np.prod(shape, dtype=int))


def _reordered(make: Make, made: Any) -> Any:
    """The same elements in another order, with gaps, or of another class."""
    way = make.choice(["C", "F", "T", "step", "back", "part", "wide", "C", "C"])
    if way == "F":
        return np.asfortranarray(made)
    if way == "T":
        return made.T
    if way == "step" and made.ndim:
        return made[::2]
    if way == "back" and made.ndim:
        return made[::-1]
    if way == "part" and made.ndim > 1:
        return made[:, 1:]
    if way == "wide":
        return np.broadcast_to(made, (2, *made.shape))
    return made


@generator("numpy.ndarray", weight=8)
def _array(make: Make) -> Any:
    dtype, shape = _dtype(make), _shape(make)
    made = _elements(make, dtype, shape).reshape(shape)
    made = _reordered(make, made)
    if make.chance(0.1):
        made.flags.writeable = False
    return made


@generator("numpy arrays that overlap", weight=2)
def _overlapping(make: Make) -> Any:
    whole = np.arange(24, dtype=make.choice(["<i4", ">f8", "u1"]))
    return [whole, whole[3:9], whole.reshape(4, 6)[1:, ::2], whole[::-3]]


@generator("numpy.generic", weight=4, hashable=True)
def _scalar(make: Make) -> Any:
    dtype = _dtype(make, objects=False, depth=1)
    return np.int8(1) if dtype.kind in "VT" else _elements(make, dtype, (1,))[0]


@generator("numpy.void", weight=1)
def _void(make: Make) -> Any:
    dtype = _fields(make, objects=False, depth=1) if make.chance(0.5) else np.dtype("V4")
    return np.zeros(1, dtype)[0]


@generator("numpy.dtype", weight=2)
def _type(make: Make) -> Any:
    return _dtype(make)


@generator("numpy.ma", weight=1)
def _masked(make: Make) -> Any:
    data = np.arange(6.0).reshape(2, 3)
    mask = make.choice([np.ma.nomask, data > 2, False])
    made: Any = np.ma.MaskedArray(data, mask, fill_value=make.choice([None, 7.0]))
    if make.chance(0.3):
        made.harden_mask()
    return made


class Measured(np.ndarray):
    """An array with an attribute, as NumPy's guide makes them."""

    def __array_finalize__(self, found: Any) -> None:
        self.unit = getattr(found, "unit", None)

    def __reduce__(self) -> Any:
        make, arguments, state = super().__reduce__()
        return make, arguments, (*state, self.unit)

    def __setstate__(self, state: Any) -> None:
        self.unit = state[-1]
        super().__setstate__(state[:-1])


@generator("numpy subclasses", weight=2)
def _subclass(make: Make) -> Any:
    kind = make.choice(["matrix", "recarray", "record", "measured", "chararray", "poly", "random"])
    if kind == "matrix":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return np.matrix([[1, 2], [3, make.random.randint(0, 9)]])
    if kind == "measured":
        made = np.arange(4.0).view(Measured)
        made.unit = make.text()
        return made
    if kind == "chararray":
        return np.array(["a", "bc"]).view(np.char.chararray)
    if kind == "poly":
        return np.poly1d([1, 2, make.random.randint(0, 9)])
    if kind == "random":
        return np.random.Generator(np.random.PCG64(make.random.randint(0, 99)))
    made = np.rec.array([(1, 2.0, "x"), (3, make.random.random(), "y")], names="a,b,c")
    return made if kind == "recarray" else made[0]


# How they are compared

CONSTANTS.append(np.dtype)


@comparison(np.ndarray)
def _same_array(a: Any, b: Any, compare: Compare) -> None:
    if not compare.equal(a.shape, b.shape, "the shape"):
        return
    # One element type may be many objects: NumPy makes them as it likes.
    compare.equal(_facts(a.dtype), _facts(b.dtype), "the element type")
    if a.flags.forc and a.nbytes:
        for flag in ("C_CONTIGUOUS", "F_CONTIGUOUS"):
            compare.equal(a.flags[flag], b.flags[flag], flag)
    compare.equal(True, b.flags.aligned or not a.flags.aligned, "ALIGNED")
    one, other = np.asarray(a).ravel(), np.asarray(b).ravel()
    if a.dtype.hasobject and a.dtype.kind != "T":
        compare.parts(one.tolist(), other.tolist())
    elif a.dtype.kind == "T":
        compare.equal(repr(one.tolist()), repr(other.tolist()), "the strings")
    else:
        compare.equal(_bytes(one), _bytes(other), "the bytes")
    attributes(a, b, compare)


def _bytes(array: Any) -> Any:
    """The bytes of the elements, without what is between fields: NumPy leaves anything there."""
    if array.dtype.names is None:
        return array.tobytes()
    return [_bytes(array[name]) for name in array.dtype.names]


@comparison(np.ma.MaskedArray)
def _same_masked(a: Any, b: Any, compare: Compare) -> None:
    compare.equal(repr(a), repr(b), "the value")
    compare.equal(a.hardmask, b.hardmask, "hardmask")
    compare.equal(repr(a._fill_value), repr(b._fill_value), "the fill value")
    compare.part(np.asarray(a.data), np.asarray(b.data), ".data")
    compare.part(a.mask, b.mask, ".mask")


@comparison(np.dtype)
def _same_dtype(a: Any, b: Any, compare: Compare) -> None:
    compare.equal(a, b, "the element type")
    compare.equal(_facts(a), _facts(b), "the element type")


def _facts(dtype: Any) -> Any:
    # The native order has two names; types of strings say in their text what is missing.
    name = repr(dtype) if dtype.kind == "T" else dtype.type if dtype.kind == "V" else None
    own = (name, dtype.str, dtype.itemsize, dtype.isalignedstruct, dtype.alignment)
    metadata = None if dtype.metadata is None else dict(dtype.metadata)
    if dtype.subdtype is not None:
        return own, metadata, dtype.shape, _facts(dtype.base)
    if dtype.names is None:
        return own, metadata
    fields = [(name, _facts(dtype.fields[name][0]), dtype.fields[name][1:]) for name in dtype.names]
    return own, metadata, fields


@comparison(np.generic)
def _same_scalar(a: Any, b: Any, compare: Compare) -> None:
    compare.equal(_facts(a.dtype), _facts(b.dtype), "the element type")
    compare.equal(_bytes(np.asarray(a)), _bytes(np.asarray(b)), "the bytes")


@comparison(np.random.Generator)
def _same_random(a: Any, b: Any, compare: Compare) -> None:
    compare.equal(a.bit_generator.state, b.bit_generator.state, "the state")
