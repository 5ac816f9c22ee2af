//! The class of decimal numbers, looked up once: a column may have one in each cell.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

static DECIMAL: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// The class of decimal numbers.
pub(super) fn decimal_class(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    DECIMAL.import(py, "decimal", "Decimal")
}

/// Whether a value is a decimal number, whose text is all there is of it.
pub(super) fn is_decimal(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    let class = decimal_class(value.py())?;
    Ok(value.get_type().is(class))
}
