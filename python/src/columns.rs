//! Columns and tables that are built in the store: the base of `plasmon.ColumnBuilder` and
//! `plasmon.TableBuilder`.
//!
//! The Python half decides what a value is (a NumPy array, Arrow data, one value); here it arrives
//! as Arrow data, as the bytes of numbers, or as a count of nulls. Memory is allocated and filled
//! while detached from the interpreter.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchIterator};
use arrow_schema::Schema;
use plasmon_columns::{BuilderOptions, ColumnBuilder, TableBuilder};
use plasmon_cpython::buffer::Flat;
use plasmon_cpython::signals::lock;
use plasmon_python_arrow::{Source, field_of, schema_of};
use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyList, PySet};

use crate::arguments::{put_options, seconds};
use crate::error::raised_by_columns;
use crate::id::Id;
use crate::interrupt::call;
use crate::store::Store;

const BUILDING: &str = "building a column";

/// The column or table that is built.
#[derive(Debug)]
enum ColumnTarget {
    Column(Box<ColumnBuilder>),
    Table(TableBuilder),
}

/// A column or a table being built in the store.
#[pyclass(frozen, module = "plasmon._native", name = "_Columns", weakref)]
#[derive(Debug)]
pub(crate) struct Columns {
    /// `None` once it was aborted.
    built: Mutex<Option<ColumnTarget>>,
}

impl ColumnTarget {
    /// The column at this position; a lone column is at 0.
    fn column(&mut self, at: usize) -> Option<&mut ColumnBuilder> {
        match self {
            Self::Column(column) => Some(&mut **column).filter(|_| at == 0),
            Self::Table(table) => table.column_at(at),
        }
    }
}

impl Columns {
    /// Does something with what is built, detached from the interpreter.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut ColumnTarget) -> plasmon_columns::Result<T> + Send,
    ) -> PyResult<T> {
        let done = call(py, || Ok::<_, PyErr>(lock(&self.built)?.as_mut().map(work)))??;
        match done {
            Some(outcome) => outcome.map_err(|error| raised_by_columns(py, BUILDING, error)),
            None => Err(PyValueError::new_err("the builder was aborted")),
        }
    }

    fn with_column<T: Send>(
        &self,
        py: Python<'_>,
        at: usize,
        work: impl FnOnce(&mut ColumnBuilder) -> plasmon_columns::Result<T> + Send,
    ) -> PyResult<T> {
        let outcome = self.with(py, |built| built.column(at).map(work).transpose())?;
        outcome.ok_or_else(|| PyValueError::new_err(format!("there is no column {at}")))
    }
}

#[pymethods]
impl Columns {
    /// A builder for a column of the type, or with `table` for a table of the schema, that
    /// `described` offers through `__arrow_c_schema__`.
    #[new]
    #[pyo3(signature = (store, described, *, table = false, bytes_hint = 0, timeout = 0.0))]
    fn new(
        py: Python<'_>,
        store: &Store,
        described: &Bound<'_, PyAny>,
        table: bool,
        bytes_hint: u64,
        timeout: f64,
    ) -> PyResult<Self> {
        let timeout = seconds(Some(timeout))?.unwrap_or(Duration::MAX);
        let (store, field) = (store.client(), field_of(described)?);
        let options = BuilderOptions { bytes_hint, timeout };
        let built = if table {
            let schema = schema_of(field, false)
                .map_err(|error| PyValueError::new_err(error.to_string()))?;
            call(py, || TableBuilder::new(store, &schema, &options).map(ColumnTarget::Table))?
        } else {
            call(py, || {
                let column = ColumnBuilder::with_field(store, &field, &options);
                column.map(|it| ColumnTarget::Column(Box::new(it)))
            })?
        };
        let built = built.map_err(|error| raised_by_columns(py, BUILDING, error))?;
        Ok(Self { built: Mutex::new(Some(built)) })
    }

    /// Appends Arrow data: to one column, or without `at` the rows of a table. Each array or batch
    /// is appended as a whole or not at all.
    #[pyo3(signature = (source, at = None))]
    fn extend_arrow(&self, source: &Bound<'_, PyAny>, at: Option<usize>) -> PyResult<()> {
        let (py, source) = (source.py(), Source::of(source)?);
        match at {
            Some(at) => self.with_column(py, at, |column| {
                let (field, arrays) = source.arrays()?;
                arrays.iter().try_for_each(|array| column.append_of(&field, array))
            }),
            None => self.with(py, |built| {
                let (_, batches) = source.batches(false)?;
                let ColumnTarget::Table(table) = built else { return Ok(()) };
                batches.iter().try_for_each(|batch| table.append_named(batch))
            }),
        }
    }

    /// Appends numbers, dates or times as the bytes that they are in memory.
    fn extend_raw(&self, data: &Bound<'_, PyAny>, at: usize) -> PyResult<()> {
        let (py, data) = (data.py(), Flat::of(data)?);
        let bytes = data.bytes();
        self.with_column(py, at, |column| column.append_raw(bytes))
    }

    /// Appends nulls.
    fn append_nulls(&self, py: Python<'_>, count: usize, at: usize) -> PyResult<()> {
        self.with_column(py, at, |column| column.append_nulls(count))
    }

    /// How many values a column has, how many of them are null, and how many are in the record
    /// batch that is being built.
    fn counts(&self, py: Python<'_>, at: usize) -> PyResult<(usize, usize, usize)> {
        let newest = self.with_column(py, at, |column| Ok((column.len(), column.null_count())))?;
        let before = self.with(py, |built| match built {
            ColumnTarget::Column(_) => Ok((0, 0)),
            ColumnTarget::Table(table) => Ok(table.full_counts(at)),
        })?;
        Ok((before.0 + newest.0, before.1 + newest.1, newest.0))
    }

    /// A copy of what was appended so far, as the capsule of an Arrow stream.
    fn snapshot<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let (schema, batches) = self.with(py, |built| match built {
            ColumnTarget::Column(column) => {
                let array = column.snapshot()?;
                let schema = Arc::new(Schema::new(vec![column.field().clone()]));
                let batch = RecordBatch::try_new(schema.clone(), vec![array])?;
                Ok((schema, vec![batch]))
            }
            ColumnTarget::Table(table) => Ok((table.schema().clone(), table.snapshot()?)),
        })?;
        let batches = RecordBatchIterator::new(batches.into_iter().map(Ok), schema);
        let stream = FFI_ArrowArrayStream::new(Box::new(batches));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }

    /// Seals the column or table as an object, at once and without a copy, which only an object of
    /// a pool needs. Takes the options of put(). The builder is empty afterwards.
    #[pyo3(
        signature = (**options),
        text_signature = "($self, *, id=None, name=None, namespace='', metadata=b'', \
                          policy='keep', ttl=None, owned=False, copies=None, copies_min=None, \
                          pool=False, ack=None, placement='local', \
                          storage=None)"
    )]
    fn seal(&self, py: Python<'_>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Id> {
        let options = put_options(options)?;
        let id = self.with(py, |built| match built {
            ColumnTarget::Column(column) => column.finish(&options),
            ColumnTarget::Table(table) => table.finish(&options),
        })?;
        Ok(Id::new(id))
    }

    /// Gives up what was appended; its memory is free again. A second call does nothing.
    fn abort(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| {
            drop(lock(&self.built)?.take());
            Ok(())
        })
    }

    /// Whether it was aborted.
    #[getter]
    fn aborted(&self) -> PyResult<bool> {
        Ok(lock(&self.built)?.is_none())
    }
}

/// The exact types of the values of a list. With a depth those of the items of its lists, and of
/// theirs; `None` if a value that should be a list is not a list.
#[pyfunction]
#[pyo3(signature = (values, depth = 0))]
pub(crate) fn kinds_of<'py>(
    values: &Bound<'py, PyList>,
    depth: usize,
) -> PyResult<Option<Bound<'py, PySet>>> {
    let found = PySet::empty(values.py())?;
    let all = add_kinds(values, depth.min(KINDS_DEPTH_MAX), &found)?;
    Ok(all.then_some(found))
}

/// How deep lists are looked into.
const KINDS_DEPTH_MAX: usize = 64;

fn add_kinds<'py>(
    values: &Bound<'py, PyList>,
    depth: usize,
    found: &Bound<'py, PySet>,
) -> PyResult<bool> {
    let (mut at, mut last) = (0, std::ptr::null_mut());
    // A type's own hash may change the list.
    while at < values.len() {
        // SAFETY: the interpreter is attached, so the list has this item until code of it runs;
        // the type is held before that.
        let (value, kind) = unsafe {
            let value = ffi::PyList_GET_ITEM(values.as_ptr(), at as ffi::Py_ssize_t);
            (value, ffi::Py_TYPE(value))
        };
        at += 1;
        // Values of one type mostly follow each other.
        if kind == last {
            continue;
        }
        // SAFETY: as above: the item is there.
        let value = unsafe { Bound::from_borrowed_ptr(values.py(), value) };
        if depth == 0 {
            found.add(value.get_type())?;
            last = kind;
        } else if let Ok(inner) = value.cast_exact::<PyList>() {
            if !add_kinds(inner, depth - 1, found)? {
                return Ok(false);
            }
        } else if !value.is_none() {
            return Ok(false);
        }
    }
    Ok(true)
}
