"""Which libhdf5 a program will use, found without running it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

#: How long an interpreter or the loader may take to answer.
_TIMEOUT_S = 60
#: `#! /usr/bin/env python3` and its kin; longer lines are no line of an interpreter.
_FIRST_LINE_BYTES = 1024
#: How many scripts may be each other's interpreter.
_SCRIPTS_MAX = 4
_LIBRARY = re.compile(r"libhdf5(?:_serial|_mpich|_openmpi)?(?:-[0-9a-f]+)?\.so[.0-9]*")

#: Run by a program's own interpreter: the libraries in its wheels, and its folders of filters.
#: A package that brings no library of its own is imported to see which one it uses.
_ASK = """
import glob, importlib, importlib.util, json, os
found, filters = [], []
for name in ("h5py", "netCDF4", "tables"):
    try:
        spec = importlib.util.find_spec(name)
    except Exception:
        continue
    if spec is None or not spec.origin:
        continue
    folder = os.path.dirname(spec.origin)
    beside = glob.glob(f"{glob.escape(os.path.dirname(folder))}/{name.lower()}.libs/libhdf5-*.so*")
    found += beside
    if not beside:
        try:
            importlib.import_module(name)
        except Exception:
            continue
        with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
            lines = [line.rstrip("\\n") for line in maps if "/libhdf5" in line]
        found += ["/" + line.partition("/")[2] for line in lines]
for name in ("netCDF4", "hdf5plugin"):
    try:
        spec = importlib.util.find_spec(name)
    except Exception:
        continue
    if spec is not None and spec.origin:
        filters.append(os.path.join(os.path.dirname(spec.origin), "plugins"))
print(json.dumps([sorted(set(found)), [one for one in filters if os.path.isdir(one)]]))
"""


@dataclass(frozen=True)
class Libraries:
    """Libraries of a program: copies of libhdf5, and their own folders of filters."""

    libraries: tuple[Path, ...] = ()
    filters: tuple[Path, ...] = ()


def of_program(program: str) -> Libraries:
    """The libraries of a program, as far as they can be found: none if HDF5 is linked into it."""
    interpreter = _interpreter(program)
    name = Path(interpreter).name
    if name.startswith(("python", "pypy")):
        return of_interpreter(interpreter)
    return Libraries(_linked(interpreter))


def of_interpreter(interpreter: str) -> Libraries:
    """The libraries of a Python interpreter's packages."""
    environment = {key: text for key, text in os.environ.items() if key != "HDF5_VOL_CONNECTOR"}
    answer = _output([interpreter, "-c", _ASK], environment)
    try:
        libraries, filters = json.loads(answer.splitlines()[-1])
    except (ValueError, IndexError):
        return Libraries()
    known = tuple(Path(path) for path in libraries if _LIBRARY.fullmatch(Path(path).name))
    return Libraries(known, tuple(Path(path) for path in filters))


def _interpreter(program: str) -> str:
    """The program that the kernel runs: a script's is in its first line."""
    for _ in range(_SCRIPTS_MAX):
        found = shutil.which(program)
        if found is None:
            return program
        try:
            with open(found, "rb") as file:
                line = file.readline(_FIRST_LINE_BYTES)
        except OSError:
            return found
        if not line.startswith(b"#!"):
            # Not resolved: a link in an environment's `bin` identifies the environment.
            return found
        words = [os.fsdecode(word) for word in line[2:].split()]
        if words and Path(words[0]).name == "env":
            words = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
        if not words:
            return found
        program = words[0]
    return program


def _linked(program: str) -> tuple[Path, ...]:
    """The libraries that the loader finds for a program."""
    paths = re.findall(r"=> (/\S+)", _output(["ldd", program], dict(os.environ)))
    return tuple(Path(path) for path in paths if _LIBRARY.fullmatch(Path(path).name))


def _output(command: list[str], environment: dict[str, str]) -> str:
    """The output of a command; empty if it fails."""
    try:
        done = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=_TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return os.fsdecode(done.stdout)
