"""What can go wrong with a value or with the bytes of one."""

from __future__ import annotations


class NotSerializable(TypeError):
    """A value holds something that cannot be written, at least not with this context."""


class PickleRefused(ValueError):
    """Bytes hold something that only pickle can make, and the context doesn't allow that."""


def refused(what: str, place: str) -> PickleRefused:
    """The error of an object that needs pickle; ``place`` says where in the value it is."""
    text = (
        f"the value needs pickle to be read, for {what} at {place}. If you trust whoever wrote "
        'these bytes as you trust a program, read them with SerializationContext(pickle="std") or '
        '"cloudpickle"; if not, have the class registered on both sides'
    )
    return PickleRefused(text)
