"""``python -m scripts.power``, which ``make test-power`` runs.

A virtual machine puts durable objects and deletes them, its power is cut, it is started again, and
what it finds is compared with what it had acknowledged; then it goes on. The exit code is 0 when
nothing was lost, torn or resurrected, 1 when something was, 2 when there is no answer.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from scripts.power import nvdimm
from scripts.power.account import Account, Verdict
from scripts.power.disk import Medium, Server, sparse
from scripts.power.machine import Kernel, Machine, Plan, PowerError, first_files

ROOT = Path(__file__).resolve().parents[2]
DISK_BYTES, NVDIMM_BYTES = 768 << 20, 512 << 20
#: Emulated, a machine boots in half a minute or several, depending on what else runs.
BOOT_WITHIN_S, AUDIT_WITHIN_S = 300.0, 600.0
LOAD_S = (2.0, 20.0)
#: So many findings of each kind are printed.
SHOWN = 5


@dataclass
class Totals:
    """All rounds."""

    rounds: int = 0
    acknowledged: int = 0
    deleted: int = 0
    verdict: Verdict = field(default_factory=Verdict)

    def add(self, verdict: Verdict) -> None:
        """Adds an audit."""
        self.verdict.lost += verdict.lost
        self.verdict.torn += verdict.torn
        self.verdict.resurrected += verdict.resurrected

    def __str__(self) -> str:
        found = self.verdict
        return (
            f"{self.rounds} power cuts, {self.acknowledged} puts and {self.deleted} deletes"
            f" acknowledged: {len(found.lost)} lost acknowledgements, {len(found.torn)} torn,"
            f" {len(found.resurrected)} resurrected"
        )


class Life:
    """One machine over all its boots, on one kind of device."""

    def __init__(self, arguments: argparse.Namespace, device: str, scratch: Path) -> None:
        self._device = device
        self._chance = random.Random(f"{arguments.seed} {device}")
        self._seed = arguments.seed
        self._lies = arguments.lies
        self._scratch = scratch
        self._account = Account()
        self._boots = 0
        kernel = Kernel.under(arguments.kernel)
        files = scratch / "first-files"
        files.write_bytes(first_files(kernel, arguments.program))
        self._data = scratch / "data"
        if device == "disk":
            sparse(self._data, DISK_BYTES)
            subprocess.run(["mke2fs", "-q", "-F", "-t", "ext4", str(self._data)], check=True)
            self._plan = Plan(kernel.image, files, scratch / "disk.sock", None)
        else:
            nvdimm.make(self._data, NVDIMM_BYTES)
            self._plan = Plan(kernel.image, files, None, self._data, NVDIMM_BYTES)

    def run(self, rounds: int, totals: Totals) -> None:
        """Cuts the power so many times, and audits after each cut."""
        for number in range(rounds + 1):
            is_last = number == rounds
            verdict, cached = self._boot(is_last)
            if number > 0:
                totals.add(verdict)
                _tell(verdict)
            if not is_last:
                totals.rounds += 1
                known = self._account
                print(
                    f"{self._device} {number + 1}: cut after {known.acknowledged} puts and"
                    f" {known.deleted} deletes{cached}; {verdict.found} objects had been found",
                    flush=True,
                )
        totals.acknowledged += self._account.acknowledged
        totals.deleted += self._account.deleted

    def _boot(self, is_last: bool) -> tuple[Verdict, str]:
        """Boots, audits, and unless it is the last time loads and cuts the power."""
        self._boots += 1
        console = self._scratch / f"console-{self._boots}"
        device = "file" if self._device == "disk" else "dax"
        words = [device, str(self._seed), str(self._boots), "audit" if is_last else "load"]
        medium = server = None
        if self._plan.disk is not None:
            self._plan.disk.unlink(missing_ok=True)
            medium = Medium(self._data, DISK_BYTES, self._lies)
            server = Server(medium, self._plan.disk)
        machine = Machine(self._plan, words, console)
        try:
            verdict = self._audit(machine)
            if not is_last:
                self._load(machine)
            # The disk first: what the machine writes between the two cuts is lost, as it must be
            # for a disk that has no power.
            cached = f", {medium.cut(self._chance)} writes in the disk's cache" if medium else ""
        finally:
            machine.cut_power()
            if server is not None and medium is not None:
                server.close()
                medium.close()
        for line in machine.rest():
            self._account.line(line)
        return verdict, cached

    def _audit(self, machine: Machine) -> Verdict:
        self._account.begin_boot()
        end = time.monotonic() + BOOT_WITHIN_S
        for line in machine.lines(end):
            verdict = self._account.line(line)
            if verdict is not None:
                return verdict
        raise PowerError(f"the machine has not told what it found; see {machine.console}")

    def _load(self, machine: Machine) -> None:
        before = self._account.acknowledged
        end = time.monotonic() + self._chance.uniform(*LOAD_S)
        for line in machine.lines(end):
            self._account.line(line)
        # A cut before the first acknowledgement would show nothing.
        patience = time.monotonic() + AUDIT_WITHIN_S
        while self._account.acknowledged == before:
            for line in machine.lines(min(patience, time.monotonic() + 1)):
                self._account.line(line)
            if time.monotonic() > patience:
                raise PowerError(f"the machine acknowledges nothing; see {machine.console}")


def _tell(verdict: Verdict) -> None:
    kinds = {"lost": verdict.lost, "torn": verdict.torn, "resurrected": verdict.resurrected}
    for kind, entries in kinds.items():
        for entry in entries[:SHOWN]:
            print(f"  {kind}: {entry}", flush=True)
        if len(entries) > SHOWN:
            print(f"  {kind}: and {len(entries) - SHOWN} more", flush=True)


def _arguments() -> argparse.Namespace:
    flags = argparse.ArgumentParser(prog="make test-power", description=__doc__)
    flags.add_argument("--rounds", type=int, default=20, help="power cuts, on all devices")
    flags.add_argument("--seed", type=int, default=1)
    flags.add_argument("--device", choices=["disk", "nvdimm", "both"], default="both")
    flags.add_argument(
        "--lies", action="store_true", help="the disk ignores flushes: losses must be found"
    )
    flags.add_argument("--kernel", type=Path, default=ROOT / "target" / "power" / "kernel")
    flags.add_argument("--program", type=Path, required=True, help="the machine's only program")
    flags.add_argument("--keep", type=Path, help="a folder for what the machines leave")
    return flags.parse_args()


def main() -> int:
    """Runs the rounds."""
    arguments = _arguments()
    devices = ["disk", "nvdimm"] if arguments.device == "both" else [arguments.device]
    totals = Totals()
    with tempfile.TemporaryDirectory(prefix="plasmon-power-") as temporary:
        root = arguments.keep or Path(temporary)
        try:
            for at, device in enumerate(devices):
                scratch = root / device
                scratch.mkdir(parents=True)
                rounds = len(range(at, arguments.rounds, len(devices)))
                Life(arguments, device, scratch).run(rounds, totals)
        except (PowerError, ValueError) as error:
            print(f"power: {error} (seed {arguments.seed})", file=sys.stderr)
            return 2
    print(f"seed {arguments.seed}: {totals}")
    return 0 if totals.verdict.is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
