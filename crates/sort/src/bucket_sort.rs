//! One bucket: the order of its rows, and then every column into that order, all in the caches.
//!
//! The order is found by sorting numbers of 64 bits: the upper bits of what distinguishes the
//! bucket's prefixes, and below them the row's place in the bucket.
//!
//! ```text
//!   prefix − least prefix, shifted right as far as needed │ place
//! ```
//!
//! The places make all numbers different and keep equal rows in their order. Where the upper bits
//! tie and are not the whole key, the rows of the tie are settled by what follows.

use std::cmp::Ordering;

use bytemuck::{Pod, cast_slice_mut};
use pulp::Arch;

use crate::column::{Column, ColumnLayout};
use crate::error::Result;
use crate::kernel::Kernel;
use crate::key::{Chunks, Fields, KeyColumn, Keys, settle};
use crate::table::Table;
use crate::varlen::{self, Strings};

/// What every bucket of a sort shares.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context<'a> {
    pub(crate) table: &'a Table,
    pub(crate) keys: &'a Keys,
    pub(crate) columns: &'a [Column],
    /// The lone column that its own keys can be turned back into.
    pub(crate) lone: Option<usize>,
}

/// The places of a bucket's rows, filled in the order of the table.
#[derive(Debug, Default)]
pub(crate) struct Bucket<'a> {
    pub(crate) rows: usize,
    /// The least and the greatest prefix that it may have.
    pub(crate) range: (u64, u64),
    /// For each column the values, or the bytes of strings; empty for bits.
    pub(crate) values: Vec<&'a mut [u8]>,
    /// For each column of strings the lengths of its rows' strings, whose ends go there, and where
    /// the first one begins.
    pub(crate) ends: Vec<(&'a mut [u8], u64)>,
    pub(crate) numbers: &'a mut [u32],
    pub(crate) prefixes: &'a [u64],
}

impl Context<'_> {
    /// Finds the strings of a column in a bucket: their bytes, and in `starts` where they begin.
    fn strings_of<'b>(
        &self,
        bucket: &'b Bucket<'_>,
        column: usize,
        starts: &mut Vec<u64>,
    ) -> Option<&'b [u8]> {
        let before = self.columns[..column].iter();
        let at =
            before.filter(|column| matches!(column.layout, ColumnLayout::Varlen { .. })).count();
        let large = self.columns[column].layout == ColumnLayout::Varlen { large: true };
        varlen::starts(bucket.ends.get(at)?.0, large, starts);
        Some(bucket.values[column])
    }
}

impl Bucket<'_> {
    /// Whether the rows came with their prefixes: else they are made of the values here.
    fn has_prefixes(&self) -> bool {
        self.prefixes.len() == self.rows
    }
}

/// The bits of a bucket's rows, for each column: the values of booleans, and which are there.
pub(crate) type Bits = Vec<(Vec<u8>, Vec<u8>)>;

/// What a thread keeps from bucket to bucket.
#[derive(Debug)]
pub(crate) struct Scratch {
    kernel: Kernel,
    prefixes: Vec<u64>,
    packed: Vec<u64>,
    spare: Vec<u64>,
    order: Vec<u32>,
    /// Where a column's strings begin, as they were scattered.
    starts: Vec<u64>,
    /// Values before they are put in order, in words so that they are aligned.
    values: Vec<[u64; 4]>,
}

impl Scratch {
    pub(crate) fn new() -> Self {
        let kernel = Kernel::best();
        let (prefixes, packed, spare) = (Vec::new(), Vec::new(), Vec::new());
        let (order, starts, values) = (Vec::new(), Vec::new(), Vec::new());
        Self { kernel, prefixes, packed, spare, order, starts, values }
    }
}

/// Sorts one bucket in place.
pub(crate) fn sort(
    context: &Context<'_>,
    scratch: &mut Scratch,
    mut bucket: Bucket<'_>,
) -> Result<Bits> {
    if bucket.has_prefixes() {
        scratch.prefixes.clear();
        scratch.prefixes.extend_from_slice(bucket.prefixes);
    } else if let Some((fields, columns)) = context.keys.in_place() {
        scratch.prefixes.resize(bucket.rows, 0);
        let column = |key: usize| (&*bucket.values[columns[key].at], None);
        fields.encode(0, column, &mut scratch.prefixes);
        if let Some(at) = context.lone {
            if bucket.range.0 != bucket.range.1 {
                let Scratch { kernel, prefixes, spare, .. } = scratch;
                kernel.sort(prefixes, spare, bucket.range);
                fields.decode(columns[0].kind, prefixes, bucket.values[at]);
            }
            return Ok(Bits::new());
        }
    } else if let Some((keys, column)) = context.keys.as_strings() {
        let Scratch { prefixes, starts, .. } = scratch;
        let bytes = context.strings_of(&bucket, column, starts);
        let strings = bytes.map(|bytes| Strings { bytes, starts });
        prefixes.clear();
        prefixes
            .extend(strings.iter().flat_map(Strings::iter).map(|string| keys.chunk_of(string, 0)));
    }
    let moved = find_order(context, scratch, &bucket);
    let order = moved.then_some(scratch.order.as_slice());
    if let Some(order) = order
        && !bucket.numbers.is_empty()
    {
        reorder(bucket.numbers, order, &mut scratch.values);
    }
    let mut ends = bucket.ends.into_iter();
    for (column, values) in context.columns.iter().zip(&mut bucket.values) {
        match (column.layout, order) {
            (ColumnLayout::Fixed(width), Some(order)) => {
                reorder_bytes(values, width, order, &mut scratch.values);
            }
            (ColumnLayout::Varlen { large }, _) => {
                let (ends, first) = ends.next().expect("strings have ends");
                let Scratch { starts, values: spare, .. } = scratch;
                varlen::put_in_order(values, (ends, large, first), order, (starts, spare));
            }
            (ColumnLayout::Fixed(_), None) | (ColumnLayout::Bits, _) => {}
        }
    }
    Ok(collect(context, bucket.numbers))
}

/// Finds the order of a bucket's rows; `false` when they are in order.
fn find_order(context: &Context<'_>, scratch: &mut Scratch, bucket: &Bucket<'_>) -> bool {
    let Scratch { kernel, prefixes, packed, spare, order, starts, .. } = scratch;
    let Some((least, greatest)) = extremes(prefixes) else { return false };
    let rows = prefixes.len();
    let place_bits = usize::BITS - (rows - 1).leading_zeros();
    let wide = 64 - (greatest - least).leading_zeros();
    let shift = (wide + place_bits).saturating_sub(64);
    let mask = if place_bits == 0 { 0 } else { u64::MAX >> (64 - place_bits) };
    let mut rises = true;
    packed.clear();
    let mut last = 0;
    packed.extend(prefixes.iter().enumerate().map(|(at, prefix)| {
        rises &= last <= *prefix;
        last = *prefix;
        (prefix - least) >> shift << place_bits | at as u64
    }));
    if !rises {
        kernel.sort(packed, spare, (0, ((greatest - least) >> shift) << place_bits | mask));
    }
    order.clear();
    order.extend(packed.iter().map(|number| (number & mask) as u32));
    let deeper = InBucket { context, bucket, chunks: Vec::new(), starts };
    let ties = settle_ties(deeper, (prefixes, packed, place_bits, shift), order);
    !rises || ties
}

/// Puts rows in order whose packed prefixes tie; whether there were any.
fn settle_ties(
    mut deeper: InBucket<'_, '_>,
    (prefixes, packed, place_bits, shift): (&[u64], &[u64], u32, u32),
    order: &mut [u32],
) -> bool {
    let keys = deeper.context.keys;
    let whole = matches!(keys, Keys::Fields { fields, .. } if fields.chunks() == 1);
    if shift == 0 && whole {
        return false;
    }
    let (mut from, mut any) = (0, false);
    let same = |one: &u64, other: &u64| (one ^ other).checked_shr(place_bits) == Some(0);
    for run in packed.chunk_by(same) {
        let rows = &mut order[from..from + run.len()];
        from += run.len();
        if rows.len() < 2 {
            continue;
        }
        if shift != 0 {
            rows.sort_by_key(|row| prefixes[*row as usize]);
            any = true;
        }
        let prefix = |row: &u32| prefixes[*row as usize];
        for rows in rows.chunk_by_mut(|one, other| prefix(one) == prefix(other)) {
            let first = prefix(&rows[0]);
            if rows.len() > 1 && !keys.is_whole(first) {
                settle(&mut deeper, rows, first, 0);
                any = true;
            }
        }
    }
    any
}

/// The rows of a bucket by their places in it.
struct InBucket<'a, 'b> {
    context: &'a Context<'a>,
    bucket: &'a Bucket<'b>,
    /// The chunks of all rows at each depth that was asked for.
    chunks: Vec<Vec<u64>>,
    /// Where the strings of the key begin, if it is one that lies in the bucket.
    starts: &'a [u64],
}

impl InBucket<'_, '_> {
    /// The key of a row that is a text in the bucket.
    fn text(&self, column: usize, row: u32) -> &[u8] {
        let bytes: &[u8] = self.bucket.values[column];
        Strings { bytes, starts: self.starts }.get(row as usize)
    }

    fn encode(&mut self, fields: &Fields, columns: &[KeyColumn], depth: usize) {
        while self.chunks.len() < depth {
            let mut chunks = vec![0; self.bucket.rows];
            let column = |key: usize| (&*self.bucket.values[columns[key].at], None);
            fields.encode(self.chunks.len() + 1, column, &mut chunks);
            self.chunks.push(chunks);
        }
    }
}

impl Chunks for InBucket<'_, '_> {
    fn chunk(&mut self, row: u32, depth: usize) -> u64 {
        if self.bucket.has_prefixes() {
            let number = self.bucket.numbers[row as usize];
            return self.context.keys.by_row(self.context.table).chunk(number, depth);
        }
        if let Some((keys, column)) = self.context.keys.as_strings() {
            return keys.chunk_of(self.text(column, row), depth);
        }
        if let Some((fields, columns)) = self.context.keys.in_place() {
            self.encode(fields, columns, depth);
        }
        self.chunks.get(depth - 1).map_or(0, |chunks| chunks[row as usize])
    }

    fn is_last(&self, chunk: u64, depth: usize) -> bool {
        self.context.keys.by_row(self.context.table).is_last(chunk, depth)
    }

    fn is_outside(&self, chunk: u64, depth: usize) -> bool {
        self.context.keys.by_row(self.context.table).is_outside(chunk, depth)
    }

    fn compare(&self, one: u32, other: u32) -> Ordering {
        if let Some((keys, column)) = self.context.keys.as_strings()
            && !self.bucket.has_prefixes()
        {
            return keys.compare_strings(self.text(column, one), self.text(column, other));
        }
        let numbers = &self.bucket.numbers;
        let (one, other) = (numbers[one as usize], numbers[other as usize]);
        self.context.keys.by_row(self.context.table).compare(one, other)
    }
}

fn extremes(prefixes: &[u64]) -> Option<(u64, u64)> {
    let first = *prefixes.first()?;
    Some(prefixes.iter().fold((first, first), |(l, g), prefix| (l.min(*prefix), g.max(*prefix))))
}

fn reorder_bytes(values: &mut [u8], width: usize, order: &[u32], spare: &mut Vec<[u64; 4]>) {
    Arch::new().dispatch(
        #[inline(always)]
        || reorder_width(values, width, order, spare),
    );
}

#[inline(always)]
fn reorder_width(values: &mut [u8], width: usize, order: &[u32], spare: &mut Vec<[u64; 4]>) {
    match width {
        1 => reorder::<u8>(values, order, spare),
        2 => reorder::<u16>(cast_slice_mut(values), order, spare),
        4 => reorder::<u32>(cast_slice_mut(values), order, spare),
        8 => reorder::<u64>(cast_slice_mut(values), order, spare),
        16 => reorder::<[u64; 2]>(cast_slice_mut(values), order, spare),
        32 => reorder::<[u64; 4]>(cast_slice_mut(values), order, spare),
        _ => {
            let before = values.to_vec();
            for (place, row) in values.chunks_exact_mut(width).zip(order) {
                let from = *row as usize * width;
                place.copy_from_slice(&before[from..from + width]);
            }
        }
    }
}

/// Puts values in order. They are copied first, which their cache does not notice.
#[inline(always)]
fn reorder<T: Pod>(values: &mut [T], order: &[u32], spare: &mut Vec<[u64; 4]>) {
    spare.resize(std::mem::size_of_val(values).div_ceil(32).max(spare.len()), [0; 4]);
    let before: &mut [T] = &mut cast_slice_mut(spare)[..values.len()];
    before.copy_from_slice(values);
    for (value, row) in values.iter_mut().zip(order) {
        *value = before[*row as usize];
    }
}

/// Collects what does not lie in the bucket: the bits of all columns.
fn collect(context: &Context<'_>, numbers: &[u32]) -> Bits {
    let place = |number: &u32| context.table.place(*number);
    let bits = |column: &Column| {
        let truths = if column.layout == ColumnLayout::Bits {
            pack(numbers.iter().map(|number| column.bit(place(number))))
        } else {
            Vec::new()
        };
        let valid = if column.nullable {
            pack(numbers.iter().map(|number| column.is_valid(place(number))))
        } else {
            Vec::new()
        };
        (truths, valid)
    };
    context.columns.iter().map(bits).collect()
}

/// Eight bits to a byte, the first one lowest.
fn pack(bits: impl ExactSizeIterator<Item = bool>) -> Vec<u8> {
    let mut bytes = vec![0; bits.len().div_ceil(8)];
    for (at, bit) in bits.enumerate() {
        bytes[at / 8] |= u8::from(bit) << (at % 8);
    }
    bytes
}
