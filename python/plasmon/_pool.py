"""What a store tells of the pool that it belongs to, and its memory on other nodes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast, overload

from plasmon import _native, _pool_parts
from plasmon._info import known
from plasmon._native import ObjectId, pool_compare, pool_verify
from plasmon._pool_regions import Address, id_of, place_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from typing_extensions import Buffer as Bytes

    from plasmon._errors import PlasmonError
    from plasmon._native import Store

NodeState: TypeAlias = Literal["up", "down", "out", "draining", "drained"]
Standing: TypeAlias = Literal["absent", "pending", "live", "dead", "lost", "unreachable"]


@dataclass(frozen=True, slots=True)
class PoolNode:
    """A node of a pool.

    ``slot`` is its number, which no other node gets; ``leads`` says whether it decides about the
    map. Of the 1024 groups of ids it leads ``groups_led``, keeps the records of
    ``groups``, and has all of those of ``groups_complete``. It has had its state since the map
    with the number ``since_epoch``; ``drain`` says whether it is to become empty. ``left`` is what
    a draining node has that is not elsewhere yet, as a dict: ``objects`` and their ``bytes``, the
    ``last`` of which no other live node keeps a copy, and more; None for other nodes. Once its
    state is *drained* it can be stopped without loss. ``unreached`` are the names of nodes that it
    and they do not reach, eight at most: one of them does not take part until they do.
    ``encryption`` is None for a node that encrypts nothing, and else a dict: whether it encrypts
    the ``data`` of objects, too, and the last second of its certificate, ``not_after``, since
    1970. ``fabric`` is None for a node that was not asked to use libfabric, and else a dict: the
    ``providers`` in use, separated by commas, why others are ``refused``, both empty where there
    are none, and how many endpoints were ``closed`` because a peer was lost.
    """

    slot: int
    name: str
    state: NodeState
    since_epoch: int
    drain: bool
    leads: bool
    groups_led: int
    groups: int
    groups_complete: int
    zone: str
    weight: int
    addresses: list[str]
    left: dict[str, int] | None = None
    unreached: list[str] = field(default_factory=list)
    encryption: dict[str, int] | None = None
    fabric: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class PoolStatus:
    """A pool as a whole, as the pool daemon of this machine has seen it last.

    ``epoch`` is the number of the map, ``leader`` the name of the node that decides about it.
    ``nodes_draining`` are some of ``nodes_live``. Of its ``groups`` of ids ``groups_settled`` have
    all their records on all their nodes, and ``groups_dead`` are on no live node: their objects
    cannot be found. ``alarm`` says why no node is given up, ``bad_map`` why the map cannot be used.
    ``refused`` are nodes that are not let in, as dicts with ``uuid`` and ``reason``, ``unreached``
    pairs of names of nodes that do not reach each other, eight at most. ``waited_for`` are nodes
    that are away and without which groups are not complete, as pairs of the name and the number of
    these groups, and ``logs_failed`` the names of nodes whose log for durable objects has failed;
    both name 32 nodes at most.
    """

    epoch: int
    leader: str | None
    nodes_live: int
    nodes_down: int
    nodes_out: int
    nodes_draining: int
    groups: int
    groups_settled: int
    groups_dead: int
    alarm: str | None
    bad_map: str | None
    refused: list[dict[str, str]]
    unreached: list[list[str]] = field(default_factory=list)
    waited_for: list[list[str | int]] = field(default_factory=list)
    logs_failed: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Place:
    """Where an object of a pool is.

    ``state`` is *live*, *pending* (its put has not returned), *absent*, *dead* (deleted, and there
    may be copies), *lost* (no node has a copy), or *unreachable*: no node with a copy is up, or
    the pool cannot be asked now. ``record`` is the node that keeps the record. It says which
    ``holders`` keep the ``copies`` that were asked for, of which there are ``copies_min`` at least
    before a put returns, and which other nodes may have one in their ``caches``. A cache
    (``storage="cache"``) has no holders, and 0 copies. The copies of a ``durable`` object are in
    the logs of their nodes. ``birth`` tells the object from others that had or will have its name.
    Without a record all but ``state`` and
    ``record`` is None or empty.
    """

    state: Standing
    record: str | None
    birth: tuple[int, int, int] | None = None
    origin: str | None = None
    data_bytes: int | None = None
    metadata_bytes: int | None = None
    copies: int | None = None
    copies_min: int | None = None
    holders: tuple[str, ...] = ()
    caches: tuple[str, ...] = ()
    durable: bool = False


@dataclass(frozen=True, slots=True)
class Verification:
    """What was found when all records of a pool were compared with all copies.

    There are ``objects``, of which fewer nodes than shall keep ``short``, and no live node has
    ``unreachable``; ``lost`` objects existed, and no node has a copy. Of the ``groups`` of ids
    ``groups_compared`` were compared: the others have no primary now that knows all their records.
    ``nodes`` are dicts with the ``slot`` of a node, the ``copies`` that it keeps and their
    ``bytes``, the copies that were ``missing``, and are made again, and those that were
    ``unrecorded``, and are dropped. The nodes in the slots ``unanswered`` did not answer.
    """

    groups: int
    groups_compared: int
    objects: int
    short: int
    unreachable: int
    lost: int
    nodes: list[dict[str, int]]
    unanswered: list[int]

    @property
    def whole(self) -> bool:
        """Whether nothing is wrong, and everything was compared."""
        wrong = self.short + self.unreachable + self.lost + len(self.unanswered)
        wrong += sum(node["missing"] + node["unrecorded"] for node in self.nodes)
        return wrong == 0 and self.groups_compared == self.groups


@dataclass(frozen=True, slots=True)
class Comparison:
    """What was found when the contents of all copies of a pool were compared.

    The nodes have read ``copies`` of so many ``bytes`` in all. Of the objects, the copies of
    ``same`` are alike, ``single`` have one copy, and those of ``differing`` are not alike;
    ``unreadable`` copies could not be read, or are not what the log of their node has, and the
    records of ``damaged_records`` copies in their logs are damaged. Nothing is repaired: ``plasmon
    pool verify --deep`` does that. ``differences`` are the objects with such copies,
    10,000 at most, in the order of their ids: dicts with ``id`` and ``name``, both as strings, and
    ``copies``, each with the ``slot`` of its node, its ``bytes``, their ``crc32c``, which is None
    where they cannot be read, and ``logged``: whether the log of the node has these bytes, None
    where it has no record of them. The copies of the nodes in the slots ``unanswered`` were not
    read, or not all of them.
    """

    copies: int
    bytes: int
    same: int
    single: int
    differing: int
    unreadable: int
    damaged_records: int
    differences: list[dict[str, Any]]
    unanswered: list[int]

    @property
    def right(self) -> bool:
        """Whether all copies were read, no two of an object differ, and no log is damaged."""
        wrong = self.differing + self.unreadable + self.damaged_records
        return wrong + len(self.unanswered) == 0


class Pool:
    """The pool that a store belongs to, as its pool daemon knows it: ``store.pool``.

    Without a pool, and while the pool daemon is not there, its methods raise
    :class:`~plasmon.Unreachable`.
    """

    __slots__ = ("_store",)

    def __init__(self, store: Store) -> None:
        self._store = store

    def status(self) -> PoolStatus:
        """Whether the pool is whole, and what it waits for."""
        return cast(PoolStatus, known(PoolStatus, self._store._fields("pool_status")))

    def nodes(self) -> list[PoolNode]:
        """Its nodes, in the order of their slots."""
        return [known(PoolNode, one) for one in self._store._fields("pool_nodes")]

    def where(self, id: ObjectId | str, *, namespace: str = "") -> Place:
        """Which nodes have an object, by its name (``"@prod:sales"``) or its id."""
        place = self._store._fields("pool_place", id, namespace)
        state, record, found = place["standing"], place["primary"], place["found"]
        if found is None:
            return Place(state, record)
        birth = found["birth"]
        return Place(
            state,
            record,
            birth=(birth["slot"], birth["boot"], birth["serial"]),
            origin=found["origin"],
            data_bytes=found["data_bytes"],
            metadata_bytes=found["metadata_bytes"],
            copies=found["copies"],
            copies_min=found["copies_min"],
            holders=tuple(found["holders"]),
            caches=tuple(found["caches"]),
            durable=found["is_durable"],
        )

    def verify(self, *, timeout: float = 60.0) -> Verification:
        """Compares all records with the copies that there are, and repairs what differs.

        The nodes have ``timeout`` seconds; those that have not answered then are named.
        """
        return cast(Verification, known(Verification, pool_verify(self._store, timeout)))

    def compare(self, *, timeout: float | None = None) -> Comparison:
        """Has all nodes read the contents of their copies, and compares them.

        Nothing is changed, and what is spilled stays on its disk. Each node reads 256 MiB a second
        at most, so this takes long in a large pool; after ``timeout`` seconds it raises TimedOut.
        """
        return cast(Comparison, known(Comparison, pool_compare(self._store, timeout)))

    def prefetch(
        self, ids: ObjectId | str | Iterable[ObjectId | str], *, namespace: str = ""
    ) -> None:
        """Has objects brought to this node that will be needed, and does not wait for them.

        A get that comes meanwhile waits for the same transfer. What does not exist, has no room
        here, or does not begin to arrive within a minute, does not come; no error tells.
        """
        _native._PoolParts.prefetch(self._store, ids, namespace)

    def read(
        self,
        id: ObjectId | str | Address,
        ranges: Iterable[tuple[int, int]],
        *,
        namespace: str = "",
        timeout: float | None = None,
    ) -> list[memoryview]:
        """Parts of an object's data, a read-only view for each ``(offset, nbytes)``.

        An object that is on this node is read in place. Of any other one the parts come here, in
        one transfer, and stay in this node's store for as long as the views are used. For
        ``timeout`` and the errors see :meth:`Store.get`; a range that is not within the object
        raises BadRequest, and nothing is read. One call reads up to 65,536 ranges.

        With an address the offsets count from there, and a region that is not sealed raises
        NotSealed, or TimedOut after ``timeout``.

            >>> store.pool.read("@prod:numbers", [(0, 8), (800, 16)])  # doctest: +SKIP
        """
        return _pool_parts.read(self._store, id, ranges, namespace, timeout)

    @overload
    def gather(
        self,
        reads: Iterable[tuple[ObjectId | str, Iterable[tuple[int, int]]]],
        *,
        namespace: str = "",
        timeout: float | None = None,
        errors: Literal["raise"] = "raise",
    ) -> list[list[memoryview]]: ...
    @overload
    def gather(
        self,
        reads: Iterable[tuple[ObjectId | str, Iterable[tuple[int, int]]]],
        *,
        namespace: str = "",
        timeout: float | None = None,
        errors: Literal["return"],
    ) -> list[list[memoryview] | PlasmonError]: ...
    def gather(
        self,
        reads: Iterable[tuple[ObjectId | str, Iterable[tuple[int, int]]]],
        *,
        namespace: str = "",
        timeout: float | None = None,
        errors: Literal["raise", "return"] = "raise",
    ) -> list[list[memoryview]] | list[list[memoryview] | PlasmonError]:
        """Parts of many objects in one call: for each ``(id, ranges)`` what :meth:`read` returns.

        What several objects of one node have comes here together, so a thousand small parts take
        little longer than one that is as long as all of them. The results are in the order of
        ``reads``, and an object may be in it several times. Views of several objects share memory,
        which is free when none of these is used any more.

        Raises the first error; with ``errors="return"`` nothing is raised, and the list has the
        exception in place of the views. ``timeout`` is how long all objects together are waited
        for that do not exist yet.

            >>> parts = [("@prod:a", [(0, 8)]), ("@prod:b", [(0, 8), (800, 16)])]
            >>> store.pool.gather(parts)  # doctest: +SKIP
        """
        outcomes = _pool_parts.gather(self._store, reads, namespace, timeout)
        if errors == "raise":
            for outcome in outcomes:
                if not isinstance(outcome, list):
                    raise outcome
        return outcomes

    def stream(
        self,
        id: ObjectId | str,
        window: int = _pool_parts.WINDOW,
        *,
        namespace: str = "",
        timeout: float | None = None,
    ) -> _pool_parts.Stream:
        """An object's data in pieces of 4 MiB, in order: an iterator of read-only views.

        ``window`` pieces, 1 to 32, are on their way while the program works on one, and take
        memory; the pieces that it is through with do not.
        """
        return _pool_parts.Stream(self._store, id, window, namespace, timeout)

    def read_columns(
        self,
        id: ObjectId | str,
        columns: Sequence[str | int],
        rows: tuple[int, int] | None = None,
        *,
        namespace: str = "",
        timeout: float | None = None,
    ) -> Any:
        """Columns of a table as a pyarrow Table, without the others.

        It is what ``get(id, as_="arrow").select(columns)`` is; only the buffers of these columns,
        and the headers of the table, come to this node. ``rows=(first, end)`` leaves out what is
        before and after, and whole batches of the table that have none of these rows do not come.
        Of an object in parts, only the parts of the columns are needed.

        A column that is not there raises KeyError or IndexError; an object without a table raises
        Corrupt.
        """
        return _pool_parts.read_columns(self._store, id, columns, rows, namespace, timeout)

    def allocate(
        self,
        nbytes: int,
        copies: int = 1,
        node: str | None = None,
        *,
        copies_min: int | None = None,
    ) -> Address:
        """Memory for ``nbytes`` on a node of the pool, this one or that with the name ``node``.

        Programs on all nodes :meth:`write` to it until one of them seals it: then it is an object
        of the pool, kept by as many nodes as ``copies`` says, which :meth:`read` and
        ``store.get(address.id)`` read. For ``copies_min`` see :meth:`Store.put`.

        A region that is not sealed ends with the program that allocated it (as an object that
        :meth:`Store.create` makes), and with the pool daemon of its node or of the program's. What
        was not written may have any content.

            >>> address = store.pool.allocate(1 << 20)  # doctest: +SKIP
        """
        if copies < 1:
            raise ValueError(f"copies is 1 to 8 nodes of a pool, found {copies}")
        return Address(
            _native._PoolRegions.allocate(self._store, nbytes, copies, copies_min or 0, node)
        )

    def write(self, address: Address | ObjectId, offset: int, data: Bytes) -> None:
        """Puts bytes into memory that is not sealed, ``offset`` bytes from ``address`` on.

        They are within the region, or BadRequest is raised and nothing is written. When it returns,
        they are there: a seal that comes later has them. Of several writes of the same bytes, one
        that began after the others had returned counts. A write that raises in the middle may have
        written some of its bytes. A sealed region raises AlreadySealed, one that was freed Deleted,
        one whose program has ended CreatorDied.
        """
        id, at = place_of(address, offset)
        _native._PoolRegions.write(self._store, id, at, data)

    def seal(self, address: Address | ObjectId) -> ObjectId:
        """Makes a region an object of the pool that nothing changes any more; its id.

        Readers see it whole from then on. With several copies it returns when the pool has accepted
        the object.
        """
        id = id_of(address)
        _native._PoolRegions.seal(self._store, id)
        return id

    def free(self, address: Address | ObjectId) -> None:
        """Ends a region, and deletes the object that it is when it was sealed."""
        _native._PoolRegions.free(self._store, id_of(address))
