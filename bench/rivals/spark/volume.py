"""A volume as slow as a cloud's disk, for the directories of a shuffle.

A loop device over memory, whose queue the kernel limits in both directions
(``blkio.throttle.*_bps_device`` of the root group, which writeback obeys as well). Without another
limit it would have no effect: the page cache takes gigabytes of writes before a writer waits. So
the device may have only a few dirty pages (``strict_limit`` and ``max_bytes`` of its backing
device), as on a node whose memory is in use. What was written is then read from the page cache:
only writing is slowed down.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from bench.rivals.protocol import UnsupportedError

#: The base throughput of a general-purpose volume in a cloud, in bytes per second.
BYTES_PER_S = 125_000_000
IMAGE_BYTES = 4 << 30
DIRTY_BYTES_MAX = 32 << 20
LIMITS = Path("/sys/fs/cgroup/blkio")


class Volume:
    """A mounted file system that writes at most :data:`BYTES_PER_S`."""

    def __init__(self, folder: Path) -> None:
        """Needs root, loop devices and the block controller of cgroup v1."""
        self.folder = folder
        self.image = Path("/dev/shm") / f"plasmon-bench-{folder.name}-{id(self):x}"
        self.device = ""
        self.number = ""
        if not (LIMITS / "blkio.throttle.write_bps_device").exists():
            raise UnsupportedError("there is no blkio.throttle of cgroup v1 to limit a volume with")
        try:
            self._make()
        except (OSError, subprocess.CalledProcessError) as error:
            self.remove()
            raise UnsupportedError(f"a volume cannot be limited here: {error}") from error

    def _make(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        with self.image.open("xb") as image:
            image.truncate(IMAGE_BYTES)
        self.device = _run("losetup", "--find", "--show", str(self.image))
        lazy = "lazy_itable_init=0,lazy_journal_init=0"
        _run("mkfs.ext4", "-q", "-O", "^has_journal", "-E", lazy, self.device)
        _run("mount", self.device, str(self.folder))
        self.number = Path("/sys/class/block", Path(self.device).name, "dev").read_text().strip()
        backing = Path("/sys/class/bdi") / self.number
        (backing / "strict_limit").write_text("1")
        (backing / "max_bytes").write_text(str(DIRTY_BYTES_MAX))
        self._limit(BYTES_PER_S)

    def _limit(self, bytes_per_s: int) -> None:
        for way in ("read", "write"):
            file = LIMITS / f"blkio.throttle.{way}_bps_device"
            file.write_text(f"{self.number} {bytes_per_s}")

    def remove(self) -> None:
        """Frees everything; something that was not made is not an error."""
        if self.number:
            self._limit(0)
        if self.device:
            subprocess.run(["umount", "--lazy", str(self.folder)], check=False)
            subprocess.run(["losetup", "--detach", self.device], check=False)
        self.image.unlink(missing_ok=True)
        self.number = self.device = ""


def _run(*command: str) -> str:
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return done.stdout.strip()
