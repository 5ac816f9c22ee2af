"""``python -m scripts.rdma``, which ``make test-rdma`` runs.

A virtual machine has a software RDMA card (``rdma_rxe``), and the test programs of
``crates/fabric`` and ``crates/poold`` run in it with the provider ``verbs``: they move content
between endpoints and between pool daemons' movers, and compare every byte. Its times mean nothing:
it is emulated. The exit code is 0 when all passed, 1 when a test failed, 2 when there is no answer.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from scripts.power.initramfs import Archive, modules
from scripts.power.machine import Kernel, Machine, Plan, PowerError

ROOT = Path(__file__).resolve().parents[2]

#: What the guest needs of its kernel, besides what is built in.
_MODULES = (
    *("virtio_pci", "virtio_net", "crc32_generic", "crc32c_generic"),
    *("ib_core", "ib_uverbs", "rdma_cm", "rdma_ucm", "rdma_rxe"),
)
_COMMANDS = ("ip", "rdma")
#: Libraries that are opened by name: libfabric, and what makes its verbs see the card.
_OPENED = ("libfabric.so.1", "libibverbs.so.1", "librdmacm.so.1")
_LIBRARIES = Path("/usr/lib/x86_64-linux-gnu")
#: The packages whose test programs run there, and which of their tests.
_TESTS = (
    ("plasmon-fabric", "fabric", ""),
    ("plasmon-poold", None, "movers::window_tests movers::conformance::card"),
)
#: What a node of the tests says at its end.
_MOVED = re.compile(r"moved (\d+) bytes into windows of another node over verbs\S*, (\d+) wrong")
_WITHIN_S = 1800.0
_MEMORY_MIB = 1536


def _test_program(package: str, name: str | None) -> Path:
    """Builds a test program: one of ``tests/``, or that of the library."""
    which = ["--test", name] if name else ["--lib"]
    command = ["cargo", "test", "--quiet", "--locked", "--no-run", "--message-format", "json"]
    built = subprocess.run(
        [*command, "-p", package, *which], cwd=ROOT, check=True, stdout=subprocess.PIPE
    )
    lines = (json.loads(line) for line in built.stdout.splitlines() if line.startswith(b"{"))
    found = [line["executable"] for line in lines if line.get("executable")]
    if not found:
        raise PowerError(f"cargo names no test program of {package}")
    return Path(found[-1])


def _needed(files: Iterable[Path]) -> set[Path]:
    """The libraries that these files are linked with."""
    found: set[Path] = set()
    for file in files:
        listed = subprocess.run(["ldd", str(file)], capture_output=True, text=True, check=False)
        found.update(Path(path) for path in re.findall(r"(/\S+) \(0x", listed.stdout))
    return found


def _first_files(kernel: Kernel, init: Path) -> bytes:
    programs = {Path("/init"): init}
    for command in _COMMANDS:
        found = subprocess.run(["which", command], capture_output=True, text=True, check=False)
        if not found.stdout.strip():
            raise PowerError(f"{command} is not installed: apt-get install iproute2")
        programs[Path("/bin") / command] = Path(found.stdout.strip())
    filters: dict[str, str] = {}
    for package, name, wanted in _TESTS:
        programs[Path("/tests") / package] = _test_program(package, name)
        filters[package] = wanted
    libraries = [_LIBRARIES / name for name in _OPENED]
    cards = [*(_LIBRARIES / "libibverbs").glob("librxe-*.so")]
    drivers = [*Path("/etc/libibverbs.d").glob("rxe.driver")]
    if not all(path.exists() for path in libraries) or not cards or not drivers:
        raise PowerError("apt-get install libfabric1 ibverbs-providers: verbs needs them")
    content = {path: file.read_bytes() for path, file in programs.items()}
    linked = _needed([*programs.values(), *libraries, *cards])
    for file in [*libraries, *cards, *drivers, *linked]:
        content[file] = file.read_bytes()
    archive = Archive()
    folders = {"dev", "proc", "sys", "tmp", "modules", "filters", "etc"}
    for path in content:
        folders.update(str(parent)[1:] for parent in path.parents if str(parent) != "/")
    for folder in sorted(folders):
        archive.folder(folder)
    archive.node("dev/console", 5, 1)
    for path, data in content.items():
        archive.file(str(path)[1:], data)
    for name, wanted in filters.items():
        archive.file(f"filters/{name}", wanted.encode(), 0o644)
    for number, path in enumerate(modules(kernel.modules, _MODULES)):
        archive.file(f"modules/{number:03}-{path.name}", path.read_bytes(), 0o644)
    return archive.finish()


@dataclass
class _Outcome:
    """What the machine said."""

    passed: int = 0
    failed: int = 0
    #: Bytes that were written over verbs, and those of them that were not right.
    moved: int = 0
    wrong: int = 0


def _run(machine: Machine, shown: bool) -> _Outcome:
    """Reads what the machine says."""
    outcome = _Outcome()
    for line in machine.lines(time.monotonic() + _WITHIN_S):
        if shown or line.startswith(("test ", "passed ", "failed ", "broken ", "moved ")):
            print(line, flush=True)
        if moved := _MOVED.search(line):
            outcome.moved += int(moved[1])
            outcome.wrong += int(moved[2])
        match line.split(" ", 1):
            case ["passed", _]:
                outcome.passed += 1
            case ["failed", _]:
                outcome.failed += 1
            case ["broken", reason]:
                raise PowerError(reason)
            case ["over"]:
                return outcome
    raise PowerError(f"the machine is not ready in time; see {machine.console}")


def main() -> int:
    """Runs the machine."""
    flags = argparse.ArgumentParser(prog="make test-rdma", description=__doc__)
    flags.add_argument("--init", type=Path, required=True, help="the machine's first program")
    flags.add_argument("--kernel", type=Path, default=ROOT / "target" / "power" / "kernel")
    flags.add_argument("--quiet", action="store_true", help="the outcome of each program alone")
    arguments = flags.parse_args()
    with tempfile.TemporaryDirectory(prefix="plasmon-rdma-") as temporary:
        scratch = Path(temporary)
        console = scratch / "console"
        machine = None
        try:
            kernel = Kernel.under(arguments.kernel)
            files = scratch / "first-files"
            files.write_bytes(_first_files(kernel, arguments.init))
            plan = Plan(kernel.image, files, None, None, memory_mib=_MEMORY_MIB, has_card=True)
            machine = Machine(plan, [], console)
            outcome = _run(machine, not arguments.quiet)
        except PowerError as error:
            print(f"rdma: {error}", file=sys.stderr)
            if console.exists():
                print(console.read_text(errors="replace")[-3000:], file=sys.stderr)
            return 2
        finally:
            if machine is not None:
                machine.cut_power()
    programs = f"{outcome.passed} test programs passed, {outcome.failed} failed"
    print(f"verbs over a software card: {programs}")
    print(f"{outcome.moved} bytes moved over verbs, {outcome.wrong} wrong")
    is_right = outcome.passed == len(_TESTS) and not outcome.failed and not outcome.wrong
    return 0 if is_right and outcome.moved else 1


if __name__ == "__main__":
    sys.exit(main())
