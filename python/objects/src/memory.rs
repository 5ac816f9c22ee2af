//! Memory for objects that are not written into a store.

use std::alloc::{Layout, alloc, dealloc};
use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

use pyo3::exceptions::PyMemoryError;
use pyo3::ffi;
use pyo3::prelude::*;

use plasmon_cpython::buffer::fill;

/// Every buffer of an object is aligned if the object is.
const ALIGN: usize = 64;

/// Larger blocks start at a multiple of this and ask for huge pages: page by page, the kernel would
/// take longer to provide the memory than it takes to fill it.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Memory with one object in it. Read-only, with the buffer protocol.
#[pyclass(frozen, module = "plasmon", name = "Block")]
#[derive(Debug)]
pub struct Block {
    start: NonNull<u8>,
    layout: Layout,
    bytes: usize,
}

// SAFETY: it is written before it is shared, and only read after that.
unsafe impl Send for Block {}
// SAFETY: as above.
unsafe impl Sync for Block {}

impl Block {
    /// Memory for a number of bytes, uninitialized.
    pub(super) fn new(bytes: usize) -> PyResult<Self> {
        let large = bytes >= 2 * HUGE_PAGE_BYTES;
        let align = if large { HUGE_PAGE_BYTES } else { ALIGN };
        let no_memory = || PyMemoryError::new_err(format!("no memory for {bytes} bytes"));
        let layout = Layout::from_size_align(bytes.max(1), align).map_err(|_| no_memory())?;
        // SAFETY: the layout has a size.
        let start = NonNull::new(unsafe { alloc(layout) }).ok_or_else(no_memory)?;
        if large {
            let whole = bytes - bytes % HUGE_PAGE_BYTES;
            // SAFETY: the stretch is ours, and advice changes nothing in it. Refused advice is
            // harmless: then the pages are small.
            let _ = unsafe {
                rustix::mm::madvise(start.as_ptr().cast(), whole, rustix::mm::Advice::LinuxHugepage)
            };
        }
        Ok(Self { start, layout, bytes })
    }

    /// The memory, to be written.
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: allocated with this length, and ours alone. What was not written yet is arbitrary
        // bytes, which nothing here reads.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout; views hold a reference to the block.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}

#[pymethods]
impl Block {
    /// How many bytes there are.
    #[getter]
    fn nbytes(&self) -> usize {
        self.bytes
    }

    fn __len__(&self) -> usize {
        self.bytes
    }

    /// Lends the bytes out through the buffer protocol.
    ///
    /// # Safety
    ///
    /// CPython calls it with a `Py_buffer` to fill.
    unsafe fn __getbuffer__(
        slf: &Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let part = (slf.get().start.as_ptr(), slf.get().bytes);
        // SAFETY: CPython gives a view to fill; it holds a reference to the block, which keeps the
        // bytes where they are.
        unsafe { fill(slf.as_any(), view, part, true, flags) }
    }
}

/// Borrowed memory to be written to.
pub(super) struct Room(Box<ffi::Py_buffer>);

impl Room {
    pub(super) fn of(owner: &Bound<'_, PyAny>) -> PyResult<Self> {
        let mut view = Box::new(MaybeUninit::<ffi::Py_buffer>::uninit());
        let flags = ffi::PyBUF_WRITABLE | ffi::PyBUF_C_CONTIGUOUS;
        // SAFETY: the view is valid for writes and stays where it is; `owner` is a live object.
        let outcome = unsafe { ffi::PyObject_GetBuffer(owner.as_ptr(), view.as_mut_ptr(), flags) };
        if outcome != 0 {
            return Err(PyErr::fetch(owner.py()));
        }
        // SAFETY: CPython filled it.
        Ok(Self(unsafe { Box::<MaybeUninit<ffi::Py_buffer>>::assume_init(view) }))
    }

    pub(super) fn bytes(&mut self) -> &mut [u8] {
        if self.0.len <= 0 {
            return &mut [];
        }
        // SAFETY: the exporter keeps the memory until the view is released. Another thread may use
        // it meanwhile, as with any buffer in Python; then it sees some of the object.
        unsafe { std::slice::from_raw_parts_mut(self.0.buf.cast(), self.0.len.unsigned_abs()) }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        // SAFETY: filled by CPython, released once; rooms live in functions called attached.
        unsafe { ffi::PyBuffer_Release(&raw mut *self.0) };
    }
}
