"""The API of `pyarrow._plasma`, for code that imports the compiled module by its name."""

from ._buffers import PlasmaBuffer
from ._client import PLASMA_WAIT_TIMEOUT, PlasmaClient, connect, get_socket_from_fd
from ._errors import PlasmaObjectExists, PlasmaObjectNotFound, PlasmaStoreFull
from ._ids import ObjectID, ObjectNotAvailable, make_object_id

__all__ = [
    "PLASMA_WAIT_TIMEOUT",
    "ObjectID",
    "ObjectNotAvailable",
    "PlasmaBuffer",
    "PlasmaClient",
    "PlasmaObjectExists",
    "PlasmaObjectNotFound",
    "PlasmaStoreFull",
    "connect",
    "get_socket_from_fd",
    "make_object_id",
]
