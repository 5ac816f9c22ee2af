//! NumPy's types, without importing NumPy: nothing here imports it before the program did.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyType};

static ARRAY: PyOnceLock<Py<PyType>> = PyOnceLock::new();

/// The text and the size of an element type.
pub type DtypeDescription = (Box<str>, usize);

/// NumPy's own element types by their address, which they keep forever.
static DESCRIPTIONS: LazyLock<Mutex<HashMap<usize, DtypeDescription>>> =
    LazyLock::new(Mutex::default);

/// The type of arrays, if the program has imported NumPy.
pub fn array_type(py: Python<'_>) -> PyResult<Option<&Bound<'_, PyType>>> {
    if let Some(array) = ARRAY.get(py) {
        return Ok(Some(array.bind(py)));
    }
    let modules = py.import("sys")?.getattr("modules")?.cast_into::<PyDict>()?;
    // While NumPy is being imported by another thread it has no arrays yet.
    let Some(array) = modules.get_item("numpy")?.and_then(|numpy| numpy.getattr("ndarray").ok())
    else {
        return Ok(None);
    };
    let array = array.cast_into::<PyType>()?.unbind();
    Ok(Some(ARRAY.get_or_init(py, || array).bind(py)))
}

/// The type of arrays, if [`array_type`] has found it before. No code runs.
pub fn known_array_type(py: Python<'_>) -> Option<&Bound<'_, PyType>> {
    ARRAY.get(py).map(|array| array.bind(py))
}

/// The text and the size of an element type of NumPy's own that [`type_text`] has met before. No
/// code runs.
pub fn known_type(dtype: crate::Ptr) -> Option<DtypeDescription> {
    DESCRIPTIONS.lock().unwrap_or_else(PoisonError::into_inner).get(&dtype.addr()).cloned()
}

/// The text of an element type; `None` for one that is more than a name, which is left to Python.
pub fn type_text(dtype: &Bound<'_, PyAny>) -> PyResult<Option<Box<str>>> {
    if let Some((text, _)) = known_type(dtype.as_ptr()) {
        return Ok(Some(text));
    }
    let py = dtype.py();
    let kind: char = dtype.getattr(intern!(py, "kind"))?.extract()?;
    if !"biufcmMSU".contains(kind) {
        return Ok(None);
    }
    let text = dtype.getattr(intern!(py, "str"))?.extract::<String>()?.into_boxed_str();
    let built_in: i32 = dtype.getattr(intern!(py, "isbuiltin"))?.extract()?;
    if built_in != 1 && !dtype.getattr(intern!(py, "metadata"))?.is_none() {
        return Ok(None);
    }
    if built_in == 1 {
        let itemsize: usize = dtype.getattr(intern!(py, "itemsize"))?.extract()?;
        let mut descriptions = DESCRIPTIONS.lock().unwrap_or_else(PoisonError::into_inner);
        descriptions.insert(dtype.as_ptr().addr(), (text.clone(), itemsize));
    }
    Ok(Some(text))
}

/// Element types that are remembered; programs use few.
const TYPES_MAX: usize = 256;

/// Element types by their text.
static TYPES: LazyLock<Mutex<HashMap<Box<str>, Py<PyAny>>>> = LazyLock::new(Mutex::default);

fn types() -> MutexGuard<'static, HashMap<Box<str>, Py<PyAny>>> {
    TYPES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The element type that a header's text names.
pub fn type_object<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyAny>> {
    if let Some(found) = types().get(text) {
        return Ok(found.bind(py).clone());
    }
    let made = py.import("plasmon._dtypes")?.getattr("dtype_of")?.call1((text,))?;
    let mut types = types();
    if types.len() < TYPES_MAX {
        types.insert(text.into(), made.clone().unbind());
    }
    Ok(made)
}
