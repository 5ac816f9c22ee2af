"""Descriptions of objects, of the store and of its clients."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal, TypeAlias

from plasmon._native import ObjectId

State: TypeAlias = Literal[
    "absent",
    "creating",
    "sealed",
    "spilled",
    "evicted",
    "deleted",
    "creator_died",
    "corrupt",
    "remote",
    "unreachable",
]
Policy: TypeAlias = Literal["keep", "cache"]
Level: TypeAlias = Literal["shared", "leased", "strict"]

_KINDS = ("bytes", "arrow", "array", "python", "composite")


def bytes_text(count: float) -> str:
    """A number of bytes as people read it."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def html_table(rows: list[tuple[str, ...]], head: tuple[str, ...] | None = None) -> str:
    """A small table for notebooks."""
    from html import escape

    def line(cells: tuple[str, ...], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    top = f"<thead>{line(head, 'th')}</thead>" if head else ""
    return f"<table>{top}<tbody>{''.join(line(row, 'td') for row in rows)}</tbody></table>"


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """One object. Sizes are in bytes, times in seconds (since 1970 where they name a moment).

    ``copies`` is how many nodes of the pool keep it, in the list of a namespace of the pool.
    ``durable`` says whether it outlives a loss of power.
    """

    id: ObjectId
    state: State
    data_bytes: int
    metadata_bytes: int
    name: str | None
    namespace: str
    policy: Policy
    tag: int
    owned: bool
    created: float
    construct_seconds: float
    expires: float | None
    creator_pid: int
    pins: int
    holders: int
    level: Level
    copies: int | None = None
    durable: bool = False

    @property
    def kind(self) -> str:
        """What the bytes hold: bytes, arrow, array, python, composite or unknown."""
        return _KINDS[self.tag] if self.tag < len(_KINDS) else "unknown"


class ObjectList(list[ObjectInfo]):
    """A list of objects that notebooks show as a table."""

    SHOWN_MAX = 50

    def _repr_html_(self) -> str:
        head = ("id", "name", "kind", "size", "state", "policy", "pins")
        rows: list[tuple[str, ...]] = [
            (
                info.id.hex()[:12] + "…",
                "/".join(filter(None, (info.namespace, info.name or ""))),
                info.kind,
                bytes_text(info.data_bytes),
                info.state,
                info.policy,
                str(info.pins),
            )
            for info in self[: self.SHOWN_MAX]
        ]
        if len(self) > self.SHOWN_MAX:
            rows.append((f"{len(self) - self.SHOWN_MAX} more",) + ("",) * (len(head) - 1))
        return html_table(rows, head)


@dataclass(frozen=True, slots=True)
class Status:
    """The metrics of a store. Totals count since the daemon was started.

    The capacity counts ``used_bytes``, ``leased_bytes`` and ``retained_bytes``: memory that belongs
    to no object any more and that the kernel keeps while a process has it mapped. ``warm_bytes``
    are free and kept for the next writer as long as there is room. ``resident_bytes`` is the memory
    that the machine has allocated for objects. ``away_bytes``, part of the used and leased bytes,
    are lent to clients whose connection broke and that may still write. ``linger_ms`` says how long
    after its last client the daemon ends, or None if it stays; ``starter_pid`` is the process that
    the store was started for and ends with, or 0. ``spilled_bytes`` are only in files, and
    ``spill_kept_bytes`` in memory and in a file, which makes spilling them again cost nothing.
    ``log`` has the figures of the log of durable objects: its folder, its objects and those of them
    that are in the log alone (``objects_away``), the bytes that it occupies (``used_bytes``) and
    that are of objects (``live_bytes``), and why it takes nothing any more (``fault``, empty while
    it works); None without such a log.
    ``cluster`` is the address of the pool that the store belongs to, and ``node_name`` the name of
    this node there; both are empty without a pool.
    """

    version: str
    pid: int
    keeper_pid: int
    epoch: int
    uptime_ms: int
    level: Level
    capacity_bytes: int
    used_bytes: int
    leased_bytes: int
    warm_bytes: int
    spilled_bytes: int
    objects: int
    creating: int
    spilled: int
    lingering: int
    extents: int
    index_slots: int
    clients: int
    waits: int
    sealed_total: int
    deleted_total: int
    evicted_total: int
    spilled_total: int
    restored_total: int
    expelled_total: int
    spills: bool
    spill_fault: str
    memory_limit_bytes: int
    longest_turn_us: int
    retained_bytes: int
    resident_bytes: int
    away_bytes: int
    linger_ms: int | None
    starter_pid: int
    spill_kept_bytes: int
    spill_written_bytes_total: int
    spill_read_bytes_total: int
    cluster: str
    node_name: str
    log: dict[str, int | str] | None

    def _repr_html_(self) -> str:
        def text(name: str) -> str:
            value = getattr(self, name)
            return bytes_text(value) if name.endswith("_bytes") else str(value)

        return html_table([(field.name, text(field.name)) for field in fields(self)])


@dataclass(frozen=True, slots=True)
class ClientInfo:
    """A connected client; ``access`` is ``rw`` or ``ro``, a quota of 0 means no limit."""

    client: int
    name: str
    pid: int
    uid: int
    access: Literal["rw", "ro"]
    pins: int
    owned_bytes: int
    quota_bytes: int
    subscribed: bool


@dataclass(frozen=True, slots=True)
class Notice:
    """Something happened to an object: it was sealed, deleted, evicted or spilled.

    ``name`` is its name in a subscription to a namespace of the pool, which tells what was put and
    deleted on all nodes; a store does not say it.
    """

    id: ObjectId
    state: State
    data_bytes: int
    metadata_bytes: int
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Lost:
    """How many notices were dropped here; None if unknown.

    It is unknown when a daemon was restarted, and when a node of the pool came or went.
    """

    count: int | None


def known(kind: type, values: dict[str, Any]) -> Any:
    """A data class from values of which a newer daemon may give more than this package knows."""
    return kind(**{field.name: values[field.name] for field in fields(kind)})
