//! The parts of an object, its data and its metadata, each with the buffer protocol of its own.

use std::ffi::c_int;

use plasmon_cpython::buffer::fill;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::buffer::Buffer;

/// A section of an object's bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Section {
    Data,
    /// What follows the data, without its first bytes.
    Metadata {
        skip: usize,
    },
}

/// Bytes of a buffer, with the buffer protocol of their own.
#[pyclass(frozen, module = "plasmon._native", name = "_Part")]
#[derive(Debug)]
pub(crate) struct Part {
    owner: Py<Buffer>,
    section: Section,
}

impl Part {
    /// Some bytes of `owner`.
    pub(crate) fn new<'py>(
        owner: &Bound<'py, Buffer>,
        section: Section,
    ) -> PyResult<Bound<'py, Self>> {
        Bound::new(owner.py(), Self { owner: owner.clone().unbind(), section })
    }
}

#[pymethods]
impl Part {
    /// Lends the bytes out; the owner stays pinned.
    ///
    /// # Safety
    ///
    /// CPython calls it with a `Py_buffer` to fill.
    unsafe fn __getbuffer__(
        slf: &Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let (owner, section) = (slf.get().owner.get(), slf.get().section);
        owner.count()?;
        let bytes = |buffer: &plasmon_client::Buffer| match section {
            Section::Data => buffer.data().as_ptr_range(),
            Section::Metadata { skip } => buffer.metadata()[skip..].as_ptr_range(),
        };
        let filled = owner.with(bytes).and_then(|part| {
            let part = (part.start.cast_mut(), part.end as usize - part.start as usize);
            // SAFETY: as in Buffer::__getbuffer__; metadata lies after the data under the same
            // pin.
            unsafe { fill(slf.as_any(), view, part, true, flags) }
        });
        filled.inspect_err(|_| owner.uncount())
    }

    /// Takes back what [`Self::__getbuffer__`] lent.
    ///
    /// # Safety
    ///
    /// CPython calls it once for each successful `__getbuffer__`.
    unsafe fn __releasebuffer__(&self, _view: *mut ffi::Py_buffer) {
        self.owner.get().uncount();
    }
}
