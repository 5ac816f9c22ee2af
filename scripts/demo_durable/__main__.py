"""``python -m scripts.demo_durable``, which ``make demo-durable`` runs.

The exit code is 0 when every check held, 1 when one did not or the demo could not go on, 130 after
Ctrl-C. Whatever happens, no process, namespace or folder of it is left.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

import plasmon
from scripts.demo_durable.scene import NODES, Account, Plan, Scene
from scripts.demo_pool.__main__ import INTERRUPTED, ended_by_signals
from scripts.demo_pool.network import NetworkError
from scripts.demo_pool.processes import DemoError


def parser() -> argparse.ArgumentParser:
    """The flags of the demo."""
    flags = argparse.ArgumentParser(
        prog="make demo-durable",
        description="Three nodes of a pool with logs: they are switched off and on, and every"
        " durable object is there, with its name.",
        allow_abbrev=False,
    )
    flags.add_argument("--objects", type=int, default=40, help="how many")
    flags.add_argument("--bytes", type=int, default=1 << 18, help="of an object, on the average")
    flags.add_argument("--copies", type=int, default=2, help="how many nodes keep each")
    flags.add_argument("--network", choices=["auto", "namespaces", "loopback"], default="auto")
    flags.add_argument("--json", action="store_true", help="print one JSON document instead")
    return flags


def failures(account: Account) -> list[str]:
    """What did not hold."""
    found = [("is not as it was put", account.wrong), ("was deleted and is back", account.risen)]
    found.append(("is not called durable", account.volatile))
    return [f"{name} {what}" for what, names in found for name in names]


def as_text(account: Account) -> str:
    """The account, for people."""
    objects, deleted = len(account.wanted), len(account.deleted)
    return "\n".join(
        [
            f"{account.plan.objects} durable objects put in {account.put_s:.2f} s",
            f"all power lost; the pool is back after {account.back_s:.1f} s",
            f"{objects} objects are there on all {NODES} nodes, with their names, and none of the"
            f" {deleted} that were deleted",
        ]
    )


def main(arguments: list[str] | None = None) -> int:
    """Runs the demo."""
    flags = parser()
    given = flags.parse_args(arguments)
    if given.objects < 2 or given.bytes < 1 or not 1 <= given.copies <= NODES:
        flags.error(f"--objects is at least 2, --bytes at least 1, --copies 1 to {NODES}")
    plan = Plan(given.objects, given.bytes, given.copies, given.network)
    try:
        with ended_by_signals():
            return _run(plan, given.json)
    except KeyboardInterrupt:
        return INTERRUPTED
    except (DemoError, NetworkError, plasmon.PlasmonError, OSError) as error:
        print(f"demo-durable: {error}", file=sys.stderr)
        return 1


def _run(plan: Plan, is_json: bool) -> int:
    temporary = tempfile.TemporaryDirectory(prefix="plasmon-demo-")
    with temporary as folder, Scene(plan, Path(folder), _say) as scene:
        account = scene.play()
    found = failures(account)
    if is_json:
        print(json.dumps({**asdict(account), "failures": found}))
    elif not found:
        print(as_text(account))
    for failure in found:
        print(f"demo-durable: {failure}", file=sys.stderr)
    return 1 if found else 0


def _say(what: str) -> None:
    print(f"demo-durable: {what}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
