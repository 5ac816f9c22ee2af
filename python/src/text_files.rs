//! Files of text that hold tables: read by `plasmon_files`, as the command reads them, and offered
//! as Arrow data.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::RecordBatchIterator;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_schema::SchemaRef;
use arrow_schema::ffi::FFI_ArrowSchema;
use plasmon_cpython::signals;
use plasmon_files::{Columns, Compression, Error, TextFile as File, TextFormat};
use pyo3::exceptions::{PyKeyboardInterrupt, PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::interrupt::call;

/// Rows that are given at once.
const BATCH_ROWS: usize = 1 << 16;

/// A file of text that was looked at: its columns are known, its rows are read when they are
/// wanted.
#[pyclass(frozen, module = "plasmon._native", name = "_TextFile")]
#[derive(Debug)]
pub(crate) struct TextFile {
    path: PathBuf,
    file: File,
    schema: SchemaRef,
}

/// A file as described by Python: its path, the delimiter of CSV or None for JSON, and how
/// it is compressed.
type FileDescription = (PathBuf, Option<char>, String);

/// Looks at files that are read as one table: the values of all of them decide the types.
#[pyfunction]
pub(crate) fn open_text_files(
    py: Python<'_>,
    files: Vec<FileDescription>,
) -> PyResult<Vec<TextFile>> {
    let mut opened = Vec::with_capacity(files.len());
    let mut merged: Option<(PathBuf, Columns)> = None;
    for (path, delimiter, compression) in files {
        let (file, columns) = call(py, || look(&path, delimiter, &compression))?
            .map_err(|error| raised(&path, delimiter, error))?;
        match &mut merged {
            None => merged = Some((path.clone(), columns)),
            Some((first, merged)) => merged.merge(columns).map_err(|error| {
                let (path, first) = (path.display(), first.display());
                PyValueError::new_err(format!("{path} has different columns from {first}: {error}"))
            })?,
        }
        opened.push((path, file));
    }
    let Some((_, merged)) = merged else { return Ok(Vec::new()) };
    let schema = Arc::new(merged.schema());
    let files =
        opened.into_iter().map(|(path, file)| TextFile { path, file, schema: schema.clone() });
    Ok(files.collect())
}

fn look(path: &Path, delimiter: Option<char>, compression: &str) -> Result<(File, Columns), Error> {
    let format = match delimiter.map(u8::try_from) {
        None => TextFormat::Json,
        Some(Ok(delimiter)) => TextFormat::Csv { delimiter },
        Some(Err(_)) => return Err(Error::Delimiter),
    };
    let compression = match compression {
        "gzip" => Compression::Gzip,
        "zstd" => Compression::Zstd,
        _ => Compression::Plain,
    };
    let file = File::open(path, format, compression)?;
    let columns = file.columns_unless(signals::handle)?;
    Ok((file, columns))
}

fn raised(path: &Path, delimiter: Option<char>, error: Error) -> PyErr {
    let (shown, kind) = (path.display(), if delimiter.is_some() { "CSV" } else { "JSON" });
    match error {
        Error::Interrupted => PyKeyboardInterrupt::new_err(()),
        Error::Io(error) if error.raw_os_error().is_some() => {
            let text = format!("{shown} cannot be read: {error}");
            PyOSError::new_err((error.raw_os_error(), text, path.to_owned()))
        }
        error => PyValueError::new_err(format!("{shown} cannot be read as {kind}: {error}")),
    }
}

#[pymethods]
impl TextFile {
    /// The path of the file.
    #[getter]
    fn path(&self) -> &Path {
        &self.path
    }

    /// About how many bytes the rows take.
    #[getter]
    fn nbytes(&self) -> PyResult<u64> {
        Ok(self.file.bytes_about().map_err(std::io::Error::other)?)
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.schema.as_ref());
        let schema = schema.map_err(|error| PyValueError::new_err(error.to_string()))?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    /// The rows, from the first one on.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The interface lets a producer give its own schema whatever was asked for.
        drop(requested_schema);
        let rows = py.detach(|| self.file.rows(&self.schema, BATCH_ROWS));
        let rows = rows.map_err(|error| raised(&self.path, None, error))?;
        let rows = RecordBatchIterator::new(rows, self.schema.clone());
        let stream = FFI_ArrowArrayStream::new(Box::new(rows));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }
}
