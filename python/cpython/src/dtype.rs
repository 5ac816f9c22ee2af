//! NumPy's types, for who does not import it: nothing here does before the program did.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyType};

static ARRAY: PyOnceLock<Py<PyType>> = PyOnceLock::new();

/// The texts of NumPy's own element types by their address, which they keep for ever.
static TEXTS: LazyLock<Mutex<HashMap<usize, Box<str>>>> = LazyLock::new(Mutex::default);

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

/// The text of an element type; `None` for one that is more than a name, which is left to Python.
pub fn type_text(dtype: &Bound<'_, PyAny>) -> PyResult<Option<Box<str>>> {
    let address = dtype.as_ptr() as usize;
    let texts = || TEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(text) = texts().get(&address) {
        return Ok(Some(text.clone()));
    }
    let py = dtype.py();
    let kind: char = dtype.getattr(intern!(py, "kind"))?.extract()?;
    if !"biufcmMSU".contains(kind) {
        return Ok(None);
    }
    let text = dtype.getattr(intern!(py, "str"))?.extract::<String>()?.into_boxed_str();
    let built_in: i32 = dtype.getattr(intern!(py, "isbuiltin"))?.extract()?;
    if built_in == 1 {
        texts().insert(address, text.clone());
    }
    Ok(Some(text))
}
