//! The errors of objects that cannot be read or written.

use pyo3::exceptions::{PyException, PyTypeError, PyValueError};
use pyo3::prelude::*;

/// A value that is too large, or bytes that are not an object.
pub(super) fn raised(py: Python<'_>, error: &plasmon_plo::Error) -> PyErr {
    match error {
        plasmon_plo::Error::TooLarge { .. } => PyValueError::new_err(error.to_string()),
        _ => broken_object(py, &error.to_string(), error.code()),
    }
}

/// The error of a rule that the bytes break, `what` in words.
pub(super) fn broken(py: Python<'_>, what: &str) -> PyErr {
    broken_object(py, &format!("the object is broken: {what}"), "broken")
}

/// An error of CPython or NumPy about invalid arguments, as the error of an object that has them.
/// Errors about something missing on this machine, and those that end the program, stay as they
/// are.
pub(super) fn misfit(py: Python<'_>, error: PyErr) -> PyErr {
    if !error.is_instance_of::<PyException>(py) {
        return error;
    }
    let is_known = || -> PyResult<bool> {
        let errors = py.import("plasmon.objects._errors")?;
        let is_broken = error.value(py).is_instance(&errors.getattr("BrokenObject")?)?;
        let is_the_machines = errors.getattr("is_the_machines")?.call1((error.value(py),))?;
        Ok(is_broken || is_the_machines.is_truthy()?)
    };
    match is_known() {
        Ok(false) => {
            let broken = broken(py, &error.value(py).to_string());
            broken.set_cause(py, Some(error));
            broken
        }
        _ => error,
    }
}

fn broken_object(py: Python<'_>, text: &str, code: &str) -> PyErr {
    let class = py.import("plasmon.objects._errors").and_then(|m| m.getattr("BrokenObject"));
    match class.and_then(|class| class.call1((text, code))) {
        Ok(error) => PyErr::from_value(error),
        Err(error) => error,
    }
}

/// The error of a key or an item of a set, which CPython has set.
pub(super) fn no_key(py: Python<'_>) -> PyErr {
    let error = PyErr::fetch(py);
    match error.is_instance_of::<PyTypeError>(py) {
        true => broken(py, &format!("a key that cannot be used: {error}")),
        false => error,
    }
}

/// The error of an object that was checked and is not what it was.
#[cold]
pub(super) fn changed() -> PyErr {
    PyValueError::new_err(
        "the object changed while it was read: another process or thread writes to its memory",
    )
}
