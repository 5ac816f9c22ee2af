"""Makes what a side needs before it can run: a separate environment, or our binaries."""

from __future__ import annotations

import functools
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
#: Begins the name of an environment that has our package beside a rival's.
WITH_OURS = "ours+"


class MissingError(Exception):
    """A side cannot be measured; the text has the reason and goes into the report."""


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


def spark(version: str) -> Path:
    """The interpreter of an environment with this version of Spark."""
    return _environment(f"spark-{version}", version, [f"pyspark=={version}"])


def _sources() -> list[Path]:
    suffixes = {".rs", ".py", ".toml", ".pyi"}
    files = [path for name in PACKAGE_SOURCES for path in (ROOT / name).rglob("*")]
    kept = [path for path in files if path.suffix in suffixes and "/target/" not in str(path)]
    tops = [ROOT / name for name in ("Cargo.toml", "Cargo.lock", "pyproject.toml")]
    return kept + [path for path in tops if path.exists()]


def our_package() -> Path:
    """An interpreter with our package, built with optimizations.

    The one that runs this, if the package is installed there, as it is by `make bench`; else one in
    a separate environment.
    """
    # From elsewhere, so that no folder of the working tree is taken for an installed package.
    probe = [sys.executable, "-c", "import numpy, plasmon"]
    if subprocess.run(probe, cwd="/", capture_output=True, check=False).returncode == 0:
        return Path(sys.executable)
    install = [".", "-r", str(ROOT / "bench" / "ours" / "requirements.txt")]
    return _environment("plasmon", _digest(_sources()), install)


@functools.cache
def with_ours(name: str) -> Path:
    """The interpreter of a rival's environment with our package in it as well.

    For comparisons that need the same interpreter and the same libraries on all sides. The package
    is not installed a second time: the installed one is linked.
    """
    python = rival(name)
    where = "import os, plasmon; print(os.path.dirname(plasmon.__file__))"
    asked = [str(our_package()), "-c", where]
    found = subprocess.run(asked, cwd="/", capture_output=True, text=True, check=False)
    if found.returncode != 0:
        raise MissingError(f"our package cannot be imported: {found.stderr.strip()[-200:]}")
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    link = python.parent.parent / "lib" / version / "site-packages" / "plasmon"
    link.unlink(missing_ok=True)
    link.symlink_to(found.stdout.strip())
    return python


def _build(package: str, profile: str, *beside: str) -> Path:
    """The folder with what was built; other packages may have to be beside it."""
    cargo = shutil.which("cargo")
    if cargo is None:
        raise MissingError("cargo is not installed")
    packages = [word for name in (package, *beside) for word in ("-p", name)]
    _run([cargo, "build", "--quiet", "--profile", profile, *packages], f"build of {package}")
    return Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / profile


def our_worker() -> Path:
    """Our Rust worker, which measures our client and the limits of the machine."""
    return _build("plasmon-bench", "measured") / "plasmon-bench"


@functools.cache
def our_daemon() -> Path:
    """The daemon that our Rust worker starts, and its pool daemon: built like installed ones."""
    return _build("plasmon-daemon", "release", "plasmon-poold") / "plasmond"


@functools.cache
def our_connector() -> Path:
    """The HDF5 connector, built like the one that is installed."""
    return _build("plasmon-hdf5", "release") / "libplasmon_hdf5.so"
