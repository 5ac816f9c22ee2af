"""`columns_library.cpp`, compiled for the pyarrow that is installed, as Python functions."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa

from bench.rivals.protocol import UnsupportedError
from plasmon import build_memory_pool

SOURCE = Path(__file__).with_suffix(".cpp")


class _Measurement(ctypes.Structure):
    _fields_ = (
        ("total_ns", ctypes.c_double),
        ("build_ns", ctypes.c_double),
        ("resident_bytes", ctypes.c_int64),
        ("resident_after_bytes", ctypes.c_int64),
        ("growths", ctypes.c_int64),
        ("moves", ctypes.c_int64),
        ("moved_bytes", ctypes.c_int64),
    )


def _headers() -> Path:
    return Path(build_memory_pool.__file__).parent / "_arrow_pool"


def _compiled() -> Path:
    """The library, built once for these sources and this Arrow."""
    headers = _headers()
    digest = hashlib.sha256(pa.__version__.encode())
    for source in [SOURCE, *sorted(headers.glob("*.h"))]:
        digest.update(source.read_bytes())
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "plasmon-bench"
    into = cache / f"columns-{digest.hexdigest()[:16]}.so"
    if into.exists():
        return into
    compiler = os.environ.get("CXX") or shutil.which("c++") or shutil.which("g++")
    if not compiler:
        raise UnsupportedError("needs a C++ compiler")
    cache.mkdir(parents=True, exist_ok=True)
    arrow = sorted(Path(pa.get_library_dirs()[0]).glob("libarrow.so*"))[0]
    includes = [sysconfig.get_path("include"), pa.get_include(), str(headers)]
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        made = Path(folder) / into.name
        flags = ["-std=c++20", "-O2", "-fPIC", "-shared", "-fvisibility=default"]
        named = [f"-I{folder}" for folder in includes]
        link = [f"-L{arrow.parent}", f"-l:{arrow.name}", f"-Wl,-rpath,{arrow.parent}"]
        command = [compiler, *flags, *named, str(SOURCE), *link, "-o", str(made)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"the compiler failed: {done.stderr.strip()[-500:]}")
        made.rename(into)
    return into


class Pool:
    """One pool in the C++ program."""

    def __init__(self, name: str, capsule: Any = None) -> None:
        self._library = ctypes.CDLL(str(_compiled()))
        self._library.bench_pool.restype = ctypes.c_void_p
        for function in (self._library.bench_append_int64, self._library.bench_double_buffer):
            function.restype = ctypes.c_char_p
        address = None
        if capsule is not None:
            get = ctypes.pythonapi.PyCapsule_GetPointer
            get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
            address = get(capsule, b"plasmon_pool_api")
        made = self._library.bench_pool(name.encode(), ctypes.c_void_p(address))
        if not made:
            raise UnsupportedError(f"the installed pyarrow has no pool called {name}")
        self._pool = ctypes.c_void_p(made)

    def _call(self, function: Any, *arguments: Any) -> dict[str, float]:
        found = _Measurement()
        text = function(self._pool, *arguments, ctypes.byref(found))
        if text:
            raise RuntimeError(text.decode())
        return {name: getattr(found, name) for name, _ in found._fields_}

    def append_int64(self, total_bytes: int, chunk_bytes: int) -> dict[str, float]:
        """Arrow's Int64Builder, chunk after chunk."""
        sizes = (ctypes.c_int64(total_bytes), ctypes.c_int64(chunk_bytes))
        return self._call(self._library.bench_append_int64, *sizes)

    def double_buffer(self, from_bytes: int, to_bytes: int, touched: bool) -> dict[str, float]:
        """A buffer that is doubled until it is large."""
        sizes = (ctypes.c_int64(from_bytes), ctypes.c_int64(to_bytes))
        return self._call(self._library.bench_double_buffer, *sizes, ctypes.c_int(touched))
