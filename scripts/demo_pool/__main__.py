"""``python -m scripts.demo_pool``, which ``make demo-pool`` runs.

The exit code is 0 when every check held, 1 when one did not or the demo could not go on, 130 after
Ctrl-C. Whatever happens, no process, namespace or folder of it is left.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import plasmon
from scripts.demo_pool import checks, report
from scripts.demo_pool.network import NetworkError
from scripts.demo_pool.processes import DemoError
from scripts.demo_pool.scene import NODES, Plan, Scene
from scripts.demo_pool.worker import WorkerError

INTERRUPTED = 130
_BYTES_DEFAULT = 1 << 30


def parser() -> argparse.ArgumentParser:
    """The flags of the demo."""
    flags = argparse.ArgumentParser(
        prog="make demo-pool",
        description="Three nodes of a pool on this machine: a table is put on one and read in"
        " place on all of them; one node is killed, and nothing is lost.",
        allow_abbrev=False,
    )
    flags.add_argument("--bytes", type=int, default=_BYTES_DEFAULT, help="of the table")
    flags.add_argument("--copies", type=int, default=2, help="how many nodes keep the table")
    flags.add_argument("--readers", type=int, default=2, help="processes that read on each node")
    nodes = [f"node{at + 1}" for at in range(NODES)]
    flags.add_argument("--kill", choices=nodes, default=nodes[0], help="the node that dies")
    flags.add_argument("--network", choices=["auto", "namespaces", "loopback"], default="auto")
    flags.add_argument("--json", action="store_true", help="print one JSON document instead")
    return flags


def plan_of(arguments: list[str] | None) -> tuple[Plan, bool]:
    """What is to be done, and whether it is told as JSON."""
    flags = parser()
    given = flags.parse_args(arguments)
    if given.bytes < 1 or given.readers < 1 or not 1 < given.copies < NODES:
        flags.error(f"--bytes and --readers are at least 1, --copies 2 to {NODES - 1}")
    victim = int(given.kill.removeprefix("node")) - 1
    return Plan(given.bytes, given.copies, given.readers, victim, given.network), given.json


def main(arguments: list[str] | None = None) -> int:
    """Runs the demo."""
    plan, is_json = plan_of(arguments)
    try:
        with ended_by_signals():
            return _run(plan, is_json)
    except KeyboardInterrupt:
        return INTERRUPTED
    except (DemoError, NetworkError, WorkerError, plasmon.PlasmonError, OSError) as error:
        print(f"demo-pool: {error}", file=sys.stderr)
        return 1


def _run(plan: Plan, is_json: bool) -> int:
    # Paths of sockets are short.
    temporary = tempfile.TemporaryDirectory(prefix="plasmon-demo-")
    with temporary as folder, Scene(plan, Path(folder), _say) as scene:
        account = scene.play()
    found = checks.all_of(account)
    print(report.as_json(account, found) if is_json else report.as_text(account, found))
    failed = [check for check in found if not check.holds]
    for check in failed:
        print(f"demo-pool: this did not hold: {check.what}: {check.found}", file=sys.stderr)
    return 1 if failed else 0


def _say(what: str) -> None:
    print(f"demo-pool: {what}", file=sys.stderr, flush=True)


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """A signal ends the block once, as Ctrl-C does; the clean-up that follows is not disturbed."""
    kinds = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def end(number: int, frame: FrameType | None) -> None:
        del number, frame
        for kind in kinds:
            signal.signal(kind, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = {kind: signal.signal(kind, end) for kind in kinds}
    try:
        yield
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)


if __name__ == "__main__":
    sys.exit(main())
