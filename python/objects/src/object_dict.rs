//! The `__dict__` of objects.

use pyo3::ffi;
use pyo3::prelude::*;

use super::raw::Ptr;

/// The `__dict__` of an object whose class does nothing special about it, borrowed from the object.
/// While the encoder is quiet no code runs.
pub(super) fn dict_of(py: Python<'_>, object: Ptr) -> PyResult<Ptr> {
    // SAFETY: the object is alive and has a dict, which the strategy made sure of.
    let dict = unsafe { ffi::PyObject_GenericGetDict(object, std::ptr::null_mut()) };
    if dict.is_null() {
        return Err(PyErr::fetch(py));
    }
    // SAFETY: the object keeps its dict.
    unsafe { ffi::Py_DECREF(dict) };
    Ok(dict)
}
