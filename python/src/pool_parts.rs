//! Parts of objects of a pool: pieces of bytes, a stream of them, and columns of a table.
//!
//! `plasmon._pool_parts` makes memoryviews and tables of what is here.

use std::ops::Range;
use std::sync::Mutex;
use std::time::Duration;

use arrow_data::ArrayDataBuilder;
use plasmon_client::{PartsOf, Piece};
use plasmon_columns::{Checks, ObjectTable};
use plasmon_proto::value::ValueHeader;
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyIndexError, PyKeyError, PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyInt, PyString};

use crate::arguments::{GetTimeout, get_timeout, label, many_ids, one_id};
use crate::arrow_read::stream_of;
use crate::buffer::Buffer;
use crate::error::{exception, raised, raised_by_table};
use crate::interrupt::{ask, call};
use crate::store::Store;

const READING: &str = "reading columns of object";

/// A piece as Python sees it: the buffer, and where in it the bytes begin and end.
pub(crate) type Place = Option<(Py<Buffer>, usize, usize)>;

/// An object, and the offsets and lengths of what is wanted of it.
type GatherRead<'py> = (Bound<'py, PyAny>, Vec<(u64, u64)>);

/// How long to wait for an object that does not exist.
pub(crate) fn limit(timeout: Option<f64>) -> PyResult<Option<Duration>> {
    Ok(match get_timeout(timeout, false)? {
        GetTimeout::None => Some(Duration::ZERO),
        GetTimeout::Within(limit) => limit,
    })
}

/// The places of pieces; those of one object share a Python buffer.
pub(crate) fn places(py: Python<'_>, pieces: &[Piece], is_trusted: bool) -> PyResult<Vec<Place>> {
    let mut last: Option<(*const u8, Py<Buffer>)> = None;
    let mut places = Vec::with_capacity(pieces.len());
    for piece in pieces {
        let Some((buffer, Range { start, end })) = piece.place() else {
            places.push(None);
            continue;
        };
        let address = buffer.data().as_ptr();
        let shared = last.as_ref().filter(|(before, _)| *before == address);
        let owner = match shared {
            Some((_, owner)) => owner.clone_ref(py),
            None => Py::new(py, Buffer::new(buffer.clone(), is_trusted))?,
        };
        last = Some((address, owner.clone_ref(py)));
        places.push(Some((owner, start, end)));
    }
    Ok(places)
}

/// Ranges that are given by their offsets and lengths.
fn ranges_of(given: &[(u64, u64)]) -> Vec<Range<u64>> {
    given.iter().map(|(at, bytes)| *at..at.saturating_add(*bytes)).collect()
}

fn in_use() -> PyErr {
    PyRuntimeError::new_err("another thread is reading from it")
}

/// What `plasmon._pool_parts` calls: it has the arguments and their defaults.
#[pyclass(frozen, module = "plasmon._native", name = "_PoolParts")]
#[derive(Debug)]
pub(crate) struct PoolParts;

#[pymethods]
impl PoolParts {
    /// Pieces of an object: for each range a buffer and where in it they are.
    #[staticmethod]
    fn read(
        py: Python<'_>,
        store: &Store,
        id: &Bound<'_, PyAny>,
        ranges: Vec<(u64, u64)>,
        namespace: &str,
        timeout: Option<f64>,
    ) -> PyResult<Vec<Place>> {
        let (object, limit) = (one_id(id, namespace)?, limit(timeout)?);
        let ranges = ranges_of(&ranges);
        let found = call(py, || store.client().pool_read(&object, &ranges, limit))?;
        let pieces = found.map_err(|error| named(py, id, namespace, error))?;
        places(py, &pieces, store.trusted)
    }

    /// Pieces of many objects: for each what `read` gives, or an exception.
    #[staticmethod]
    fn gather<'py>(
        py: Python<'py>,
        store: &Store,
        reads: Vec<GatherRead<'py>>,
        namespace: &str,
        timeout: Option<f64>,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let limit = limit(timeout)?;
        let wanted = reads.iter().map(|(id, ranges)| {
            Ok(PartsOf { id: one_id(id, namespace)?, ranges: ranges_of(ranges) })
        });
        let wanted = wanted.collect::<PyResult<Vec<_>>>()?;
        let gather = || store.client().pool_gather(wanted, limit).collect::<Vec<_>>();
        let outcomes = call(py, gather)?.into_iter().zip(&reads);
        let outcome =
            |(outcome, (id, _)): (plasmon_client::Result<Vec<Piece>>, &(_, _))| match outcome {
                Ok(pieces) => places(py, &pieces, store.trusted)?.into_bound_py_any(py),
                Err(error) => match label(id, namespace) {
                    Some(name) => exception(py, &error.with_name(name)),
                    None => exception(py, &error),
                },
            };
        outcomes.map(outcome).collect()
    }

    /// Has objects brought here.
    #[staticmethod]
    fn prefetch(
        py: Python<'_>,
        store: &Store,
        ids: &Bound<'_, PyAny>,
        namespace: &str,
    ) -> PyResult<()> {
        let ids = many_ids(ids, namespace)?;
        ask(py, || store.client().pool_prefetch(&ids))
    }

    /// The data of an object in pieces.
    #[staticmethod]
    fn stream(
        py: Python<'_>,
        store: &Store,
        id: &Bound<'_, PyAny>,
        window: usize,
        namespace: &str,
        timeout: Option<f64>,
    ) -> PyResult<PoolStream> {
        let (object, limit) = (one_id(id, namespace)?, limit(timeout)?);
        let stream = ask(py, || store.client().pool_stream(&object, window, limit))?;
        let (name, is_trusted) = (label(id, namespace), store.trusted);
        Ok(PoolStream { stream: Mutex::new(stream), name, is_trusted })
    }

    /// A table of which some columns are to be read.
    #[staticmethod]
    fn table(
        py: Python<'_>,
        store: &Store,
        id: &Bound<'_, PyAny>,
        namespace: &str,
        timeout: Option<f64>,
    ) -> PyResult<PoolTable> {
        let (object, limit) = (one_id(id, namespace)?, limit(timeout)?);
        let opened = call(py, || ObjectTable::open(store.client(), object, limit))?;
        let name = label(id, namespace);
        let table = opened.map_err(|error| raised_by_table(py, READING, name.as_deref(), error))?;
        let (is_trusted, level) = (store.trusted, store.client().level());
        Ok(PoolTable { table: Mutex::new(table), name, is_trusted, level })
    }
}

fn named(
    py: Python<'_>,
    id: &Bound<'_, PyAny>,
    namespace: &str,
    error: plasmon_client::Error,
) -> PyErr {
    match label(id, namespace) {
        Some(name) => raised(py, &error.with_name(name)),
        None => raised(py, &error),
    }
}

/// The data of an object in pieces.
#[pyclass(frozen, module = "plasmon._native", name = "_PoolStream")]
#[derive(Debug)]
pub(crate) struct PoolStream {
    stream: Mutex<plasmon_client::PartsStream>,
    name: Option<String>,
    is_trusted: bool,
}

#[pymethods]
impl PoolStream {
    /// The next piece, None after the last one.
    fn next(&self, py: Python<'_>) -> PyResult<Place> {
        let next = || Some(self.stream.try_lock().ok()?.next());
        let piece = match call(py, next)?.ok_or_else(in_use)? {
            None => return Ok(None),
            Some(Ok(piece)) => piece,
            Some(Err(error)) => {
                return Err(raised(
                    py,
                    &match &self.name {
                        Some(name) => error.with_name(name.clone()),
                        None => error,
                    },
                ));
            }
        };
        Ok(places(py, &[piece], self.is_trusted)?.pop().flatten())
    }
}

/// A table in an object of which some columns are read.
#[pyclass(frozen, module = "plasmon._native", name = "_PoolTable")]
#[derive(Debug)]
pub(crate) struct PoolTable {
    table: Mutex<ObjectTable>,
    name: Option<String>,
    is_trusted: bool,
    level: plasmon_client::Level,
}

#[pymethods]
impl PoolTable {
    /// What the value was, and the text that goes with it: those of the value header.
    fn header(&self) -> PyResult<Option<(u8, String)>> {
        let table = self.table.try_lock().map_err(|_| in_use())?;
        let decoded = ValueHeader::decode(table.metadata()).ok();
        Ok(decoded.map(|(header, _)| (header.kind, header.text.to_owned())))
    }

    /// The places of columns, given as names and numbers.
    fn places(&self, columns: Vec<Bound<'_, PyAny>>) -> PyResult<Vec<usize>> {
        let table = self.table.try_lock().map_err(|_| in_use())?;
        let fields = table.schema().fields();
        let object = match &self.name {
            Some(name) => format!("{name:?}"),
            None => table.id().to_string(),
        };
        let place = |column: Bound<'_, PyAny>| -> PyResult<usize> {
            if let Ok(name) = column.cast::<PyString>() {
                let name = name.to_str()?;
                let mut found = (0..fields.len()).filter(|at| fields[*at].name() == name);
                return match (found.next(), found.next()) {
                    (Some(at), None) => Ok(at),
                    (None, _) => {
                        let text = format!("the table of object {object} has no column {name:?}");
                        Err(PyKeyError::new_err(text))
                    }
                    _ => Err(PyKeyError::new_err(format!(
                        "the table of object {object} has several columns {name:?}: give their \
                         numbers",
                    ))),
                };
            }
            if column.cast::<PyInt>().is_err() {
                let text = "columns are given by their names or their numbers";
                return Err(PyTypeError::new_err(text));
            }
            let at: isize = column.extract()?;
            let from_end = if at < 0 { at + fields.len() as isize } else { at };
            usize::try_from(from_end).ok().filter(|at| *at < fields.len()).ok_or_else(|| {
                let count = fields.len();
                let text = format!("the table of object {object} has no column {at}, but {count}");
                PyIndexError::new_err(text)
            })
        };
        columns.into_iter().map(place).collect()
    }

    /// These columns, by their places, as the capsule "arrow_array_stream".
    fn read<'py>(
        &self,
        py: Python<'py>,
        columns: Vec<usize>,
        rows: Option<(u64, u64)>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let read = || {
            let mut table = self.table.try_lock().ok()?;
            let rows = rows.map(|(from, to)| from..to);
            if !self.is_trusted {
                return Some(table.read(&columns, rows, &mut Checks::at(self.level)));
            }
            // SAFETY: as in `arrow_read`: what other nodes send is as good as what processes of
            // this user write here, which wrote it there.
            let build = |parts: ArrayDataBuilder| unsafe { parts.skip_validation(true) }.build();
            let mut checks = Checks { build: Box::new(build), copy: false };
            Some(table.read(&columns, rows, &mut checks))
        };
        let read = call(py, read)?.ok_or_else(in_use)?;
        let stream = read.and_then(plasmon_columns::into_reader).and_then(stream_of);
        let name = self.name.as_deref();
        let stream = stream.map_err(|error| raised_by_table(py, READING, name, error))?;
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }
}
