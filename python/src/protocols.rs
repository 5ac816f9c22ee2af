//! The attributes of a buffer in Python, and the protocols through which it lends its memory to
//! other libraries.

use std::ffi::c_int;

use plasmon_client::{Policy, tag};
use plasmon_cpython::buffer::{Elements, fill};
use plasmon_proto::value::ValueHeader;
use pyo3::exceptions::{PyAttributeError, PyValueError};
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyCapsule, PyDict, PyMemoryView, PyTuple};

use crate::buffer::Buffer;
use crate::id::Id;
use crate::layout::Layout;
use crate::part::{Part, Section};
use crate::{arrow_read, dlpack};

/// The header of an object as Python sees it: kind, order (`C` or `F`), shape, text.
type Header = (u8, char, Vec<u64>, String);

#[pymethods]
impl Buffer {
    /// The object's id.
    #[getter]
    fn id(&self) -> PyResult<Id> {
        self.with(|buffer| Id::new(buffer.id()))
    }

    /// The number of bytes of data.
    #[getter]
    fn nbytes(&self) -> PyResult<usize> {
        self.with(|buffer| buffer.data().len())
    }

    /// The type of value that the bytes hold, one of the numbers in docs/formats/values.md.
    #[getter]
    fn tag(&self) -> PyResult<u8> {
        self.with(|buffer| buffer.tag())
    }

    /// What the store may do with the object when memory is short: "keep" or "cache".
    #[getter]
    fn policy(&self) -> PyResult<&'static str> {
        self.with(|buffer| if buffer.policy() == Policy::Keep { "keep" } else { "cache" })
    }

    /// The number of this incarnation of the object, never used again in this store.
    #[getter]
    fn serial(&self) -> PyResult<u64> {
        self.with(|buffer| buffer.serial())
    }

    /// The address of the first byte of data in this process.
    #[getter]
    fn address(&self) -> PyResult<usize> {
        self.with(|buffer| buffer.data().as_ptr() as usize)
    }

    /// Whether only processes of this user, which could harm this one anyway, can have written the
    /// bytes.
    #[getter]
    fn trusted(&self) -> bool {
        self.is_trusted()
    }

    /// Whether the buffer was released.
    #[getter]
    fn released(&self) -> bool {
        self.is_released()
    }

    /// A read-only view of the data as bytes, in the order in which they lie.
    #[getter]
    fn data<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyMemoryView>> {
        slf.get().with(|_| ())?;
        PyMemoryView::from(Part::new(slf, Section::Data)?.as_any())
    }

    /// A read-only view of the metadata that the creator gave.
    #[getter]
    fn metadata<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyMemoryView>> {
        let own = slf.get().with(own_metadata_at)?;
        PyMemoryView::from(Part::new(slf, Section::Metadata { skip: own })?.as_any())
    }

    /// A read-only view of everything after the data: the value header, then the creator's
    /// metadata.
    #[getter]
    fn stored_metadata<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyMemoryView>> {
        PyMemoryView::from(Part::new(slf, Section::Metadata { skip: 0 })?.as_any())
    }

    /// The value header (kind, order, shape, text), None for an object without one.
    #[getter]
    fn header(&self) -> PyResult<Option<Header>> {
        self.with(|buffer| {
            let (header, _) = ValueHeader::of_object(buffer.tag(), buffer.metadata())?;
            let order = if header.order as u8 == 0 { 'C' } else { 'F' };
            Some((header.kind, order, header.shape, header.text.to_owned()))
        })
    }

    /// Unpins the object now instead of when the buffer is collected. A second release does
    /// nothing.
    ///
    /// Raises BufferError while a memoryview or an array still refers to the memory.
    fn release(&self) -> PyResult<()> {
        self.unpin()
    }

    fn __len__(&self) -> PyResult<usize> {
        self.nbytes()
    }

    fn __bool__(&self) -> bool {
        true
    }

    fn __enter__<'py>(slf: Bound<'py, Self>) -> PyResult<Bound<'py, Self>> {
        slf.get().with(|_| ())?;
        Ok(slf)
    }

    #[pyo3(signature = (*_raised))]
    fn __exit__(&self, _raised: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.release()
    }

    fn __repr__(&self) -> String {
        self.with(|buffer| {
            let (id, bytes, tag) = (buffer.id(), buffer.data().len(), buffer.tag());
            format!("<plasmon.Buffer {id}: {bytes} bytes, {}>", tag_name(tag))
        })
        .unwrap_or_else(|_| "<plasmon.Buffer, released>".to_owned())
    }

    /// Lends the data out through the buffer protocol: an array by its element type and shape, for
    /// a request for more than bytes.
    ///
    /// # Safety
    ///
    /// CPython calls it with a `Py_buffer` to fill.
    unsafe fn __getbuffer__(
        slf: &Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let (address, bytes) = slf.get().count()?;
        let part = (address.cast_mut(), bytes);
        let filled = if flags & ffi::PyBUF_ND == 0 {
            // SAFETY: CPython gives a view to fill; the bytes stay where they are while they are
            // counted, which lasts until __releasebuffer__.
            unsafe { fill(slf.as_any(), view, part, true, flags) }
        } else {
            slf.get().with(Layout::of).and_then(|layout| {
                let strides = layout.byte_strides();
                let (format, itemsize) = (layout.element.format, layout.element.bytes());
                let elements = Elements::new(format, itemsize, layout.shape, strides);
                // SAFETY: as above; __releasebuffer__ calls `release`.
                unsafe { elements.fill(slf.as_any(), view, part, flags) }
            })
        };
        filled.inspect_err(|_| slf.get().uncount())
    }

    /// Takes back what [`Self::__getbuffer__`] lent.
    ///
    /// # Safety
    ///
    /// CPython calls it once for each successful `__getbuffer__`.
    unsafe fn __releasebuffer__(&self, view: *mut ffi::Py_buffer) {
        // SAFETY: `__getbuffer__` filled the view, and it is released once.
        unsafe { Elements::release(view) };
        self.uncount();
    }

    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (address, layout) =
            self.with(|buffer| (buffer.data().as_ptr() as usize, Layout::of(buffer)))?;
        self.lend();
        let strides = layout.byte_strides();
        let interface = PyDict::new(py);
        interface.set_item("version", 3)?;
        interface.set_item("typestr", layout.element.typestr)?;
        interface.set_item("shape", PyTuple::new(py, layout.shape)?)?;
        interface.set_item("strides", PyTuple::new(py, strides)?)?;
        interface.set_item("data", (address, true))?;
        Ok(interface)
    }

    /// The data for any consumer of DLPack 1.0 or later: an array by its element type, anything
    /// else as bytes. Raises BufferError for a consumer that cannot be told that memory is
    /// read-only.
    #[pyo3(signature = (*, stream = None, max_version = None, dl_device = None, copy = None))]
    fn __dlpack__<'py>(
        slf: &Bound<'py, Self>,
        stream: Option<&Bound<'py, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        if stream.is_some() {
            return Err(PyValueError::new_err("the memory is on the CPU: stream must be None"));
        }
        dlpack::capsule(slf, max_version, dl_device, copy)
    }

    /// The DLPack device: (1, 0), the processor's memory.
    fn __dlpack_device__(&self) -> (i32, i32) {
        dlpack::DEVICE
    }

    // Consumers ask with hasattr whether an object is an Arrow array or a stream of batches, and
    // some prefer the array. So a buffer has only the one of the two that fits what it holds.
    fn __getattr__<'py>(slf: &Bound<'py, Self>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        let table =
            slf.get().tag().is_ok_and(|tag| matches!(tag, tag::ARROW_STREAM | tag::COMPOSITE));
        match (name, table) {
            ("__arrow_c_array__", false) => slf.getattr(intern!(slf.py(), "_arrow_c_array")),
            ("__arrow_c_stream__", true) => slf.getattr(intern!(slf.py(), "_arrow_c_stream")),
            _ => {
                let text = format!("'Buffer' object has no attribute '{name}'");
                Err(PyAttributeError::new_err(text))
            }
        }
    }

    #[pyo3(signature = (requested_schema = None))]
    fn _arrow_c_array<'py>(
        slf: &Bound<'py, Self>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        // A consumer may be given another type than the one it would like; it casts then.
        let _ = requested_schema;
        arrow_read::array_capsules(slf)
    }

    #[pyo3(signature = (requested_schema = None))]
    fn _arrow_c_stream<'py>(
        slf: &Bound<'py, Self>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        arrow_read::stream_capsule(slf)
    }
}

/// Where the caller's own metadata starts, after the value header.
fn own_metadata_at(buffer: &plasmon_client::Buffer) -> usize {
    let metadata = buffer.metadata();
    let own = ValueHeader::of_object(buffer.tag(), metadata).map(|(_, own)| own.len());
    metadata.len() - own.unwrap_or(metadata.len())
}

/// A kind of value in words.
fn tag_name(number: u8) -> &'static str {
    match number {
        tag::RAW => "bytes",
        tag::ARROW_STREAM => "an Arrow stream",
        tag::NDARRAY => "an array",
        tag::PYTHON => "a Python object",
        tag::COMPOSITE => "a composite",
        _ => "a value of an unknown kind",
    }
}
