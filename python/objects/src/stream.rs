//! Arrow data as an IPC stream that an object will hold.

use arrow_buffer::Buffer;
use plasmon_python_arrow::Source;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// An Arrow IPC stream in pieces that share the memory of what it was made from.
#[pyclass(frozen, module = "plasmon._native", name = "_ArrowStream")]
#[derive(Debug)]
pub struct ArrowStream {
    pieces: Vec<Buffer>,
}

impl ArrowStream {
    pub(super) fn pieces(&self) -> Vec<Buffer> {
        self.pieces.clone()
    }
}

#[pymethods]
impl ArrowStream {
    /// The stream of what `source` offers through the Arrow PyCapsule interface; with `column` each
    /// array is the only column of a batch.
    #[new]
    #[pyo3(signature = (source, *, column = false))]
    fn create(source: &Bound<'_, PyAny>, column: bool) -> PyResult<Self> {
        let (py, source) = (source.py(), Source::of(source)?);
        let pieces = py.detach(|| source.encode(column));
        let pieces = pieces.map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(Self { pieces })
    }

    /// The number of bytes.
    #[getter]
    fn nbytes(&self) -> usize {
        self.pieces.iter().map(Buffer::len).sum()
    }
}
