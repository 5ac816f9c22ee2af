"""Connecting to a store, and all of its methods that are not on a hot path."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast, overload

from plasmon import _native
from plasmon._columns import ColumnBuilder, TableBuilder
from plasmon._errors import NotFound, PlasmonError, TimedOut
from plasmon._info import (
    ClientInfo,
    ObjectInfo,
    ObjectList,
    State,
    Status,
    bytes_text,
    known,
)
from plasmon._ingest import ingest
from plasmon._memory_pool import memory_pool, pooled
from plasmon._native import ObjectId, Scope
from plasmon._pool import Pool
from plasmon._subscription import Subscription

if TYPE_CHECKING:
    from plasmon._sort import Sorted

Key: TypeAlias = ObjectId | str
As: TypeAlias = Literal["arrow", "pandas", "polars", "numpy", "bytes", "memoryview"]

# Inside of Store `list` is the method.
_Sequences = (list, tuple)
_States: TypeAlias = list[State]
_Clients: TypeAlias = list[ClientInfo]
_Keys: TypeAlias = list[Key]
_Outcomes: TypeAlias = list[PlasmonError | None]
_ObjectIds: TypeAlias = list[ObjectId]

_READABLE = ("sealed", "spilled")


class Store(_native.Store):
    """A connection to a store. Threads may share it; a forked child gets its own connection.

    Objects are named by an :class:`ObjectId`, or by a str, which is a name in ``namespace``. Times
    are in seconds, sizes in bytes. Made by :func:`connect`; a context manager that disconnects.

    A store reads like a dict of its objects, which do not change:

        >>> store = plasmon.connect()
        >>> id = store.put({"a": 1}, name="settings")
        >>> store["settings"], store[id], "settings" in store, store.get("other", None)
        ({'a': 1}, {'a': 1}, True, None)
        >>> [key for key in store]
        ['settings']
        >>> del store["settings"]
    """

    def builder(self, type: Any, *, bytes_hint: int = 0, timeout: float = 0.0) -> ColumnBuilder:
        """A builder for a column of an Arrow type, which grows in the store without ever moving.

        ``type`` is an Arrow type, its name, or a NumPy dtype. ``bytes_hint`` is the expected size
        of its buffers, if that is known; ``timeout`` is how many seconds to wait for room while
        the store is full, before StoreFull is raised.
        """
        return ColumnBuilder(self, type, bytes_hint=bytes_hint, timeout=timeout)

    def table_builder(
        self, schema: Any, *, bytes_hint: int = 0, timeout: float = 0.0
    ) -> TableBuilder:
        """A builder for a table; ``schema`` is an Arrow schema, or names with their types."""
        return TableBuilder(self, schema, bytes_hint=bytes_hint, timeout=timeout)

    def memory_pool(self) -> Any:
        """A ``pyarrow.MemoryPool`` whose buffers lie in this store.

        Memory that pyarrow allocates with it (``dataset.to_table(memory_pool=pool)``,
        ``pyarrow.csv``, compute functions, IPC readers) is shared memory, and :meth:`put` of such a
        table copies nothing. For functions that take no pool there is :meth:`pooled`. There is one
        pool for each connection; tables may outlive it.

        Raises ImportError, with the command that builds it, where the extension is not built for
        the installed pyarrow; Unsupported for a store of level strict, which seals no memory that
        is still mapped for writing.
        """
        return memory_pool(self)

    def pooled(self) -> AbstractContextManager[Any]:
        """In its block, pyarrow's default memory pool allocates in this store.

            with store.pooled():
                table = pq.read_table(path)
            id = store.put(table)                    # copies nothing

        pyarrow has one default pool for all threads of the process. Where :meth:`memory_pool`
        raises because there is no pool, a RuntimeWarning with the same message is issued, the block
        uses pyarrow's own pool, and ``put`` copies.
        """
        return pooled(self)

    def scope(self, *ids: Key | Iterable[Key], namespace: str = "") -> Scope:
        """Objects that stay together or not at all: a context manager.

            with store.scope("part-0", "part-1") as scope:
                for name in ("part-0", "part-1"):
                    store.put(b"...", name=name)
                scope.add("total")
                store.put(2, name="total")

        At the end of the block the scope is published and its objects stay, all of them from the
        same moment on. They are deleted when the block raises, and when this process ends before,
        however it ends; also when the daemon is restarted meanwhile. Until then other programs find
        them as any others. Outside of a block :meth:`Scope.publish` and :meth:`Scope.abort` end a
        scope; one that is no longer referred to is aborted.

        Each of ``ids`` is an id, a name in ``namespace`` or an iterable of them. They are named
        before the objects are put, because a process may end in between. Only what this connection
        puts belongs to its scope: an object that another client has or puts under one of the ids
        stays. One that this connection had put before is deleted, too, and so is one that replaced
        another; what a composite holds stays.

        Raises LimitReached when all open scopes of this connection would have more than 8192 ids.
        A forked child cannot use the scopes of its parent: their methods raise Forked, and the
        parent's objects stay as they are.
        """
        return Scope(self, *ids, namespace=namespace)

    def ingest(
        self,
        files: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
        **options: Any,
    ) -> ObjectId:
        """Reads Parquet, CSV and Arrow files into one table; see :func:`plasmon.ingest`."""
        return ingest(files, store=self, **options)

    @overload
    def delete(
        self,
        ids: Key | Iterable[Key],
        *,
        namespace: str = "",
        missing: Literal["raise", "ignore"] = "ignore",
        errors: Literal["raise"] = "raise",
        wait: bool = False,
        timeout: float = 120.0,
    ) -> int: ...
    @overload
    def delete(
        self,
        ids: Key | Iterable[Key],
        *,
        namespace: str = "",
        missing: Literal["raise", "ignore"] = "ignore",
        errors: Literal["return"],
        wait: bool = False,
        timeout: float = 120.0,
    ) -> _Outcomes: ...
    def delete(
        self,
        ids: Key | Iterable[Key],
        *,
        namespace: str = "",
        missing: Literal["raise", "ignore"] = "ignore",
        errors: Literal["raise", "return"] = "raise",
        wait: bool = False,
        timeout: float = 120.0,
    ) -> int | _Outcomes:
        """Deletes objects and returns how many there were to delete.

        An object that is still being read is hidden now, and its memory is free after its last
        reader. An object that is not there is no error unless ``missing`` says so. Raises any other
        refusal; with ``errors="return"`` nothing is raised, and a list has None or the exception
        for each id.

        With ``wait`` it returns when no node of the pool has a copy any more, and raises
        :class:`InUse`, which names the nodes, when that took longer than ``timeout`` seconds; the
        objects are deleted all the same. It is for objects of a pool.

            >>> store.put(1, name="one")
            >>> store.delete(["one", "two"])
            1
        """
        if wait:
            outcomes = _native.delete_and_wait(self, ids, timeout, namespace)
        else:
            outcomes = self._delete_many(ids, namespace=namespace)
        if missing == "ignore":
            gone = outcomes.count(None)
            outcomes = [None if isinstance(one, NotFound) else one for one in outcomes]
        else:
            gone = len(outcomes)
        if errors == "return":
            return outcomes
        for outcome in outcomes:
            if outcome is not None:
                raise outcome
        return gone

    def adopt(self, namespace: str, *, bytes_max: int = 0) -> None:
        """Adopts a namespace: everything named in it lives as long as this connection.

        When this program ends, however it ends, or disconnects, the objects are deleted, whichever
        program put them, and later puts raise :class:`Cancelled` until a program adopts the
        namespace again. A namespace of the pool, such as ``"@run-1"``, is deleted on all nodes,
        also when this machine dies.

        With ``bytes_max`` all objects in the namespace have at most so many bytes together, in
        memory and spilled, and a put of more raises :class:`QuotaExceeded`; adopting it again
        changes the limit. On a pool each copy that nodes keep counts, and what reads have left on
        nodes does not. Nodes hear of each other with a delay of about a second, so together they
        may have as much more as they put in that time.

        Raises :class:`Exists` if another program has adopted it. For a namespace of the pool this
        waits until every node knows of it and of its limit, and raises :class:`Unreachable` after
        some seconds; and :class:`InUse` while a node has not deleted what an earlier program left.

            store.adopt("run-1", bytes_max=4 << 30)
        """
        _native.adopt(self, namespace, bytes_max)

    def end_adoption(self, namespace: str) -> None:
        """Ends the adoption of a namespace now: everything in it is deleted.

        Raises :class:`Absent` if this store has not adopted it.
        """
        _native.end_adoption(self, namespace)

    def settle(
        self,
        ids: Key | Iterable[Key],
        timeout: float | None = None,
        *,
        namespace: str = "",
        errors: Literal["raise", "return"] = "raise",
    ) -> _Outcomes:
        """Waits until the pool has accepted objects that were put on this node.

        An object that is put with ``pool=True`` is there at once; after this call the pool knows
        it, and as many nodes keep it as its put asked for. What the pool refuses has ended, as if
        it had been deleted. Raises the reason, such as NotEnoughNodes or StoreFull; for one that
        ended otherwise how it ended, such as Deleted; TimedOut after ``timeout`` seconds; and
        Unreachable when there is no pool daemon to ask. After the last two the objects are still
        there, and another call goes on waiting. With ``errors="return"`` nothing is raised, and a
        list has None or the exception for each id.

            ids = [store.put(part, pool=True) for part in parts]
            store.settle(ids)
        """
        outcomes = _native.settle(self, ids, timeout, namespace)
        if errors == "raise":
            for outcome in outcomes:
                if outcome is not None:
                    raise outcome
        return outcomes

    def put_many(self, values: Iterable[bytes], **options: Any) -> _ObjectIds:
        """Puts byte strings, one object each, and returns their ids in the same order.

            >>> ids = store.put_many([b"one", b"two"])
            >>> store.get(ids)
            [b'one', b'two']

        The options are those of :meth:`put`, for all of them; names and ids are not among them.
        With ``durable=True`` many reach the log together, with a sync for all and not for each. The
        first refusal is raised; objects before it may be there then. Raises what :meth:`put`
        raises, and TypeError for a value that is not bytes, before any is put.
        """
        return _native.put_many(self, values, options)

    def stat(self, id: Key, *, namespace: str = "") -> ObjectInfo | None:
        """A description of an object; None when nothing is known under the id."""
        found = self._stat_fields(id, namespace=namespace)
        return None if found is None else ObjectInfo(*found)

    def list(self, namespace: str | None = None, prefix: str | None = None) -> ObjectList:
        """Descriptions of all objects, or of those with a name in a namespace or with a prefix.

        They are those of this store; for a namespace of the pool, such as ``"@prod"``, those of all
        nodes, each once. Raises :class:`Unreachable` when a node did not answer.
        """
        return ObjectList(ObjectInfo(*fields) for fields in self._list_fields(namespace, prefix))

    def status(self) -> Status:
        """The metrics of the store."""
        return cast(Status, known(Status, self._fields("status")))

    def clients(self) -> _Clients:
        """The connected clients."""
        access = {"ReadWrite": "rw", "ReadOnly": "ro"}
        found = self._fields("clients")
        return [known(ClientInfo, {**one, "access": access[one["access"]]}) for one in found]

    @property
    def pool(self) -> Pool:
        """The pool that this store belongs to: its status, its nodes, and where objects are."""
        return Pool(self)

    def sort(self, data: Any, by: Any, *, namespace: str = "", **options: Any) -> Sorted:
        """Sorts tables of this store, by id or by name, or any others, into this store.

        Takes what :func:`plasmon.sort` takes, except that a str is the name of a table in
        ``namespace``; a path is a :class:`pathlib.Path`.
        """
        from plasmon._sort import sort

        def found(part: Any) -> Any:
            return ObjectId.from_name(part, namespace) if isinstance(part, str) else part

        many = isinstance(data, _Sequences)
        try:
            return sort(
                [found(part) for part in data] if many else found(data), by, store=self, **options
            )
        except NotFound as error:
            for part in [*data] if many else [data]:
                if isinstance(part, str) and found(part) == error.object_id:
                    # Says the same, and calls the table what the caller does.
                    self.get_buffer(part, namespace=namespace).release()
            raise

    def subscribe(self, namespace: str | None = None, prefix: str | None = None) -> Subscription:
        """Notices about all objects, or those with a name in a namespace or with a prefix.

        They are about this store; for a namespace of the pool, such as ``"@prod"``, about all
        nodes: what is put there (*sealed*) and deleted, each once, with its name.
        """
        return Subscription(self, namespace, prefix)

    async def wait_async(
        self,
        ids: Key | Iterable[Key],
        count: int | None = None,
        timeout: float | None = None,
        *,
        namespace: str = "",
    ) -> _States:
        """Like :meth:`wait`, without blocking the event loop."""
        from plasmon import _asyncio

        pending = self._start_wait(ids, count, timeout, namespace=namespace)
        return cast("_States", await _asyncio.answer(pending))

    async def get_async(
        self,
        ids: Key | Iterable[Key],
        *,
        namespace: str = "",
        timeout: float | None = None,
        wait: bool = False,
        as_: As | None = None,
    ) -> Any:
        """Like :meth:`get`, without blocking the event loop. Any number of tasks may do this.

        It waits for objects only when ``timeout`` or ``wait`` asks for that.
        """
        from plasmon import _asyncio

        is_one = isinstance(ids, ObjectId | str)
        given: Any = [ids] if is_one else [*cast("Iterable[Key]", ids)]
        limit = _asyncio.GetTimeout(timeout, wait)
        found = await _asyncio.buffers(self, _asyncio.GetRequest(self, given, namespace), limit)
        values = [self._value_of(buffer, as_) for buffer in found]
        return values[0] if is_one else values

    def keys(self) -> _Keys:
        """The names of the readable objects, or the ids of those without a name.

        Objects in other namespaces and members of composites are left out; :meth:`list` has them
        all.
        """
        return [
            info.name if info.name is not None else info.id
            for info in self.list()
            if info.state in _READABLE and not info.namespace and not info.owned
        ]

    def __getitem__(self, key: Key) -> Any:
        """The value of an object, as with :meth:`get`; a KeyError when it is not there."""
        if isinstance(key, ObjectId | str):
            return self.get(key)
        found = type(key).__qualname__
        raise TypeError(f"an object is named with an ObjectId or a str, found {found}")

    def __delitem__(self, key: Key) -> None:
        self.delete(key, missing="raise")

    def __contains__(self, key: object) -> bool:
        return isinstance(key, ObjectId | str) and self.contains(key)

    def __iter__(self) -> Iterator[Key]:
        return iter(self.keys())

    def __len__(self) -> int:
        return len(self.keys())

    def __bool__(self) -> bool:
        # A connection is not "nothing" when its store is empty.
        return True

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *raised: object) -> None:
        self.disconnect()

    def __repr__(self) -> str:
        size = bytes_text(self.capacity)
        return f"<plasmon.Store {str(self.socket)!r}: {size}, {self.level}>"

    def _repr_html_(self) -> str:
        return str(self.status()._repr_html_())

    def __reduce__(self) -> tuple[object, ...]:
        return _reconnect, (str(self.socket),)


def _reconnect(socket: str) -> Store:
    return connect(socket)


def _daemon() -> str | None:
    """The daemon that was installed with this package."""
    if chosen := os.environ.get("PLASMON_DAEMON"):
        return chosen
    return installed("plasmond")


def installed(program: str) -> str | None:
    """A program that was installed with this package."""
    package = Path(__file__).resolve().parent
    # In an environment the programs are beside the interpreter; with `pip install --prefix` or
    # `--user` they are in the `bin` beside the `lib` that holds the package.
    places = [Path(sys.executable).parent, *(parent / "bin" for parent in package.parents[2:5])]
    for place in places:
        if (place / program).is_file():
            return str(place / program)
    return None


def _settings(capacity: int | str | None, settings: dict[str, Any] | None) -> list[tuple[str, str]]:
    words = {True: "true", False: "false"}
    given = {
        key: words[value] if isinstance(value, bool) else str(value)
        for key, value in (settings or {}).items()
    }
    if capacity is not None:
        given["capacity_bytes"] = str(capacity)
    return [*given.items()]


def connect(
    socket: str | os.PathLike[str] | None = None,
    *,
    name: str | None = None,
    start: bool | None = None,
    capacity: int | str | None = None,
    settings: dict[str, Any] | None = None,
    exact: bool = False,
    timeout: float = 0.0,
    reconnect_timeout: float = 10.0,
    request_timeout: float = 60.0,
    owner: int | None = None,
    copy_threads: int | None = None,
) -> Store:
    """Connects to the store of this user, starting one if none runs.

    Without ``socket`` it takes ``$PLASMON_SOCKET``, or the socket in the user's runtime directory;
    if no daemon listens there it starts one that ends ten minutes after its last client.
    ``start`` says whether to start a daemon (default: only without ``socket``), and
    ``settings={"linger_ms": ...}`` how long it stays after its last client. ``capacity`` (bytes, or
    a string such as ``"4g"``) and ``settings`` (see docs/settings.md) are for a store that is
    started here; a running one keeps its own.

    ``name`` is shown in listings of clients. ``exact=True`` has the daemon place every object and
    counts a release as use: slower, but the capacity and the order of eviction are exact.
    ``timeout`` is how many seconds to try while no daemon listens, ``reconnect_timeout`` the same
    after the daemon went away, and ``request_timeout`` how many seconds the daemon may leave a
    request unanswered before TimedOut is raised. ``copy_threads`` is the number of threads that
    copy a large object; by default one per core, at most 6.

    The store must be this user's or root's, or its socket must lie where only its owner can have
    put it; ``owner`` names another user (a uid) whose store is meant.

    Raises Disconnected when there is no store and none was to be started, NotPermitted when the
    store belongs to another user than the one meant.
    """
    return Store(
        socket=None if socket is None else os.fspath(socket),
        name=name if name is not None else Path(sys.argv[0] if sys.argv else "python").name[:64],
        start=start if start is not None else socket is None,
        daemon=_daemon(),
        settings=_settings(capacity, settings),
        exact=exact,
        connect_timeout=timeout,
        reconnect_timeout=reconnect_timeout,
        request_timeout=request_timeout,
        owner=owner,
        copy_threads=copy_threads,
    )


class Daemon:
    """A private store. Made by :func:`start`.

    As a context manager it gives a connection to the store and stops it at the end of the block.
    """

    def __init__(self, socket: str, pid: int, directory: str | None) -> None:
        self.socket = socket
        self.pid = pid
        self._directory = directory
        self._stopped = False
        self._entered: Store | None = None

    def connect(self, **options: Any) -> Store:
        """A connection to this store; takes the options of :func:`connect`."""
        return connect(self.socket, **options)

    def stop(self, timeout: float = 10.0) -> None:
        """Stops the daemon and waits until it is gone. A second stop does nothing."""
        if self._stopped:
            return
        self._stopped = True
        try:
            self._end(timeout)
        finally:
            if self._directory is not None:
                from shutil import rmtree

                rmtree(self._directory, ignore_errors=True)

    def _end(self, timeout: float) -> None:
        import select

        try:
            with connect(self.socket, reconnect_timeout=0) as store:
                pids = {store.status().pid, store.status().keeper_pid} - {0}
                watched = [os.pidfd_open(pid) for pid in pids]
                store.shutdown()
        except (PlasmonError, ProcessLookupError):
            return  # it is gone already
        try:
            for fd in watched:
                if not select.select([fd], [], [], timeout)[0]:
                    raise TimedOut(f"the store on {self.socket} did not stop in {timeout} s")
        finally:
            for fd in watched:
                os.close(fd)

    def __enter__(self) -> Store:
        self._entered = self.connect()
        return self._entered

    def __exit__(self, *raised: object) -> None:
        if self._entered is not None:
            self._entered.disconnect()
        self.stop()

    def __repr__(self) -> str:
        return f"<plasmon.Daemon {self.socket!r}: process {self.pid}>"


def start(
    capacity: int | str | None = None,
    *,
    socket: str | os.PathLike[str] | None = None,
    settings: dict[str, Any] | None = None,
    timeout: float = 10.0,
    stays: bool = False,
) -> Daemon:
    """Starts a private store, by default on a socket in a new temporary directory.

    A context manager that gives a connection and stops the store at the end of the block. Without
    a block the store ends once this process has ended, for any reason, and the last client has
    disconnected; with ``stays`` it goes on until it is stopped. ``capacity`` is in bytes or a
    string such as ``"512m"``; ``settings`` are those of docs/settings.md. Raises AlreadyRunning
    when another daemon serves the socket.
    """
    directory = None
    if socket is None:
        from tempfile import mkdtemp

        directory = mkdtemp(prefix="plasmon-")
        socket = os.path.join(directory, "store.sock")
    own: dict[str, Any] = {"socket": os.fspath(socket)}
    if not stays:
        own |= {"starter": _native.this_process(), "own_folder": directory is not None}
    given = _settings(capacity, own | (settings or {}))
    try:
        pid, path = _native.start_daemon(given, daemon=_daemon(), timeout=timeout)
    except BaseException:
        if directory is not None:
            from shutil import rmtree

            rmtree(directory, ignore_errors=True)
        raise
    return Daemon(os.fspath(path), pid, directory)
