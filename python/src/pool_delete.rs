//! Deletes that wait until no node of the pool has a copy.

use plasmon_client::Error;
use pyo3::prelude::*;

use crate::arguments::{many_ids, seconds};
use crate::error::exception;
use crate::interrupt::ask;
use crate::store::Store;

/// Deletes objects of the pool, and waits until no node has a copy. For each None, or the exception
/// that says why not. See `Store.delete`.
#[pyfunction]
pub(crate) fn delete_and_wait<'py>(
    store: &Bound<'py, Store>,
    ids: &Bound<'py, PyAny>,
    timeout: f64,
    namespace: &str,
) -> PyResult<Vec<Option<Bound<'py, PyAny>>>> {
    let (py, ids) = (store.py(), many_ids(ids, namespace)?);
    let timeout = seconds(Some(timeout))?.unwrap_or_default();
    let client = store.get().client();
    let results = ask(py, || client.delete_and_wait(&ids, timeout))?;
    let outcome =
        |result: Result<(), Error>| result.err().map(|error| exception(py, &error)).transpose();
    results.into_iter().map(outcome).collect()
}
