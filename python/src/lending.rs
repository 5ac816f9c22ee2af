//! Memory that is lent out, with somebody to tell when nobody looks at it any more.
//!
//! A [`Lending`] lies between the owner of some memory (a buffer, a writer, anything with the
//! buffer protocol) and those who look at it. It holds one view of the owner and gives out views of
//! its own. When the last of them and the lending itself are gone, it gives the owner back first
//! and calls `ended(key)` then: by that time the object is no longer pinned on its account. Weak
//! references cannot be used for that, because they are told while the object is still alive.
//!
//! `plasmon.plasma` needs it: there an object that is to be deleted goes with its last reader.

use std::ffi::c_int;
use std::mem::MaybeUninit;

use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyAny;

use crate::buffer::fill;

/// A view of a Python object's memory.
struct View(Box<ffi::Py_buffer>);

// SAFETY: the view is opened and released only while attached to the interpreter; its fields are
// not changed in between.
unsafe impl Send for View {}
// SAFETY: as above.
unsafe impl Sync for View {}

impl View {
    /// Opens a view, writable where the owner allows it.
    fn open(owner: &Bound<'_, PyAny>) -> PyResult<Self> {
        Self::open_with(owner, ffi::PyBUF_WRITABLE).or_else(|error| {
            if !error.is_instance_of::<PyBufferError>(owner.py()) {
                return Err(error);
            }
            Self::open_with(owner, ffi::PyBUF_SIMPLE)
        })
    }

    fn open_with(owner: &Bound<'_, PyAny>, flags: c_int) -> PyResult<Self> {
        let mut view = Box::new(MaybeUninit::<ffi::Py_buffer>::uninit());
        // SAFETY: the view is valid for writes and stays where it is; `owner` is a live object.
        let outcome = unsafe { ffi::PyObject_GetBuffer(owner.as_ptr(), view.as_mut_ptr(), flags) };
        if outcome != 0 {
            return Err(PyErr::fetch(owner.py()));
        }
        // SAFETY: CPython filled it.
        Ok(Self(unsafe { Box::<MaybeUninit<ffi::Py_buffer>>::assume_init(view) }))
    }
}

impl Drop for View {
    fn drop(&mut self) {
        // SAFETY: the view was opened by CPython and is released once. Dropping happens attached to
        // the interpreter: `Lending` sees to it.
        unsafe { ffi::PyBuffer_Release(&raw mut *self.0) };
    }
}

/// Memory of `owner` that is lent out. When nobody looks at it any more, `ended(key)` is called.
#[pyclass(frozen, module = "plasmon._native", name = "Lending", weakref)]
pub(crate) struct Lending {
    owner: Option<Py<PyAny>>,
    view: Option<View>,
    ended: Option<Py<PyAny>>,
    key: Py<PyAny>,
}

#[pymethods]
impl Lending {
    #[new]
    fn create(
        owner: &Bound<'_, PyAny>,
        ended: &Bound<'_, PyAny>,
        key: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        let view = Some(View::open(owner)?);
        Ok(Self {
            owner: Some(owner.clone().unbind()),
            view,
            ended: Some(ended.clone().unbind()),
            key: key.clone().unbind(),
        })
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
        let Some(View(own)) = &slf.get().view else {
            return Err(PyBufferError::new_err("the memory was given back"));
        };
        let part = (own.buf.cast::<u8>(), own.len.unsigned_abs());
        // SAFETY: the memory stays where it is while the own view is open, which lasts as long as
        // the lending lives; the new view holds a reference to it.
        unsafe { fill(slf.as_any(), view, part, own.readonly != 0, flags) }
    }
}

impl Drop for Lending {
    fn drop(&mut self) {
        let (owner, view, ended) = (self.owner.take(), self.view.take(), self.ended.take());
        Python::attach(|py| {
            drop(view);
            drop(owner);
            if let Some(ended) = ended
                && let Err(error) = ended.call1(py, (&self.key,))
            {
                // Nobody is there to raise it to.
                error.write_unraisable(py, Some(ended.bind(py)));
            }
        });
    }
}
