"""A memory pool for pyarrow whose buffers lie in the store.

pyarrow's pools are C++ objects, so ours is a small extension, built for one major version of Arrow:
``python -m plasmon.build_memory_pool`` builds it for the pyarrow that is installed. Here it is
found and checked. Where none fits, a program that asks for the pool gets an error with the command
that builds it. A block that would only be faster with it gets a warning, and goes on with pyarrow's
own pool and a copy at ``put``.
"""

from __future__ import annotations

import contextlib
import importlib.machinery
import importlib.util
import os
import shlex
import sys
import sysconfig
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from plasmon import _native
from plasmon import _requirements as needs
from plasmon._errors import Unsupported

if TYPE_CHECKING:
    from plasmon._store import Store

_SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")


def arrow_major(version: str) -> int:
    """The major version of Arrow, with which its binary interface changes."""
    return int(version.partition(".")[0])


def module_name(major: int) -> str:
    """The name of the extension for a major version of Arrow."""
    return f"store_pool_{major}"


def folders() -> list[Path]:
    """Where the extension may be: beside this file, or in the user's cache."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return [Path(__file__).parent / "_arrow_pool", cache / "plasmon"]


def _build_command() -> str:
    """The one command that builds the extension here."""
    python = shlex.quote(sys.executable)
    build = f"{python} -m plasmon.build_memory_pool"
    if importlib.util.find_spec("Cython") is None:
        build = f"{python} -m pip install cython && {build}"
    return f"build it with: {build}"


def _load(path: Path, name: str) -> ModuleType:
    loader = importlib.machinery.ExtensionFileLoader(name, str(path))
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    if spec is None:
        raise ImportError(f"{path} is not an extension module")
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def find() -> ModuleType:
    """The extension for the pyarrow that is installed; ImportError says why there is none."""
    pa = needs.pyarrow("the memory pool needs pyarrow")
    major = arrow_major(pa.cpp_version)
    name = module_name(major)
    if name in sys.modules:
        return sys.modules[name]
    paths = [folder / f"{name}{_SUFFIX}" for folder in folders()]
    path = next((path for path in paths if path.exists()), None)
    if path is None:
        text = f"plasmon's memory pool is not built for pyarrow {pa.__version__}"
        raise ImportError(f"{text}: {_build_command()}")
    with warnings.catch_warnings():
        # Cython warns when a class of pyarrow has another size than when it was compiled.
        warnings.simplefilter("error", RuntimeWarning)
        try:
            module = _load(path, name)
        except (RuntimeWarning, ImportError, ValueError) as unfit:
            text = f"plasmon's memory pool in {path} does not fit pyarrow {pa.__version__}"
            raise ImportError(f"{text} ({unfit}): {_build_command()}") from unfit
    if arrow_major(module.ARROW_VERSION) != major:
        text = f"{path} is built for Arrow {module.ARROW_VERSION}, found {pa.cpp_version}"
        raise ImportError(f"{text}: {_build_command()}")
    sys.modules[name] = module
    return module


def memory_pool(store: Store) -> Any:
    """The pool of :meth:`plasmon.Store.memory_pool`."""
    key = os.getpid()
    known: dict[int, Any] = store.__dict__.setdefault("_pools", {})
    if key not in known:
        known[key] = find().StoreMemoryPool(store, _native._Pool(store))
    return known[key]


@contextlib.contextmanager
def pooled(store: Store) -> Iterator[Any]:
    """The context manager of :meth:`plasmon.Store.pooled`."""
    pa = needs.pyarrow("store.pooled() is for what pyarrow allocates")
    before = pa.default_memory_pool()
    try:
        pool = memory_pool(store)
    except (ImportError, Unsupported) as missing:
        text = f"{missing}. Tables are copied when they are put."
        warnings.warn(text, RuntimeWarning, stacklevel=3)
        yield before
        return
    pa.set_memory_pool(pool)
    try:
        yield pool
    finally:
        pa.set_memory_pool(before)


_default: list[tuple[int, Any]] = []


def default_store() -> Store:
    """The connection of this process for calls without a store."""
    from plasmon._store import connect

    if not _default or _default[0][0] != os.getpid():
        _default[:] = [(os.getpid(), connect())]
    store: Store = _default[0][1]
    return store
