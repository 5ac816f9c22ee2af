//! Sorted runs in the scratch file, and what is known of them: the first key of each block.

use std::path::Path;

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_row::OwnedRow;
use arrow_schema::{DataType, SchemaRef};

use super::scratch::{self, Scratch, StreamLocation};
use crate::dictionary::Dictionaries;
use crate::error::Result;
use crate::key::{RowKeys, resolve};
use crate::order::SortKey;
use crate::table::sorted_schema;
use crate::workers::Progress;

/// With what an external sort works.
#[derive(Clone, Copy, Debug)]
pub struct Means<'a> {
    /// The folder of the scratch file, which needs room for all rows.
    pub folder: &'a Path,
    /// How large the scratch file may be; `None`: as the file system allows, except for its last
    /// part.
    pub scratch_bytes_max: Option<u64>,
    /// How much memory to use.
    pub memory_bytes: u64,
    /// With how many threads; `None`: as many as there are processors.
    pub threads: Option<usize>,
    /// How far it is, and the way to stop it.
    pub progress: &'a Progress,
}

/// Consecutive sorted rows in the scratch file.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) stored: StreamLocation,
    pub(super) rows: usize,
    pub(super) first: OwnedRow,
}

/// Finds the keys of sorted rows.
#[derive(Debug)]
pub(super) struct BlockKeys {
    rows: RowKeys,
    columns: Vec<usize>,
    /// The types of the columns, with their dictionaries.
    shapes: Vec<DataType>,
}

impl BlockKeys {
    pub(super) fn of(
        &self,
        batch: &RecordBatch,
        row: usize,
        dictionaries: &Dictionaries,
    ) -> Result<OwnedRow> {
        let value = |(at, shape): (&usize, &DataType)| {
            dictionaries.restore(*at, &batch.column(*at).slice(row, 1), shape)
        };
        let columns = self.columns.iter().zip(&self.shapes).map(value);
        let columns: Vec<ArrayRef> = columns.collect::<Result<_>>()?;
        Ok(self.rows.convert(&columns)?.row(0).owned())
    }
}

/// The runs so far, and what it takes to add one or to read them.
#[derive(Debug)]
pub(super) struct Runs<'a> {
    pub(super) means: Means<'a>,
    pub(super) order: Vec<SortKey>,
    pub(super) schema: SchemaRef,
    /// What the codes of the blocks stand for.
    pub(super) dictionaries: Dictionaries,
    pub(super) keys: BlockKeys,
    pub(super) scratch: Scratch,
    /// For each run its blocks.
    pub(super) blocks: Vec<Vec<Block>>,
}

impl<'a> Runs<'a> {
    /// No runs yet of rows of this schema.
    pub(super) fn new(schema: &SchemaRef, order: &[SortKey], means: Means<'a>) -> Result<Self> {
        let columns = resolve(schema, order)?;
        let sorted = sorted_schema(schema);
        let keys: Vec<(&SortKey, &DataType)> = order
            .iter()
            .zip(&columns)
            .map(|(key, at)| (key, sorted.field(*at).data_type()))
            .collect();
        let rows = RowKeys::new(&keys)?;
        let shapes = keys.iter().map(|(_, shape)| (*shape).clone()).collect();
        Ok(Self {
            means,
            order: order.to_vec(),
            schema: schema.clone(),
            dictionaries: Dictionaries::default(),
            keys: BlockKeys { rows, columns, shapes },
            scratch: Scratch::new(means.folder, means.scratch_bytes_max)?,
            blocks: Vec::new(),
        })
    }

    /// Writes sorted rows as one block, or as several when a value that is met often has made more
    /// of them than a block should have.
    pub(super) fn write_blocks(
        &mut self,
        stream: &[u8],
        rows: usize,
        block_bytes: u64,
        blocks: &mut Vec<Block>,
    ) -> Result<()> {
        for batch in scratch::decode(stream)? {
            let parts = (stream.len() as u64).div_ceil(2 * block_bytes).clamp(1, rows as u64);
            if parts == 1 && batch.num_rows() == rows {
                let (stored, first) =
                    (self.scratch.append(stream)?, self.keys.of(&batch, 0, &self.dictionaries)?);
                blocks.push(Block { stored, rows, first });
                continue;
            }
            let step = batch.num_rows().div_ceil(parts as usize);
            for from in (0..batch.num_rows()).step_by(step) {
                let part = batch.slice(from, step.min(batch.num_rows() - from));
                let first = self.keys.of(&part, 0, &self.dictionaries)?;
                let stored = self.scratch.append(&scratch::encode(&part)?)?;
                blocks.push(Block { stored, rows: part.num_rows(), first });
            }
        }
        Ok(())
    }
}
