//! Each row's bucket, found by the row's prefix: of all rows, or only of those in some buckets.

use std::ops::Range;

use pulp::Arch;

use crate::column::{Column, ColumnLayout};
use crate::error::Result;
use crate::key::Keys;
use crate::rows::Rows;
use crate::splitters::{BucketId, Buckets};
use crate::table::{Piece, Run};
use crate::workers::Progress;

/// Rows whose prefixes are made at a time: they stay in the nearest cache.
pub(crate) const BLOCK_ROWS: usize = 1024;

/// The bucket of each row of a piece; a byte each as long as that is enough.
#[derive(Debug)]
pub(crate) enum BucketIds {
    Bytes(Vec<u8>),
    Words(Vec<u16>),
}

/// A piece whose rows' buckets are known.
#[derive(Debug)]
pub(crate) struct BucketAssignment {
    pub(crate) ids: BucketIds,
    /// The rows that the ids are of, for each run counted from its first one; `None`: all rows.
    pub(crate) selected: Option<Vec<Vec<u32>>>,
    /// Rows in each bucket.
    pub(crate) rows: Vec<u32>,
    /// For each column of strings, its bytes in each bucket; nothing for other columns.
    pub(crate) text_bytes: Vec<Vec<u64>>,
}

/// Finds each row's bucket, or finds the rows of some buckets, which are counted from the first.
pub(crate) fn classify(
    piece: &Piece,
    keys: &Keys,
    (buckets, within): (&Buckets, Option<&Range<usize>>),
    columns: &[Column],
    progress: &Progress,
) -> Result<BucketAssignment> {
    let count = within.map_or(buckets.count(), Range::len);
    let finder = Finder { piece, keys, buckets, within, progress };
    if buckets.count() <= 1 << 8 {
        let found = finder.find::<u8>(count)?;
        let text_bytes = found.text_bytes(piece, columns, count);
        let BlockIds { ids, selected, rows } = found;
        return Ok(BucketAssignment { ids: BucketIds::Bytes(ids), selected, rows, text_bytes });
    }
    let found = finder.find::<u16>(count)?;
    let text_bytes = found.text_bytes(piece, columns, count);
    let BlockIds { ids, selected, rows } = found;
    Ok(BucketAssignment { ids: BucketIds::Words(ids), selected, rows, text_bytes })
}

/// What the buckets of a piece's rows are found with.
struct Finder<'a> {
    piece: &'a Piece,
    keys: &'a Keys,
    buckets: &'a Buckets,
    within: Option<&'a Range<usize>>,
    progress: &'a Progress,
}

/// See [`BucketAssignment`].
struct BlockIds<I> {
    ids: Vec<I>,
    selected: Option<Vec<Vec<u32>>>,
    rows: Vec<u32>,
}

impl Finder<'_> {
    fn find<I: BucketId>(&self, count: usize) -> Result<BlockIds<I>> {
        match self.within {
            None => self.find_all(count),
            Some(within) if within.is_empty() => {
                let selected = Some(vec![Vec::new(); self.piece.runs.len()]);
                self.progress.advance(self.piece.rows as u64)?;
                Ok(BlockIds { ids: Vec::new(), selected, rows: Vec::new() })
            }
            Some(within) => self.find_within(within, count),
        }
    }

    fn find_all<I: BucketId>(&self, count: usize) -> Result<BlockIds<I>> {
        let (mut ids, mut rows) = (vec![I::default(); self.piece.rows], vec![0; count]);
        let mut prefixes = [0; BLOCK_ROWS];
        let mut left = ids.as_mut_slice();
        for run in &self.piece.runs {
            for block in blocks(run) {
                let prefixes = &mut prefixes[..block.len()];
                self.keys.prefixes(run.batch, block.clone(), prefixes);
                let (ids, rest) = left.split_at_mut(block.len());
                Arch::new().dispatch(
                    #[inline(always)]
                    || self.buckets.place(prefixes, ids),
                );
                ids.iter().for_each(|id| rows[(*id).into()] += 1);
                left = rest;
                self.progress.advance(block.len() as u64)?;
            }
        }
        Ok(BlockIds { ids, selected: None, rows })
    }

    /// First whether a row is meant, by its prefix alone, and only then in which bucket it is.
    fn find_within<I: BucketId>(&self, within: &Range<usize>, count: usize) -> Result<BlockIds<I>> {
        let (low, high) =
            (self.buckets.range(within.start).0, self.buckets.range(within.end - 1).1);
        let (mut ids, mut rows) = (Vec::new(), vec![0; count]);
        let mut selected = Vec::with_capacity(self.piece.runs.len());
        let (mut prefixes, mut places) = ([0; BLOCK_ROWS], [0; BLOCK_ROWS]);
        let mut block_ids = [I::default(); BLOCK_ROWS];
        for run in &self.piece.runs {
            let mut own: Vec<u32> = Vec::new();
            for block in blocks(run) {
                let prefixes = &mut prefixes[..block.len()];
                self.keys.prefixes(run.batch, block.clone(), prefixes);
                let first = (block.start - run.rows.start) as u32;
                // Written always and kept now and then: nothing to predict.
                let mut found = 0;
                for at in 0..prefixes.len() {
                    let prefix = prefixes[at];
                    (prefixes[found], places[found]) = (prefix, first + at as u32);
                    found += usize::from((low..=high).contains(&prefix));
                }
                own.extend_from_slice(&places[..found]);
                let block_ids = &mut block_ids[..found];
                Arch::new().dispatch(
                    #[inline(always)]
                    || self.buckets.place(&prefixes[..found], block_ids),
                );
                for id in &mut *block_ids {
                    *id = I::of((*id).into() - within.start);
                    rows[(*id).into()] += 1;
                }
                ids.extend_from_slice(block_ids);
                self.progress.advance(block.len() as u64)?;
            }
            own.shrink_to_fit();
            selected.push(own);
        }
        ids.shrink_to_fit();
        Ok(BlockIds { ids, selected: Some(selected), rows })
    }
}

/// The rows of a run, some of them at a time.
fn blocks(run: &Run) -> impl Iterator<Item = Range<usize>> + use<> {
    let end = run.rows.end;
    run.rows.clone().step_by(BLOCK_ROWS).map(move |from| from..end.min(from + BLOCK_ROWS))
}

impl<I: BucketId> BlockIds<I> {
    /// For each column of strings, its bytes in each bucket.
    fn text_bytes(&self, piece: &Piece, columns: &[Column], count: usize) -> Vec<Vec<u64>> {
        let sums = |column: &Column| match column.layout {
            ColumnLayout::Varlen { .. } => self.sum_strings(piece, column, count),
            ColumnLayout::Fixed(_) | ColumnLayout::Bits => Vec::new(),
        };
        columns.iter().map(sums).collect()
    }

    fn sum_strings(&self, piece: &Piece, column: &Column, count: usize) -> Vec<u64> {
        let (mut sums, mut lengths) = (vec![0; count], Vec::new());
        let rows = Rows { piece, selected: self.selected.as_deref(), ids: &self.ids };
        rows.each_run(|run, selected, ids| match selected {
            None => {
                let mut ids = ids.iter();
                for block in blocks(run) {
                    column.lengths(run.batch, block, &mut lengths);
                    for (length, id) in lengths.iter().zip(&mut ids) {
                        sums[(*id).into()] += length;
                    }
                }
            }
            Some(selected) => {
                for (at, id) in selected.iter().zip(ids) {
                    let text = column.text((run.batch, run.rows.start + *at as usize));
                    sums[(*id).into()] += text.len() as u64;
                }
            }
        });
        sums
    }
}
