"""Settings beyond pyproject.toml: the library for C and C++ keeps its name.

A linker looks for ``libplasmon.so``, not for a name with the tag of one interpreter.
"""

from __future__ import annotations

from pathlib import Path

from setuptools import setup
from setuptools_rust import RustExtension
from setuptools_rust.build import build_rust

LIBRARIES = "plasmon._capi.lib."


class BuildRust(build_rust):
    """Builds the libraries and programs."""

    def get_dylib_ext_path(self, ext: RustExtension, target_fname: str) -> str:
        """Where a library goes."""
        path: str = super().get_dylib_ext_path(ext, target_fname)
        if target_fname.startswith(LIBRARIES):
            return str(Path(path).with_name(f"{target_fname.removeprefix(LIBRARIES)}.so"))
        return path


setup(cmdclass={"build_rust": BuildRust})
