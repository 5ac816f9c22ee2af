//! Making an object out of a value.
//!
//! Bytes, memoryviews, NumPy arrays and plain Python values, the hot cases, are recognized here.
//! Anything else goes to `plasmon._values.encode`, which decides what it is and calls one method of
//! the [`Put`] that it is given.

use std::sync::{Mutex, PoisonError};

use plasmon_client::{ObjectId, PutOptions, tag};
use plasmon_columns::Table;
use plasmon_cpython::buffer::Flat;
use plasmon_plo::Wanted;
use plasmon_proto::value::{Order, ValueHeader, array_kind};
use plasmon_python_arrow::Source;
use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::sync::PyOnceLock;
use pyo3::types::{
    PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyMemoryView, PySet, PyString, PyTuple,
};

use crate::error::{OrRaise, raised_by_columns};
use crate::header::{array_header, describe};
use crate::id::Id;
use crate::interrupt::{ask, call};
use crate::numpy;
use crate::pools;
use crate::writer::Writer;
use plasmon_python_objects::context::Context;
use plasmon_python_objects::serialized::Serialized;

/// The formats of elements that memory comes back with, those of the module `struct`.
const ELEMENTS: &str = "bBhHiIlLqQnNefd?c";

static ENCODE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// Puts `value` and returns the new object's id. `context` is for values that are neither Arrow
/// data nor arrays. `form` is how the user wants it to be kept, if not as what it is.
pub(crate) fn put(
    store: &plasmon_client::Client,
    value: &Bound<'_, PyAny>,
    options: PutOptions,
    form: Option<&Bound<'_, PyAny>>,
    context: &Bound<'_, Context>,
) -> PyResult<Id> {
    let py = value.py();
    if form.is_some() {
        return encode(store, value, options, form, context);
    }
    if is_plain(value) {
        return python(store, value, options, context);
    }
    if let Ok(bytes) = value.cast_exact::<PyBytes>() {
        let bytes = bytes.as_bytes();
        return ask(py, || store.put(bytes, &options)).map(Id::new);
    }
    let lent = if value.is_exact_instance_of::<PyMemoryView>() { memory } else { numpy::put };
    let options = match lent(store, value, options)? {
        Ok(id) => return Ok(Id::new(id)),
        Err(options) => options,
    };
    encode(store, value, options, None, context)
}

/// Puts a value that is not one of the hot cases.
fn encode(
    store: &plasmon_client::Client,
    value: &Bound<'_, PyAny>,
    options: PutOptions,
    form: Option<&Bound<'_, PyAny>>,
    context: &Bound<'_, Context>,
) -> PyResult<Id> {
    let py = value.py();
    let encode = ENCODE.get_or_try_init(py, || {
        PyResult::Ok(py.import("plasmon._values")?.getattr("encode")?.unbind())
    })?;
    let context = context.clone().unbind();
    let sink = Put { store: store.clone(), options: Mutex::new(Some(options)), context };
    let id = encode.bind(py).call1((value, Bound::new(py, sink)?, form))?;
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

/// Puts memory whose elements lie without gaps; else gives the options back: what lies otherwise,
/// and elements that have no name of one letter, are sorted out in `plasmon._values`.
fn memory(
    store: &plasmon_client::Client,
    value: &Bound<'_, PyAny>,
    mut options: PutOptions,
) -> PyResult<Result<ObjectId, PutOptions>> {
    let py = value.py();
    let flat = Flat::with_flags(value, ffi::PyBUF_FULL_RO)?;
    let letter = flat.format().strip_prefix('@').unwrap_or(flat.format());
    if !flat.is_contiguous(b'C') || letter.len() != 1 || !ELEMENTS.contains(letter) {
        return Ok(Err(options));
    }
    let kind = array_kind::MEMORYVIEW;
    let header = ValueHeader { kind, order: Order::C, shape: flat.shape(), text: letter };
    describe(py, &mut options, tag::NDARRAY, &header)?;
    let bytes = flat.bytes();
    ask(py, || store.put(bytes, &options)).map(Ok)
}

/// Puts a value in the PLO format.
fn python(
    store: &plasmon_client::Client,
    value: &Bound<'_, PyAny>,
    mut options: PutOptions,
    context: &Bound<'_, Context>,
) -> PyResult<Id> {
    let py = value.py();
    let object = Serialized::of(context, value, Wanted::Auto)?;
    options.tag = tag::PYTHON;
    let outcome = object.with_parts(|parts| call(py, || store.put_parts(parts, &options)));
    object.recycle();
    outcome?.or_raise(py).map(Id::new)
}

/// A put that waits for its value, usable once.
#[pyclass(frozen, module = "plasmon._native", name = "_Put")]
#[derive(Debug)]
pub(crate) struct Put {
    store: plasmon_client::Client,
    options: Mutex<Option<PutOptions>>,
    context: Py<Context>,
}

impl Put {
    fn take(&self) -> PyResult<PutOptions> {
        let options = self.options.lock().unwrap_or_else(PoisonError::into_inner).take();
        options.ok_or_else(|| PyValueError::new_err("this put already has a value"))
    }
}

#[pymethods]
impl Put {
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.context)
    }

    /// Puts bytes as they are.
    fn raw(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<Id> {
        let (data, options) = (Flat::of(data)?, self.take()?);
        let bytes = data.bytes();
        ask(py, || self.store.put(bytes, &options)).map(Id::new)
    }

    /// Puts a value of any other kind in the PLO format.
    fn python(&self, value: &Bound<'_, PyAny>) -> PyResult<Id> {
        let options = self.take()?;
        let outcome = python(&self.store, value, options.clone(), self.context.bind(value.py()));
        if outcome.is_err() {
            // The value may be put as something else.
            *self.options.lock().unwrap_or_else(PoisonError::into_inner) = Some(options);
        }
        outcome
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
        ask(py, || self.store.put(bytes, &options)).map(Id::new)
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
        let writer = ask(py, || self.store.create(nbytes, &options))?;
        Ok(Writer::new(self.store.clone(), writer))
    }

    /// Puts whatever `source` offers through `__arrow_c_stream__` or `__arrow_c_array__`.
    #[pyo3(signature = (source, kind, *, column = false, text = ""))]
    fn arrow(&self, source: &Bound<'_, PyAny>, kind: u8, column: bool, text: &str) -> PyResult<Id> {
        let (py, source) = (source.py(), Source::of(source)?);
        let doing = "putting Arrow data";
        let read = call(py, || source.batches(column).map_err(Into::into))?;
        let (schema, batches) = read.map_err(|error| raised_by_columns(py, doing, error))?;
        // Data that cannot be read leaves the put to another form of the value.
        let options = self.take()?;
        let outcome = call(py, || {
            let table = Table { schema: &schema, batches: &batches, kind, text };
            pools::put(&self.store, table, &options)
        })?;
        outcome.map(Id::new).map_err(|error| raised_by_columns(py, doing, error))
    }
}
