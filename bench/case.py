"""What a suite declares: sides, cases, figures, targets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from bench.run import Context, Results

Request = Mapping[str, Any]
Samples = list[float]
Measure = Callable[["Context", "Entry"], Samples]
Language = Literal["Rust", "Python", "C++", "-"]


@dataclass(frozen=True)
class Pinning:
    """Where a case runs. `None` leaves the choice to the kernel."""

    name: str
    server_cpu: int | None
    client_cpu: int | None
    #: Where the second client of a case with two clients runs.
    peer_cpu: int | None


FREE = Pinning("free", None, None, None)
SAME_CORE = Pinning("same-core", 0, 0, 0)
CROSS_CORE = Pinning("cross-core", 0, 1, 0)
#: Two clients on two cores, for cases that ask how a side scales.
TWO_CORES = Pinning("two-cores", 0, 0, 1)


@dataclass(frozen=True)
class Side:
    """A contender that is measured: a worker program and where it comes from."""

    name: str
    language: Language
    #: The program, after the interpreter or binary of `provision`.
    arguments: tuple[str, ...]
    #: The folder under `bench/rivals` whose requirements make its environment; `""`: this
    #: interpreter; `"native"`: our Rust binary; `"ours"`: our Python package; `"ours+<folder>"`:
    #: our Python package among a rival's.
    environment: str
    #: Parameters of its `start` operation.
    start: Request = field(default_factory=dict)
    #: How long it needs to come to rest after it was frozen.
    settle_ms: int = 0
    #: Whether its processes stop while others are measured. The nodes of a pool must not: their
    #: leases would end.
    rests: bool = True

    @property
    def is_ours(self) -> bool:
        """Whether it runs our code alone, so that an error is a fault of ours."""
        return self.environment in {"ours", "native"}


@dataclass(frozen=True)
class Entry:
    """One side's part of a case."""

    side: str
    request: Request
    #: What exactly the side does: copies, hashes, answers awaited.
    work: str
    #: Tells several entries of one side apart; empty: the side's name.
    variant: str = ""
    #: How its samples are taken; none: its worker is sent the request.
    measure: Measure | None = None
    #: Rounds it takes part in; none: all of the case's.
    rounds: int | None = None

    @property
    def label(self) -> str:
        """Names the entry within its case."""
        return f"{self.side} {self.variant}".strip()


@dataclass(frozen=True)
class Case:
    """One question, asked of several sides in turns."""

    name: str
    title: str
    entries: tuple[Entry, ...]
    pinnings: tuple[Pinning, ...] = (FREE,)
    rounds: int = 5
    quick_rounds: int = 2
    unit: str = "ns"
    heat: Literal["warm", "cold"] = "warm"


@dataclass(frozen=True)
class Target:
    """The limit of a figure."""

    sense: Literal["<=", ">="]
    limit: float

    def hit(self, value: float) -> bool:
        """Whether the value keeps within the limit."""
        return value <= self.limit if self.sense == "<=" else value >= self.limit

    def __str__(self) -> str:
        return f"{self.sense} {self.limit:g}"


def at_most(limit: float) -> Target:
    """A target that smaller values hit."""
    return Target("<=", limit)


def at_least(limit: float) -> Target:
    """A target that greater values hit."""
    return Target(">=", limit)


@dataclass(frozen=True)
class Median:
    """The median of one entry."""

    case: str
    label: str
    pinning: Pinning = FREE

    @property
    def key(self) -> tuple[str, str, str]:
        """The key of the entry in the results."""
        return self.case, self.label, self.pinning.name

    def __call__(self, results: Results) -> float:
        return results.median(*self.key)


@dataclass(frozen=True)
class Ratio:
    """One entry over another of the same case and pinning, round by round."""

    case: str
    top: str
    bottom: str
    pinning: Pinning = FREE

    def __call__(self, results: Results) -> float:
        return results.ratio(self.case, self.top, self.bottom, self.pinning.name)


@dataclass(frozen=True)
class Bandwidth:
    """The bytes that one entry moves per nanosecond, which is GB/s."""

    case: str
    label: str
    object_bytes: int
    pinning: Pinning = FREE

    def __call__(self, results: Results) -> float:
        return self.object_bytes / results.median(self.case, self.label, self.pinning.name)


@dataclass(frozen=True)
class Figure:
    """A number that the suite promises to report."""

    name: str
    what: str
    unit: str
    compute: Callable[[Results], float]
    target: Target | None = None
    #: What the results add to `what`, such as the size that was measured; may be empty.
    remark: Callable[[Results], str] | None = None

    @property
    def row(self) -> tuple[str, str, str] | None:
        """The entry whose median this is, if it is one: its row shows the target as well."""
        return self.compute.key if isinstance(self.compute, Median) else None


@dataclass(frozen=True)
class Suite:
    """Everything that one `python -m bench <name>` runs."""

    name: str
    sides: tuple[Side, ...]
    cases: tuple[Case, ...]
    figures: tuple[Figure, ...]
    #: The page whose result tables are replaced, relative to the repository.
    page: str | None = None
    #: More parts of the page than every suite has, by the name in their markers.
    parts: Callable[[Results], dict[str, str]] | None = None
    #: Draws what the page shows.
    draw: Callable[[Results], None] | None = None
