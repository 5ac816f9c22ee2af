//! The suggestion for a misspelt name, looked up when the error is shown.

use plasmon_client::{Name, WeakClient};
use pyo3::prelude::*;

use crate::interrupt::call;

/// Finds the name of an object that is most like the one that was asked for; does not keep the
/// connection open.
#[pyclass(frozen, module = "plasmon._native")]
#[derive(Debug)]
pub(crate) struct Near {
    store: WeakClient,
    name: Name,
}

impl Near {
    /// For this name in this store.
    pub(crate) fn new(store: WeakClient, name: Name) -> Self {
        Self { store, name }
    }
}

#[pymethods]
impl Near {
    /// The namespace and the text of the name, or None.
    fn __call__(&self, py: Python<'_>) -> PyResult<Option<(String, String)>> {
        let find = || self.store.upgrade().and_then(|store| store.similar_name(&self.name));
        Ok(call(py, find)?.map(|name| (name.namespace, name.text)))
    }
}
