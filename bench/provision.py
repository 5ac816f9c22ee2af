"""Makes what a side needs before it can run: an environment of its own, or our binaries."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENTS = ROOT / ".venvs"
#: Folders whose content decides whether our package has to be built again.
PACKAGE_SOURCES = ("crates", "python")
INSTALL_TIMEOUT_S = 1800.0


class MissingError(Exception):
    """A side cannot be measured; the text says why and goes into the report."""


def _run(command: list[str], what: str, environment: dict[str, str] | None = None) -> None:
    print(f"bench: {what}", file=sys.stderr, flush=True)
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=INSTALL_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MissingError(f"{what} failed: {error}") from error
    if done.returncode != 0:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise MissingError(f"{what} failed: {lines[-1] if lines else done.returncode}")


def _digest(paths: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(str(path.relative_to(ROOT)).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _environment(name: str, digest: str, install: list[str]) -> Path:
    """An environment of this name that was made from this digest; made again when it was not."""
    folder = ENVIRONMENTS / name
    stamp = folder / "made-from"
    python = folder / "bin" / "python"
    if python.exists() and stamp.exists() and stamp.read_text() == digest:
        return python
    shutil.rmtree(folder, ignore_errors=True)
    _run([sys.executable, "-m", "venv", str(folder)], f"environment for {name}")
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    _run(pip + install, f"packages of {name}")
    stamp.write_text(digest)
    return python


def rival(name: str) -> Path:
    """The interpreter of a rival's own environment."""
    requirements = ROOT / "bench" / "rivals" / name / "requirements.txt"
    if not requirements.exists():
        return Path(sys.executable)
    return _environment(name, _digest([requirements]), ["-r", str(requirements)])


def _sources() -> list[Path]:
    suffixes = {".rs", ".py", ".toml", ".pyi"}
    files = [path for name in PACKAGE_SOURCES for path in (ROOT / name).rglob("*")]
    kept = [path for path in files if path.suffix in suffixes and "/target/" not in str(path)]
    tops = [ROOT / name for name in ("Cargo.toml", "Cargo.lock", "pyproject.toml")]
    return kept + [path for path in tops if path.exists()]


def our_package() -> Path:
    """An interpreter with our package, built with optimizations from the tree as it is."""
    install = [".", "-r", str(ROOT / "bench" / "ours" / "requirements.txt")]
    return _environment("plasmon", _digest(_sources()), install)


def _target() -> Path:
    return Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"


def our_binaries(package: str = "plasmon-bench") -> Path:
    """Our Rust worker, with the daemon built beside it."""
    cargo = shutil.which("cargo")
    if cargo is None:
        raise MissingError("cargo is not installed")
    build = [cargo, "build", "--release", "--quiet", "-p", package, "-p", "plasmon-daemon"]
    _run(build, "release build of our binaries")
    return _target() / package


def our_daemon() -> Path:
    """Where the daemon is that our Rust worker starts."""
    return _target() / "plasmond"
