//! From sorted runs to partitions: bounds, and what of each run lies between two of them.

use std::cmp::Ordering;
use std::ops::DerefMut;

use arrow_array::RecordBatch;
use arrow_row::OwnedRow;
use arrow_schema::SchemaRef;

use super::runs::{Block, Means, Runs};
use crate::error::Result;
use crate::job::{Create, Job, Partition};
use crate::sorter::sort;
use crate::table::{Table, sorted_schema};

/// The first row of a block: a place in the order of all rows.
#[derive(Debug)]
struct Bound {
    first: OwnedRow,
    run: usize,
    block: usize,
}

/// A position in a run: a number of whole blocks, and a number of rows of the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cut {
    block: usize,
    row: usize,
}

/// Sorted runs, of which partitions are made one after the other.
#[derive(Debug)]
pub struct Merge<'a> {
    source: Runs<'a>,
    schema: SchemaRef,
    bounds: Vec<Option<Bound>>,
    /// How many partitions were made.
    made: usize,
    /// Where the next one begins in each run.
    from: Vec<Cut>,
}

impl<'a> Merge<'a> {
    pub(super) fn new(source: Runs<'a>, partitions: usize) -> Result<Self> {
        let bounds = bounds(&source.blocks, partitions);
        let from = vec![Cut::default(); source.blocks.len()];
        let restored = source.dictionaries.schema(&source.schema, false)?;
        let schema = sorted_schema(&restored);
        Ok(Self { source, schema, bounds, made: 0, from })
    }

    /// How many partitions there are.
    pub fn partitions(&self) -> usize {
        self.bounds.len() + 1
    }

    /// How large the scratch file is.
    pub fn scratch_bytes(&self) -> u64 {
        self.source.scratch.bytes()
    }

    /// The schema of the sorted rows.
    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// Makes the next partition in memory that `create` gives; `None` when all are made. There may
    /// be empty ones. After an error no more can be had.
    pub fn next_partition<M>(&mut self, create: &mut Create<'_, M>) -> Result<Option<Partition<M>>>
    where
        M: DerefMut<Target = [u8]> + Send,
    {
        if self.made == self.partitions() {
            return Ok(None);
        }
        let to = self.ends()?;
        let mut batches = Vec::new();
        for (run, (from, to)) in self.from.iter().zip(&to).enumerate() {
            self.rows_between(run, *from, *to, &mut batches)?;
        }
        (self.from, self.made) = (to, self.made + 1);
        let dictionaries = self.source.dictionaries.clone();
        let schema = sorted_schema(&self.source.schema);
        let mut table = Table::of_codes(schema, batches, dictionaries, false)?;
        table.part = Some((self.partitions() as u64, self.source.scratch.bytes()));
        let Means { threads, progress, .. } = self.source.means;
        let (order, partitions) = (&self.source.order, Some(1));
        let job = Job { table: &table, order, partitions, only: None, threads, progress };
        Ok(sort(&job, create)?.pop())
    }

    /// Where the next partition ends in each run.
    fn ends(&self) -> Result<Vec<Cut>> {
        let runs = &self.source.blocks;
        match self.bounds.get(self.made) {
            Some(Some(bound)) => (0..runs.len()).map(|run| self.cut(bound, run)).collect(),
            Some(None) | None => {
                Ok(runs.iter().map(|blocks| Cut { block: blocks.len(), row: 0 }).collect())
            }
        }
    }

    /// How many rows of a run come before a bound.
    fn cut(&self, bound: &Bound, run: usize) -> Result<Cut> {
        // Of equal keys those of an earlier run come first.
        let is_before = |key: &OwnedRow| match key.cmp(&bound.first) {
            Ordering::Less => true,
            Ordering::Equal => run < bound.run,
            Ordering::Greater => false,
        };
        if run == bound.run {
            return Ok(Cut { block: bound.block, row: 0 });
        }
        let blocks = &self.source.blocks[run];
        let next = blocks.partition_point(|block| is_before(&block.first));
        let Some(block) = next.checked_sub(1) else { return Ok(Cut::default()) };
        // The first row of this block comes before the bound, the first of the next does not.
        let (mut low, mut high) = (1, blocks[block].rows);
        let batches = self.source.scratch.read(blocks[block].stored)?;
        while low < high {
            let middle = usize::midpoint(low, high);
            if is_before(&self.key(&batches, middle)?) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(if low == blocks[block].rows {
            Cut { block: next, row: 0 }
        } else {
            Cut { block, row: low }
        })
    }

    fn key(&self, batches: &[RecordBatch], mut row: usize) -> Result<OwnedRow> {
        let mut batches = batches.iter();
        let mut batch = batches.next().expect("a block has rows");
        while row >= batch.num_rows() {
            row -= batch.num_rows();
            batch = batches.next().expect("a row of the block");
        }
        self.source.keys.of(batch, row, &self.source.dictionaries)
    }

    fn rows_between(
        &self,
        run: usize,
        from: Cut,
        to: Cut,
        batches: &mut Vec<RecordBatch>,
    ) -> Result<()> {
        let blocks = self.source.blocks[run].iter().enumerate();
        for (at, block) in blocks.take(to.block + 1).skip(from.block) {
            let first = if at == from.block { from.row } else { 0 };
            let last = if at == to.block { to.row } else { block.rows };
            if first >= last {
                continue;
            }
            self.source.means.progress.advance(0)?;
            let mut left = first..last;
            for batch in self.source.scratch.read(block.stored)? {
                let rows = batch.num_rows();
                let own = left.start.min(rows)..left.end.min(rows);
                if !own.is_empty() {
                    batches.push(batch.slice(own.start, own.len()));
                }
                left = left.start.saturating_sub(rows)..left.end.saturating_sub(rows);
            }
        }
        Ok(())
    }
}

/// Bounds between partitions of about as many bytes each; `None` where nothing follows.
fn bounds(runs: &[Vec<Block>], partitions: usize) -> Vec<Option<Bound>> {
    let blocks = |(run, blocks): (usize, &Vec<Block>)| -> Vec<(usize, usize)> {
        (0..blocks.len()).map(|block| (run, block)).collect()
    };
    let mut places: Vec<(usize, usize)> = runs.iter().enumerate().flat_map(blocks).collect();
    places.sort_by(|one, other| {
        let first = |place: &(usize, usize)| &runs[place.0][place.1].first;
        first(one).cmp(first(other)).then(one.cmp(other))
    });
    let bytes = |place: &(usize, usize)| runs[place.0][place.1].stored.bytes as u64;
    let total: u64 = places.iter().map(bytes).sum();
    let mut bounds = Vec::with_capacity(partitions - 1);
    let (mut at, mut before) = (0, 0);
    for partition in 1..partitions {
        let goal = u128::from(total) * partition as u128 / partitions as u128;
        let start = at;
        while at < places.len() && (u128::from(before) < goal || at == start) {
            before += bytes(&places[at]);
            at += 1;
        }
        bounds.push(places.get(at).map(|(run, block)| Bound {
            first: runs[*run][*block].first.clone(),
            run: *run,
            block: *block,
        }));
    }
    bounds
}
