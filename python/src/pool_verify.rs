//! Comparing the records of a pool with its copies.

use std::time::Duration;

use pyo3::prelude::*;

use crate::arguments::seconds;
use crate::describe;
use crate::interrupt::ask;
use crate::store::Store;

/// What `Pool.verify()` makes its answer of.
#[pyfunction]
pub(crate) fn pool_verify<'py>(
    store: &Bound<'py, Store>,
    within: f64,
) -> PyResult<Bound<'py, PyAny>> {
    let within = seconds(Some(within))?.unwrap_or(Duration::MAX);
    let (py, client) = (store.py(), store.get().client());
    describe::plain(py, &ask(py, || client.pool_verify(within))?)
}
