//! From the table to the buckets: first every row's bucket, then every column's values, column by
//! column, each to the next free place of its bucket.
//!
//! Places are handed out before: each piece of the table has a range of its own in every bucket,
//! behind those of the pieces before it. So threads never meet, and rows of one bucket stay in
//! the order of the table, which is what makes the sort stable.

use std::slice::IterMut;

use bytemuck::{Pod, cast_slice, cast_slice_mut};

use crate::column::{Column, Motion};
use crate::crew::Progress;
use crate::error::Result;
use crate::key::Keys;
use crate::split::Buckets;
use crate::table::{Piece, Table};

/// Rows whose prefixes are made at a time: they stay in the nearest cache.
const BLOCK_ROWS: usize = 1024;

/// The bucket of each row of a piece; a byte each as long as that is enough.
#[derive(Debug)]
pub(crate) enum Ids {
    Bytes(Vec<u8>),
    Words(Vec<u16>),
}

/// A piece whose rows' buckets are known.
#[derive(Debug)]
pub(crate) struct Classified {
    pub(crate) ids: Ids,
    /// Rows in each bucket.
    pub(crate) rows: Vec<u32>,
    /// For each column of texts, its bytes in each bucket; nothing for other columns.
    pub(crate) text_bytes: Vec<Vec<u64>>,
}

/// Finds each row's bucket.
pub(crate) fn classify(
    piece: &Piece,
    keys: &Keys,
    buckets: &Buckets,
    columns: &[Column],
    progress: &Progress,
) -> Result<Classified> {
    let count = buckets.count();
    let mut rows = vec![0u32; count];
    let small = count <= 1 << 8;
    let (mut bytes, mut words) = (Vec::new(), Vec::new());
    if small {
        bytes.reserve_exact(piece.rows);
    } else {
        words.reserve_exact(piece.rows);
    }
    let mut prefixes = [0; BLOCK_ROWS];
    for run in &piece.runs {
        for from in run.rows.clone().step_by(BLOCK_ROWS) {
            let to = run.rows.end.min(from + BLOCK_ROWS);
            let prefixes = &mut prefixes[..to - from];
            keys.prefixes(run.batch, from..to, prefixes);
            if small {
                buckets.place(prefixes, |bucket| {
                    bytes.push(bucket as u8);
                    rows[bucket] += 1;
                });
            } else {
                buckets.place(prefixes, |bucket| {
                    words.push(bucket as u16);
                    rows[bucket] += 1;
                });
            }
            progress.advance((to - from) as u64)?;
        }
    }
    let ids = if small { Ids::Bytes(bytes) } else { Ids::Words(words) };
    let text_bytes = columns.iter().map(|column| match (column.motion, &ids) {
        (Motion::Text { .. }, Ids::Bytes(ids)) => text_bytes(piece, column, ids, count),
        (Motion::Text { .. }, Ids::Words(ids)) => text_bytes(piece, column, ids, count),
        _ => Vec::new(),
    });
    let text_bytes = text_bytes.collect();
    Ok(Classified { ids, rows, text_bytes })
}

fn text_bytes<I: Copy + Into<usize>>(
    piece: &Piece,
    column: &Column,
    ids: &[I],
    count: usize,
) -> Vec<u64> {
    let (mut sums, mut lengths) = (vec![0; count], Vec::new());
    let mut from = 0;
    for run in &piece.runs {
        column.lengths(run.batch, run.rows.clone(), &mut lengths);
        for (id, length) in ids[from..].iter().zip(&lengths) {
            sums[(*id).into()] += length;
        }
        from += lengths.len();
    }
    sums
}

/// Where a piece's rows go: for each bucket the piece's own range of places.
#[derive(Debug, Default)]
pub(crate) struct Targets<'a> {
    /// For each column; empty for those that are not scattered.
    pub(crate) columns: Vec<Vec<&'a mut [u8]>>,
    /// Of the rows' numbers; empty when nobody asks for them.
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
}

impl Scatter<'_> {
    /// Moves the rows of a piece to their buckets.
    pub(crate) fn run(&self, piece: &Piece, ids: &Ids, targets: Targets<'_>) -> Result<()> {
        match ids {
            Ids::Bytes(ids) => self.run_with(piece, ids, targets),
            Ids::Words(ids) => self.run_with(piece, ids, targets),
        }
    }

    fn run_with<I: Copy + Into<usize>>(
        &self,
        piece: &Piece,
        ids: &[I],
        targets: Targets<'_>,
    ) -> Result<()> {
        for (column, targets) in self.columns.iter().zip(targets.columns) {
            let Motion::Fixed(width) = column.motion else { continue };
            match width {
                1 => move_all::<u8, I>(piece, column, ids, targets),
                2 => move_all::<u16, I>(piece, column, ids, targets),
                4 => move_all::<u32, I>(piece, column, ids, targets),
                8 => move_all::<u64, I>(piece, column, ids, targets),
                16 => move_all::<[u64; 2], I>(piece, column, ids, targets),
                32 => move_all::<[u64; 4], I>(piece, column, ids, targets),
                _ => move_any(piece, column, width, ids, targets),
            }
            self.progress.advance(0)?;
        }
        if !targets.numbers.is_empty() {
            let mut places: Vec<IterMut<'_, u32>> =
                targets.numbers.into_iter().map(<[u32]>::iter_mut).collect();
            let starts = piece.runs.iter().map(|run| {
                let first = self.table.start(run.batch) + run.rows.start as u32;
                first..first + run.rows.len() as u32
            });
            put(&mut places, starts.flatten(), ids);
        }
        if !targets.prefixes.is_empty() {
            self.prefixes(piece, ids, targets.prefixes);
        }
        self.progress.advance(piece.rows as u64)
    }

    fn prefixes<I: Copy + Into<usize>>(
        &self,
        piece: &Piece,
        mut ids: &[I],
        targets: Vec<&mut [u64]>,
    ) {
        let mut places: Vec<_> = targets.into_iter().map(<[u64]>::iter_mut).collect();
        let mut prefixes = [0; BLOCK_ROWS];
        for run in &piece.runs {
            for from in run.rows.clone().step_by(BLOCK_ROWS) {
                let to = run.rows.end.min(from + BLOCK_ROWS);
                let prefixes = &mut prefixes[..to - from];
                self.keys.prefixes(run.batch, from..to, prefixes);
                let (now, later) = ids.split_at(to - from);
                put(&mut places, prefixes.iter().copied(), now);
                ids = later;
            }
        }
    }
}

/// Puts each value to the next place of its bucket.
#[inline(always)]
fn put<T, I: Copy + Into<usize>>(
    places: &mut [IterMut<'_, T>],
    values: impl Iterator<Item = T>,
    ids: &[I],
) {
    for (value, id) in values.zip(ids) {
        // As many places as rows were handed out; a row without one would be a row too many.
        if let Some(place) = places[(*id).into()].next() {
            *place = value;
        }
    }
}

fn move_all<T: Pod, I: Copy + Into<usize>>(
    piece: &Piece,
    column: &Column,
    mut ids: &[I],
    targets: Vec<&mut [u8]>,
) {
    let mut places: Vec<IterMut<'_, T>> =
        targets.into_iter().map(|bytes| cast_slice_mut(bytes).iter_mut()).collect();
    for run in &piece.runs {
        let values: &[T] = &cast_slice(column.fixed(run.batch))[run.rows.clone()];
        let (now, later) = ids.split_at(values.len());
        put(&mut places, values.iter().copied(), now);
        ids = later;
    }
}

/// For values of a width that is no machine word's.
fn move_any<I: Copy + Into<usize>>(
    piece: &Piece,
    column: &Column,
    width: usize,
    mut ids: &[I],
    targets: Vec<&mut [u8]>,
) {
    let mut places: Vec<_> =
        targets.into_iter().map(|bytes| bytes.chunks_exact_mut(width)).collect();
    for run in &piece.runs {
        let values = &column.fixed(run.batch)[run.rows.start * width..run.rows.end * width];
        let (now, later) = ids.split_at(run.rows.len());
        for (value, id) in values.chunks_exact(width).zip(now) {
            if let Some(place) = places[(*id).into()].next() {
                place.copy_from_slice(value);
            }
        }
        ids = later;
    }
}
