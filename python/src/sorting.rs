//! Code that all ways of sorting tables share.
//!
//! A sort runs on threads of its own; the thread that called waits for it in steps, between which
//! Python's signal handlers run and the caller's function gets the progress.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use plasmon_python_arrow::Tables;
use plasmon_sort::{Progress, SortKey, Table};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::interrupt::stoppable;
use crate::sort_errors::of_sort;

/// How long the calling thread waits before it looks at signals and progress.
pub(crate) const STEP: Duration = Duration::from_millis(50);

/// A key as Python gives it: column, descending, nulls first.
pub(crate) type Key = (String, bool, bool);

/// The keys for the engine.
pub(crate) fn order_of(by: Vec<Key>) -> Vec<SortKey> {
    let key = |(column, descending, nulls_first)| SortKey { column, descending, nulls_first };
    by.into_iter().map(key).collect()
}

/// The tables as one, on the memory of their producers.
pub(crate) fn read(py: Python<'_>, tables: &[Bound<'_, PyAny>]) -> PyResult<Table> {
    let mut tables = Tables::of(tables.iter().map(|table| Ok(table.clone())))?;
    let mut batches = Vec::new();
    while let Some(batch) = tables.next_batch()? {
        batches.push(batch);
    }
    let schema = tables.schema;
    py.detach(|| Table::new(schema, batches)).map_err(|error| of_sort(py, error))
}

/// The outcome of work on its own thread.
pub(crate) struct WorkOutcome<T> {
    /// `None` when it panicked.
    pub(crate) outcome: Option<T>,
    /// The exception of the caller's function or of a signal handler meanwhile.
    pub(crate) stopped: Option<PyErr>,
    pub(crate) panic: Option<Box<dyn std::any::Any + Send>>,
}

/// Runs the work and waits for it, with an ear for signals.
pub(crate) fn watch<T: Send + 'static>(
    py: Python<'_>,
    state: &Arc<Progress>,
    progress: Option<&Bound<'_, PyAny>>,
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<WorkOutcome<T>> {
    let (send, receive) = channel();
    let receive = Mutex::new(receive);
    let thread = std::thread::Builder::new().name("plasmon-sort".to_owned());
    let of_thread = Arc::clone(state);
    let thread = thread.spawn(move || {
        // The receiver stays until the thread has ended.
        let _ = send.send(stoppable(&of_thread, work));
    })?;
    let mut stopped = None;
    let outcome = loop {
        let step = || receive.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(STEP);
        match py.detach(step) {
            Ok(outcome) => break Some(outcome),
            Err(RecvTimeoutError::Disconnected) => break None,
            Err(RecvTimeoutError::Timeout) => {}
        }
        if stopped.is_none() {
            let heard = py.check_signals().and_then(|()| tell(progress, state));
            stopped = heard.err();
        }
        if stopped.is_some() {
            state.cancel();
        }
    };
    // The thread has sent its answer or panicked: it ends now.
    let panic = py.detach(|| thread.join()).err();
    Ok(WorkOutcome { outcome, stopped, panic })
}

/// A sort that panicked, in the words of its panic.
pub(crate) fn of_panic(panic: Option<Box<dyn std::any::Any + Send>>) -> PyErr {
    let text = panic.as_ref().and_then(|panic| {
        let owned = panic.downcast_ref::<String>().map(String::as_str);
        owned.or_else(|| panic.downcast_ref::<&str>().copied())
    });
    let text = text.unwrap_or("no message");
    PyRuntimeError::new_err(format!("the sort failed because of a bug in Plasmon: {text}"))
}

pub(crate) fn tell(progress: Option<&Bound<'_, PyAny>>, state: &Progress) -> PyResult<()> {
    let Some(progress) = progress else { return Ok(()) };
    progress.call1(state.steps()).map(drop)
}
