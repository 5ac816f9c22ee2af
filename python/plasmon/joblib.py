"""A backend of joblib that passes large arrays and frames between processes through a store.

    import joblib
    import plasmon.joblib                       # makes the backend known

    with joblib.parallel_config(backend="plasmon"):
        results = joblib.Parallel(n_jobs=4)(joblib.delayed(fit)(data, k) for k in range(100))

It is joblib's own backend (loky) with another way of passing NumPy arrays, pyarrow, pandas and
polars data of some size: the first task that needs a value puts it into the store, every other one
and every process reads it there. Results come back the same way. Nothing is written to files, and
nothing is copied where values arrive: **they are read-only**, as joblib's memory maps are, unless
one asks for copies. When the ``Parallel`` is done its arguments are deleted.

Options go to ``parallel_config``: ``store`` (a store, its socket, or None for the one of this user,
started if none runs; in a task, for the one of its ``Parallel``), ``min_bytes``, ``writable``.
Those of loky go to ``Parallel``: ``initializer``, ``initargs``, ``idle_worker_timeout``.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

from joblib.externals.loky.process_executor import ProcessPoolExecutor
from joblib.parallel import (
    AutoBatchingMixin,
    FallbackToBackend,
    LokyBackend,
    ParallelBackendBase,
    SequentialBackend,
    register_parallel_backend,
)

from plasmon import Store, _by_reference
from plasmon._by_reference import MIN_BYTES

__all__ = ["MIN_BYTES", "PlasmonBackend"]

#: Workers that had nothing to do for so long end; the next call starts others.
IDLE_WORKER_TIMEOUT_S = 300.0

#: joblib's arguments for other backends: memory maps, and how multiprocessing starts.
_OF_MEMORY_MAPS = {
    "context", "max_nbytes", "mmap_mode", "prefer", "require", "temp_folder", "verbose",
}  # fmt: skip

#: In a worker: the store of those that started it.
_store_of_tasks: str | None = None


def _start_worker(socket: str, initializer: Callable[..., Any] | None, arguments: Any) -> None:
    """The initializer of a worker: the backend is registered in it, too, with the same store."""
    global _store_of_tasks  # noqa: PLW0603 - there is one for the process
    _store_of_tasks = socket
    if initializer is not None:
        initializer(*arguments)


class _Workers:
    """Processes that are kept from one call of Parallel to the next, and what was sent to them."""

    def __init__(
        self,
        n_jobs: int,
        sending: tuple[str, int, bool],
        start: tuple[Callable[..., Any] | None, Any],
        timeout_s: float,
        env: dict[str, Any],
    ) -> None:
        self.arguments = _by_reference.KeptSender(*sending)
        results = _by_reference.Sender(*sending)
        self.start = start
        self.executor = ProcessPoolExecutor(
            n_jobs,
            job_reducers=_by_reference.reducers(self.arguments),
            result_reducers=_by_reference.reducers(results),
            timeout=timeout_s,
            initializer=_start_worker,
            initargs=(sending[0], *start),
            env=env,
        )
        self.users = 0

    def starts_as(self, start: tuple[Callable[..., Any] | None, Any]) -> bool:
        """Whether the processes were started with the same function and arguments."""
        (one, given), (other, wanted) = self.start, start
        if one is not other or len(given) != len(wanted):
            return False
        pairs = zip(given, wanted, strict=True)
        return all(
            a is b or (type(a) in _ATOMS and type(a) is type(b) and a == b) for a, b in pairs
        )

    def is_over(self) -> bool:
        """Whether the processes were ended, or one of them died."""
        flags = self.executor._flags
        return flags.broken is not None or bool(flags.shutdown)


_ATOMS = (bool, int, float, str, bytes)

# By everything that distinguishes them but how they start.
_kept: dict[tuple[Any, ...], _Workers] = {}
_lock = threading.Lock()


class PlasmonBackend(AutoBatchingMixin, ParallelBackendBase):  # type: ignore[misc]
    """The backend that ``backend="plasmon"`` selects.

    Not derived from joblib's LokyBackend, though similar: Parallel treats any subclass of it as the
    owner of a folder with memory maps.
    """

    supports_retrieve_callback = True
    supports_inner_max_num_threads = True

    #: How many processes: the rules are loky's.
    effective_n_jobs = LokyBackend.effective_n_jobs
    retrieve_result_callback = LokyBackend.retrieve_result_callback
    submit = LokyBackend.submit

    def __init__(
        self,
        store: Store | str | os.PathLike[str] | None = None,
        min_bytes: int = MIN_BYTES,
        writable: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self._store = store
        self._min_bytes = min_bytes
        self._writable = writable
        self._own: _Workers | None = None
        self._workers: ProcessPoolExecutor | None = None

    def configure(self, n_jobs: int = 1, parallel: Any = None, **options: Any) -> int:
        """Sees to the processes."""
        count = int(self.effective_n_jobs(n_jobs))
        if count == 1:
            raise FallbackToBackend(SequentialBackend(nesting_level=self.nesting_level))
        start, timeout_s = self._options(options)
        socket = _by_reference.keep_connection(
            _store_of_tasks if self._store is None else self._store
        )
        env = self._prepare_worker_env(n_jobs=count)
        sending = socket, self._min_bytes, self._writable
        kinds = frozenset(_by_reference.kinds())
        key = count, *sending, timeout_s, tuple(sorted(env.items())), kinds
        with _lock:
            own = _kept.get(key)
            if own is None or own.is_over() or not own.starts_as(start):
                if own is not None and own.users == 0:
                    own.executor.shutdown(wait=False)
                own = _Workers(count, sending, start, timeout_s, env)
                _kept[key] = own
            own.users += 1
        self._own, self._workers, self.parallel = own, own.executor, parallel
        return count

    def _options(self, given: dict[str, Any]) -> tuple[Any, float]:
        """How processes start, and when they end. As with loky, Parallel's own come first."""
        options = {**self.backend_kwargs, **given}
        initializer, arguments = options.pop("initializer", None), options.pop("initargs", ())
        timeout_s = options.pop("idle_worker_timeout", None)
        unknown = options.keys() - _OF_MEMORY_MAPS
        if unknown:
            raise TypeError(f"the backend 'plasmon' has no option {min(unknown)!r}")
        if initializer is not None and not callable(initializer):
            raise TypeError(f"initializer is not callable: {initializer!r}")
        return (initializer, tuple(arguments)), float(timeout_s or IDLE_WORKER_TIMEOUT_S)

    def terminate(self) -> None:
        """Ends a call of Parallel: what was sent for it is deleted, the processes stay."""
        self._leave()
        self.reset_batch_stats()

    def abort_everything(self, ensure_ready: bool = True) -> None:
        """Ends the processes, which may be in the middle of something, and starts others."""
        if self._workers is not None:
            self._workers.shutdown(kill_workers=True)
        self._leave()
        if ensure_ready:
            options = getattr(self.parallel, "_backend_kwargs", {})
            self.configure(n_jobs=self.parallel.n_jobs, parallel=self.parallel, **options)

    def _leave(self) -> None:
        own, self._own, self._workers = self._own, None, None
        if own is None:
            return
        with _lock:
            own.users -= 1
            is_last = own.users == 0
            is_kept = own in _kept.values()
        if is_last:
            own.arguments.end()
            if not is_kept:
                own.executor.shutdown(wait=False)


register_parallel_backend("plasmon", PlasmonBackend)
