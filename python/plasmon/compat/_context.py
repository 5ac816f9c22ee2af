"""Contexts of the old interface: registered classes, and what is called for them.

A context has one of :mod:`plasmon.objects` inside, the :class:`_Core`, which asks it once for each
type how to take its objects apart, and once for each class in an object how to make them again::

    serialize ──► Core._decide(type) ──► registered? ──► a callback, or the attributes
                                    └──► known to the format, or to Arrow ──► as it does it
                                    └──► a subclass of a number, text or set ──► as that
                                    └──► SerializationCallbackError

An object of a registered class is stored under its type id. How it was stored is told by the
version that goes with the id: one of the constants below.
"""

from __future__ import annotations

import datetime as dt
import pickle as plain_pickle
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa

from plasmon import _native
from plasmon.compat import _handlers
from plasmon.compat._cycles import has_cycle
from plasmon.compat._errors import (
    DeserializationCallbackError,
    SerializationCallbackError,
    deprecated,
)
from plasmon.objects import NotSerializable, _context, _extensions, _format_types
from plasmon.objects import SerializationContext as _CoreContext
from plasmon.objects._context import Pickle

try:
    import cloudpickle as _pickle
except ImportError:
    _pickle = plain_pickle

#: Attributes; a pickle; what a serializer gave; arguments for __new__; one of Arrow's own objects;
#: the base value of an object of a subclass.
ATTRIBUTES, PICKLED, CUSTOM, ARGUMENTS, ARROW, BASE = range(6)

#: Subclasses of these are stored as these, unless they are registered.
_BASES: dict[type, Callable[[Any], Any]] = {
    int: int.__int__,
    float: float.__float__,
    str: str.__str__,
    bytes: lambda value: bytes(memoryview(value)),
    set: set,
    dt.datetime: lambda value: dt.datetime.combine(
        dt.date(value.year, value.month, value.day), value.timetz()
    ),
}


def is_named_tuple(cls: Any) -> bool:
    """Whether a class is a named tuple."""
    fields = getattr(cls, "_fields", None)
    named = isinstance(fields, tuple) and all(isinstance(name, str) for name in fields)
    return cls.__bases__ == (tuple,) and named


class _RegisteredClass(NamedTuple):
    """A registered class."""

    type: Any
    pickles: bool
    serializer: Callable[[Any], Any] | None
    deserializer: Callable[[Any], Any] | None


class _Core(_CoreContext):
    """The context that the format's reader and writer use, on behalf of an old one."""

    #: What is registered for these is for subclasses that are not registered themselves.
    _last_resorts: tuple[type, ...] = (object, np.ndarray)

    def __init__(self, owner: SerializationContext, pickle: Pickle = "std") -> None:
        super().__init__(pickle)
        self._owner = owner

    def _decide(self, kind: type) -> _native._Strategy:
        found = self._owner._find(kind)
        if found is not None and found[0] not in self._last_resorts:
            return self._owner._strategy(*found, kind)
        known = self._known(kind)
        if known is not None:
            return known
        if found is not None:
            return self._owner._strategy(*found, kind)
        return _state(_refuse, "", CUSTOM)

    def _known(self, kind: type) -> _native._Strategy | None:
        """How objects of a class are taken apart that needs no registration."""
        arrow = self._arrow(kind)
        if arrow is not None:
            return arrow
        if issubclass(kind, np.unsignedinteger):
            encode = _extensions.encoder(kind, self)
            return _native._Strategy(_context.EXT, _within_64_bits(encode))
        if _has_place(kind, self):
            return super()._decide(kind)
        for base, take in _BASES.items():
            if issubclass(kind, base):
                return _state(take, base.__name__, BASE)
        return None

    def _arrow(self, kind: type) -> _native._Strategy | None:
        """How objects of Arrow's own are taken apart."""
        name = _handlers.arrow_name(kind)
        return None if name is None else _state(_handlers.ARROW[name][1].take, name, ARROW)

    def _resolve(
        self, source: int, make: int, name: str, version: int, fields: tuple[str, ...], mode: int
    ) -> Any:
        if source != _context.REGISTERED:
            return super()._resolve(source, make, name, version, fields, mode)
        if version == ARROW and name in _handlers.ARROW:
            return _handlers.ARROW[name][1].make
        if version == BASE:
            return _handlers.the_same
        if version == PICKLED:
            return self._unpickler(name)
        known = self._registration(name)
        if make == _context.MAKE_ATTRIBUTES:
            return _context._bare(known.type, fields)
        return _maker(name, known, version)

    def _registration(self, name: str) -> _RegisteredClass:
        known = self._owner._known.get(name)
        if known is None:
            text = f"Type ID {name} not registered in deserialization callback"
            raise DeserializationCallbackError(text, name)
        return known

    def _unpickler(self, _name: str) -> Callable[[Any], Any]:
        """The reader of the pickles that are stored under a type id, registered or not."""
        return self._owner._unpickle


def _maker(name: str, known: _RegisteredClass, version: int) -> Callable[[Any], Any]:
    """The function that makes an object of a registered class from the stored data."""
    if version == CUSTOM:
        if known.deserializer is None:
            text = f"Type ID {name} is registered without the custom_deserializer that it needs"
            raise DeserializationCallbackError(text, name)
        return known.deserializer

    def make(state: Any) -> Any:
        if version == ARGUMENTS:
            return known.type.__new__(known.type, *state)
        made = known.type.__new__(known.type)
        made.__dict__.update(state)
        return made

    return make


def _state(take: Callable[[Any], Any], name: str, version: int) -> _native._Strategy:
    """Objects that are stored as what a function makes of them."""
    return _native._Strategy(
        _context.STATE, take, source=_context.REGISTERED, name=name, version=version
    )


def _refuse(value: Any) -> Any:
    text = f"pyarrow does not know how to serialize objects of type {type(value)}."
    raise SerializationCallbackError(text, value)


def _within_64_bits(encode: Any) -> Callable[[Any], Any]:
    """Scalars as integers that fit in 64 bits with a sign, which is all that there was."""

    def checked(value: Any) -> Any:
        if value > np.iinfo(np.int64).max:
            raise pa.ArrowInvalid("cannot serialize Numpy uint64 scalar >= 2**63")
        return encode(value)

    return checked


def _has_place(kind: type, core: _Core) -> bool:
    """Whether the format has a place for objects of a class, without pickle."""
    if issubclass(kind, type) or kind in _extensions._FUNCTIONS:
        return False
    if kind in _format_types.NAMES or kind in {memoryview, plain_pickle.PickleBuffer}:
        return True
    if _format_types.taker(kind) is not None:
        # pandas' moments were always read as the standard library's.
        return not issubclass(kind, dt.date | dt.timedelta)
    if issubclass(kind, BaseException):
        return f"{kind.__module__}:{kind.__qualname__}" in _format_types.CALLABLES
    return _extensions.encoder(kind, core) is not None


class SerializationContext:
    """Types that a program registered, each with a way to store its objects.

    A new context knows what the format knows by itself and Arrow's own objects;
    :func:`default_serialization_context` gives one that knows more.
    """

    def __init__(self) -> None:
        deprecated("SerializationContext")
        self._set_up()

    def _set_up(self) -> None:
        self._type_ids: dict[Any, str] = {}
        self._known: dict[str, _RegisteredClass] = {}
        self.set_pickle(_pickle.dumps, plain_pickle.loads)
        self._core = self._new_core()

    def _new_core(self) -> _Core:
        return _Core(self)

    @classmethod
    def _new(cls) -> Self:
        """A context without the warning that there is something better."""
        context = cls.__new__(cls)
        context._set_up()
        return context

    def set_pickle(
        self, serializer: Callable[[Any], Any], deserializer: Callable[[Any], Any]
    ) -> None:
        """Sets the functions for types registered with ``pickle=True``.

        By default cloudpickle's, where it is installed, else pickle's. Foreign bytes can have the
        deserializer called for any type id, registered or not: a ``pickle.loads`` runs any code
        that their writer chose.
        """
        self._pickle = serializer
        self._loads = deserializer

    def clone(self) -> Self:
        """A context with the same types, to register more with."""
        other = type(self)._new()
        other._type_ids = dict(self._type_ids)
        other._known = dict(self._known)
        other.set_pickle(self._pickle, self._loads)
        return other

    def register_type(
        self,
        type_: Any,
        type_id: str,
        pickle: bool = False,
        custom_serializer: Callable[[Any], Any] | None = None,
        custom_deserializer: Callable[[Any], Any] | None = None,
    ) -> None:
        """Says how objects of a type, and of its subclasses that aren't registered, are stored.

        By the functions of :meth:`set_pickle`; else by the two functions given, which turn an
        object into a value that can be stored and back; else by the object's attributes, or a named
        tuple's items. An object of a subclass comes back as one of the registered type.

        Raises TypeError for a type id that is not a string.
        """
        if not isinstance(type_id, str):
            raise TypeError(
                f"The type_id argument must be a string. The value passed in has type "
                f"{type(type_id)}."
            )
        self._type_ids[type_] = type_id
        self._known[type_id] = _RegisteredClass(
            type_, pickle, custom_serializer, custom_deserializer
        )
        self._forget()

    def _forget(self) -> None:
        """Has the classes of values looked up again."""
        self._core._forget()

    def serialize(self, obj: Any) -> Any:
        """:func:`serialize` with this context."""
        return self._functions().serialize(obj, context=self)

    def serialize_to(self, value: Any, sink: Any) -> None:
        """:func:`serialize_to` with this context."""
        self._functions().serialize_to(value, sink, context=self)

    def deserialize(self, what: Any) -> Any:
        """:func:`deserialize` with this context."""
        return self._functions().deserialize(what, context=self)

    def deserialize_components(self, what: Any) -> Any:
        """:func:`deserialize_components` with this context."""
        return self._functions().deserialize_components(what, context=self)

    def _functions(self) -> Any:
        """The module whose functions take contexts of this class."""
        from plasmon.compat import pyarrow_serialization

        return pyarrow_serialization

    def _plan(self, value: Any) -> _native.Serialized:
        """A value ready to be written."""
        try:
            plan = self._core.serialize(value)
        except NotSerializable as error:
            culprit = getattr(error, "culprit", (value,))[0]
            raise SerializationCallbackError(str(error), culprit) from error
        if has_cycle(memoryview(plan.to_components()["data"][0])):
            raise pa.lib.ArrowNotImplementedError(
                "This object exceeds the maximum recursion depth. It may contain itself "
                "recursively. (plasmon.serialize takes it.)"
            )
        return plan

    def _value(self, buffer: pa.Buffer) -> Any:
        """The value that bytes hold."""
        try:
            return self._core.loads(buffer)
        except ValueError as error:
            if type(error) is not ValueError:
                raise  # from a deserializer of the program, or of a kind of its own
            raise pa.ArrowInvalid(str(error)) from error

    def _find(self, kind: type) -> tuple[Any, str] | None:
        """The registered class that is closest to a class, and its type id."""
        for base in kind.__mro__:
            if base in self._type_ids:
                return base, self._type_ids[base]
        return None

    def _strategy(self, base: Any, type_id: str, kind: type) -> _native._Strategy:
        """How objects of a class are stored for which a base is registered."""
        known = self._known[type_id]
        if known.pickles:
            return _state(self._dump, type_id, PICKLED)
        if known.serializer is not None:
            return _state(known.serializer, type_id, CUSTOM)
        if is_named_tuple(base):
            return _state(lambda value: tuple(value.__getnewargs__()), type_id, ARGUMENTS)
        if _context._is_plain(kind) and _context._is_plain(base):
            # Many of one class become columns.
            return _native._Strategy(
                _context.ATTRIBUTES, source=_context.REGISTERED, name=type_id, version=ATTRIBUTES
            )
        return _state(_attributes, type_id, ATTRIBUTES)

    def _dump(self, value: Any) -> Any:
        return self._pickle(value)

    def _unpickle(self, state: Any) -> Any:
        return self._loads(state)


def _attributes(value: Any) -> dict[str, Any]:
    if not hasattr(value, "__dict__"):
        text = f"We do not know how to serialize the object '{value}'"
        raise SerializationCallbackError(text, value)
    return dict(value.__dict__)
