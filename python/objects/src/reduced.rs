//! How objects are to be made again: the results of `__reduce_ex__`.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList};

static COPYREG: PyOnceLock<(Py<PyDict>, Py<PyAny>, Py<PyAny>)> = PyOnceLock::new();

/// The result of `__reduce_ex__`.
pub(super) enum ReduceResult<'py> {
    /// The name that the object is found by.
    Named(Bound<'py, PyAny>),
    /// How to make the object.
    Apart(Reduction<'py>),
}

/// How to make an object, with a callable and parts.
pub(super) struct Reduction<'py> {
    pub(super) callable: Bound<'py, PyAny>,
    pub(super) make: u8,
    pub(super) parts: Vec<Bound<'py, PyAny>>,
}

/// The rest of an iterator, as a list.
pub(super) fn exhausted<'py>(items: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(items.py());
    for item in items.try_iter()? {
        list.append(item?)?;
    }
    Ok(list)
}

/// The error of an object that cannot be taken apart, with the object.
pub(super) fn not_reduced(value: &Bound<'_, PyAny>, error: PyErr) -> PyErr {
    let py = value.py();
    if !error.is_instance_of::<PyTypeError>(py) {
        return error;
    }
    let module = py.import("plasmon.objects._names");
    let refused =
        module.and_then(|module| module.getattr("not_reduced")?.call1((value, error.value(py))));
    refused.map_or(error, PyErr::from_value)
}

/// `copyreg.dispatch_table`, `__newobj__` and `__newobj_ex__`.
pub(super) fn copyreg(
    py: Python<'_>,
) -> PyResult<(&Bound<'_, PyDict>, &Bound<'_, PyAny>, &Bound<'_, PyAny>)> {
    let (table, new, new_ex) = COPYREG.get_or_try_init(py, || {
        let module = py.import("copyreg")?;
        let table = module.getattr("dispatch_table")?.cast_into::<PyDict>()?.unbind();
        let new = module.getattr("__newobj__")?.unbind();
        PyResult::Ok((table, new, module.getattr("__newobj_ex__")?.unbind()))
    })?;
    Ok((table.bind(py), new.bind(py), new_ex.bind(py)))
}
