//! Sorting what is larger than memory.
//!
//! ```text
//!   rows ─► as many as the memory takes ─► sort ─► blocks ─► scratch file         push: a run
//!   the first keys of all blocks of all runs ─► bounds of partitions              finish
//!   of every run the rows between two bounds ─► sort ─► the caller's memory      next: a partition
//! ```
//!
//! The input is read once. What is known of the runs, the first key of each of their blocks, gives
//! bounds that are exact to a few blocks, without a sample. A bound is not a key but a place in the
//! order of all rows (key, run, row in the run): a value that fills several partitions alone is cut
//! like any other, and rows with equal keys stay in their order.
//!
//! The scratch file has no name, so the kernel removes it when the process ends, for any reason.

mod merge;
mod runs;
mod scratch;

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, SchemaRef};

pub use self::merge::Merge;
pub use self::runs::Means;
use self::runs::Runs;
use crate::column::text_lengths;
use crate::dictionary::Unifier;
use crate::error::{Error, Result};
use crate::heap::Heap;
use crate::job::{Job, PARTITIONS_MAX};
use crate::order::SortKey;
use crate::sorter::sort;
use crate::table::{Table, codes};

/// Memory for each byte of a run or of a partition: itself, its sorted rows, and what a sort takes
/// beside them.
const COPIES: u64 = 3;
/// Memory for each byte of a partition as it is planned; its bounds are not exact.
pub const MEMORY_PER_PARTITION_BYTE: u64 = 2 * COPIES;
/// Blocks of a run. A partition is exact to one block of each run at either end.
const BLOCKS: u64 = 256;
/// The least that is worth a block: what is smaller costs more to find than to read.
const BLOCK_BYTES_MIN: u64 = 16 << 10;
/// The most that one partition has by itself: offsets of strings have 32 bits.
const PARTITION_BYTES_MAX: u64 = 1 << 30;
/// Rows of a run; a table's row numbers are `u32`.
const RUN_ROWS_MAX: usize = 1 << 31;
/// Steps of progress for each row: it is sorted twice.
const STEPS: u64 = 8;

/// Rows that were read and sorted, run by run.
#[derive(Debug)]
pub struct External<'a> {
    runs: Runs<'a>,
    /// Blocks have codes; their dictionaries are in memory, each value once.
    unifier: Unifier,
    pending: Vec<RecordBatch>,
    pending_bytes: u64,
    pending_rows: usize,
}

impl<'a> External<'a> {
    /// A sort of rows of this schema, none of which are there yet.
    pub fn new(schema: &SchemaRef, order: &[SortKey], means: Means<'a>) -> Result<Self> {
        Ok(Self {
            runs: Runs::new(schema, order, means)?,
            unifier: Unifier::new(schema),
            pending: Vec::new(),
            pending_bytes: 0,
            pending_rows: 0,
        })
    }

    /// Says how many rows there will be, so that the progress has an end that does not move.
    pub fn expect_rows(&mut self, rows: u64) {
        self.runs.means.progress.fix(STEPS * rows);
    }

    /// Says how many bytes the rows will take, about: an error when the scratch file cannot have so
    /// many.
    pub fn expect_bytes(&self, bytes: u64) -> Result<()> {
        self.runs.scratch.check(bytes)
    }

    /// Adds rows. They are held until there is a run of them, and then let go.
    pub fn push(&mut self, batch: &RecordBatch) -> Result<()> {
        let batch = &codes(&mut self.unifier, batch)?;
        let (found, column) = self.unifier.own_bytes();
        if found > self.runs.means.memory_bytes / 2 {
            let (column, limit) = (column.to_owned(), self.runs.means.memory_bytes);
            return Err(Error::DictionaryBytes { column, found, limit });
        }
        let rows = batch.num_rows();
        let row_bytes = (batch_bytes(batch) / rows.max(1) as u64).max(1);
        let mut from = 0;
        while from < rows {
            let room = self.run_bytes().saturating_sub(self.pending_bytes) / row_bytes;
            let room = room.min((RUN_ROWS_MAX - self.pending_rows) as u64).max(1);
            let count = room.min((rows - from) as u64) as usize;
            self.pending.push(batch.slice(from, count));
            self.pending_bytes += count as u64 * row_bytes;
            self.pending_rows += count;
            from += count;
            if self.pending_bytes + row_bytes > self.run_bytes()
                || self.pending_rows == RUN_ROWS_MAX
            {
                self.write_run()?;
            }
        }
        Ok(())
    }

    /// Ends the input: what is left is to make the partitions, a given number, or as few as
    /// possible.
    pub fn finish(mut self, partitions: Option<usize>) -> Result<Merge<'a>> {
        self.write_run()?;
        let bytes = self.runs.scratch.bytes();
        let most = self.runs.means.memory_bytes / MEMORY_PER_PARTITION_BYTE;
        let most = most.clamp(1, PARTITION_BYTES_MAX);
        let least = bytes.div_ceil(most).max(1);
        let wanted = partitions.map_or(least, |wanted| wanted as u64);
        if wanted < least && bytes.div_ceil(wanted.max(1)) > 2 * most {
            return Err(Error::Few {
                wanted: wanted as usize,
                found: bytes,
                needed: bytes.div_ceil(wanted.max(1)) * COPIES,
                limit: self.runs.means.memory_bytes,
                least,
            });
        }
        if !(1..=PARTITIONS_MAX as u64).contains(&wanted) {
            return Err(Error::Partitions { wanted: wanted as usize, limit: PARTITIONS_MAX });
        }
        Merge::new(self.runs, wanted as usize)
    }

    fn run_bytes(&self) -> u64 {
        (self.runs.means.memory_bytes / COPIES).max(BLOCK_BYTES_MIN)
    }

    fn write_run(&mut self) -> Result<()> {
        if self.pending_rows == 0 {
            return Ok(());
        }
        let block_bytes = (self.run_bytes() / BLOCKS).max(BLOCK_BYTES_MIN);
        let wanted = self.pending_bytes.div_ceil(block_bytes).clamp(1, BLOCKS) as usize;
        self.runs.dictionaries = self.unifier.dictionaries()?;
        let (schema, pending) = (self.runs.schema.clone(), std::mem::take(&mut self.pending));
        let table = Table::of_codes(schema, pending, self.runs.dictionaries.clone(), true)?;
        (self.pending_bytes, self.pending_rows) = (0, 0);
        let Means { threads, progress, .. } = self.runs.means;
        let (partitions, only) = (Some(wanted), None);
        let job =
            Job { table: &table, order: &self.runs.order, partitions, only, threads, progress };
        let sorted = sort(&job, &mut |bytes| Ok(Heap::new(bytes)))?;
        drop(table);
        let mut blocks = Vec::with_capacity(sorted.len());
        for partition in sorted.into_iter().filter(|partition| partition.rows != 0) {
            progress.advance(0)?;
            self.runs.write_blocks(&partition.memory, partition.rows, block_bytes, &mut blocks)?;
        }
        self.runs.blocks.push(blocks);
        Ok(())
    }
}

/// About how many bytes these rows take as they will be sorted: of a buffer that several columns or
/// batches are slices of, each has its own part.
pub fn batch_bytes(batch: &RecordBatch) -> u64 {
    let column = |array: &ArrayRef| match array.data_type() {
        DataType::Utf8View | DataType::BinaryView => {
            text_lengths(array).iter().sum::<u64>() + 8 * array.len() as u64
        }
        _ => {
            // What has no plain layout is counted with all that it refers to.
            let found = array.to_data().get_slice_memory_size();
            found.unwrap_or_else(|_| array.get_array_memory_size()) as u64
        }
    };
    batch.columns().iter().map(column).sum()
}
