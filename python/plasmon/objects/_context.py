"""Contexts: which classes are registered, and whether pickle may be used."""

from __future__ import annotations

import contextlib
import copyreg
import dataclasses
import enum
import pickle
import types
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

from plasmon import _native
from plasmon.objects import _cloudpickle, _extensions, _format_types
from plasmon.objects._errors import broken, refused
from plasmon.objects._names import find, name_of, not_serializable

EXT, ATTRIBUTES, STATE, REDUCE, PARTS, MEMORY, PLAIN = range(7)
SPECIFIED, REGISTERED, IMPORTABLE, PICKLED = range(4)
MAKE_ATTRIBUTES, MAKE_STATE, MAKE_CALL, MAKE_NEW, MAKE_NEW_EX, MAKE_VALUE = range(6)

_HEAP_TYPE = 1 << 9

#: The methods that a class leaves to ``object`` when its objects are their attributes.
_OBJECTS_WAYS = ("__new__", "__reduce_ex__", "__reduce__", "__getstate__", "__getattribute__")

#: Names that make a class take itself apart in a way of its own.
_OWN_WAYS = ("__getnewargs__", "__getnewargs_ex__", "__setstate__")


Pickle = Literal["never", "std", "cloudpickle"]
Collecting = Literal["defer", "run"]
Form = Literal["auto", "stream", "small"]


class Registration(NamedTuple):
    """A class that is registered under an id."""

    type: type
    id: str
    version: int
    fields: tuple[str, ...] | None
    serializer: Callable[[Any], Any] | None
    deserializer: Callable[[Any], Any] | None


class SerializationContext(_native._Context):
    """What :func:`plasmon.serialize` and :func:`plasmon.loads` may do, and the registered classes.

    ``pickle`` says what happens to a value, or a part of one, that the format has no place for:

    * ``"never"`` (the default): it is refused when it is written, and bytes that need pickle are
      refused when they are read. No bytes can run code then.
    * ``"std"``: classes and functions are named by where they are imported from, and objects are
      made as :mod:`pickle` makes them. The writer of the bytes can run code in the reader.
    * ``"cloudpickle"``: besides, what cannot be imported (lambdas, local classes) is pickled by
      value, with :mod:`cloudpickle`.

    ``gc="defer"`` keeps the garbage collector from running while a value is built, which makes
    reading many objects several times faster; it runs afterwards as ever. ``gc="run"`` lets it.

    With ``canonical=True`` the bytes do not depend on how many references there happen to be to
    parts of a value, nor on the order of sets of strings and numbers: for hashing content. Slower,
    and larger.
    """

    def __init__(
        self, pickle: Pickle = "never", *, gc: Collecting = "defer", canonical: bool = False
    ) -> None:
        self._types: dict[type, Registration] = {}
        self._ids: dict[str, Registration] = {}
        # Contexts with the same classes, that is, with the same dicts.
        self._sharing: list[SerializationContext] = [self]
        self.pickle = pickle
        self.gc = gc
        self.canonical = canonical

    def register(
        self,
        kind: type,
        id: str | None = None,
        *,
        fields: Sequence[str] | None = None,
        serializer: Callable[[Any], Any] | None = None,
        deserializer: Callable[[Any], Any] | None = None,
        version: int = 1,
    ) -> type:
        """Has objects of a class written under an id, and read when the same id is registered.

        The id (by default the class's qualified name) says nothing about where the class is; both
        sides register it. Without callbacks an object is its attributes: those named in ``fields``,
        the fields of a dataclass, or all of its ``__dict__``; they are set without running
        code of the class. Enums and named tuples need no callbacks either. ``serializer(object)``
        returns a value that stands for the object, ``deserializer(value)`` makes the object again;
        the value must not contain the object itself. ``version`` is written with the id; other
        versions are refused when they are read.

        Returns the class, so that it can be used as a decorator. Subclasses are registered for
        themselves.

        Raises TypeError for a class that needs callbacks, ValueError for an id that is taken.
        """
        name = kind.__qualname__ if id is None else id
        known = self._ids.get(name)
        if known is not None and known.type is not kind:
            raise ValueError(f"the id {name!r} is taken by {known.type.__qualname__}")
        if (serializer is None) != (deserializer is None):
            raise TypeError("give a serializer and a deserializer, or neither")
        if serializer is None:
            fields, serializer, deserializer = _by_itself(kind, fields)
        entry = Registration(
            kind, name, version, None if fields is None else tuple(fields), serializer, deserializer
        )
        self._types[kind] = self._ids[name] = entry
        for context in self._sharing:
            context._forget()
        return kind

    def clone(self, **options: Any) -> SerializationContext:
        """A context with the same classes; ``pickle``, ``gc`` and ``canonical`` as given."""
        given = {"pickle": self.pickle, "gc": self.gc, "canonical": self.canonical, **options}
        cloned = type(self)(**given)
        cloned._types.update(self._types)
        cloned._ids.update(self._ids)
        return cloned

    def serialize(self, value: Any, *, form: Form | None = None) -> _native.Serialized:
        """:func:`plasmon.serialize` with this context."""
        return _native.serialize(value, context=self, form=form)

    def dumps(self, value: Any, *, form: Form | None = None) -> bytes:
        """:func:`plasmon.dumps` with this context."""
        return _native.dumps(value, context=self, form=form)

    def loads(self, data: Any) -> Any:
        """:func:`plasmon.loads` with this context."""
        return _native.loads(data, context=self)

    deserialize = loads

    def __repr__(self) -> str:
        return f"<plasmon.SerializationContext: pickle={self.pickle!r}, {len(self._ids)} classes>"

    # What the native half calls, once for each type and each class.

    def _decide(self, kind: type) -> _native._Strategy:
        """How objects of a type are taken apart."""
        entry = self._types.get(kind)
        if entry is not None:
            how = ATTRIBUTES if entry.serializer is None else STATE
            if how == ATTRIBUTES and _reads_plainly(kind, entry.fields):
                how = PLAIN
            return _native._Strategy(
                how,
                entry.serializer,
                source=REGISTERED,
                name=entry.id,
                version=entry.version,
                fields=None if entry.fields is None else list(entry.fields),
            )
        if kind in {memoryview, pickle.PickleBuffer}:
            return _native._Strategy(MEMORY)
        encoder = _extensions.encoder(kind, self)
        if encoder is not None:
            return _native._Strategy(EXT, encoder)
        taker = _format_types.taker(kind)
        if taker is None and self.pickle == "cloudpickle":
            taker = _cloudpickle.reducer(kind)
        if taker is not None:
            return _native._Strategy(PARTS, taker)
        if self.pickle != "never" and _is_plain(kind):
            name = self._importable(kind)
            if name is not None:
                how = PLAIN if _reads_plainly(kind, None) else ATTRIBUTES
                return _native._Strategy(how, source=IMPORTABLE, name=name)
        return _native._Strategy(REDUCE)

    def _take(self, value: Any) -> Any:
        """The result of ``__reduce_ex__`` for a value that is not an extension, unlike most."""
        if type(value) in {types.FunctionType, types.ModuleType}:
            return _cloudpickle.take(value)
        taken = _format_types.take(value)
        return value.__reduce_ex__(5) if taken is None else taken

    def _describe(
        self, value: Any, make: int, given: str | None
    ) -> tuple[int, str, int, int, bytes | None]:
        """A callable for the table of classes: source, name, version, kind of pickle, pickle.

        ``given`` is the name that an object gave instead of parts.
        """
        name = _specified_name(value) if make in {MAKE_CALL, MAKE_NEW} else None
        if name is not None:
            return SPECIFIED, name, 0, 0, None
        specified = _format_types.value_name(value) if make == MAKE_VALUE else None
        if specified is not None:
            return SPECIFIED, specified, 0, 0, None
        if make != MAKE_VALUE or self.pickle == "never":
            return self._named(value)
        name = name_of(value, str(given))
        if name is None:
            raise not_serializable(f"{value!r:.80} is not what its name refers to", value)
        return IMPORTABLE, name, 0, 0, None

    def _named(self, value: Any) -> tuple[int, str, int, int, bytes | None]:
        """A class or a function by where it is imported from, or else by a pickle of it."""
        if self.pickle == "never":
            raise _refused_to_write(value)
        name = self._importable(value)
        if name is not None:
            return IMPORTABLE, name, 0, 0, None
        return PICKLED, "", 0, *self._pickled(value)

    def _importable(self, value: Any) -> str | None:
        """Where a class or a function is imported from, unless cloudpickle writes it by value."""
        if self.pickle == "cloudpickle" and _cloudpickle.is_by_value(value):
            return None
        return name_of(value)

    def _pickled(self, value: Any) -> tuple[int, bytes]:
        if type(value).__module__ == "_ctypes":
            # cloudpickle writes these types and cannot read them.
            raise not_serializable(f"{value!r:.80} cannot be imported", value)
        if self.pickle == "cloudpickle":
            try:
                import cloudpickle
            except ImportError as missing:
                text = f"{value!r:.80} cannot be imported, so writing it needs cloudpickle"
                raise not_serializable(text, value) from missing
            return _extensions.CLOUDPICKLE, cloudpickle.dumps(value, protocol=5)
        if isinstance(value, type):
            # Some of Python's own have no name and are known to pickle all the same.
            with contextlib.suppress(pickle.PicklingError, AttributeError):
                return _extensions.PICKLE, pickle.dumps(value, protocol=5)
        if isinstance(value, type) or type(value) in _extensions._FUNCTIONS:
            what = getattr(value, "__qualname__", type(value).__qualname__)
            text = f'{what} cannot be imported: serialize it with pickle="cloudpickle"'
            raise not_serializable(text, value)
        return _extensions.PICKLE, pickle.dumps(value, protocol=5)

    def _resolve(
        self, source: int, make: int, name: str, version: int, fields: tuple[str, ...], mode: int
    ) -> Any:
        """The Python class of a class entry in an object."""
        if source == SPECIFIED:
            if make == MAKE_VALUE and name in _format_types.VALUES:
                return _format_types.find_value(name)
            if make != MAKE_CALL or name not in _format_types.CALLABLES:
                raise broken(f"the format has no class {name!r}")
            return _format_types.CALLABLES[name]
        if source == REGISTERED:
            entry = self._registered(name, version)
            if make == MAKE_ATTRIBUTES and entry.serializer is None:
                if entry.fields is not None and fields != entry.fields:
                    raise ValueError(f"{name!r} was written with the fields {fields}")
                return _bare(entry.type, fields, may_hide=entry.fields is None)
            if make == MAKE_STATE and entry.deserializer is not None:
                return entry.deserializer
            raise ValueError(f"{name!r} is registered differently from how it was written")
        if source != IMPORTABLE:
            raise broken(f"a class of source {source}")
        if mode == _extensions.NEVER:
            raise refused(name, "an unknown place")
        found = find(name)
        return _bare(found, fields, may_hide=True) if make == MAKE_ATTRIBUTES else found

    def _registered(self, name: str, version: int) -> Registration:
        entry = self._ids.get(name)
        if entry is None:
            text = f"no class is registered as {name!r}: register it with the context that reads"
            raise ValueError(text)
        if entry.version != version:
            text = f"{name!r} is registered in version {entry.version}, found version {version}"
            raise ValueError(text)
        return entry


def _specified_name(value: Any) -> str | None:
    """The name of a callable of the format itself."""
    if isinstance(value, type) and issubclass(value, BaseException):
        name = f"{value.__module__}:{value.__qualname__}"
        return name if name in _format_types.CALLABLES else None
    return _format_types.NAMES.get(value) if type(value).__hash__ is not None else None


def _refused_to_write(value: Any) -> TypeError:
    name = getattr(value, "__qualname__", None) or f"{value!r:.80}"
    what = f"a {value.__module__}.{name}" if isinstance(value, type) else name
    text = (
        f"cannot serialize {what} without pickle: register the class with a SerializationContext, "
        'or give one with pickle="std" or "cloudpickle"'
    )
    return not_serializable(text, value)


def _is_plain(kind: type) -> bool:
    """Whether objects of a class are their ``__dict__`` and nothing else."""
    return (
        _has_no_layout(kind)
        and kind.__dictoffset__ != 0
        and kind not in copyreg.dispatch_table
        and all(getattr(kind, name) is getattr(object, name) for name in _OBJECTS_WAYS)
        and not any(hasattr(kind, name) for name in _OWN_WAYS)
        and not any(base.__dict__.get("__slots__") for base in kind.__mro__)
        and not isinstance(kind.__dict__.get("__dict__"), property)
    )


_dict_of = type.__dict__["__dict__"].__get__
_bases_of = type.__dict__["__mro__"].__get__
_flags_of = type.__dict__["__flags__"].__get__


def _reads_plainly(kind: type, fields: Sequence[str] | None) -> bool:
    """Whether reading attributes of an object runs no code while the class and its bases stay.

    The native half depends on that: it reads such attributes from objects that it does not hold. So
    metaclasses have no say in the answer.
    """
    bases = [_dict_of(base) for base in _bases_of(kind) if base is not object]
    if any(type(name) is not str for base in bases for name in base):
        # A lookup would compare them.
        return False
    if any("__getattribute__" in base for base in bases):
        return False
    bases.append(_dict_of(object))
    return fields is None or all(_is_kept(name, bases) for name in fields)


def _is_kept(name: str, bases: Sequence[Any]) -> bool:
    """Whether an attribute is a slot, or kept in objects' dicts, with at most a plain default."""
    found = next((base[name] for base in bases if name in base), None)
    if type(found) is types.MemberDescriptorType:
        return True
    # A class of Python's may become a descriptor later.
    return not _flags_of(type(found)) & _HEAP_TYPE and not hasattr(type(found), "__get__")


def _has_no_layout(kind: type) -> bool:
    """Whether every base but ``object`` is a class of Python's that only adds attributes."""
    heap = all(base is object or base.__flags__ & _HEAP_TYPE for base in kind.__mro__)
    return heap and kind.__basicsize__ <= object.__basicsize__ + 16 + 8 * _slots(kind)


def _slots(kind: type) -> int:
    members = (type(member).__name__ for base in kind.__mro__ for member in vars(base).values())
    return sum(name == "member_descriptor" for name in members)


def _bare(
    kind: Any, fields: tuple[str, ...], *, may_hide: bool = False
) -> tuple[type, tuple[str, ...]]:
    """A class whose objects may be made without a constructor and given these attributes.

    With it, those that a property or another data descriptor of the class hides in the objects'
    ``__dict__``: they are put there, as pickle does it, and the descriptor is not asked.
    """
    if not isinstance(kind, type) or not _has_no_layout(kind):
        raise ValueError(f"objects of {kind!r} cannot be made from attributes alone")
    hidden = tuple(name for name in fields if _is_hidden(kind, name))
    if hidden and not (may_hide and kind.__dictoffset__):
        raise ValueError(f"{kind.__qualname__}.{hidden[0]} is a descriptor, not an attribute")
    slots = {name for base in kind.__mro__ for name in base.__dict__}
    lacking = [name for name in fields if not kind.__dictoffset__ and name not in slots]
    if lacking:
        raise ValueError(f"{kind.__qualname__} has no attribute {lacking[0]!r}")
    return kind, hidden


def _is_hidden(kind: type, name: str) -> bool:
    """Whether setting an attribute would call a descriptor that is not a slot."""
    found = next((base.__dict__[name] for base in kind.__mro__ if name in base.__dict__), None)
    kept = type(found)
    asked = hasattr(kept, "__set__") or hasattr(kept, "__delete__")
    return asked and kept is not types.MemberDescriptorType


def _by_itself(
    kind: type, fields: Sequence[str] | None
) -> tuple[Sequence[str] | None, Callable[[Any], Any] | None, Callable[[Any], Any] | None]:
    """How a class is registered without callbacks."""
    if issubclass(kind, enum.Enum):
        return None, lambda member: member.name, kind.__getitem__
    if issubclass(kind, tuple) and hasattr(kind, "_make"):
        return None, tuple, kind._make
    if fields is None and dataclasses.is_dataclass(kind):
        fields = [field.name for field in dataclasses.fields(kind)]
    if not _has_no_layout(kind) or kind.__getattribute__ is not object.__getattribute__:
        raise TypeError(f"{kind.__qualname__} needs a serializer and a deserializer")
    if fields is None and (not kind.__dictoffset__ or _slots(kind)):
        raise TypeError(f"{kind.__qualname__} has slots: name them in fields")
    _bare(kind, tuple(fields or ()))
    return fields, None, None


def _trusting(other: SerializationContext) -> SerializationContext:
    """A context with pickle that shares the classes of another one, also later ones."""
    context = SerializationContext("cloudpickle")
    context._types, context._ids = other._types, other._ids
    context._sharing = other._sharing
    context._sharing.append(context)
    return context


#: The default context: no pickle, no classes but those that are registered with it.
default_context = SerializationContext()

#: The context of stores that only this user's processes can write to: the classes of
#: :data:`default_context`, and pickle.
trusting_context = _trusting(default_context)
