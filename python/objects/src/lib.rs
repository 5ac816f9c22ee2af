//! Python objects in the PLO format: `plasmon.serialize`, `dumps` and `loads`. The format is in
//! `spec/objects.md`, its bytes in `crates/plo`.
//!
//! ```text
//! serialize: encode ─ runs ─ rows ─ foreign ─ classes ─ arrays ─► Tables + heap ─► Serialized
//! loads:     Checked + Order ─► decode ─ objects ─ leaves ─► value
//! ```
//!
//! What the steps of a direction share lies below them, in `encoder` and `decoder`: the state, and
//! the types that it is made of.
//!
//! What is hot is here. How a type is taken apart and made again, where it is no container, number,
//! text or array, is decided in Python, in the package `plasmon.objects`; [`context`] keeps what
//! was decided.

mod array_memory;
mod array_reuse;
mod array_types;
mod arrays;
mod class_key;
mod classes;
pub mod context;
mod decimal;
mod decode;
mod decoder;
mod encode;
mod encoder;
mod errors;
mod fill;
mod foreign;
pub mod heap;
mod hold;
mod leaves;
mod maker;
pub mod memory;
mod object_dict;
mod objects;
mod owned;
mod quick_arrays;
mod reduced;
mod rows;
mod runs;
mod second_fill;
pub mod serialized;
pub mod stream;
mod work;

use plasmon_cpython as raw;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyBytes;

use self::context::Context;
use self::decoder::Source;
use self::serialized::{Serialized, wanted};

static DEFAULT: PyOnceLock<Py<Context>> = PyOnceLock::new();
static TRUSTING: PyOnceLock<Py<Context>> = PyOnceLock::new();

fn named<'py>(
    py: Python<'py>,
    cell: &'static PyOnceLock<Py<Context>>,
    name: &str,
) -> PyResult<Bound<'py, Context>> {
    let context = cell.get_or_try_init(py, || {
        let module = py.import("plasmon.objects")?;
        PyResult::Ok(module.getattr(name)?.cast_into::<Context>()?.unbind())
    })?;
    Ok(context.bind(py).clone())
}

/// The context of calls without one.
pub fn default_context(py: Python<'_>) -> PyResult<Bound<'_, Context>> {
    named(py, &DEFAULT, "default_context")
}

/// The context for what only processes of this user can have written.
pub fn trusting_context(py: Python<'_>) -> PyResult<Bound<'_, Context>> {
    named(py, &TRUSTING, "trusting_context")
}

/// The value of an object in a store, on its memory, which stays pinned for as long as something
/// lies on it.
pub fn load<'py>(
    context: &Bound<'py, Context>,
    buffer: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let pickle = context.get().pickle();
    let outcome = decode::decode(&Source { context, pickle, memory: buffer });
    outcome.map(|(value, _)| value)
}

fn chosen<'py>(
    py: Python<'py>,
    context: Option<Bound<'py, Context>>,
) -> PyResult<Bound<'py, Context>> {
    context.map_or_else(|| default_context(py), Ok)
}

/// Takes a value apart; the result has its size in bytes and can be written anywhere.
///
/// `context` sets what may be written beyond plain data; the default is
/// `plasmon.objects.default_context`. `form` is "small" (compact), "stream" (an Arrow IPC stream)
/// or "auto": small up to 16,384 bytes.
///
/// Raises NotSerializable for a part that the context cannot write, with its place in the value;
/// ValueError for a value past a limit of the format, by name.
#[pyfunction]
#[pyo3(signature = (value, *, context = None, form = None))]
pub fn serialize<'py>(
    value: &Bound<'py, PyAny>,
    context: Option<Bound<'py, Context>>,
    form: Option<&str>,
) -> PyResult<Serialized> {
    let context = chosen(value.py(), context)?;
    Serialized::of(&context, value, wanted(form)?)
}

/// A value as bytes in the PLO format; see `serialize` for the arguments and the errors.
#[pyfunction]
#[pyo3(signature = (value, *, context = None, form = None))]
pub fn dumps<'py>(
    value: &Bound<'py, PyAny>,
    context: Option<Bound<'py, Context>>,
    form: Option<&str>,
) -> PyResult<Bound<'py, PyBytes>> {
    let context = chosen(value.py(), context)?;
    serialized::dumps(&context, value, wanted(form)?)
}

/// The value in bytes in the PLO format: anything contiguous with the buffer protocol.
///
/// Arrays, tables and views lie on that memory, read-only, and keep it. Pickles are read as the
/// context says; the default one refuses them. Bytes after the object are ignored.
///
/// Raises BrokenObject for bytes that are not an object or break a rule of the format, before
/// anything is made; PickleRefused for a part that needs pickle when the context does not allow it;
/// LookupError for something missing on this machine (a module, a time zone); ValueError for a
/// class that the context does not know, or knows in another version. Exceptions of a class's own
/// code and of pickle pass through.
#[pyfunction]
#[pyo3(signature = (data, *, context = None))]
pub fn loads<'py>(
    data: &Bound<'py, PyAny>,
    context: Option<Bound<'py, Context>>,
) -> PyResult<Bound<'py, PyAny>> {
    let context = chosen(data.py(), context)?;
    let pickle = context.get().pickle();
    decode::decode(&Source { context: &context, pickle, memory: data }).map(|(value, _)| value)
}

/// How many bytes at the start of `data` are one object, for objects that follow one another.
///
/// The front is enough: `data` may end before the object does. Raises BrokenObject for bytes that
/// do not start like an object, and with the code "truncated" when there are too few.
#[pyfunction]
pub fn object_nbytes(data: &Bound<'_, PyAny>) -> PyResult<u64> {
    let flat = plasmon_cpython::buffer::Flat::of(data)?;
    let found = plasmon_plo::object_bytes(flat.bytes());
    found.map_err(|error| errors::raised(data.py(), &error))
}
