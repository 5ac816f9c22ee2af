//! Putting many objects with one call.

use plasmon_client::ObjectId;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::arguments::put_options;
use crate::id::Id;
use crate::interrupt::ask;
use crate::store::Store;

/// Puts byte strings, one object each, all with these options; their ids. See `Store.put_many()`.
#[pyfunction]
pub(crate) fn put_many(
    store: &Bound<'_, Store>,
    values: &Bound<'_, PyAny>,
    options: &Bound<'_, PyDict>,
) -> PyResult<Vec<Id>> {
    let (py, options) = (store.py(), put_options(Some(options))?);
    let values = values.try_iter()?.map(|value| bytes_of(&value?));
    let values = values.collect::<PyResult<Vec<_>>>()?;
    let objects: Vec<(Option<ObjectId>, &[u8])> =
        values.iter().map(|value| (None, value.as_bytes())).collect();
    let client = store.get().client();
    let ids = ask(py, || client.put_many(&objects, &options))?;
    Ok(ids.into_iter().map(Id::new).collect())
}

/// A value whose bytes are the object.
fn bytes_of<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    let bytes = value.cast_exact::<PyBytes>().map_err(|_| {
        let kind = value.get_type();
        PyTypeError::new_err(format!("put_many() takes bytes, found {kind}: use put() for it"))
    })?;
    Ok(bytes.clone())
}
