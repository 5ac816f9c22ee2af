"""A virtual machine: what it is made of, its start, what it says, and the cut of its power."""

from __future__ import annotations

import os
import selectors
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from scripts.power.initramfs import Archive, modules

#: What the guest needs of its kernel, besides what is built in.
_MODULES = (
    *("virtio_pci", "virtio_blk", "nfit", "libnvdimm", "nd_pmem", "dax_pmem"),
    *("crc32c_generic", "crc32c_intel", "crc32_generic", "ext4"),
)
_MEMORY_MIB = 512


class PowerError(Exception):
    """A machine cannot be made, or does not do what it must; the text is for a person."""


@dataclass(frozen=True)
class Kernel:
    """A kernel that was unpacked, not installed."""

    image: Path
    modules: Path

    @classmethod
    def under(cls, root: Path) -> Kernel:
        """The kernel of a package that was unpacked there."""
        images = sorted(root.glob("boot/vmlinuz-*"))
        if not images:
            raise PowerError(f"no kernel in {root}/boot: scripts/setup.sh power fetches one")
        image = images[-1]
        version = image.name.removeprefix("vmlinuz-")
        return cls(image, root / "lib" / "modules" / version)


def first_files(kernel: Kernel, program: Path) -> bytes:
    """The archive that a machine boots from: the program as its first process, and modules."""
    archive = Archive()
    for name in ("dev", "proc", "sys", "data", "modules"):
        archive.folder(name)
    archive.node("dev/console", 5, 1)
    archive.file("init", program.read_bytes())
    for number, path in enumerate(modules(kernel.modules, _MODULES)):
        archive.file(f"modules/{number:03}-{path.name}", path.read_bytes(), 0o644)
    return archive.finish()


@dataclass(frozen=True)
class Plan:
    """How a machine is started."""

    kernel: Path
    first_files: Path
    #: What has the data: the socket of a disk, or the file of an NVDIMM.
    disk: Path | None
    nvdimm: Path | None
    nvdimm_bytes: int = 0
    memory_mib: int = _MEMORY_MIB
    #: Whether it has a network card, whose other end is nowhere.
    has_card: bool = False


class Machine:
    """A machine that runs, until its power is cut."""

    def __init__(self, plan: Plan, words: list[str], console: Path) -> None:
        program = shutil.which("qemu-system-x86_64")
        if program is None:
            raise PowerError("qemu is not installed: apt-get install qemu-system-x86")
        self.console = console
        self._tail = b""
        self._process = subprocess.Popen(
            [program, *_arguments(plan, words, console)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def lines(self, until: float) -> Iterator[str]:
        """What the machine says, line by line, until a time of the monotonic clock."""
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        with selectors.DefaultSelector() as selector:
            selector.register(descriptor, selectors.EVENT_READ)
            while True:
                while b"\n" in self._tail:
                    line, _, self._tail = self._tail.partition(b"\n")
                    if line.strip():
                        yield line.decode(errors="replace").strip()
                # A machine that never stops talking does not stop the clock.
                left = until - time.monotonic()
                if left <= 0 or not selector.select(left):
                    return
                piece = os.read(descriptor, 1 << 16)
                if not piece:
                    raise PowerError(f"the machine ended by itself; see {self.console}")
                self._tail += piece

    def cut_power(self) -> None:
        """From one instruction to the next it is gone."""
        self._process.kill()
        self._process.wait()

    def rest(self) -> list[str]:
        """What it had said before its end and was not read yet; a line that broke off is none."""
        assert self._process.stdout is not None
        self._tail += self._process.stdout.read()
        self._process.stdout.close()
        *lines, _ = self._tail.split(b"\n")
        return [line.decode(errors="replace").strip() for line in lines if line.strip()]


def _arguments(plan: Plan, words: list[str], console: Path) -> list[str]:
    command = ["panic=-1", "console=ttyS0", "quiet", "--", *words]
    arguments = ["-nodefaults", "-display", "none", "-no-reboot", "-accel", "tcg,thread=multi"]
    arguments += ["-cpu", "max", "-smp", "1"]
    if plan.nvdimm is not None:
        total = plan.memory_mib + (plan.nvdimm_bytes >> 20)
        backend = f"memory-backend-file,id=nv,share=on,mem-path={plan.nvdimm}"
        size = f"{plan.memory_mib}M,slots=2,maxmem={total}M"
        arguments += ["-machine", "pc,nvdimm=on", "-m", size]
        arguments += ["-object", f"{backend},size={plan.nvdimm_bytes}"]
        arguments += ["-device", "nvdimm,memdev=nv"]
    else:
        arguments += ["-machine", "pc", "-m", f"{plan.memory_mib}M"]
    if plan.disk is not None:
        drive = f"file=nbd+unix:///?socket={plan.disk},format=raw,if=none,id=data"
        arguments += ["-drive", f"{drive},cache=writeback"]
        arguments += ["-device", "virtio-blk-pci,drive=data,write-cache=on"]
    if plan.has_card:
        arguments += ["-netdev", "hubport,hubid=0,id=net", "-device", "virtio-net-pci,netdev=net"]
    arguments += ["-kernel", str(plan.kernel), "-initrd", str(plan.first_files)]
    arguments += ["-append", " ".join(command)]
    # The first serial line has the kernel's messages, the second one what the program says.
    return [*arguments, "-serial", f"file:{console}", "-serial", "stdio"]
