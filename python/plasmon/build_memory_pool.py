"""Builds the memory pool for the pyarrow that is installed.

    python -m plasmon.build_memory_pool

needs a C++ compiler (``$CXX``, else ``c++``) and Cython. The result lies beside the package, or
where that cannot be written in the user's cache, and serves every pyarrow of the same major
version.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from plasmon import _memory_pool


def _sources() -> Path:
    return Path(_memory_pool.__file__).parent / "_arrow_pool"


def _fail(text: str) -> SystemExit:
    return SystemExit(f"plasmon.build_memory_pool: {text}")


def _library(folders: list[str], name: str) -> str:
    """The linker's argument for a library of pyarrow, which ships them with a version alone."""
    for folder in folders:
        found = sorted(Path(folder).glob(f"lib{name}.so*"))
        if found:
            return f"-l:{found[0].name}"
    raise _fail(f"pyarrow has no lib{name} in {folders}")


def _compile(source: Path, into: Path) -> None:
    import numpy
    import pyarrow as pa

    compiler = os.environ.get("CXX") or shutil.which("c++") or shutil.which("g++")
    if not compiler:
        raise _fail("there is no C++ compiler: install one, or name it in CXX")
    folders = pa.get_library_dirs()
    includes = [sysconfig.get_path("include"), pa.get_include(), numpy.get_include(), _sources()]
    command = [
        *shlex.split(compiler),
        "-std=c++20",
        "-O2",
        "-fPIC",
        "-shared",
        "-fvisibility=hidden",
        *(f"-I{folder}" for folder in includes),
        str(source),
        *(f"-L{folder}" for folder in folders),
        _library(folders, "arrow"),
        _library(folders, "arrow_python"),
        "-o",
        str(into),
    ]
    try:
        made = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as missing:
        raise _fail(f"the compiler cannot be run: {missing}") from missing
    if made.returncode != 0:
        raise _fail(f"the compiler failed:\n{shlex.join(command)}\n{made.stderr}")


def build() -> Path:
    """Builds the extension and returns its path. Raises SystemExit if something is missing."""
    try:
        import pyarrow as pa
        from Cython.Compiler.Main import CompilationOptions, compile_single
    except ImportError as missing:
        raise _fail(f"{missing}: pip install pyarrow numpy cython") from missing
    name = _memory_pool.module_name(_memory_pool.arrow_major(pa.cpp_version))
    with tempfile.TemporaryDirectory(prefix="plasmon-") as folder:
        # The module's name is that of its file.
        pyx, cpp = Path(folder) / f"{name}.pyx", Path(folder) / f"{name}.cpp"
        shutil.copyfile(_sources() / "store_pool.pyx", pyx)
        include = str(Path(pa.__file__).parent.parent)
        options = CompilationOptions(
            cplus=True, output_file=str(cpp), include_path=[include], language_level=3
        )
        if compile_single(str(pyx), options, full_module_name=name).num_errors:
            raise _fail("Cython failed; see above")
        built = Path(folder) / f"{name}{sysconfig.get_config_var('EXT_SUFFIX')}"
        _compile(cpp, built)
        return _install(built)


def _install(built: Path) -> Path:
    for folder in _memory_pool.folders():
        try:
            folder.mkdir(parents=True, exist_ok=True)
            # A file that a running process has mapped is replaced, never written.
            part = folder / f".{built.name}.{os.getpid()}"
            shutil.copyfile(built, part)
            return part.rename(folder / built.name)
        except OSError:
            continue
    raise _fail(f"neither of {[str(folder) for folder in _memory_pool.folders()]} can be written")


if __name__ == "__main__":
    print(build())
    sys.exit(0)
