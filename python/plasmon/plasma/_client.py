"""The client: Plasma's calls on a connection to a Plasmon store.

As Plasma's client did in C++, it keeps which objects this client is creating, which it reads, and
which are to be deleted when it has read them::

    create ──► creating ──seal──► in use ──last buffer gone──► (deleted, if that was asked for)
                                     ▲
                       get ──────────┘

An object in use is pinned once for all of its buffers; the pin belongs to a `Lending`, which knows
when the last of them is gone. The connection is an exact one: the daemon places every object, so
the capacity holds to the byte, and a release counts as use, so the order of eviction is that of
Plasma.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import time
import warnings
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import fields
from operator import itemgetter
from typing import Any

import pyarrow as pa

from plasmon import NotFound, NotSealed, ObjectInfo, PlasmonError, Store, TimedOut
from plasmon._native import Lending, ObjectId, Writer

from . import _buffers, _notifications, serialization
from ._errors import (
    PlasmaObjectAlreadySealed,
    PlasmaObjectNotFound,
    PlasmaStoreFull,
    translate,
    translated,
)
from ._ids import DEPRECATED, ObjectID, ObjectNotAvailable, binary_of, quiet_id

#: How long Plasma's own functions wait, in milliseconds.
PLASMA_WAIT_TIMEOUT = 2**30

#: The default number of tries of a connection, and the time between two of them.
_RETRIES = 50
_RETRY_S = 0.1

#: Bytes of a digest.
_DIGEST_BYTES = 8

#: Sizes are 64-bit numbers with a sign, as they are in Plasma.
_SIZE_MAX = 2**63 - 1


def get_socket_from_fd(fileno: int, family: int, type: int) -> socket.socket:
    """A socket object for a descriptor, which it then owns."""
    return socket.socket(fileno=fileno, family=family, type=type)


def _bytes(value: object, what: str) -> bytes:
    if isinstance(value, bytes | bytearray):
        return bytes(value)
    raise TypeError(f"{what}: expected bytes, {type(value).__name__} found")


def _size(value: int) -> int:
    if not isinstance(value, int):
        raise TypeError(f"a size is an int, {type(value).__name__} found")
    if not -_SIZE_MAX <= value <= _SIZE_MAX:
        raise OverflowError("Python int too large to convert to C long")
    return value


class PlasmaClient:
    """A connection to a store. Made by :func:`connect`."""

    def __init__(self) -> None:
        warnings.warn(DEPRECATED, DeprecationWarning, stacklevel=2)
        self._prepare(None, "")

    def _prepare(self, store: Store | None, name: str) -> None:
        self._store = store
        self._name = name
        self._pid = os.getpid()
        self._creating: dict[bytes, Writer] = {}
        # What this client looks at, and the metadata of what it created itself among that.
        self._uses: dict[bytes, weakref.ref[Lending[bytes]]] = {}
        self._metadata: dict[bytes, bytes] = {}
        self._deletions: set[bytes] = set()
        self._feed: _notifications.Feed | None = None
        self._share: tuple[str, int] | None = None
        self._path = ctypes.create_string_buffer(os.fsencode(name))

    @property
    def store_socket_name(self) -> str:
        """The path of the store's socket."""
        return self._name

    def _connected(self) -> Store:
        if self._store is None:
            raise OSError("Bad file descriptor: the client is not connected")
        return self._store

    # Writing

    def create(self, object_id: ObjectID, data_size: int, metadata: bytes = b"") -> pa.Buffer:
        """A new buffer to write an object to, mutable until :meth:`seal`.

        Raises PlasmaObjectExists when the id is taken and PlasmaStoreFull when there is no room,
        even after eviction.
        """
        key, size = binary_of(object_id), _size(data_size)
        about = _bytes(metadata, "metadata")
        store = self._connected()
        if size < 0:
            raise ValueError(f"an object cannot have {size} bytes")
        with translated:
            writer = store.create(size, id=ObjectId(key), metadata=about, policy="cache")
        self._creating[key] = writer
        self._metadata[key] = about
        lending = self._lend(key, writer)
        return _buffers.writable(lending)

    def create_and_seal(self, object_id: ObjectID, data: bytes, metadata: bytes = b"") -> None:
        """Stores bytes as an object, in one call."""
        key, content = binary_of(object_id), _bytes(data, "data")
        about = _bytes(metadata, "metadata")
        with translated:
            self._connected().put(content, id=ObjectId(key), metadata=about, policy="cache")

    def seal(self, object_id: ObjectID) -> None:
        """Makes an object immutable and visible to all clients.

        Raises PlasmaObjectNotFound unless this client is creating it.
        """
        key = binary_of(object_id)
        self._connected()
        writer = self._creating.pop(key, None)
        if writer is None:
            if self._used(key) is not None:
                raise PlasmaObjectAlreadySealed("Seal() called on an already sealed object")
            raise PlasmaObjectNotFound("Seal() called on an object without a reference to it")
        with translated:
            writer.seal(force=True)
        if self._used(key) is None:
            self._metadata.pop(key, None)
            if key in self._deletions:
                self._delete_now(key)

    def _abort(self, key: bytes) -> None:
        writer = self._creating.pop(key, None)
        self._metadata.pop(key, None)
        if writer is not None:
            with translated:
                writer.abort()

    def put_raw_buffer(
        self,
        value: Any,
        object_id: ObjectID | None = None,
        metadata: bytes = b"",
        memcopy_threads: int = 6,
    ) -> ObjectID:
        """Stores the bytes of anything with the buffer protocol; its id."""
        target = ObjectID.from_random() if object_id is None else object_id
        content = pa.py_buffer(value)
        self._write(target, [content], metadata, memcopy_threads)
        return target

    def put(
        self,
        value: Any,
        object_id: ObjectID | None = None,
        memcopy_threads: int = 6,
        serialization_context: serialization.SerializationContext | None = None,
    ) -> ObjectID:
        """Stores a Python value; its id. See :mod:`plasmon.plasma.serialization`."""
        if serialization_context is not None:
            _warn_of_context()
        target = ObjectID.from_random() if object_id is None else object_id
        binary_of(target)
        serialized = serialization.serialize_quietly(value, serialization_context)
        self._write(target, serialized.segments(), b"", memcopy_threads)
        return target

    def _write(
        self, object_id: ObjectID, parts: Sequence[Any], metadata: bytes, threads: int
    ) -> None:
        """Creates, fills and seals an object; removes the object when that fails."""
        size = sum(len(part) for part in parts)
        buffer = self.create(object_id, size, metadata)
        try:
            stream = pa.FixedSizeBufferWriter(buffer)
            stream.set_memcopy_threads(threads)
            for part in parts:
                stream.write(part)
        except BaseException:
            self._abort(binary_of(object_id))
            raise
        # Sealed without a view of it, the object needs no pin.
        del stream, buffer
        self.seal(object_id)

    # Reading

    def get_buffers(
        self, object_ids: Iterable[ObjectID], timeout_ms: int = -1, with_meta: bool = False
    ) -> list[Any]:
        """The data of objects, read in place; None for one that did not come in time.

        Waits until all are sealed, without a limit for a timeout of -1. With `with_meta` it gives
        pairs of metadata and data.
        """
        keys = [binary_of(object_id) for object_id in object_ids]
        lendings = self._acquire(keys, timeout_ms)
        buffers = [None if it is None else _buffers.read_only(it) for it in lendings]
        if not with_meta:
            return buffers
        about = [
            None if it is None else bytes(self._about(key, it))
            for key, it in zip(keys, lendings, strict=True)
        ]
        return [*zip(about, buffers, strict=True)]

    def get_metadata(
        self, object_ids: Iterable[ObjectID], timeout_ms: int = -1
    ) -> list[pa.Buffer | None]:
        """The metadata of objects; None for one that did not come in time."""
        keys = [binary_of(object_id) for object_id in object_ids]
        lendings = self._acquire(keys, timeout_ms)
        return [
            None if it is None else pa.py_buffer(self._about(key, it))
            for key, it in zip(keys, lendings, strict=True)
        ]

    def get(
        self,
        object_ids: Any,
        timeout_ms: int = -1,
        serialization_context: serialization.SerializationContext | None = None,
    ) -> Any:
        """The value of an object, or a list of the values of a list of objects.

        Arrays and tables lie on the objects' memory. ObjectNotAvailable stands for an object that
        did not come in time.
        """
        if serialization_context is not None:
            _warn_of_context()
        single = not isinstance(object_ids, Sequence)
        ids = [object_ids] if single else object_ids
        values = [
            serialization.deserialize_quietly(buffer, serialization_context)
            if buffer
            else ObjectNotAvailable
            for buffer in self.get_buffers(ids, timeout_ms)
        ]
        return values[0] if single else values

    def _used(self, key: bytes) -> Lending[bytes] | None:
        use = self._uses.get(key)
        return None if use is None else use()

    def _lend(self, key: bytes, owner: Any) -> Lending[bytes]:
        lending = Lending(owner, self._ended, key)
        self._uses[key] = weakref.ref(lending)
        return lending

    def _about(self, key: bytes, lending: Lending[bytes]) -> bytes | memoryview:
        owner = lending.owner
        if isinstance(owner, Writer):
            # Gone only when the client disconnected meanwhile.
            return self._metadata.get(key, b"")
        about: memoryview = owner.metadata
        return about

    def _held(self, key: bytes) -> Lending[bytes] | None:
        """The sealed object that this client looks at already."""
        return None if key in self._creating else self._used(key)

    def _acquire(self, keys: list[bytes], timeout_ms: int) -> list[Lending[bytes] | None]:
        """Pins objects, waiting for all of them; None for what did not come in time."""
        store = self._connected()
        if len(keys) == 1:
            lending = self._held(keys[0]) or self._pin_one(store, keys[0])
            if lending is not None:
                return [lending]
        deadline = None if timeout_ms < 0 else time.monotonic() + timeout_ms / 1000
        found = {key: self._held(key) for key in keys}
        while missing := [key for key, lending in found.items() if lending is None]:
            found.update(self._pin(store, missing))
            missing = [key for key in missing if found[key] is None]
            left = None if deadline is None else deadline - time.monotonic()
            if not missing or (left is not None and left <= 0):
                break
            # What was deleted or evicted may be created again: the wait goes on.
            with translated:
                store.wait([ObjectId(key) for key in missing], timeout=left, beyond_end=True)
        return [found[key] for key in keys]

    def _pin_one(self, store: Store, key: bytes) -> Lending[bytes] | None:
        try:
            return self._lend(key, store.get_buffer(ObjectId(key), timeout=0))
        except PlasmonError as error:
            if _is_absence(error):
                return None
            raise translate(error) from error

    def _pin(self, store: Store, keys: list[bytes]) -> dict[bytes, Lending[bytes] | None]:
        ids = [ObjectId(key) for key in keys]
        with translated:
            answers = store.get_buffers(ids, timeout=0, errors="return")
            for answer in answers:
                if isinstance(answer, PlasmonError) and not _is_absence(answer):
                    raise answer
        return {
            key: None if isinstance(answer, PlasmonError) else self._lend(key, answer)
            for key, answer in zip(keys, answers, strict=True)
        }

    def _ended(self, key: bytes) -> None:
        """Forgets an object whose last buffer, and so its pin, is gone."""
        use = self._uses.get(key)
        if use is not None and use() is None:
            self._uses.pop(key, None)
            if self._metadata and key not in self._creating:
                self._metadata.pop(key, None)
        if key in self._deletions and key not in self._creating and self._used(key) is None:
            # The store may have gone first, and no caller waits for the error.
            with contextlib.suppress(PlasmonError, OSError, pa.lib.ArrowException):
                self._delete_now(key)

    def _release(self, object_id: ObjectID) -> None:
        """Does nothing: an object is released when the last buffer of it is gone."""
        binary_of(object_id)
        self._connected()

    # Everything else about objects

    def contains(self, object_id: ObjectID) -> bool:
        """Whether the object is sealed, or created by this client."""
        key = binary_of(object_id)
        store = self._connected()
        if key in self._creating or self._used(key) is not None:
            return True
        with translated:
            return store.contains(ObjectId(key))

    def hash(self, object_id: ObjectID) -> bytes:
        """Eight bytes that depend on the object's data and metadata alone.

        Raises PlasmaObjectNotFound when there is no such object.
        """
        key = binary_of(object_id)
        (held,) = self._acquire([key], 0)
        if held is None:
            raise PlasmaObjectNotFound("Object not found")
        with translated:
            return self._connected().digest(ObjectId(key))[:_DIGEST_BYTES]

    def evict(self, num_bytes: int) -> int:
        """Evicts the least recently used objects until this many bytes are free.

        Returns the number of bytes evicted.
        """
        wanted = _size(num_bytes)
        with translated:
            return self._connected().evict(max(0, wanted))[0]

    def delete(self, object_ids: Iterable[ObjectID]) -> None:
        """Deletes objects, each as soon as no client reads it any more."""
        keys = [binary_of(object_id) for object_id in object_ids]
        store = self._connected()
        now = []
        for key in keys:
            if key in self._creating or self._used(key) is not None:
                self._deletions.add(key)
            else:
                now.append(ObjectId(key))
        with translated:
            store._delete_unused(now)

    def _delete_now(self, key: bytes) -> None:
        self._deletions.discard(key)
        # A forked child has no part in what its parent was to delete.
        if self._store is not None and self._pid == os.getpid():
            with translated:
                self._store._delete_unused([ObjectId(key)])

    def list(self) -> dict[ObjectID, dict[str, Any]]:
        """The objects of the store: a description of each, by its id.

        The keys of a description are data_size, metadata_size, ref_count (clients that look at the
        object), create_time and construct_duration (seconds; -1 while it is created), and state
        ("created" or "sealed").
        """
        with translated:
            objects = self._connected()._list_fields()
        return dict(map(_described, objects))

    # Notifications

    def subscribe(self) -> None:
        """Starts notifications about objects that are sealed or gone.

        What is sealed already is told first. A second subscription ends the first.
        """
        store = self._connected()
        self._end_feed()
        with translated:
            self._feed = _notifications.Feed(store.subscribe(), weakref.WeakMethod(self._sealed))
        # The feed's thread must not outlive a client that was never disconnected.
        weakref.finalize(self, self._feed.close)

    def _sealed(self) -> Iterable[tuple[bytes, tuple[int, int]]]:
        return [
            (info.id.binary, (info.data_bytes, info.metadata_bytes))
            for info in self._connected().list()
            if info.state != "creating"
        ]

    def _end_feed(self) -> None:
        feed, self._feed = self._feed, None
        if feed is not None:
            feed.close()

    def get_notification_socket(self) -> socket.socket:
        """The socket that notifications arrive at, for an event loop."""
        if self._feed is None:
            raise ValueError("negative file descriptor: there is no subscription")
        return self._feed.reader.dup()

    def decode_notifications(self, buf: bytes) -> tuple[Any, Any, Any]:
        """Ids, data sizes and metadata sizes in a message read from the socket."""
        return _notifications.decode(buf)

    def get_next_notification(self) -> tuple[ObjectID, int, int]:
        """The next object that was sealed or is gone, and the sizes of its data and metadata."""
        if self._feed is None:
            raise OSError(
                "Failed to read object notification from Plasma socket: there is no subscription"
            )
        return self._feed.next()

    # The client and the store

    def set_client_options(self, client_name: str, limit_output_memory: int) -> None:
        """Gives this client a share of the store's memory, once.

        Its objects are then evicted only for its own new ones, never for those of others, until
        it disconnects. At most seven tenths of the memory can be divided; more raises
        PlasmaStoreFull.
        """
        limit = _size(limit_output_memory)
        store = self._connected()
        if self._share is not None:
            raise PlasmaStoreFull("Cannot change the client quota once set")
        with translated:
            store._set_share(max(0, limit))
        self._share = (client_name, limit)

    def debug_string(self) -> str:
        """The metrics of the store and of this client's share, for people."""
        with translated:
            status = self._connected().status()
        lines = [
            f"allocated bytes: {status.used_bytes}",
            f"allocation limit: {self.store_capacity()}",
            f"(global lru) capacity: {status.capacity_bytes}",
            f"(global lru) num objects: {status.objects}",
            f"(global lru) num evictions: {status.evicted_total}",
            f"objects in the external store: {status.spilled}",
            f"clients: {status.clients}",
        ]
        if self._share is not None:
            lines.append("({}) capacity: {}".format(*self._share))
        return "\n".join(lines)

    def store_capacity(self) -> int:
        """The bytes that the store was started with."""
        return self._connected().capacity

    def to_capsule(self) -> Any:
        """A capsule for native code: `plasmon.socket`, a pointer to the path of the store's socket.

        Plasma's capsule pointed to its C++ client and had another name, so that code that wants
        that client is told that it is not there. It lives as long as this client.
        """
        return _buffers.socket_capsule(self._path)

    def disconnect(self) -> None:
        """Ends the connection: what was not sealed is given up. Buffers stay readable."""
        self._end_feed()
        store, self._store = self._store, None
        writers = [*self._creating.values()]
        self._creating.clear()
        self._deletions.clear()
        self._metadata.clear()
        if store is not None:
            for writer in writers:
                with contextlib.suppress(PlasmonError):
                    writer.abort()
            store.disconnect()


# Listings are long, and data classes take longer to make than everything else about them.
_FIELDS = [field.name for field in fields(ObjectInfo)]
_LISTED = ("id", "state", "data_bytes", "metadata_bytes", "created", "construct_seconds", "pins")
_listed = itemgetter(*map(_FIELDS.index, _LISTED))


def _described(info: tuple[Any, ...]) -> tuple[ObjectID, dict[str, Any]]:
    native_id, state, data_bytes, metadata_bytes, created, construct_seconds, pins = _listed(info)
    creating = state == "creating"
    created_s = int(created)
    described = {
        "data_size": data_bytes,
        "metadata_size": metadata_bytes,
        "ref_count": 1 if creating else pins,
        "create_time": created_s,
        "construct_duration": -1 if creating else int(created + construct_seconds) - created_s,
        "state": "created" if creating else "sealed",
    }
    return quiet_id(native_id.binary), described


def _is_absence(error: PlasmonError) -> bool:
    return isinstance(error, NotFound | NotSealed | TimedOut)


def _warn_of_context() -> None:
    warnings.warn(
        "'serialization_context' is deprecated and will be removed in a future version.",
        FutureWarning,
        stacklevel=3,
    )


def connect(store_socket_name: str | os.PathLike[str], num_retries: int = -1) -> PlasmaClient:
    """Connects to the store that listens on a socket.

    Tries again every tenth of a second, `num_retries` times (50 when it is negative), and raises
    OSError then.
    """
    name = os.fspath(store_socket_name)
    if not isinstance(name, str):
        raise TypeError(f"the name of a socket is a str, {type(name).__name__} found")
    warnings.warn(DEPRECATED, DeprecationWarning, stacklevel=2)
    tries = _RETRIES if num_retries < 0 else num_retries
    try:
        store = Store(
            socket=name,
            name="plasmon.plasma",
            exact=True,
            connect_timeout=tries * _RETRY_S,
            reconnect_timeout=0.0,
        )
    except PlasmonError as error:
        raise OSError(f"Could not connect to socket {name}: {error}") from error
    client = PlasmaClient.__new__(PlasmaClient)
    client._prepare(store, name)
    return client
