//! A pinned object in Python: bytes that stay where they are for as long as somebody refers to
//! them.
//!
//! A buffer is either held or released. Whoever gets at its memory is counted: memoryviews and what
//! is made from them through the buffer protocol, Arrow and DLPack consumers through an [`Export`].
//! NumPy arrays that only keep a reference to the buffer itself cannot be counted; they mark the
//! buffer as lent, which lasts until it is collected.
//!
//! ```text
//! held ── release(), nothing counted, not lent ──► released
//!   └──── collected, when nobody refers to it ───► released
//! ```

use std::ffi::c_int;
use std::sync::{Mutex, MutexGuard, PoisonError};

use plasmon_client::{ObjectId, Policy, tag};
use plasmon_cpython::buffer::{Elements, fill};
use plasmon_proto::value::ValueHeader;
use pyo3::exceptions::{PyAttributeError, PyBufferError, PyValueError};
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyCapsule, PyDict, PyMemoryView, PyTuple};

use crate::error::raised;
use crate::id::Id;
use crate::layout::Layout;
use crate::{arrow_read, dlpack};

/// A sealed object, pinned and read in place; it has the buffer protocol, read-only.
///
/// An array says so through every protocol: `memoryview(buffer)`, `numpy.asarray(buffer)` and
/// DLPack have its element type and shape where they can name it. `buffer.data` is its bytes.
#[pyclass(frozen, module = "plasmon", name = "Buffer", weakref)]
#[derive(Debug)]
pub(crate) struct Buffer {
    held: Mutex<Held>,
    trusted: bool,
}

#[derive(Debug)]
struct Held {
    buffer: Option<plasmon_client::Buffer>,
    exports: usize,
    lent: bool,
}

/// The header of an object as Python sees it: kind, order (`C` or `F`), shape, text.
type Header = (u8, char, Vec<u64>, String);

impl Buffer {
    /// A Python buffer on a pinned object. `trusted` says that only processes that could harm this
    /// one anyway can have written it.
    #[inline]
    pub(crate) fn new(buffer: plasmon_client::Buffer, trusted: bool) -> Self {
        Self { held: Mutex::new(Held { buffer: Some(buffer), exports: 0, lent: false }), trusted }
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        // Nothing panics while it holds this lock, and a count is never half written.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the held object.
    pub(crate) fn with<T>(&self, look: impl FnOnce(&plasmon_client::Buffer) -> T) -> PyResult<T> {
        let held = self.lock();
        Ok(look(Self::ours(&held)?))
    }

    /// Whether the bytes need no validation.
    pub(crate) fn is_trusted(&self) -> bool {
        self.trusted
    }

    /// Counts one more that looks at the data; the address and the length of it.
    fn count(&self) -> PyResult<(*const u8, usize)> {
        let mut held = self.lock();
        let data = Self::ours(&held)?.data();
        let part = (data.as_ptr(), data.len());
        held.exports += 1;
        Ok(part)
    }

    /// The held object, unless it was released or belongs to the process that this one was forked
    /// from.
    fn ours(held: &Held) -> PyResult<&plasmon_client::Buffer> {
        let buffer = held.buffer.as_ref().ok_or_else(was_released)?;
        buffer.check_ours().map_err(|error| Python::attach(|py| raised(py, &error)))?;
        Ok(buffer)
    }

    fn uncount(&self) {
        self.lock().exports -= 1;
    }

    /// Marks the buffer as lent to somebody who holds a reference to it and cannot be counted.
    pub(crate) fn lend(&self) {
        self.lock().lent = true;
    }

    /// Where the caller's own metadata starts, behind the value header.
    fn own_metadata_at(buffer: &plasmon_client::Buffer) -> usize {
        let metadata = buffer.metadata();
        let own = ValueHeader::of_object(buffer.tag(), metadata).map(|(_, own)| own.len());
        metadata.len() - own.unwrap_or(metadata.len())
    }
}

fn was_released() -> PyErr {
    PyValueError::new_err("the buffer was released")
}

/// Somebody who looks at a buffer's data: the object stays pinned until this is dropped.
#[derive(Debug)]
pub(crate) struct Export {
    owner: Py<Buffer>,
    address: usize,
    bytes: usize,
}

impl Export {
    /// Counts one more that looks at the data of `owner`.
    pub(crate) fn of(owner: &Bound<'_, Buffer>) -> PyResult<Self> {
        let (address, bytes) = owner.get().count()?;
        Ok(Self { owner: owner.clone().unbind(), address: address as usize, bytes })
    }

    /// Where the data is.
    pub(crate) fn address(&self) -> *mut u8 {
        self.address as *mut u8
    }

    /// How long it is.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Export {
    fn drop(&mut self) {
        // Consumers may drop it on any thread; dropping the reference itself is then put off until
        // a thread is attached to the interpreter.
        self.owner.get().uncount();
    }
}

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

    /// What kind of value the bytes hold, one of the numbers in docs/formats/values.md.
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

    /// Whether only processes of this user, who could harm this one anyway, can have written the
    /// bytes.
    #[getter]
    fn trusted(&self) -> bool {
        self.trusted
    }

    /// Whether the buffer was released.
    #[getter]
    fn released(&self) -> bool {
        self.lock().buffer.is_none()
    }

    /// A read-only view of the data as bytes, in the order in which they lie.
    #[getter]
    fn data<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyMemoryView>> {
        slf.get().with(|_| ())?;
        PyMemoryView::from(Part::new(slf, Which::Data)?.as_any())
    }

    /// A read-only view of the metadata that the creator gave.
    #[getter]
    fn metadata<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyMemoryView>> {
        let own = slf.get().with(Self::own_metadata_at)?;
        PyMemoryView::from(Part::new(slf, Which::Metadata { skip: own })?.as_any())
    }

    /// A read-only view of everything behind the data: the value header, then the creator's
    /// metadata.
    #[getter]
    fn stored_metadata<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyMemoryView>> {
        PyMemoryView::from(Part::new(slf, Which::Metadata { skip: 0 })?.as_any())
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
        let mut held = self.lock();
        if held.exports != 0 || held.lent {
            return Err(PyBufferError::new_err(if held.lent {
                "an array still refers to the buffer: drop both and the object is released"
            } else {
                "a memoryview, array or Arrow buffer still refers to the object: drop it first"
            }));
        }
        let buffer = held.buffer.take();
        drop(held);
        drop(buffer);
        Ok(())
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

    /// Lends the data out through the buffer protocol: an array by its element type and shape, to
    /// those who ask for more than bytes.
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

/// A kind of value in words.
pub(crate) fn tag_name(number: u8) -> &'static str {
    match number {
        tag::RAW => "bytes",
        tag::ARROW_STREAM => "an Arrow stream",
        tag::NDARRAY => "an array",
        tag::PYTHON => "a Python object",
        tag::COMPOSITE => "a composite",
        _ => "a value of an unknown kind",
    }
}

/// Which bytes of an object.
#[derive(Clone, Copy, Debug)]
enum Which {
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
    which: Which,
}

impl Part {
    /// Some bytes of `owner`.
    fn new<'py>(owner: &Bound<'py, Buffer>, which: Which) -> PyResult<Bound<'py, Self>> {
        Bound::new(owner.py(), Self { owner: owner.clone().unbind(), which })
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
        let (owner, which) = (slf.get().owner.get(), slf.get().which);
        owner.count()?;
        let bytes = |buffer: &plasmon_client::Buffer| match which {
            Which::Data => buffer.data().as_ptr_range(),
            Which::Metadata { skip } => buffer.metadata()[skip..].as_ptr_range(),
        };
        let filled = owner.with(bytes).and_then(|part| {
            let part = (part.start.cast_mut(), part.end as usize - part.start as usize);
            // SAFETY: as in Buffer::__getbuffer__; metadata lies behind the data under the same
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

/// The id of a buffer that is certainly held.
pub(crate) fn id_of(buffer: &Bound<'_, Buffer>) -> Option<ObjectId> {
    buffer.get().with(|buffer| buffer.id()).ok()
}
