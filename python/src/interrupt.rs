//! Calls of the client that Ctrl-C can end.
//!
//! A call that may wait for the daemon runs detached from the interpreter, in [`call`] or [`ask`].
//! While it waits, the client asks several times a second whether a signal came; Python's handlers
//! run then, and the exception of one that raises ends the call and is raised in its place.

use std::cell::RefCell;
use std::sync::Arc;

use plasmon_client::Result;
use plasmon_cpython::signals;
use plasmon_sort::Progress;
use pyo3::prelude::*;

use crate::error::OrRaise;

thread_local! {
    /// Stops the work of this thread, for threads that are not Python's.
    static PROGRESS: RefCell<Option<Arc<Progress>>> = const { RefCell::new(None) };
}

/// Does something with the client, detached from the interpreter. Raises what a signal handler
/// raised meanwhile, also when the call succeeded.
pub(crate) fn call<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> PyResult<T> {
    let outcome = py.detach(|| plasmon_client::interruptible(signals::handle, work));
    match signals::take_raised() {
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
