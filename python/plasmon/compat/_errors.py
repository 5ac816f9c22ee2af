"""The errors of the old interface, and its warning."""

from __future__ import annotations

import warnings
from typing import Any

import pyarrow as pa

_Base: Any = getattr(pa.lib, "ArrowSerializationError", pa.lib.ArrowException)


class ArrowSerializationError(_Base):  # type: ignore[misc]
    """A value cannot be serialized, or bytes cannot be read as one."""


class SerializationCallbackError(ArrowSerializationError):
    """The context has no way to store ``example_object``."""

    def __init__(self, message: str, example_object: object) -> None:
        super().__init__(message)
        self.example_object = example_object


class DeserializationCallbackError(ArrowSerializationError):
    """The bytes hold an object of ``type_id``, which is not registered with the context."""

    def __init__(self, message: str, type_id: str) -> None:
        super().__init__(message)
        self.type_id = type_id


def deprecated(name: str) -> None:
    """Warns at the caller's caller, as pyarrow did: filters of old programs go on working."""
    warnings.warn(
        f"'pyarrow.{name}' is deprecated as of 2.0.0 and was removed from pyarrow 12. Use "
        "plasmon.serialize, pickle or the pyarrow IPC functionality instead.",
        FutureWarning,
        stacklevel=3,
    )
