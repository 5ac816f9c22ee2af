"""Python objects as Arrow data: any value in one buffer, arrays in place, nothing that runs.

    >>> import numpy, plasmon
    >>> data = plasmon.dumps({"weights": numpy.ones(3), "tags": ["a", "b"]})
    >>> plasmon.loads(data)["tags"]
    ['a', 'b']

The format is specified in ``spec/objects.md`` and readable by any Arrow implementation. What may be
read and written beyond plain data is said by a :class:`SerializationContext`.
"""

from plasmon._native import Block, Serialized, dumps, loads, object_nbytes, serialize
from plasmon.objects._context import (
    Registration,
    SerializationContext,
    default_context,
    trusting_context,
)
from plasmon.objects._errors import BrokenObject, NotSerializable, PickleRefused

#: The value in bytes; another name of :func:`loads`.
deserialize = loads

__all__ = [
    "Block",
    "BrokenObject",
    "NotSerializable",
    "PickleRefused",
    "Registration",
    "SerializationContext",
    "Serialized",
    "default_context",
    "deserialize",
    "dumps",
    "loads",
    "object_nbytes",
    "serialize",
    "trusting_context",
]
