"""Facts about the machine that a figure means nothing without."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path
from typing import Any


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return "unknown"


def _chosen(text: str) -> str:
    """The word in brackets of a kernel file such as ``always [madvise] never``."""
    found = re.search(r"\[(\w+)\]", text)
    return found.group(1) if found else text


def load_average() -> list[float]:
    """The load of the last one, five and fifteen minutes."""
    return [round(value, 2) for value in os.getloadavg()]


def facts() -> dict[str, Any]:
    """The processor, kernel and memory of this machine."""
    cpu = re.search(r"^model name\s*:\s*(.+)$", _read("/proc/cpuinfo"), re.MULTILINE)
    memory = re.search(r"^MemTotal:\s*(\d+) kB$", _read("/proc/meminfo"), re.MULTILINE)
    pages = "/sys/kernel/mm/transparent_hugepage"
    return {
        "cpu": cpu.group(1) if cpu else "unknown",
        "cpus": os.cpu_count(),
        "hypervisor": "hypervisor" in _read("/proc/cpuinfo"),
        "memory_bytes": int(memory.group(1)) * 1024 if memory else None,
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "huge_pages": _chosen(_read(f"{pages}/enabled")),
        "huge_pages_shmem": _chosen(_read(f"{pages}/shmem_enabled")),
        "governor": _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "python": platform.python_version(),
    }
