//! Calls of the client that Ctrl-C can end.
//!
//! Whatever may wait for the daemon runs detached from the interpreter, in [`call`] or [`ask`].
//! While it waits, the client asks several times a second whether a signal came; Python's handlers
//! run then, and the exception of one that raises ends the call and is raised in its place.

use std::cell::{Cell, RefCell};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use plasmon_client::Result;
use plasmon_sort::Progress;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::error::OrRaise;

thread_local! {
    /// What stops the work of this thread, for threads that are not Python's.
    static PROGRESS: RefCell<Option<Arc<Progress>>> = const { RefCell::new(None) };
    /// What a signal handler raised within a call.
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
    /// Whether a signal handler runs within a call.
    static HANDLING: Cell<bool> = const { Cell::new(false) };
}

/// Runs Python's signal handlers; whether one raised.
fn is_interrupted() -> bool {
    // A handler may use the store, and be interrupted in turn.
    let before = HANDLING.replace(true);
    let outcome = Python::attach(|py| py.check_signals());
    HANDLING.set(before);
    match outcome {
        Ok(()) => false,
        Err(error) => {
            RAISED.set(Some(error));
            true
        }
    }
}

/// Does something with the client, detached from the interpreter. Raises what a signal handler
/// raised meanwhile, whatever became of the call.
pub(crate) fn call<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> PyResult<T> {
    let outcome = py.detach(|| plasmon_client::interruptible(is_interrupted, work));
    match RAISED.take() {
        Some(error) => Err(error),
        None => Ok(outcome),
    }
}

/// Asks the client something, detached from the interpreter.
pub(crate) fn ask<T: Send>(py: Python<'_>, work: impl FnOnce() -> Result<T> + Send) -> PyResult<T> {
    call(py, work)?.or_raise(py)
}

/// Does the work of a thread that its owner stops through `progress`, also where it waits.
pub(crate) fn stoppable<T>(progress: &Arc<Progress>, work: impl FnOnce() -> T) -> T {
    PROGRESS.set(Some(Arc::clone(progress)));
    plasmon_client::interruptible(
        || PROGRESS.with_borrow(|progress| progress.as_ref().is_some_and(|it| it.is_cancelled())),
        work,
    )
}

/// Does something after a signal has ended a call: it is begun, and not waited for.
pub(crate) fn begin<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) {
    py.detach(|| drop(plasmon_client::interruptible(|| true, work)));
}

/// A lock that is held in calls. A signal handler that runs within such a call and wants the same
/// lock would wait for itself: it gets an error.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> PyResult<MutexGuard<'_, T>> {
    if !HANDLING.get() {
        return Ok(mutex.lock().unwrap_or_else(PoisonError::into_inner));
    }
    match mutex.try_lock() {
        Ok(guard) => Ok(guard),
        Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => {
            let text = "it is in use by a call that this signal handler interrupted";
            Err(PyRuntimeError::new_err(text))
        }
    }
}
