//! Memory that is lent out, with a callback for when no view of it is left.
//!
//! A [`LentMemory`] lies between the owner of some memory (a buffer, a writer, anything with the
//! buffer protocol) and the users of it. It holds one view of the owner and gives out views of
//! its own. When the last of them and the lending itself are gone, it gives the owner back first
//! and then calls `ended(key)`: by that time it no longer pins the object. Weak references cannot
//! be used for that, because their callbacks run while the object is still alive.
//!
//! `plasmon.plasma` needs it: there a deleted object is removed after its last reader.

use std::ffi::c_int;

use plasmon_cpython::buffer::{Flat, fill};
use plasmon_cpython::destructor::in_drop;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::types::PyAny;

/// A view of an object's memory, writable where the owner allows it.
fn lent(owner: &Bound<'_, PyAny>) -> PyResult<Flat> {
    Flat::with_flags(owner, ffi::PyBUF_WRITABLE).or_else(|error| {
        if !error.is_instance_of::<PyBufferError>(owner.py()) {
            return Err(error);
        }
        Flat::with_flags(owner, ffi::PyBUF_SIMPLE)
    })
}

/// Memory of `owner` that is lent out. When no view of it is left, `ended(key)` is called.
#[pyclass(frozen, module = "plasmon._native", name = "Lending", weakref)]
pub(crate) struct LentMemory {
    owner: Option<Py<PyAny>>,
    view: Option<Flat>,
    ended: Option<Py<PyAny>>,
    key: Py<PyAny>,
}

#[pymethods]
impl LentMemory {
    #[new]
    fn create(
        owner: &Bound<'_, PyAny>,
        ended: &Bound<'_, PyAny>,
        key: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        let view = Some(lent(owner)?);
        Ok(Self {
            owner: Some(owner.clone().unbind()),
            view,
            ended: Some(ended.clone().unbind()),
            key: key.clone().unbind(),
        })
    }

    // `ended` is not shown: the collector would clear a function of a cycle before it is called. So
    // a cycle through `ended` is never collected, and the caller must not make one.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.owner)?;
        visit.call(self.view.as_ref().and_then(Flat::owner))?;
        visit.call(&self.key)
    }

    /// Whose memory it is.
    #[getter]
    fn owner(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.owner.as_ref().map(|owner| owner.clone_ref(py))
    }

    /// Lends the memory out through the buffer protocol.
    ///
    /// # Safety
    ///
    /// CPython calls it with a `Py_buffer` to fill.
    unsafe fn __getbuffer__(
        slf: &Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let Some(own) = &slf.get().view else {
            return Err(PyBufferError::new_err("the memory was given back"));
        };
        // SAFETY: the memory stays where it is while the own view is open, which lasts as long as
        // the lending lives; the new view holds a reference to it.
        unsafe { fill(slf.as_any(), view, own.memory(), own.is_readonly(), flags) }
    }
}

impl Drop for LentMemory {
    fn drop(&mut self) {
        let (owner, view, ended) = (self.owner.take(), self.view.take(), self.ended.take());
        // The last view may go while an exception is on its way: `ended` must not see it, and must
        // not end it.
        in_drop(|py| {
            drop(view);
            drop(owner);
            if let Some(ended) = ended
                && let Err(error) = ended.call1(py, (&self.key,))
            {
                // There is no caller to raise it to.
                error.write_unraisable(py, Some(ended.bind(py)));
            }
        });
    }
}
