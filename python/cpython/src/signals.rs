//! Python's signal handlers, in the middle of a call that waits.

use std::cell::{Cell, RefCell};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

thread_local! {
    /// The exception of a signal handler.
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
    /// Whether a signal handler runs.
    static HANDLING: Cell<bool> = const { Cell::new(false) };
}

/// Runs the handlers of signals that came; whether one raised, which [`take_raised`] gives then.
pub fn handle() -> bool {
    // A handler may call what waits, and be interrupted in turn.
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

/// The exception of a handler on this thread since the last time.
pub fn take_raised() -> Option<PyErr> {
    RAISED.take()
}

/// A lock that is held while handlers may run. A handler that wants the same lock would wait for
/// itself: it gets an error.
pub fn lock<T>(mutex: &Mutex<T>) -> PyResult<MutexGuard<'_, T>> {
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
