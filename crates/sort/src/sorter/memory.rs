//! Which memory is whose: the result's, cut into what belongs to each bucket, and each bucket's
//! into what each piece of the table writes.

use std::ops::{DerefMut, Range};

use crate::bucket_ids::BucketAssignment;
use crate::column::{Column, ColumnLayout};
use crate::ipc::Layout;
use crate::scatter::Targets;
use crate::table::Piece;

/// How the rows divide: over the pieces that they come from, and the buckets and partitions that
/// they go to.
pub(super) struct Division<'a> {
    pub(super) columns: &'a [Column],
    pub(super) pieces: Vec<(Piece, BucketAssignment)>,
    /// Rows in each bucket.
    pub(super) rows: Vec<u64>,
    /// The buckets of each partition.
    pub(super) partitions: Vec<Range<usize>>,
    pub(super) carries: Carries,
}

/// What is scattered beside the columns.
#[derive(Clone, Copy)]
pub(super) struct Carries {
    pub(super) prefixes: bool,
    pub(super) numbers: bool,
}

impl Division<'_> {
    /// Bytes of a column's strings in some buckets.
    pub(super) fn text_bytes(&self, column: usize, buckets: Range<usize>) -> u64 {
        let piece = |(_, piece): &(Piece, BucketAssignment)| -> u64 {
            piece.text_bytes[column].get(buckets.clone()).unwrap_or_default().iter().sum()
        };
        self.pieces.iter().map(piece).sum()
    }

    /// Memory for the numbers and for the prefixes, as far as they are scattered.
    pub(super) fn carried(&self) -> (Vec<u32>, Vec<u64>) {
        let rows = self.rows.iter().sum::<u64>() as usize;
        let Carries { prefixes, numbers } = self.carries;
        (vec![0; if numbers { rows } else { 0 }], vec![0; if prefixes { rows } else { 0 }])
    }

    /// Cuts all memory into what belongs to each bucket.
    pub(super) fn memory<'m, M>(
        &self,
        layouts: &[Layout],
        memories: &'m mut [M],
        (numbers, prefixes): &'m mut (Vec<u32>, Vec<u64>),
    ) -> Vec<BucketMemory<'m>>
    where
        M: DerefMut<Target = [u8]>,
    {
        let mut buckets: Vec<BucketMemory<'m>> = Vec::with_capacity(self.rows.len());
        let (mut numbers, mut prefixes) = (numbers.as_mut_slice(), prefixes.as_mut_slice());
        for rows in &self.rows {
            let rows = *rows as usize;
            let numbers = numbers.split_off_mut(..rows.min(numbers.len())).unwrap_or_default();
            let prefixes = prefixes.split_off_mut(..rows.min(prefixes.len())).unwrap_or_default();
            buckets.push(BucketMemory { rows, numbers, prefixes, ..BucketMemory::default() });
        }
        let partitions = self.partitions.iter().zip(layouts).zip(memories);
        for ((range, layout), memory) in partitions {
            let mut cut = Cut { memory: &mut memory[..layout.bytes], at: 0 };
            for (at, (column, places)) in self.columns.iter().zip(&layout.columns).enumerate() {
                let mut ends = cut.take(places.offsets.clone());
                let mut values = cut.take(places.values.clone());
                let mut first = 0;
                for bucket in range.clone() {
                    let rows = buckets[bucket].rows;
                    let bytes = match column.layout {
                        ColumnLayout::Fixed(width) => rows * width,
                        ColumnLayout::Bits => 0,
                        ColumnLayout::Varlen { .. } => {
                            self.text_bytes(at, bucket..bucket + 1) as usize
                        }
                    };
                    let own = values.split_off_mut(..bytes).unwrap_or_default();
                    buckets[bucket].values.push(own);
                    if let ColumnLayout::Varlen { large } = column.layout {
                        let width = if large { 8 } else { 4 };
                        if bucket == range.start
                            && let Some(zero) = ends.split_off_mut(..width)
                        {
                            zero.fill(0);
                        }
                        let own = ends.split_off_mut(..rows * width).unwrap_or_default();
                        buckets[bucket].ends.push((own, first));
                        first += bytes as u64;
                    }
                }
                if range.is_empty() {
                    ends.fill(0);
                }
            }
        }
        buckets
    }

    /// What each piece writes, in each bucket after the pieces before it.
    pub(super) fn targets<'b>(&self, memory: &'b mut [BucketMemory<'_>]) -> Vec<Targets<'b>> {
        let columns = || self.columns.iter().map(|_| Vec::new()).collect();
        let mut targets: Vec<Targets<'b>> = Vec::with_capacity(self.pieces.len());
        targets.resize_with(self.pieces.len(), || Targets {
            columns: columns(),
            lengths: columns(),
            ..Targets::default()
        });
        for (bucket, memory) in memory.iter_mut().enumerate() {
            let rows = |piece: &(Piece, BucketAssignment)| piece.1.rows[bucket] as usize;
            let mut ends = memory.ends.iter_mut();
            for (at, values) in memory.values.iter_mut().enumerate() {
                let (mut left, layout) = (&mut **values, self.columns[at].layout);
                for (targets, piece) in targets.iter_mut().zip(&self.pieces) {
                    let bytes = match layout {
                        ColumnLayout::Fixed(width) => rows(piece) * width,
                        ColumnLayout::Bits => 0,
                        ColumnLayout::Varlen { .. } => piece.1.text_bytes[at][bucket] as usize,
                    };
                    let own = left.split_off_mut(..bytes).unwrap_or_default();
                    targets.columns[at].push(own);
                }
                let ColumnLayout::Varlen { large } = layout else { continue };
                let mut left = ends.next().map(|(ends, _)| &mut **ends).unwrap_or_default();
                for (targets, piece) in targets.iter_mut().zip(&self.pieces) {
                    let bytes = rows(piece) * if large { 8 } else { 4 };
                    targets.lengths[at].push(left.split_off_mut(..bytes).unwrap_or_default());
                }
            }
            let (mut numbers, mut prefixes) = (&mut *memory.numbers, &mut *memory.prefixes);
            for (targets, piece) in targets.iter_mut().zip(&self.pieces) {
                if self.carries.numbers {
                    targets.numbers.push(numbers.split_off_mut(..rows(piece)).unwrap_or_default());
                }
                if self.carries.prefixes {
                    targets
                        .prefixes
                        .push(prefixes.split_off_mut(..rows(piece)).unwrap_or_default());
                }
            }
        }
        targets
    }
}

/// Memory that is cut from front to back.
struct Cut<'m> {
    memory: &'m mut [u8],
    at: usize,
}

impl<'m> Cut<'m> {
    fn take(&mut self, range: Range<usize>) -> &'m mut [u8] {
        let (_, rest) = std::mem::take(&mut self.memory).split_at_mut(range.start - self.at);
        let (taken, rest) = rest.split_at_mut(range.len());
        (self.memory, self.at) = (rest, range.end);
        taken
    }
}

/// What belongs to one bucket.
#[derive(Debug, Default)]
pub(super) struct BucketMemory<'m> {
    pub(super) rows: usize,
    /// For each column the values, or the bytes of strings; empty for bits.
    pub(super) values: Vec<&'m mut [u8]>,
    /// For each column of strings the ends of its rows' strings, and where its first one begins.
    pub(super) ends: Vec<(&'m mut [u8], u64)>,
    pub(super) numbers: &'m mut [u32],
    pub(super) prefixes: &'m mut [u64],
}
