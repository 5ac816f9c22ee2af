//! Notifications in Python.

use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use plasmon_client::{Code, Deadline, Error, Name, Notification};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::arguments::{filter, seconds};
use crate::error::OrRaise;
use crate::id::Id;
use crate::store::Store;
use crate::wait::STEP;

/// Notices about objects, on their own connection. `plasmon.Subscription` makes it an
/// iterator.
#[pyclass(frozen, subclass, module = "plasmon._native")]
#[derive(Debug)]
pub(crate) struct Subscription {
    inner: Mutex<Option<plasmon_client::Subscription>>,
}

impl Subscription {
    fn lock(&self) -> MutexGuard<'_, Option<plasmon_client::Subscription>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A notification, with the name of its object where the pool says it.
type Named = (Notification, Option<Name>);

fn named(from: &plasmon_client::Subscription, notification: Notification) -> Named {
    (notification, from.last_name().cloned())
}

/// What [`Subscription::read`] gives: `(id, state, data bytes, metadata bytes, name)` for a notice,
/// an int for the number of notices lost.
fn in_python(py: Python<'_>, (notification, name): Named) -> PyResult<Bound<'_, PyAny>> {
    match notification {
        Notification::Notice(notice) => {
            let sizes = (notice.data_bytes, notice.metadata_bytes);
            let name = name.map(|name| name.text);
            let fields = (Id::new(notice.id), notice.state.key(), sizes.0, sizes.1, name);
            let fields: Bound<'_, PyTuple> = fields.into_pyobject(py)?;
            Ok(fields.into_any())
        }
        Notification::Lost(count) => Ok(count.into_pyobject(py)?.into_any()),
    }
}

#[pymethods]
impl Subscription {
    #[new]
    #[pyo3(signature = (store, namespace = None, prefix = None))]
    fn create(
        store: &Bound<'_, Store>,
        namespace: Option<String>,
        prefix: Option<String>,
    ) -> PyResult<Self> {
        let inner = store.get().subscribe(store.py(), &filter(namespace, prefix))?;
        Ok(Self { inner: Mutex::new(Some(inner)) })
    }

    /// The next notification, None when the time has passed.
    #[pyo3(signature = (timeout = None))]
    fn read<'py>(
        &self,
        py: Python<'py>,
        timeout: Option<f64>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let deadline = Deadline::within(seconds(timeout)?);
        // A handler may close the subscription, so none runs while it is locked.
        let found = loop {
            let step = deadline.left().map_or(STEP, |left| left.min(STEP));
            let read = py.detach(|| match self.lock().as_mut() {
                Some(subscription) => {
                    let next = subscription.next(Some(step));
                    next.map(|found| found.map(|found| named(subscription, found)))
                }
                None => Err(Error::new(Code::Cancelled, "reading notifications")
                    .with_detail("it was closed")),
            });
            match read.or_raise(py)? {
                None if !deadline.is_past() => py.check_signals()?,
                found => break found,
            }
        };
        found.map(|notification| in_python(py, notification)).transpose()
    }

    /// The next notification that has been received already, None when there is none: never waits.
    fn read_queued<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        // None also while another thread reads.
        let found = self.inner.try_lock().ok().and_then(|mut inner| {
            let subscription = inner.as_mut()?;
            subscription.next_queued().map(|found| named(subscription, found))
        });
        found.map(|notification| in_python(py, notification)).transpose()
    }

    fn fileno(&self, py: Python<'_>) -> PyResult<RawFd> {
        let fd = py.detach(|| self.lock().as_ref().map(|inner| inner.fd().as_raw_fd()));
        fd.ok_or_else(|| PyValueError::new_err("the subscription is closed"))
    }

    /// Ends the subscription. A second close does nothing.
    fn close(&self, py: Python<'_>) {
        // Waits at most for one step of a read on another thread.
        py.detach(|| drop(self.lock().take()));
    }
}
