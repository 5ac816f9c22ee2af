"""Environments in which the package of .venv is tested with libraries that .venv has not."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: The interpreter of the environment that scripts/setup.sh makes.
CURRENT = ROOT / ".venv" / "bin" / "python"

_TIMEOUT_S = 900


def run(command: Sequence[str | Path], what: str) -> None:
    """Runs a command in the tree; one that fails ends the program."""
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S
    )
    if done.returncode != 0:
        sys.exit(f"{what} failed: {(done.stderr or done.stdout).strip()}")


def made(folder: Path, wanted: str, requirements: Sequence[str | Path], what: str) -> Path:
    """The interpreter of the environment in a folder, made anew when it was made from others.

    The requirements are arguments of pip; ``wanted`` is what they say, which is kept with it.
    """
    python, stamp = folder / "bin" / "python", folder / "made-from"
    if not stamp.exists() or stamp.read_text() != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        run([CURRENT, "-m", "venv", folder], f"the environment with {what}")
        install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        run([python, *install, *requirements], f"installing {what}")
        stamp.write_text(wanted)
    return python


def package() -> Path:
    """Where the package is that .venv has."""
    where = "import pathlib, plasmon; print(pathlib.Path(plasmon.__file__).parent)"
    # From elsewhere, so that no folder of the working tree is taken for an installed package.
    found = subprocess.run(
        [CURRENT, "-c", where], cwd="/", capture_output=True, text=True, check=False
    )
    if found.returncode != 0:
        sys.exit("the package is not installed in .venv: run scripts/setup.sh")
    return Path(found.stdout.strip())
