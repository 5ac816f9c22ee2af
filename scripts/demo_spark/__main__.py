"""Runs the demo: `python -m scripts.demo_spark`, or `make demo-spark`, which builds the jar."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from bench.environments import MissingError
from bench.worker import UnsupportedError
from scripts.demo_pool.processes import DemoError
from scripts.demo_spark import checks, machines, picture, report, scene

PICTURE = scene.ROOT / "target" / "demo-spark.png"
#: How much smaller the jobs of a quick run are.
QUICK = 20
INTERRUPTED = 130


def parser() -> argparse.ArgumentParser:
    """The flags of the demo."""
    flags = argparse.ArgumentParser(
        prog="make demo-spark",
        description="The same jobs with Spark's own shuffle manager and with Plasmon's: many small"
        " blocks, a spill, an executor that is killed, and, as root, a machine that is killed.",
        allow_abbrev=False,
    )
    flags.add_argument("--quick", action="store_true", help="smaller jobs, whose times say little")
    flags.add_argument("--one-machine", action="store_true", help="no machine is killed")
    flags.add_argument("--json", action="store_true", help="print one JSON document instead")
    flags.add_argument("--picture", type=Path, default=PICTURE, help="where to draw the times")
    return flags


def main(arguments: list[str] | None = None) -> int:
    """Runs the demo."""
    given = parser().parse_args(arguments)
    for needed in (scene.JAR, scene.PYTHON):
        if not needed.exists():
            print(f"demo-spark: there is no {needed}: run `make demo-spark`", file=sys.stderr)
            return 1
    jobs = [job.smaller(QUICK) if given.quick else job for job in scene.JOBS]
    try:
        # Paths of sockets are short.
        temporary = tempfile.TemporaryDirectory(prefix="demo-", ignore_cleanup_errors=True)
        with temporary as folder:
            account = scene.play(jobs, Path(folder), _say)
            if not given.one_machine:
                kill = machines.KILL.smaller(QUICK) if given.quick else machines.KILL
                machines.play(kill, account, Path(folder), _say)
    except KeyboardInterrupt:
        return INTERRUPTED
    except (DemoError, MissingError, UnsupportedError, OSError) as error:
        print(f"demo-spark: {error}", file=sys.stderr)
        return 1
    found = checks.all_of(account)
    print(report.as_json(account, found) if given.json else report.as_text(account, found))
    _draw(account, given.picture)
    return 0 if all(check.holds for check in found) else 1


def _draw(account: scene.Account, path: Path) -> None:
    try:
        picture.draw(account, path)
    except ImportError:
        _say("no picture, because matplotlib is not installed")
        return
    _say(f"the picture: {path}")


def _say(what: str) -> None:
    print(f"demo-spark: {what}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
