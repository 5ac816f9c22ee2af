//! Errors of the client as Python exceptions.
//!
//! The classes are declared in `plasmon._errors`, one for each [`plasmon_client::Code`]; this
//! module only carries the facts of a failure over.

use plasmon_client::{Code, Error, Result};
use pyo3::exceptions::{PyNotImplementedError, PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::id::Id;

static MAKE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// The exception that `error` is in Python, not raised.
pub(crate) fn exception<'py>(py: Python<'py>, error: &Error) -> PyResult<Bound<'py, PyAny>> {
    let make = MAKE.get_or_try_init(py, || {
        PyResult::Ok(py.import("plasmon._errors")?.getattr("from_native")?.unbind())
    })?;
    let id = error.id().map(Id::new);
    let amounts = (error.wanted(), error.found());
    make.bind(py).call1((
        error.code().number(),
        error.to_string(),
        id,
        amounts.0,
        amounts.1,
        error.os_error(),
    ))
}

/// The exception that `error` is in Python, ready to be raised.
pub(crate) fn raised(py: Python<'_>, error: &Error) -> PyErr {
    match exception(py, error) {
        Ok(exception) => PyErr::from_value(exception),
        Err(problem) => problem,
    }
}

/// A bad argument that the daemon would refuse with [`Code::BadRequest`].
pub(crate) fn bad_request(py: Python<'_>, doing: &'static str, detail: String) -> PyErr {
    raised(py, &Error::new(Code::BadRequest, doing).with_detail(detail))
}

/// The exception that an error about Arrow data is in Python.
pub(crate) fn raised_by_columns(
    py: Python<'_>,
    doing: &'static str,
    error: plasmon_columns::Error,
) -> PyErr {
    raised_by_table(py, doing, None, error)
}

/// The same of a table that a caller may know by a name.
pub(crate) fn raised_by_table(
    py: Python<'_>,
    doing: &'static str,
    name: Option<&str>,
    error: plasmon_columns::Error,
) -> PyErr {
    use plasmon_columns::Error as E;
    let named = |error: Error| match name {
        Some(name) => raised(py, &error.with_name(name)),
        None => raised(py, &error),
    };
    let about = |code, detail: String| Error::new(code, doing).with_detail(detail);
    match error {
        E::Store(error) => named(error),
        E::Type { .. } => PyTypeError::new_err(error.to_string()),
        E::Unsupported(_) => PyNotImplementedError::new_err(error.to_string()),
        E::Shape(_) => PyValueError::new_err(error.to_string()),
        E::Overflow { .. } => PyOverflowError::new_err(error.to_string()),
        E::NoTable { id, found } => {
            let detail = format!("it holds {found}, not a table: get it as what it is");
            named(about(Code::BadRequest, detail).with_id(id))
        }
        E::Corrupt { id, detail } => named(about(Code::Corrupt, detail).with_id(id)),
        other => named(about(other.code(), other.to_string())),
    }
}

/// Turns the client's results into Python's.
pub(crate) trait OrRaise<T> {
    /// The value, or the exception.
    fn or_raise(self, py: Python<'_>) -> PyResult<T>;
}

impl<T> OrRaise<T> for Result<T> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| raised(py, &error))
    }
}
