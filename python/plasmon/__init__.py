"""Plasmon: a shared-memory object store for Arrow data, read in place.

    >>> import numpy, plasmon
    >>> store = plasmon.connect()                # the running store, or one that ends with us
    >>> id = store.put(numpy.arange(1e6))        # one copy
    >>> store.get(id).sum()                      # none: the array lies on the object's memory
    499999500000.0

Objects are immutable once sealed, named by an :class:`ObjectId` or a string, and stay where they
are for as long as an array, a table or a buffer refers to them. See :func:`connect`,
:class:`Store` and, for what can go wrong, :class:`PlasmonError`.
"""

from plasmon._columns import ColumnBuilder, TableBuilder
from plasmon._errors import (
    Absent,
    AlreadyRunning,
    AlreadySealed,
    BadRequest,
    Cancelled,
    Corrupt,
    CreatorDied,
    Deleted,
    Disconnected,
    Evicted,
    Exists,
    Forked,
    InUse,
    Io,
    LimitReached,
    NoRoom,
    NotEnoughNodes,
    NotFound,
    NotOwner,
    NotPermitted,
    NotSealed,
    OutOfDescriptors,
    PlasmonError,
    QuotaExceeded,
    StoreFull,
    TimedOut,
    TooLarge,
    TooManyPins,
    Unreachable,
    Unsupported,
    VersionMismatch,
)
from plasmon._info import ClientInfo, Lost, Notice, ObjectInfo, ObjectList, Status
from plasmon._ingest import ingest
from plasmon._native import (
    Buffer,
    ObjectId,
    Scope,
    Serialized,
    Writer,
    __version__,
    default_socket,
)
from plasmon._pool import Comparison, Place, Pool, PoolNode, PoolStatus, Verification
from plasmon._pool_regions import Address
from plasmon._sort import Sorted, sort, sort_partition
from plasmon._store import Daemon, Store, connect, start
from plasmon._subscription import Subscription
from plasmon.objects import (
    BrokenObject,
    NotSerializable,
    PickleRefused,
    SerializationContext,
    deserialize,
    dumps,
    loads,
    serialize,
)

#: The earlier name of :func:`sort_partition`.
sort_part = sort_partition

__all__ = [
    "Absent",
    "Address",
    "AlreadyRunning",
    "AlreadySealed",
    "BadRequest",
    "BrokenObject",
    "Buffer",
    "Cancelled",
    "ClientInfo",
    "ColumnBuilder",
    "Comparison",
    "Corrupt",
    "CreatorDied",
    "Daemon",
    "Deleted",
    "Disconnected",
    "Evicted",
    "Exists",
    "Forked",
    "InUse",
    "Io",
    "LimitReached",
    "Lost",
    "NoRoom",
    "NotEnoughNodes",
    "NotFound",
    "NotOwner",
    "NotPermitted",
    "NotSealed",
    "NotSerializable",
    "Notice",
    "ObjectId",
    "ObjectInfo",
    "ObjectList",
    "OutOfDescriptors",
    "PickleRefused",
    "Place",
    "PlasmonError",
    "Pool",
    "PoolNode",
    "PoolStatus",
    "QuotaExceeded",
    "Scope",
    "SerializationContext",
    "Serialized",
    "Sorted",
    "Status",
    "Store",
    "StoreFull",
    "Subscription",
    "TableBuilder",
    "TimedOut",
    "TooLarge",
    "TooManyPins",
    "Unreachable",
    "Unsupported",
    "Verification",
    "VersionMismatch",
    "Writer",
    "__version__",
    "connect",
    "default_socket",
    "deserialize",
    "dumps",
    "ingest",
    "loads",
    "serialize",
    "sort",
    "sort_partition",
    "start",
]
