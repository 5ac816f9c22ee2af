//! Making an object out of a value.
//!
//! Bytes, NumPy arrays and plain Python values, the hot cases, are recognized here. Anything else
//! goes to `plasmon._values.encode`, which decides what it is and calls one method of the [`Put`]
//! that it is given.

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::sync::{Mutex, PoisonError};

use plasmon_client::{PutOptions, tag};
use plasmon_columns::Table;
use plasmon_objects::Wanted;
use plasmon_proto::value::{Order, ValueHeader};
use plasmon_python_arrow::Source;
use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PySet, PyString, PyTuple};

use crate::error::{OrRaise, raised_by_columns};
use crate::id::{Id, bad_request};
use crate::numpy;
use crate::objects::context::Context;
use crate::objects::serialized::Serialized;
use crate::pool;
use crate::writer::Writer;

static ENCODE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// Puts `value` and returns the new object's id. `context` is for values that are neither Arrow
/// data nor arrays.
pub(crate) fn put(
    store: &plasmon_client::Store,
    value: &Bound<'_, PyAny>,
    options: PutOptions,
    context: &Bound<'_, Context>,
) -> PyResult<Id> {
    let py = value.py();
    if is_plain(value) {
        return python(store, value, options, context);
    }
    if let Ok(bytes) = value.cast_exact::<PyBytes>() {
        let bytes = bytes.as_bytes();
        return py.detach(|| store.put(bytes, &options)).or_raise(py).map(Id::new);
    }
    let options = match numpy::put(store, value, options)? {
        Ok(id) => return Ok(Id::new(id)),
        Err(options) => options,
    };
    let encode = ENCODE.get_or_try_init(py, || {
        PyResult::Ok(py.import("plasmon._values")?.getattr("encode")?.unbind())
    })?;
    let context = context.clone().unbind();
    let sink = Put { store: store.clone(), options: Mutex::new(Some(options)), context };
    let id = encode.bind(py).call1((value, Bound::new(py, sink)?))?;
    Ok(Id::new(id.cast::<Id>()?.get().id()))
}

/// Whether a value is certainly no Arrow data, no array and no bytes.
fn is_plain(value: &Bound<'_, PyAny>) -> bool {
    value.is_none()
        || value.is_exact_instance_of::<PyList>()
        || value.is_exact_instance_of::<PyDict>()
        || value.is_exact_instance_of::<PyTuple>()
        || value.is_exact_instance_of::<PyString>()
        || value.is_exact_instance_of::<PyInt>()
        || value.is_exact_instance_of::<PyFloat>()
        || value.is_exact_instance_of::<PyBool>()
        || value.is_exact_instance_of::<PySet>()
}

/// Puts a value in the PLO format.
fn python(
    store: &plasmon_client::Store,
    value: &Bound<'_, PyAny>,
    mut options: PutOptions,
    context: &Bound<'_, Context>,
) -> PyResult<Id> {
    let py = value.py();
    let object = Serialized::of(context, value, Wanted::Auto)?;
    options.tag = tag::PYTHON;
    let outcome = object.with_parts(|parts| py.detach(|| store.put_parts(parts, &options)));
    object.recycle();
    outcome.or_raise(py).map(Id::new)
}

/// A put that waits for its value, usable once.
#[pyclass(frozen, module = "plasmon._native", name = "_Put")]
#[derive(Debug)]
pub(crate) struct Put {
    store: plasmon_client::Store,
    options: Mutex<Option<PutOptions>>,
    context: Py<Context>,
}

impl Put {
    fn take(&self) -> PyResult<PutOptions> {
        let options = self.options.lock().unwrap_or_else(PoisonError::into_inner).take();
        options.ok_or_else(|| PyValueError::new_err("the put has its value already"))
    }
}

/// Sets an object's tag and puts the value header before the caller's own metadata.
pub(crate) fn describe(
    py: Python<'_>,
    options: &mut PutOptions,
    tag: u8,
    header: &ValueHeader<'_>,
) -> PyResult<()> {
    options.tag = tag;
    options.metadata = header.encode(&options.metadata).ok_or_else(|| {
        bad_request(py, "putting a value", "its description is too long".to_owned())
    })?;
    Ok(())
}

/// The header of an array in `order` (`C` or `F`).
fn array_header<'a>(
    kind: u8,
    order: char,
    shape: Vec<u64>,
    text: &'a str,
) -> PyResult<ValueHeader<'a>> {
    let order = match order {
        'C' => Order::C,
        'F' => Order::Fortran,
        other => return Err(PyValueError::new_err(format!("there is no order '{other}'"))),
    };
    Ok(ValueHeader { kind, order, shape, text })
}

#[pymethods]
impl Put {
    /// Puts bytes as they are.
    fn raw(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<Id> {
        let (data, options) = (Flat::of(data)?, self.take()?);
        let bytes = data.bytes();
        py.detach(|| self.store.put(bytes, &options)).or_raise(py).map(Id::new)
    }

    /// Puts a value of any other kind in the PLO format.
    fn python(&self, value: &Bound<'_, PyAny>) -> PyResult<Id> {
        python(&self.store, value, self.take()?, self.context.bind(value.py()))
    }

    /// Puts the elements of an array that lie without gaps in `order`.
    fn array(
        &self,
        data: &Bound<'_, PyAny>,
        kind: u8,
        order: char,
        shape: Vec<u64>,
        text: &str,
    ) -> PyResult<Id> {
        let (py, data) = (data.py(), Flat::of(data)?);
        let mut options = self.take()?;
        describe(py, &mut options, tag::NDARRAY, &array_header(kind, order, shape, text)?)?;
        let bytes = data.bytes();
        py.detach(|| self.store.put(bytes, &options)).or_raise(py).map(Id::new)
    }

    /// A writer for the elements of an array, which the caller fills and seals.
    fn array_writer(
        &self,
        py: Python<'_>,
        nbytes: u64,
        kind: u8,
        shape: Vec<u64>,
        text: &str,
    ) -> PyResult<Writer> {
        let mut options = self.take()?;
        describe(py, &mut options, tag::NDARRAY, &array_header(kind, 'C', shape, text)?)?;
        let writer = py.detach(|| self.store.create(nbytes, &options)).or_raise(py)?;
        Ok(Writer::new(self.store.clone(), writer))
    }

    /// Puts whatever `source` offers through `__arrow_c_stream__` or `__arrow_c_array__`.
    #[pyo3(signature = (source, kind, *, column = false, text = ""))]
    fn arrow(&self, source: &Bound<'_, PyAny>, kind: u8, column: bool, text: &str) -> PyResult<Id> {
        let (py, source) = (source.py(), Source::of(source)?);
        let options = self.take()?;
        let doing = "putting Arrow data";
        let outcome = py.detach(|| {
            let (schema, batches) = source.batches(column)?;
            let table = Table { schema: &schema, batches: &batches, kind, text };
            pool::put(&self.store, table, &options)
        });
        outcome.map(Id::new).map_err(|error| raised_by_columns(py, doing, error))
    }
}

/// Memory of another object that lies without gaps, through the buffer protocol.
pub(crate) struct Flat {
    // Boxed because some exporters let the view point into itself.
    view: Box<ffi::Py_buffer>,
}

// SAFETY: the view is only read, and released while attached to the interpreter (see Drop).
unsafe impl Send for Flat {}
// SAFETY: as above.
unsafe impl Sync for Flat {}

impl Flat {
    /// The memory of `owner`, in C or Fortran order.
    pub(crate) fn of(owner: &Bound<'_, PyAny>) -> PyResult<Self> {
        Self::with_flags(owner, ffi::PyBUF_ANY_CONTIGUOUS)
    }

    /// The memory of `owner`, asked for with these flags.
    pub(crate) fn with_flags(owner: &Bound<'_, PyAny>, flags: c_int) -> PyResult<Self> {
        let mut view = Box::new(MaybeUninit::<ffi::Py_buffer>::uninit());
        // SAFETY: `owner` is a live object and the view has room; attached to the interpreter.
        let outcome = unsafe { ffi::PyObject_GetBuffer(owner.as_ptr(), view.as_mut_ptr(), flags) };
        if outcome != 0 {
            return Err(PyErr::fetch(owner.py()));
        }
        // SAFETY: a successful call has filled the view.
        Ok(Self { view: unsafe { view.assume_init() } })
    }

    /// The bytes. They must lie without gaps: checked by the flags, or by [`Self::is_contiguous`].
    pub(crate) fn bytes(&self) -> &[u8] {
        if self.view.len <= 0 || self.view.buf.is_null() {
            return &[];
        }
        // SAFETY: the exporter keeps the memory until the view is released. Another thread may
        // write to it meanwhile, as with any buffer in Python; then the copy holds some of both.
        unsafe { std::slice::from_raw_parts(self.view.buf.cast(), self.view.len as usize) }
    }

    /// Whether the bytes lie without gaps in the order `C` or `F`.
    pub(crate) fn is_contiguous(&self, order: u8) -> bool {
        // SAFETY: the view is filled.
        unsafe { ffi::PyBuffer_IsContiguous(&raw const *self.view, order as std::ffi::c_char) != 0 }
    }

    /// The extents.
    pub(crate) fn shape(&self) -> Vec<u64> {
        let dimensions = usize::try_from(self.view.ndim).unwrap_or_default();
        if dimensions == 0 || self.view.shape.is_null() {
            return Vec::new();
        }
        // SAFETY: a view with a shape has as many extents as dimensions.
        let shape = unsafe { std::slice::from_raw_parts(self.view.shape, dimensions) };
        shape.iter().map(|extent| *extent as u64).collect()
    }
}

impl Drop for Flat {
    fn drop(&mut self) {
        // Flats live in functions that are called attached; attaching again is cheap.
        Python::attach(|_| {
            // SAFETY: the view was filled by PyObject_GetBuffer and is released once.
            unsafe { ffi::PyBuffer_Release(&raw mut *self.view) };
        });
    }
}
