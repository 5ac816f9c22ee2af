//! From the table to the buckets: every column's values, column by column, each to the next free
//! place of its bucket.
//!
//! Places are assigned first: each piece of the table has its own range in every bucket,
//! after those of the pieces before it. So threads never meet, and rows of one bucket stay in
//! the order of the table, which is what makes the sort stable.

use bytemuck::{Pod, cast_slice, cast_slice_mut};
use plasmon_scatter::{Lines, scatter};
use pulp::Arch;

use crate::bucket_ids::{BLOCK_ROWS, BucketAssignment, BucketIds};
use crate::column::{Column, ColumnLayout};
use crate::error::Result;
use crate::key::Keys;
use crate::rows::Rows;
use crate::splitters::BucketId;
use crate::table::{Piece, Table};
use crate::varlen::copy;
use crate::workers::Progress;

/// Where a piece's rows go: for each bucket the piece's own range of places.
#[derive(Debug, Default)]
pub(crate) struct Targets<'a> {
    /// For each column, the bytes of its values.
    pub(crate) columns: Vec<Vec<&'a mut [u8]>>,
    /// For each column of strings, their lengths; nothing for other columns.
    pub(crate) lengths: Vec<Vec<&'a mut [u8]>>,
    /// Of the rows' numbers; empty when they are not wanted.
    pub(crate) numbers: Vec<&'a mut [u32]>,
    /// Of the rows' prefixes; empty when they can be had from the columns.
    pub(crate) prefixes: Vec<&'a mut [u64]>,
}

/// What is scattered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scatter<'a> {
    pub(crate) table: &'a Table,
    pub(crate) keys: &'a Keys,
    pub(crate) columns: &'a [Column],
    pub(crate) progress: &'a Progress,
    /// Whether what is written is more than the caches hold.
    pub(crate) streams: bool,
}

impl Scatter<'_> {
    /// Moves the rows of a piece to their buckets.
    pub(crate) fn run(
        &self,
        piece: &Piece,
        classified: &BucketAssignment,
        targets: Targets<'_>,
    ) -> Result<()> {
        let selected = classified.selected.as_deref();
        Arch::new().dispatch(
            #[inline(always)]
            || match &classified.ids {
                BucketIds::Bytes(ids) => self.run_with(Rows { piece, selected, ids }, targets),
                BucketIds::Words(ids) => self.run_with(Rows { piece, selected, ids }, targets),
            },
        )
    }

    #[inline(always)]
    fn run_with<I: BucketId>(&self, rows: Rows<'_, I>, targets: Targets<'_>) -> Result<()> {
        for ((column, targets), lengths) in
            self.columns.iter().zip(targets.columns).zip(targets.lengths)
        {
            let width = match column.layout {
                ColumnLayout::Fixed(width) => width,
                ColumnLayout::Bits => continue,
                ColumnLayout::Varlen { large } => {
                    let lengths = (lengths, self.streams);
                    if large {
                        rows.move_strings::<u64, 8>(column, targets, lengths, |length| {
                            length as u64
                        });
                    } else {
                        rows.move_strings::<u32, 16>(column, targets, lengths, |l| l as u32);
                    }
                    continue;
                }
            };
            let targets = (targets, self.streams);
            match width {
                1 => rows.move_all::<u8, 64>(column, targets),
                2 => rows.move_all::<u16, 32>(column, targets),
                4 => rows.move_all::<u32, 16>(column, targets),
                8 => rows.move_all::<u64, 8>(column, targets),
                16 => rows.move_all::<[u64; 2], 4>(column, targets),
                32 => rows.move_all::<[u64; 4], 2>(column, targets),
                _ => rows.move_any(column, width, targets.0),
            }
            self.progress.advance(0)?;
        }
        if !targets.numbers.is_empty() {
            scatter(
                targets.numbers,
                self.streams,
                #[inline(always)]
                |lines| self.move_numbers(rows, lines),
            );
        }
        if !targets.prefixes.is_empty() {
            scatter(
                targets.prefixes,
                self.streams,
                #[inline(always)]
                |lines| self.move_prefixes(rows, lines),
            );
        }
        self.progress.advance(rows.piece.rows as u64)
    }

    #[inline(always)]
    fn move_numbers<I: BucketId>(&self, rows: Rows<'_, I>, lines: &mut Lines<'_, u32, 16>) {
        rows.each_run(|run, selected, ids| {
            let first = self.table.start(run.batch) + run.rows.start as u32;
            match selected {
                None => put_all(lines, first..first + ids.len() as u32, ids),
                Some(selected) => put_all(lines, selected.iter().map(|at| first + at), ids),
            }
        });
    }

    #[inline(always)]
    fn move_prefixes<I: BucketId>(&self, rows: Rows<'_, I>, lines: &mut Lines<'_, u64, 8>) {
        let mut prefixes = Vec::new();
        rows.each_run(|run, selected, ids| {
            let mut done = 0;
            for from in run.rows.clone().step_by(BLOCK_ROWS) {
                let to = run.rows.end.min(from + BLOCK_ROWS);
                prefixes.resize(to - from, 0);
                self.keys.prefixes(run.batch, from..to, &mut prefixes);
                let Some(selected) = selected else {
                    let ids = &ids[from - run.rows.start..to - run.rows.start];
                    put_all(lines, prefixes.iter().copied(), ids);
                    continue;
                };
                let start = (from - run.rows.start) as u32;
                let end = start + (to - from) as u32;
                let count = selected[done..].partition_point(|at| *at < end);
                let own = &selected[done..done + count];
                let values = own.iter().map(|at| prefixes[(at - start) as usize]);
                put_all(lines, values, &ids[done..done + count]);
                done += count;
            }
        });
    }
}

impl<I: BucketId> Rows<'_, I> {
    #[inline(always)]
    fn move_all<T: Pod, const N: usize>(
        &self,
        column: &Column,
        (targets, streams): (Vec<&mut [u8]>, bool),
    ) {
        scatter::<T, N, _>(
            targets.into_iter().map(cast_slice_mut).collect(),
            streams,
            #[inline(always)]
            |lines| {
                self.each_run(|run, selected, ids| {
                    let values: &[T] = &cast_slice(column.fixed(run.batch))[run.rows.clone()];
                    match selected {
                        None => put_all(lines, values.iter().copied(), ids),
                        Some(selected) => {
                            put_all(lines, selected.iter().map(|at| values[*at as usize]), ids);
                        }
                    }
                });
            },
        );
    }

    /// Each string after the one before it, and its length.
    #[inline(always)]
    fn move_strings<T: Pod, const N: usize>(
        &self,
        column: &Column,
        mut strings: Vec<&mut [u8]>,
        (lengths, streams): (Vec<&mut [u8]>, bool),
        length_of: impl Fn(usize) -> T,
    ) {
        scatter::<T, N, _>(
            lengths.into_iter().map(cast_slice_mut).collect(),
            streams,
            #[inline(always)]
            |lines| {
                self.each_run(|run, selected, ids| {
                    for (at, id) in ids.iter().enumerate() {
                        let row = selected.map_or(at, |selected| selected[at] as usize);
                        let text = column.text((run.batch, run.rows.start + row));
                        let place = std::mem::take(&mut strings[(*id).into()]);
                        copy(place, text);
                        strings[(*id).into()] = &mut place[text.len()..];
                        lines.put((*id).into(), length_of(text.len()));
                    }
                });
            },
        );
    }

    /// For values of a width that is no machine word's.
    fn move_any(&self, column: &Column, width: usize, targets: Vec<&mut [u8]>) {
        let mut places: Vec<_> =
            targets.into_iter().map(|bytes| bytes.chunks_exact_mut(width)).collect();
        self.each_run(|run, selected, ids| {
            let values = &column.fixed(run.batch)[run.rows.start * width..];
            for (at, id) in ids.iter().enumerate() {
                let row = selected.map_or(at, |selected| selected[at] as usize);
                // As many places as rows were handed out.
                if let Some(place) = places[(*id).into()].next() {
                    place.copy_from_slice(&values[row * width..(row + 1) * width]);
                }
            }
        });
    }
}

/// Puts each value to its bucket.
#[inline(always)]
fn put_all<I: BucketId, T: Pod, const N: usize>(
    lines: &mut Lines<'_, T, N>,
    values: impl Iterator<Item = T>,
    ids: &[I],
) {
    for (value, id) in values.zip(ids) {
        lines.put((*id).into(), value);
    }
}
