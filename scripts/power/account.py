"""What a virtual machine said, line by line, and what it must therefore still have.

::

    put N BYTES      a put of object N begins         acked N      it is durable
    delete N         a delete of object N begins      deleted N    it is gone for ever
    have N BYTES        found after the restart; every byte was read and is right
    broken N REASON     found, and its content is wrong or cannot be read
    audited             that was all
    load                from here on puts and deletes again

A line counts once the host has it: the machine sends a line and waits until it has left before it
goes on. So what was acknowledged here was durable there, and no operation begins unknown.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum


class Fate(Enum):
    """What is known of an object."""

    PUTTING = "a put began"
    ACKED = "the put was acknowledged"
    DELETING = "a delete began"
    DELETED = "the delete was acknowledged"


@dataclass
class Verdict:
    """What one audit found, an entry for each object."""

    lost: list[str] = field(default_factory=list)
    torn: list[str] = field(default_factory=list)
    resurrected: list[str] = field(default_factory=list)
    found: int = 0

    @property
    def is_clean(self) -> bool:
        """Whether everything is as it must be."""
        return not (self.lost or self.torn or self.resurrected)


class Account:
    """All objects of a machine's life, over all its boots."""

    def __init__(self) -> None:
        self._fates: dict[int, Fate] = {}
        self._sizes: dict[int, int] = {}
        self._found: dict[int, str | None] = {}
        self.acknowledged = 0
        self.deleted = 0

    def begin_boot(self) -> None:
        """The machine starts: what it finds is not known yet."""
        self._found = {}

    def line(self, line: str) -> Verdict | None:
        """Takes a line; the verdict when it ends an audit."""
        word, *rest = line.split()
        match word:
            case "put":
                number, size = int(rest[0]), int(rest[1])
                if number in self._fates:
                    raise ValueError(f"object {number} is put twice")
                self._fates[number], self._sizes[number] = Fate.PUTTING, size
            case "acked":
                self._step(int(rest[0]), Fate.PUTTING, Fate.ACKED)
                self.acknowledged += 1
            case "delete":
                self._step(int(rest[0]), Fate.ACKED, Fate.DELETING)
            case "deleted":
                self._step(int(rest[0]), Fate.DELETING, Fate.DELETED)
                self.deleted += 1
            case "have":
                number, size = int(rest[0]), int(rest[1])
                wanted = self._sizes.get(number)
                right = size == wanted
                self._found[number] = None if right else f"{size} bytes instead of {wanted}"
            case "broken":
                self._found[int(rest[0])] = " ".join(rest[1:]) or "it cannot be read"
            case "audited":
                return self._verdict()
            case _:
                raise ValueError(f"the machine says {line!r}")
        return None

    def _step(self, number: int, before: Fate, after: Fate) -> None:
        if self._fates.get(number) is not before:
            raise ValueError(f"object {number}: {after.value} after {self._fates.get(number)}")
        self._fates[number] = after

    def _verdict(self) -> Verdict:
        """Compares, and goes on from what there is: what was unknown is known now."""
        verdict = Verdict(found=len(self._found))
        for number, fate in list(self._fates.items()):
            reason = self._found.get(number, "")
            is_there = number in self._found
            if is_there and reason is not None:
                verdict.torn.append(f"object {number}: {reason}")
            if fate is Fate.ACKED and not is_there:
                verdict.lost.append(f"object {number} of {self._sizes[number]} bytes")
            if fate is Fate.DELETED and is_there:
                verdict.resurrected.append(f"object {number}")
            # A put or delete that was under way is settled by what was found.
            self._fates[number] = Fate.ACKED if is_there else Fate.DELETED
        for number in self._found.keys() - self._fates.keys():
            verdict.torn.append(f"object {number} was never put")
        return verdict
