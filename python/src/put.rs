//! Making an object out of a value.
//!
//! What a value is, is decided in `plasmon._value_kinds`; `plasmon._codecs.encode` asks it and
//! calls one method of the [`Put`] that it is given. Before it goes a shortcut for what is put
//! most, which comes to the same: bytes, memoryviews, plain NumPy arrays, and the types that are
//! always objects, which that module lists.

use std::sync::{Mutex, PoisonError};

use plasmon_client::{ObjectId, PutOptions, tag};
use plasmon_columns::Table;
use plasmon_cpython::buffer::{Flat, letter_of};
use plasmon_plo::FormChoice;
use plasmon_proto::value::{Order, ValueHeader, array_kind};
use plasmon_python_arrow::Source;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyMemoryView};

use crate::error::{OrRaise, raised_by_columns};
use crate::header::{array_header, describe};
use crate::id::Id;
use crate::interrupt::{ask, call};
use crate::numpy;
use crate::pools;
use crate::writer::Writer;
use plasmon_python_objects::context::Context;
use plasmon_python_objects::serialized::Serialized;

static ENCODE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
static OBJECT_TYPES: PyOnceLock<Vec<Py<PyAny>>> = PyOnceLock::new();

/// Puts `value` and returns the new object's id. `context` is for values that are neither Arrow
/// data nor arrays. `form` is the form that the user asked for, if not that of the value.
pub(crate) fn put(
    store: &plasmon_client::Client,
    value: &Bound<'_, PyAny>,
    mut options: PutOptions,
    form: Option<&Bound<'_, PyAny>>,
    context: &Bound<'_, Context>,
) -> PyResult<Id> {
    if form.is_none()
        && let Some(id) = shortcut(store, value, &mut options, context)?
    {
        return Ok(Id::new(id));
    }
    encode(store, value, options, form, context)
}

/// Puts a value if it is one of the hot cases.
fn shortcut(
    store: &plasmon_client::Client,
    value: &Bound<'_, PyAny>,
    options: &mut PutOptions,
    context: &Bound<'_, Context>,
) -> PyResult<Option<ObjectId>> {
    let py = value.py();
    if let Ok(bytes) = value.cast_exact::<PyBytes>() {
        let bytes = bytes.as_bytes();
        return ask(py, || store.put(bytes, options)).map(Some);
    }
    if is_object(value)? {
        return python(store, value, options, context).map(Some);
    }
    if let Ok(view) = value.cast_exact::<PyMemoryView>() {
        return memory(store, view, options).map(Some);
    }
    numpy::put(store, value, options)
}

/// Whether a value is of a type whose values are always Python objects. The types are compared by
/// address: a class may have a hash or an equality of its own.
fn is_object(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    let (py, found) = (value.py(), value.get_type());
    let types = OBJECT_TYPES.get_or_try_init(py, || {
        let types = py.import("plasmon._value_kinds")?.getattr("OBJECT_TYPES")?;
        types.try_iter()?.map(|kind| kind.map(Bound::unbind)).collect::<PyResult<_>>()
    })?;
    Ok(types.iter().any(|kind| kind.is(&found)))
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
        PyResult::Ok(py.import("plasmon._codecs")?.getattr("encode")?.unbind())
    })?;
    let context = context.clone().unbind();
    let sink = Put { store: store.clone(), options: Mutex::new(Some(options)), context };
    let id = encode.bind(py).call1((value, Bound::new(py, sink)?, form))?;
    Ok(Id::new(id.cast::<Id>()?.get().id()))
}

/// Puts memory of elements that have a letter; elements with gaps between them are copied.
fn memory(
    store: &plasmon_client::Client,
    view: &Bound<'_, PyMemoryView>,
    options: &mut PutOptions,
) -> PyResult<ObjectId> {
    let py = view.py();
    let flat = Flat::with_flags(view, ffi::PyBUF_FULL_RO)?;
    let Some(text) = letter_of(flat.format()) else {
        return Err(PyTypeError::new_err(format!(
            "cannot put a buffer with the format '{}', which would not come back as it is: put an \
             array or its bytes",
            flat.format()
        )));
    };
    let kind = array_kind::MEMORYVIEW;
    let header = ValueHeader { kind, order: Order::C, shape: flat.shape(), text };
    describe(py, options, tag::NDARRAY, &header)?;
    if !flat.is_contiguous(b'C') {
        let copy = view.call_method0(intern!(py, "tobytes"))?;
        let bytes = copy.cast::<PyBytes>()?.as_bytes();
        return ask(py, || store.put(bytes, options));
    }
    let bytes = flat.bytes();
    ask(py, || store.put(bytes, options))
}

/// Puts a value in the PLO format.
fn python(
    store: &plasmon_client::Client,
    value: &Bound<'_, PyAny>,
    options: &mut PutOptions,
    context: &Bound<'_, Context>,
) -> PyResult<ObjectId> {
    let py = value.py();
    let object = Serialized::of(context, value, FormChoice::Auto)?;
    options.tag = tag::PYTHON;
    let outcome = object.with_parts(|parts| call(py, || store.put_parts(parts, options)));
    object.recycle();
    outcome?.or_raise(py)
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
        let context = self.context.bind(value.py());
        let outcome = python(&self.store, value, &mut options.clone(), context);
        if outcome.is_err() {
            // The value may be put as something else.
            *self.options.lock().unwrap_or_else(PoisonError::into_inner) = Some(options);
        }
        outcome.map(Id::new)
    }

    /// Puts memory with its format and its shape.
    fn memory(&self, view: &Bound<'_, PyMemoryView>) -> PyResult<Id> {
        memory(&self.store, view, &mut self.take()?).map(Id::new)
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

    /// Puts the data that `source` offers through `__arrow_c_stream__` or `__arrow_c_array__`.
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
