//! A wait that an event loop watches.

use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Mutex, PoisonError};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::error::OrRaise;

/// A wait in progress: readable on fileno() as soon as poll() has an answer. Cancelled when closed
/// or collected.
#[pyclass(frozen, module = "plasmon._native")]
#[derive(Debug)]
pub(crate) struct PendingWait {
    wait: Mutex<Option<plasmon_client::PendingWait>>,
}

impl PendingWait {
    /// A Python wait around the client's.
    pub(crate) fn new(wait: plasmon_client::PendingWait) -> Self {
        Self { wait: Mutex::new(Some(wait)) }
    }
}

#[pymethods]
impl PendingWait {
    fn fileno(&self) -> PyResult<RawFd> {
        let wait = self.wait.lock().unwrap_or_else(PoisonError::into_inner);
        let wait = wait.as_ref().ok_or_else(|| PyValueError::new_err("the wait is closed"))?;
        Ok(wait.fd().as_raw_fd())
    }

    /// The states of the objects, or None while the wait goes on.
    fn poll(&self, py: Python<'_>) -> PyResult<Option<Vec<&'static str>>> {
        let answer = {
            let mut wait = self.wait.lock().unwrap_or_else(PoisonError::into_inner);
            wait.as_mut().and_then(plasmon_client::PendingWait::poll)
        };
        match answer {
            None => Ok(None),
            Some(states) => {
                let states = states.or_raise(py)?;
                Ok(Some(states.into_iter().map(plasmon_client::ObjectState::key).collect()))
            }
        }
    }

    /// Ends the wait; no answer comes any more.
    fn close(&self, py: Python<'_>) {
        let wait = self.wait.lock().unwrap_or_else(PoisonError::into_inner).take();
        py.detach(|| drop(wait));
    }
}
