"""A memory pool for pyarrow whose buffers lie in the store.

pyarrow's pools are C++ objects, so ours is a small extension, built for one major version of Arrow:
``python -m plasmon.build_memory_pool`` builds it for the pyarrow that is installed. Here it is
found, checked, and where it does not fit replaced by pyarrow's own pool, with a warning that says
what to do. Then everything works as before, with a copy at ``put``.
"""

from __future__ import annotations

import contextlib
import importlib.machinery
import importlib.util
import os
import sys
import sysconfig
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from plasmon import _native

if TYPE_CHECKING:
    from plasmon._store import Store

_SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")
_BUILD = "build it with: python -m plasmon.build_memory_pool"


def arrow_major(version: str) -> int:
    """The number that the binary interface of Arrow changes with."""
    return int(version.partition(".")[0])


def module_name(major: int) -> str:
    """The name of the extension for a major version of Arrow."""
    return f"store_pool_{major}"


def folders() -> list[Path]:
    """Where the extension may be: beside this file, or in the user's cache."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return [Path(__file__).parent / "_arrow_pool", cache / "plasmon"]


def _load(path: Path, name: str) -> ModuleType:
    loader = importlib.machinery.ExtensionFileLoader(name, str(path))
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    if spec is None:
        raise ImportError(f"{path} is no extension")
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def find() -> ModuleType:
    """The extension for the pyarrow that is installed; ImportError says why there is none."""
    import pyarrow as pa

    major = arrow_major(pa.cpp_version)
    name = module_name(major)
    if name in sys.modules:
        return sys.modules[name]
    paths = [folder / f"{name}{_SUFFIX}" for folder in folders()]
    path = next((path for path in paths if path.exists()), None)
    if path is None:
        text = f"plasmon's memory pool is not built for pyarrow {pa.__version__}: {_BUILD}"
        raise ImportError(text)
    with warnings.catch_warnings():
        # Cython warns when a class of pyarrow has another size than when it was compiled.
        warnings.simplefilter("error", RuntimeWarning)
        try:
            module = _load(path, name)
        except (RuntimeWarning, ImportError, ValueError) as unfit:
            text = f"plasmon's memory pool in {path} does not fit pyarrow {pa.__version__}"
            raise ImportError(f"{text} ({unfit}): {_BUILD}") from unfit
    if arrow_major(module.ARROW_VERSION) != major:
        text = f"{path} is built for Arrow {module.ARROW_VERSION}, found {pa.cpp_version}"
        raise ImportError(f"{text}: {_BUILD}")
    sys.modules[name] = module
    return module


def memory_pool(store: Store | None = None) -> Any:
    """A ``pyarrow.MemoryPool`` whose buffers lie in the store.

    What pyarrow allocates with it (``dataset.to_table(memory_pool=pool)``, ``pyarrow.csv``, compute
    functions, IPC readers) lies in shared memory, and ``store.put`` of such a table copies nothing.
    For functions that take no pool, as ``pq.read_table``, there is :func:`pooled`. Without a store
    it is that of :func:`plasmon.connect`. There is one pool for each connection; tables may outlive
    it.

    Where the extension is not built for the installed pyarrow, or the store's level is strict (such
    a store seals no memory that is still mapped for writing), it is pyarrow's own pool, with a
    RuntimeWarning that says what to do, and ``put`` copies. ``pool.backend_name`` tells which it
    is.
    """
    import pyarrow as pa

    store = store if store is not None else default_store()
    key = os.getpid()
    known: dict[int, Any] = store.__dict__.setdefault("_pools", {})
    if key not in known:
        try:
            module = find()
            known[key] = module.StoreMemoryPool(store, _native._Pool(store))
        except (ImportError, _unsupported()) as missing:
            text = f"{missing}. Tables are copied when they are put."
            warnings.warn(text, RuntimeWarning, stacklevel=2)
            return pa.default_memory_pool()
    return known[key]


@contextlib.contextmanager
def pooled(store: Store | None = None) -> Iterator[Any]:
    """In its block, whatever pyarrow allocates without naming a pool lies in the store.

        with plasmon.pooled(store):
            table = pq.read_table(path)
        id = store.put(table)                    # copies nothing

    pyarrow has one default pool for all threads of the process. Warns and does nothing where
    :func:`memory_pool` would.
    """
    import pyarrow as pa

    pool, before = memory_pool(store), pa.default_memory_pool()
    pa.set_memory_pool(pool)
    try:
        yield pool
    finally:
        pa.set_memory_pool(before)


def _unsupported() -> type[Exception]:
    from plasmon._errors import Unsupported

    return Unsupported


_default: list[tuple[int, Any]] = []


def default_store() -> Store:
    """The connection of this process for whoever names none."""
    from plasmon._store import connect

    if not _default or _default[0][0] != os.getpid():
        _default[:] = [(os.getpid(), connect())]
    store: Store = _default[0][1]
    return store
