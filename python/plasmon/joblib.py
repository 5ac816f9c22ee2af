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
started if none runs), ``min_bytes``, ``writable``.
"""

from __future__ import annotations

import os
import threading
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

from plasmon import Store, _passing
from plasmon._passing import MIN_BYTES

__all__ = ["MIN_BYTES", "PlasmonBackend"]

#: Workers that had nothing to do for so long end; the next call starts others.
IDLE_WORKER_TIMEOUT_S = 300.0


class _Workers:
    """Processes that are kept from one call of Parallel to the next, and what was sent to them."""

    def __init__(
        self, n_jobs: int, socket: str, min_bytes: int, writable: bool, env: dict[str, Any]
    ) -> None:
        self.arguments = _passing.KeptSender(socket, min_bytes, writable)
        results = _passing.Sender(socket, min_bytes, writable)
        self.executor = ProcessPoolExecutor(
            n_jobs,
            job_reducers=_passing.reducers(self.arguments),
            result_reducers=_passing.reducers(results),
            timeout=IDLE_WORKER_TIMEOUT_S,
            env=env,
        )
        self.users = 0

    def is_over(self) -> bool:
        """Whether the processes were ended, or one of them died."""
        flags = self.executor._flags
        return flags.broken is not None or bool(flags.shutdown)


# By everything that distinguishes them.
_kept: dict[tuple[Any, ...], _Workers] = {}
_lock = threading.Lock()


class PlasmonBackend(AutoBatchingMixin, ParallelBackendBase):  # type: ignore[misc]
    """What ``backend="plasmon"`` stands for.

    Not derived from joblib's LokyBackend, though much alike: Parallel takes whatever is one for the
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

    def configure(self, n_jobs: int = 1, parallel: Any = None, **_options: Any) -> int:
        """Sees to the processes; what else joblib says is about its memory maps."""
        count = int(self.effective_n_jobs(n_jobs))
        if count == 1:
            raise FallbackToBackend(SequentialBackend(nesting_level=self.nesting_level))
        socket = _passing.keep_connection(self._store)
        env = self._prepare_worker_env(n_jobs=count)
        kinds = frozenset(_passing.kinds())
        key = count, socket, self._min_bytes, self._writable, tuple(sorted(env.items())), kinds
        with _lock:
            own = _kept.get(key)
            if own is None or own.is_over():
                own = _Workers(count, socket, self._min_bytes, self._writable, env)
                _kept[key] = own
            own.users += 1
        self._own, self._workers, self.parallel = own, own.executor, parallel
        return count

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
            self.configure(n_jobs=self.parallel.n_jobs, parallel=self.parallel)

    def _leave(self) -> None:
        own, self._own, self._workers = self._own, None, None
        if own is None:
            return
        with _lock:
            own.users -= 1
            is_last = own.users == 0
        if is_last:
            own.arguments.end()


register_parallel_backend("plasmon", PlasmonBackend)
