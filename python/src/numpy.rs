//! NumPy arrays, without depending on NumPy.
//!
//! Nothing here imports NumPy before the program did. An array of exactly the type `numpy.ndarray`
//! whose elements lie without gaps is copied from where it is; the rest (strides, structured types,
//! subclasses) is sorted out in `plasmon._codecs`.

use plasmon_client::{Code, Error, ObjectId, PutOptions, tag};
use plasmon_cpython::buffer::Flat;
use plasmon_cpython::dtype::{array_type, type_object, type_text};
use plasmon_proto::value::{Order, ValueHeader, array_kind};
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::buffer::Buffer;
use crate::error::raised;
use crate::header::describe;
use crate::interrupt::ask;

/// Puts `value` if it is a plain array.
pub(crate) fn put(
    store: &plasmon_client::Client,
    value: &Bound<'_, PyAny>,
    options: &mut PutOptions,
) -> PyResult<Option<ObjectId>> {
    let py = value.py();
    if !array_type(py)?.is_some_and(|array| value.get_type().is(array)) {
        return Ok(None);
    }
    let dtype = value.getattr(intern!(py, "dtype"))?;
    let Some(text) = type_text(&dtype)? else { return Ok(None) };
    // Without PyBUF_FORMAT NumPy lends out elements that the buffer protocol has no name for.
    let Ok(flat) = Flat::with_flags(value, ffi::PyBUF_STRIDES) else { return Ok(None) };
    let order = if flat.is_contiguous(b'C') {
        Order::C
    } else if flat.is_contiguous(b'F') {
        Order::Fortran
    } else {
        return Ok(None);
    };
    let kind = array_kind::NUMPY;
    let header = ValueHeader { kind, order, shape: flat.shape(), text: &text };
    describe(py, options, tag::NDARRAY, &header)?;
    let bytes = flat.bytes();
    ask(py, || store.put(bytes, options)).map(Some)
}

/// The array in `owner`, on the object's memory.
pub(crate) fn array<'py>(owner: &Bound<'py, Buffer>) -> PyResult<Bound<'py, PyAny>> {
    let py = owner.py();
    let parts = owner.get().with(|buffer| {
        let (header, _) = ValueHeader::decode(buffer.metadata()).ok()?;
        let (elements, text) = (header.elements(), header.text.to_owned());
        Some((header.order, elements, header.shape, text, buffer.data().len()))
    })?;
    let (order, elements, shape, text, bytes) =
        parts.ok_or_else(|| corrupt(owner, "it has no value header"))?;
    let dtype = type_object(py, &text).map_err(|error| corrupt(owner, &error.to_string()))?;
    let itemsize: u64 = dtype.getattr(intern!(py, "itemsize"))?.extract()?;
    if elements.and_then(|count| count.checked_mul(itemsize)) != Some(bytes as u64) {
        return Err(corrupt(owner, "its size does not fit its shape"));
    }
    let array = match array_type(py)? {
        Some(array) => array,
        None => {
            py.import("numpy")?;
            array_type(py)?.ok_or_else(|| corrupt(owner, "numpy.ndarray is missing"))?
        }
    };
    // NumPy keeps a reference to the buffer but does not stay counted in it.
    owner.get().lend();
    let order = if order == Order::C { intern!(py, "C") } else { intern!(py, "F") };
    array.call1((PyTuple::new(py, shape)?, dtype, owner, 0, py.None(), order))
}

/// The error of an object whose bytes are not what its tag says.
pub(crate) fn corrupt(owner: &Bound<'_, Buffer>, detail: &str) -> PyErr {
    let mut error = Error::new(Code::Corrupt, "reading object").with_detail(detail);
    if let Some(id) = crate::buffer::id_of(owner) {
        error = error.with_id(id);
    }
    raised(owner.py(), &error)
}
