//! Adoption of namespaces.

use pyo3::prelude::*;

use crate::interrupt::ask;
use crate::store::Store;

/// Adopts a namespace. See `Store.adopt`.
#[pyfunction]
pub(crate) fn adopt(store: &Bound<'_, Store>, namespace: &str, bytes_max: u64) -> PyResult<()> {
    let client = store.get().client();
    ask(store.py(), || client.adopt(namespace, bytes_max))
}

/// Ends the adoption of a namespace. See `Store.end_adoption`.
#[pyfunction]
pub(crate) fn end_adoption(store: &Bound<'_, Store>, namespace: &str) -> PyResult<()> {
    let client = store.get().client();
    ask(store.py(), || client.end_adoption(namespace))
}
