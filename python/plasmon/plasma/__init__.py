"""Plasma's Python API on a Plasmon store: change one import and old code runs.

    >>> import plasmon.plasma as plasma          # was: import pyarrow.plasma as plasma
    >>> with plasma.start_plasma_store(100_000_000) as (name, process):
    ...     client = plasma.connect(name)
    ...     object_id = client.put({"answer": 42})
    ...     client.get(object_id)
    {'answer': 42}

The names, arguments, results and exceptions are those of `pyarrow.plasma` in pyarrow 11, the last
release that had it; docs/guides/plasma.md says what is the same, what is better and what is not
there. New code should use :mod:`plasmon` itself.
"""

try:
    import pyarrow as _pyarrow  # noqa: F401
except ImportError as error:
    raise ImportError("plasmon.plasma needs pyarrow: pip install 'plasmon[arrow]'") from error

from plasmon._external_store import ExternalStore, register_external_store
from plasmon.compat._errors import (
    ArrowSerializationError,
    DeserializationCallbackError,
    SerializationCallbackError,
)

from ._buffers import PlasmaBuffer
from ._client import PlasmaClient, connect
from ._errors import PlasmaObjectExists, PlasmaObjectNotFound, PlasmaStoreFull
from ._ids import ObjectID, ObjectNotAvailable
from ._starting import start_plasma_store
from ._tensorflow import (
    TF_PLASMA_OP_PATH,
    build_plasma_tensorflow_op,
    load_plasma_tensorflow_op,
    tf_plasma_op,
)
from .serialization import (
    SerializationContext,
)

__all__ = [
    "TF_PLASMA_OP_PATH",
    "ArrowSerializationError",
    "DeserializationCallbackError",
    "ExternalStore",
    "ObjectID",
    "ObjectNotAvailable",
    "PlasmaBuffer",
    "PlasmaClient",
    "PlasmaObjectExists",
    "PlasmaObjectNotFound",
    "PlasmaStoreFull",
    "SerializationCallbackError",
    "SerializationContext",
    "build_plasma_tensorflow_op",
    "connect",
    "load_plasma_tensorflow_op",
    "register_external_store",
    "start_plasma_store",
    "tf_plasma_op",
]
