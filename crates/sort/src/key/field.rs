//! Keys of fixed width: every key column becomes a few bits, and the bits of all of them, the
//! first key's on top, make one number whose order is the rows' order.
//!
//! ```text
//!   by ("year" descending, "price")       year 2001..2025        price, any float64
//!                                         ├── 5 bits ──┤├──────────── 62 bits ───────────┤
//!   chunk 0 (64 bits)                     |····································|
//!   chunk 1, asked for where chunk 0 ties                                      |···      |
//! ```
//!
//! A value's bits are its distance from the least value of the column, or, descending, from the
//! greatest. A column with missing values has one more bit, on top.

use arrow_buffer::NullBuffer;
use bytemuck::{cast_slice, cast_slice_mut};
use half::f16;
use pulp::Arch;

use super::extremes::Extremes;
use super::number::*;
use crate::order::SortKey;

/// Some bits of the key: where they come from and where they go.
#[derive(Clone, Debug)]
struct Field {
    /// Which key column.
    key: usize,
    source: Source,
    /// From the top of the key.
    start: u32,
    bits: u32,
}

#[derive(Clone, Debug)]
enum Source {
    /// One part of the value: `(code ^ flip) - base`.
    Value { kind: Kind, part: usize, flip: u64, base: u64 },
    /// Whether there is no value.
    Missing { first: bool },
}

/// How rows become numbers.
#[derive(Clone, Debug)]
pub(crate) struct Fields {
    fields: Vec<Field>,
    bits: u32,
    reversible: bool,
    nullable: bool,
}

impl Fields {
    /// The layout for these keys, given what their columns hold.
    pub(crate) fn new(keys: &[(Kind, &SortKey, Extremes)]) -> Self {
        let mut fields = Vec::new();
        let mut start = 0;
        for (key, (kind, order, extremes)) in keys.iter().enumerate() {
            if extremes.has_nulls {
                let source = Source::Missing { first: order.nulls_first };
                fields.push(Field { key, source, start, bits: 1 });
                start += 1;
            }
            for (part, &(least, greatest)) in extremes.parts.iter().enumerate() {
                let flip = if order.descending { u64::MAX } else { 0 };
                let base = if order.descending { !greatest } else { least };
                let bits = 64 - greatest.saturating_sub(least).leading_zeros();
                if bits != 0 {
                    let source = Source::Value { kind: *kind, part, flip, base };
                    fields.push(Field { key, source, start, bits });
                    start += bits;
                }
            }
        }
        let reversible = keys.iter().all(|(_, _, extremes)| extremes.reversible);
        let nullable = keys.iter().any(|(_, _, extremes)| extremes.has_nulls);
        Self { fields, bits: start, reversible, nullable }
    }

    /// How many chunks hold the whole key.
    pub(crate) fn chunks(&self) -> usize {
        self.bits.div_ceil(64).max(1) as usize
    }

    /// Whether any key column has missing values.
    pub(crate) fn nullable(&self) -> bool {
        self.nullable
    }

    /// Chunk `chunk` of the keys of some rows. `column` gives a key column's values for exactly
    /// these rows, and which of them are there.
    pub(crate) fn encode<'a>(
        &self,
        chunk: usize,
        column: impl Fn(usize) -> (&'a [u8], Option<NullBuffer>),
        out: &mut [u64],
    ) {
        Arch::new().dispatch(
            #[inline(always)]
            || self.encode_with(chunk, column, out),
        );
    }

    #[inline(always)]
    fn encode_with<'a>(
        &self,
        chunk: usize,
        column: impl Fn(usize) -> (&'a [u8], Option<NullBuffer>),
        out: &mut [u64],
    ) {
        out.fill(0);
        for field in &self.fields {
            let shift = 64 * (chunk as i64 + 1) - i64::from(field.start + field.bits);
            if shift >= 64 || -shift >= i64::from(field.bits) {
                continue;
            }
            let (bytes, nulls) = column(field.key);
            match &field.source {
                Source::Missing { first } => {
                    if let Some(nulls) = nulls {
                        for (at, out) in out.iter_mut().enumerate() {
                            *out |= u64::from(nulls.is_valid(at) == *first) << shift;
                        }
                    } else if *first {
                        out.iter_mut().for_each(|out| *out |= 1 << shift);
                    }
                }
                Source::Value { kind, part, flip, base } => {
                    let norm = |code: u64| {
                        let value = (code ^ flip).wrapping_sub(*base);
                        if shift >= 0 { value << shift } else { value >> -shift }
                    };
                    match nulls {
                        None => add_all(*kind, *part, bytes, norm, out),
                        Some(nulls) => add_valid(*kind, *part, bytes, &nulls, norm, out),
                    }
                }
            }
        }
    }

    /// The column whose values are all there is to the keys, and can be had back from them.
    pub(crate) fn lone_value(&self) -> bool {
        self.reversible && self.bits <= 64 && self.fields.len() <= 1 && !self.nullable
    }

    /// Writes back the values of the only key column, of this kind, from their keys.
    pub(crate) fn decode(&self, kind: Kind, codes: &[u64], out: &mut [u8]) {
        Arch::new().dispatch(
            #[inline(always)]
            || self.decode_with(kind, codes, out),
        );
    }

    #[inline(always)]
    fn decode_with(&self, kind: Kind, codes: &[u64], out: &mut [u8]) {
        let Some(Field { bits, source: Source::Value { flip, base, .. }, .. }) =
            self.fields.first()
        else {
            // Without a field all values are the same, and stand where they should.
            return;
        };
        let shift = 64 - bits;
        macro_rules! run {
            ($type:ty, $encode:expr, $decode:expr) => {{
                let _ = $encode;
                let out: &mut [$type] = cast_slice_mut(out);
                for (out, code) in out.iter_mut().zip(codes) {
                    *out = $decode((code >> shift).wrapping_add(*base) ^ flip);
                }
            }};
        }
        with_kind!(kind, run, _words => {});
    }
}

#[inline(always)]
fn add_all(kind: Kind, part: usize, bytes: &[u8], norm: impl Fn(u64) -> u64, out: &mut [u64]) {
    macro_rules! run {
        ($type:ty, $encode:expr, $decode:expr) => {{
            let _ = $decode;
            for (out, value) in out.iter_mut().zip(cast_slice::<u8, $type>(bytes)) {
                *out |= norm($encode(*value));
            }
        }};
    }
    with_kind!(kind, run, words => {
        let rows = cast_slice::<u8, u64>(bytes).chunks_exact(words);
        for (out, row) in out.iter_mut().zip(rows) {
            *out |= norm(wide_code(row, part));
        }
    });
}

/// Like [`add_all`], but leaves the bits of missing values zero, so that they are equal.
fn add_valid(
    kind: Kind,
    part: usize,
    bytes: &[u8],
    nulls: &NullBuffer,
    norm: impl Fn(u64) -> u64,
    out: &mut [u64],
) {
    macro_rules! run {
        ($type:ty, $encode:expr, $decode:expr) => {{
            let _ = $decode;
            let values = cast_slice::<u8, $type>(bytes);
            nulls.valid_indices().for_each(|at| out[at] |= norm($encode(values[at])));
        }};
    }
    with_kind!(kind, run, words => {
        let rows = cast_slice::<u8, u64>(bytes);
        let row = |at: usize| &rows[at * words..(at + 1) * words];
        nulls.valid_indices().for_each(|at| out[at] |= norm(wide_code(row(at), part)));
    });
}
