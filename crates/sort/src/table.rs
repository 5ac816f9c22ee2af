//! The rows to sort, where they lie: record batches of one schema, numbered through.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, make_array};
use arrow_schema::{DataType, FieldRef, Fields, Schema, SchemaRef};

use crate::dictionary::{Dictionaries, Unifier, has_dictionary};
use crate::error::{Error, Result};

/// Rows that one sort takes: row numbers are `u32`.
pub const ROWS_MAX: u64 = u32::MAX as u64;

/// Record batches of one schema.
#[derive(Clone, Debug)]
pub struct Table {
    schema: SchemaRef,
    /// Rows as they are moved: codes in the place of dictionaries.
    batches: Vec<RecordBatch>,
    dictionaries: Dictionaries,
    /// The schema of the sorted rows.
    sorted: SchemaRef,
    /// Whether sorted rows keep their codes.
    keeps_codes: bool,
    /// Where this is a part of what is sorted: the number of parts, and the bytes of all rows.
    pub(crate) part: Option<(u64, u64)>,
    /// The number of each batch's first row, followed by the number of rows.
    starts: Vec<u32>,
    /// The batch of the first row of each stretch of a fixed number of rows.
    hints: Vec<u32>,
}

/// Each entry of the hints stands for this many rows, as a power of two.
const HINT_SHIFT: u32 = 14;

/// Consecutive rows of one batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) batch: usize,
    /// Within the batch.
    pub(crate) rows: Range<usize>,
}

/// Consecutive rows of the table, which one thread reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) runs: Vec<Run>,
    pub(crate) rows: usize,
}

impl Table {
    /// A table of these batches, which must all have the schema's columns.
    pub fn new(schema: SchemaRef, batches: Vec<RecordBatch>) -> Result<Self> {
        let mut unifier = Unifier::new(&schema);
        let mut coded = Vec::with_capacity(batches.len());
        for batch in &batches {
            coded.push(codes(&mut unifier, batch)?);
        }
        Self::of_codes(schema, coded, unifier.dictionaries()?, false)
    }

    /// A table of batches with codes in the place of dictionaries. The sorted rows have the
    /// dictionaries again, unless they keep their codes.
    pub(crate) fn of_codes(
        schema: SchemaRef,
        batches: Vec<RecordBatch>,
        dictionaries: Dictionaries,
        keeps_codes: bool,
    ) -> Result<Self> {
        let found: u64 = batches.iter().map(|batch| batch.num_rows() as u64).sum();
        if found > ROWS_MAX {
            return Err(Error::Rows { found, limit: ROWS_MAX });
        }
        let moved = dictionaries.schema(&schema, true)?;
        let restored = dictionaries.schema(&schema, keeps_codes)?;
        let sorted = sorted_schema(&restored);
        let mut kept = Vec::with_capacity(batches.len());
        let mut starts = vec![0];
        let mut rows = 0;
        for batch in batches.into_iter().filter(|batch| batch.num_rows() != 0) {
            rows += batch.num_rows();
            let settle = |(at, array): (usize, &ArrayRef)| {
                dictionaries.settle(at, &aligned(array), schema.field(at).data_type())
            };
            kept.push(RecordBatch::try_new_with_options(
                moved.clone(),
                batch.columns().iter().enumerate().map(settle).collect::<Result<_>>()?,
                &RecordBatchOptions::new().with_row_count(Some(batch.num_rows())),
            )?);
            starts.push(rows as u32);
        }
        let hint =
            |at: usize| starts.partition_point(|start| *start <= (at << HINT_SHIFT) as u32) - 1;
        let hints = (0..=rows >> HINT_SHIFT).map(|at| hint(at) as u32).collect();
        let part = None;
        Ok(Self { schema, batches: kept, dictionaries, sorted, keeps_codes, part, starts, hints })
    }

    /// The schema of the rows.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The schema of the sorted rows: strings and bytes that are views become large ones, and the
    /// codes of dictionaries are as wide as they must be.
    pub fn sorted_schema(&self) -> SchemaRef {
        self.sorted.clone()
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.starts.last().map_or(0, |rows| *rows as usize)
    }

    /// The dictionaries of the sorted rows, if they have any.
    pub(crate) fn restored(&self) -> Option<&Dictionaries> {
        (!self.keeps_codes && self.dictionaries.any()).then_some(&self.dictionaries)
    }

    /// The type of a column as it is moved here, if it is.
    pub(crate) fn moved_type(&self, at: usize) -> Option<&DataType> {
        if self.keeps_codes {
            return Some(self.sorted.field(at).data_type());
        }
        (!self.dictionaries.has(at)).then(|| self.schema.field(at).data_type())
    }

    /// The number of a batch's first row.
    pub(crate) fn start(&self, batch: usize) -> u32 {
        self.starts[batch]
    }

    /// The values of some columns, batch by batch, with their dictionaries.
    pub(crate) fn values(&self, columns: &[usize]) -> Result<Vec<Vec<ArrayRef>>> {
        let value = |batch: &RecordBatch, at: usize| {
            let shape = self.schema.field(at).data_type();
            self.dictionaries.restore(at, batch.column(at), shape)
        };
        let batch = |batch| columns.iter().map(|at| value(batch, *at)).collect();
        self.batches.iter().map(batch).collect()
    }

    /// About how many bytes the rows have, as they are moved.
    pub(crate) fn bytes(&self) -> u64 {
        let bytes = |array: &ArrayRef| array.to_data().get_slice_memory_size().unwrap_or(0) as u64;
        self.batches.iter().flat_map(RecordBatch::columns).map(bytes).sum()
    }

    /// One column as it is moved, batch by batch.
    pub(crate) fn column(&self, at: usize) -> Vec<ArrayRef> {
        self.batches.iter().map(|batch| batch.column(at).clone()).collect()
    }

    /// Where the row with this number lies.
    #[inline]
    pub(crate) fn place(&self, row: u32) -> (usize, usize) {
        if self.batches.len() == 1 {
            return (0, row as usize);
        }
        let mut batch = self.hints[(row >> HINT_SHIFT) as usize] as usize;
        while self.starts[batch + 1] <= row {
            batch += 1;
        }
        (batch, (row - self.starts[batch]) as usize)
    }

    /// All rows in `count` pieces of about the same size, in order.
    pub(crate) fn pieces(&self, count: usize) -> Vec<Piece> {
        let bound = |at: usize| (self.rows() as u64 * at as u64 / count as u64) as u32;
        (0..count).map(|at| self.piece(bound(at)..bound(at + 1))).collect()
    }

    /// The piece with the rows of these numbers.
    fn piece(&self, numbers: Range<u32>) -> Piece {
        let mut runs = Vec::new();
        let mut from = numbers.start;
        while from < numbers.end {
            let (batch, row) = self.place(from);
            let to = numbers.end.min(self.starts[batch + 1]);
            runs.push(Run { batch, rows: row..row + (to - from) as usize });
            from = to;
        }
        Piece { runs, rows: numbers.len() }
    }
}

/// The schema that rows of this one have when they are sorted.
pub(crate) fn sorted_schema(schema: &Schema) -> SchemaRef {
    let field = |field: &FieldRef| {
        let data_type = match field.data_type() {
            DataType::Utf8View => DataType::LargeUtf8,
            DataType::BinaryView => DataType::LargeBinary,
            _ => return field.clone(),
        };
        Arc::new(field.as_ref().clone().with_data_type(data_type))
    };
    let fields: Fields = schema.fields().iter().map(field).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// The rows of a batch with codes in the place of dictionaries.
pub(crate) fn codes(unifier: &mut Unifier, batch: &RecordBatch) -> Result<RecordBatch> {
    let schema = batch.schema();
    if !schema.fields().iter().any(|field| has_dictionary(field.data_type())) {
        return Ok(batch.clone());
    }
    let (mut fields, mut arrays) = (Vec::new(), Vec::new());
    for (at, (field, array)) in schema.fields().iter().zip(batch.columns()).enumerate() {
        let array = unifier.codes(at, &aligned(array))?;
        fields.push(field.as_ref().clone().with_data_type(array.data_type().clone()));
        arrays.push(array);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let schema = Arc::new(Schema::new(fields));
    Ok(RecordBatch::try_new_with_options(schema, arrays, &options)?)
}

/// The same array with every buffer where its type wants it; foreign producers do not always care.
fn aligned(array: &ArrayRef) -> ArrayRef {
    let mut data = array.to_data();
    data.align_buffers();
    make_array(data)
}
