//! Several tables as one, batch by batch.

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, Schema, SchemaRef};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::Source;

/// The batches of tables that have the same columns. The next table is asked for when the batches
/// of the one before it are taken.
#[derive(Debug)]
pub struct Tables<'py, I> {
    /// The columns, as the first table has them.
    pub schema: SchemaRef,
    batches: std::vec::IntoIter<RecordBatch>,
    tables: I,
    taken: usize,
    py: std::marker::PhantomData<Bound<'py, PyAny>>,
}

impl<'py, I: Iterator<Item = PyResult<Bound<'py, PyAny>>>> Tables<'py, I> {
    /// The tables of an iterator, which has at least one.
    pub fn of(mut tables: I) -> PyResult<Self> {
        let Some(first) = tables.next() else {
            return Err(PyValueError::new_err("there is no table to sort"));
        };
        let (schema, batches) = batches_of(&first?)?;
        let (batches, py) = (batches.into_iter(), std::marker::PhantomData);
        Ok(Self { schema, batches, tables, taken: 1, py })
    }

    /// The next batch, on the memory of its producer.
    pub fn next_batch(&mut self) -> PyResult<Option<RecordBatch>> {
        loop {
            if let Some(batch) = self.batches.next() {
                return Ok(Some(batch));
            }
            let Some(table) = self.tables.next() else { return Ok(None) };
            let (found, batches) = batches_of(&table?)?;
            check_columns(&self.schema, &found, self.taken)?;
            self.taken += 1;
            self.batches = batches.into_iter();
        }
    }
}

fn batches_of(table: &Bound<'_, PyAny>) -> PyResult<(SchemaRef, Vec<RecordBatch>)> {
    let source = Source::of(table)?;
    let read = table.py().detach(|| source.batches(false));
    read.map_err(|error: ArrowError| PyValueError::new_err(error.to_string()))
}

/// Refuses a table with other columns than the first one's.
fn check_columns(first: &Schema, found: &Schema, at: usize) -> PyResult<()> {
    let columns = |schema: &Schema| {
        let fields = schema.fields().iter();
        fields.map(|field| (field.name().clone(), field.data_type().clone())).collect::<Vec<_>>()
    };
    let (first, found) = (columns(first), columns(found));
    if first == found {
        return Ok(());
    }
    let text = format!("table {at} has different columns from table 0: {found:?}, not {first:?}");
    Err(PyValueError::new_err(text))
}
