//! The bytes of a partition: an Arrow IPC stream with one record batch, laid out before any of its
//! rows is known.
//!
//! ```text
//!   schema │ header of the batch │ validity │ offsets │ values │ ... column by column │ end
//!   each part at a multiple of 64 bytes
//! ```
//!
//! Only the numbers of missing values are filled in at the end: the header's size does not depend
//! on them.

use std::ops::Range;

use arrow_ipc::{Buffer, FieldNode};
use arrow_schema::Schema;
use plasmon_arrow_ipc::{ALIGN, Batch, END, push_framed, schema_message};

use crate::column::{Column, ColumnLayout};

/// Where the parts of a column lie in the partition's bytes.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    /// Empty when no value is missing.
    pub(crate) validity: Range<usize>,
    /// Of strings; empty for other columns.
    pub(crate) offsets: Range<usize>,
    pub(crate) values: Range<usize>,
}

/// The layout of one partition.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub(crate) rows: usize,
    /// All its bytes.
    pub(crate) bytes: usize,
    pub(crate) columns: Vec<Places>,
    schema: Vec<u8>,
    body: Range<usize>,
}

impl Layout {
    /// The layout of `rows` rows; `text_bytes` are those of each column, 0 for columns without.
    pub(crate) fn new(
        schema: &Schema,
        columns: &[Column],
        rows: usize,
        text_bytes: &[u64],
    ) -> Self {
        let schema = framed(&schema_message(schema));
        let mut at = 0;
        let mut part = |bytes: usize| {
            let from = at;
            at = (from + bytes).next_multiple_of(ALIGN);
            from..from + bytes
        };
        let place = |(column, text_bytes): (&Column, &u64)| {
            let validity = part(if column.nullable { rows.div_ceil(8) } else { 0 });
            let (offset_bytes, value_bytes) = match column.layout {
                ColumnLayout::Fixed(width) => (0, rows * width),
                ColumnLayout::Bits => (0, rows.div_ceil(8)),
                ColumnLayout::Varlen { large } => {
                    ((rows + 1) * if large { 8 } else { 4 }, *text_bytes as usize)
                }
            };
            Places { validity, offsets: part(offset_bytes), values: part(value_bytes) }
        };
        let columns: Vec<Places> = columns.iter().zip(text_bytes).map(place).collect();
        let mut layout = Self { rows, bytes: 0, columns, schema, body: 0..at };
        let head = layout.schema.len() + layout.header(&vec![0; layout.columns.len()]).len();
        layout.body = head..head + at;
        layout.bytes = layout.body.end + END.len();
        for places in &mut layout.columns {
            for range in [&mut places.validity, &mut places.offsets, &mut places.values] {
                *range = range.start + head..range.end + head;
            }
        }
        layout
    }

    /// Writes everything but the columns.
    pub(crate) fn finish(&self, memory: &mut [u8], null_counts: &[usize]) {
        let (schema, header) = (&self.schema, self.header(null_counts));
        memory[..schema.len()].copy_from_slice(schema);
        memory[schema.len()..self.body.start].copy_from_slice(&header);
        memory[self.body.end..self.bytes].copy_from_slice(&END);
        // Memory may have been used before: the gaps between the parts must not hold another
        // object's data.
        let mut gap = self.body.start;
        for places in &self.columns {
            for part in [&places.validity, &places.offsets, &places.values] {
                memory[gap..part.start].fill(0);
                gap = part.end;
            }
        }
        memory[gap..self.body.end].fill(0);
    }

    /// The framed header of the batch. Before the body has its place, places count from its start.
    fn header(&self, null_counts: &[usize]) -> Vec<u8> {
        let rows = self.rows as i64;
        let nodes: Vec<FieldNode> =
            null_counts.iter().map(|nulls| FieldNode::new(rows, *nulls as i64)).collect();
        let buffer = |range: &Range<usize>| {
            Buffer::new((range.start - self.body.start) as i64, range.len() as i64)
        };
        let mut buffers = Vec::new();
        for places in &self.columns {
            buffers.push(buffer(&places.validity));
            // Only strings have offsets, and those always have one more than rows.
            if !places.offsets.is_empty() {
                buffers.push(buffer(&places.offsets));
            }
            buffers.push(buffer(&places.values));
        }
        let batch = Batch {
            rows,
            nodes: &nodes,
            buffers: &buffers,
            variadic: &[],
            body_bytes: self.body.len() as i64,
        };
        framed(&batch.message(None))
    }
}

fn framed(message: &[u8]) -> Vec<u8> {
    let mut framed = Vec::new();
    push_framed(&mut framed, message, 0);
    framed
}
