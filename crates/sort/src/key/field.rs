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
//! greatest. A column with missing values has one more bit, on top. Floats are in the order of
//! IEEE 754 but that -0.0 equals 0.0, and that NaN is greater than any number and equals NaN.

use std::ops::Range;

use arrow_array::{Array, ArrayRef};
use arrow_buffer::{Buffer, NullBuffer};
use arrow_schema::DataType;
use bytemuck::{Pod, cast_slice, cast_slice_mut};
use half::f16;
use pulp::Arch;

use crate::order::SortKey;

/// What a value is in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    U8,
    U16,
    U32,
    U64,
    I8,
    I16,
    I32,
    I64,
    F16,
    F32,
    F64,
    /// A signed integer of this many words of 64 bits, least significant first.
    Wide(usize),
}

impl Kind {
    /// How values of a type are compared, for types of fixed width that lie as one buffer.
    pub(crate) fn of(data_type: &DataType) -> Option<Self> {
        Some(match data_type {
            DataType::UInt8 => Self::U8,
            DataType::UInt16 => Self::U16,
            DataType::UInt32 => Self::U32,
            DataType::UInt64 => Self::U64,
            DataType::Int8 => Self::I8,
            DataType::Int16 => Self::I16,
            DataType::Int32 | DataType::Date32 | DataType::Time32(_) | DataType::Decimal32(..) => {
                Self::I32
            }
            DataType::Int64
            | DataType::Date64
            | DataType::Time64(_)
            | DataType::Timestamp(..)
            | DataType::Duration(_)
            | DataType::Decimal64(..) => Self::I64,
            DataType::Float16 => Self::F16,
            DataType::Float32 => Self::F32,
            DataType::Float64 => Self::F64,
            DataType::Decimal128(..) => Self::Wide(2),
            DataType::Decimal256(..) => Self::Wide(4),
            _ => return None,
        })
    }

    /// Bytes of one value.
    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::U8 | Self::I8 => 1,
            Self::U16 | Self::I16 | Self::F16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 => 8,
            Self::Wide(words) => 8 * words,
        }
    }

    /// How many numbers of 64 bits a value makes.
    fn parts(self) -> usize {
        if let Self::Wide(words) = self { words } else { 1 }
    }
}

const SIGN: u64 = 1 << 63;

#[inline(always)]
fn of_f64(value: f64) -> u64 {
    // Adding zero makes 0.0 of -0.0.
    let bits = if value.is_nan() { f64::NAN.to_bits() } else { (value + 0.0).to_bits() };
    bits ^ (((bits as i64 >> 63) as u64) | SIGN)
}

#[inline(always)]
fn to_f64(code: u64) -> f64 {
    f64::from_bits(code ^ (((!code as i64 >> 63) as u64) | SIGN))
}

#[inline(always)]
fn of_f32(value: f32) -> u64 {
    let bits = if value.is_nan() { f32::NAN.to_bits() } else { (value + 0.0).to_bits() };
    u64::from(bits ^ (((bits as i32 >> 31) as u32) | (1 << 31)))
}

#[inline(always)]
fn to_f32(code: u64) -> f32 {
    let code = code as u32;
    f32::from_bits(code ^ (((!code as i32 >> 31) as u32) | (1 << 31)))
}

#[inline(always)]
fn of_f16(value: f16) -> u64 {
    let value = if value == f16::NEG_ZERO { f16::ZERO } else { value };
    let bits = if value.is_nan() { f16::NAN.to_bits() } else { value.to_bits() };
    u64::from(bits ^ (((bits as i16 >> 15) as u16) | (1 << 15)))
}

#[inline(always)]
fn to_f16(code: u64) -> f16 {
    let code = code as u16;
    f16::from_bits(code ^ (((!code as i16 >> 15) as u16) | (1 << 15)))
}

/// Calls `$run!(type, encode, decode)` for a kind of at most 64 bits, and the block for others.
macro_rules! with_kind {
    ($kind:expr, $run:ident, $words:ident => $wide:block) => {
        match $kind {
            Kind::U8 => $run!(u8, |v: u8| u64::from(v), |c: u64| c as u8),
            Kind::U16 => $run!(u16, |v: u16| u64::from(v), |c: u64| c as u16),
            Kind::U32 => $run!(u32, |v: u32| u64::from(v), |c: u64| c as u32),
            Kind::U64 => $run!(u64, |v: u64| v, |c: u64| c),
            Kind::I8 => $run!(i8, |v: i8| v as i64 as u64 ^ SIGN, |c: u64| (c ^ SIGN) as i8),
            Kind::I16 => $run!(i16, |v: i16| v as i64 as u64 ^ SIGN, |c: u64| (c ^ SIGN) as i16),
            Kind::I32 => $run!(i32, |v: i32| v as i64 as u64 ^ SIGN, |c: u64| (c ^ SIGN) as i32),
            Kind::I64 => $run!(i64, |v: i64| v as u64 ^ SIGN, |c: u64| (c ^ SIGN) as i64),
            Kind::F16 => $run!(f16, of_f16, to_f16),
            Kind::F32 => $run!(f32, of_f32, to_f32),
            Kind::F64 => $run!(f64, of_f64, to_f64),
            Kind::Wide($words) => $wide,
        }
    };
}

/// The values of a key column in one batch.
#[derive(Clone, Debug)]
pub(crate) struct Values {
    /// As many values as the batch has rows.
    pub(crate) bytes: Buffer,
    pub(crate) nulls: Option<NullBuffer>,
}

impl Values {
    /// The values of an array of a type that has a [`Kind`].
    pub(crate) fn of(array: &ArrayRef, width: usize) -> Self {
        let data = array.to_data();
        let bytes = data.buffers()[0].slice_with_length(data.offset() * width, data.len() * width);
        let nulls = array.nulls().filter(|nulls| nulls.null_count() != 0).cloned();
        Self { bytes, nulls }
    }
}

/// What is known of the values of a column: what their bits are chosen from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Extremes {
    /// The least and the greatest, for each part of the value, the most significant first.
    parts: Vec<(u64, u64)>,
    has_nulls: bool,
    /// Whether every value can be had back from its code.
    reversible: bool,
}

impl Extremes {
    pub(crate) fn none(kind: Kind) -> Self {
        let parts = vec![(u64::MAX, 0); kind.parts()];
        Self { parts, has_nulls: false, reversible: true }
    }

    /// Those of some rows of a batch.
    pub(crate) fn of(kind: Kind, values: &Values, rows: Range<usize>) -> Self {
        Arch::new().dispatch(
            #[inline(always)]
            || Self::of_rows(kind, values, rows),
        )
    }

    #[inline(always)]
    fn of_rows(kind: Kind, values: &Values, rows: Range<usize>) -> Self {
        let mut found = Self::none(kind);
        let width = kind.bytes();
        let bytes = &values.bytes.as_slice()[rows.start * width..rows.end * width];
        let nulls = values.nulls.as_ref().map(|nulls| nulls.slice(rows.start, rows.len()));
        found.has_nulls = nulls.as_ref().is_some_and(|nulls| nulls.null_count() != 0);
        let present = nulls.filter(|_| found.has_nulls);
        macro_rules! run {
            ($type:ty, $encode:expr, $decode:expr) => {{
                let values: &[$type] = cast_slice(bytes);
                match &present {
                    None => found.see(values.iter().copied(), $encode, $decode),
                    Some(nulls) => {
                        found.see(nulls.valid_indices().map(|at| values[at]), $encode, $decode);
                    }
                }
            }};
        }
        with_kind!(kind, run, words => {
            let valid = |at: usize| present.as_ref().is_none_or(|nulls| nulls.is_valid(at));
            let values = cast_slice::<u8, u64>(bytes).chunks_exact(words).enumerate();
            for (_, value) in values.filter(|(at, _)| valid(*at)) {
                for (part, (least, greatest)) in found.parts.iter_mut().enumerate() {
                    let code = wide_code(value, part);
                    (*least, *greatest) = ((*least).min(code), (*greatest).max(code));
                }
            }
        });
        found
    }

    #[inline(always)]
    fn see<T: Number>(
        &mut self,
        values: impl Iterator<Item = T>,
        encode: impl Fn(T) -> u64,
        decode: impl Fn(u64) -> T,
    ) {
        let (mut least, mut greatest) = self.parts[0];
        let mut differs = 0;
        for value in values {
            let code = encode(value);
            (least, greatest) = (least.min(code), greatest.max(code));
            differs |= decode(code).bits() ^ value.bits();
        }
        self.parts[0] = (least, greatest);
        self.reversible &= differs == 0;
    }

    /// Those of all the rows that either has.
    pub(crate) fn and(mut self, other: &Self) -> Self {
        for (mine, theirs) in self.parts.iter_mut().zip(&other.parts) {
            *mine = (mine.0.min(theirs.0), mine.1.max(theirs.1));
        }
        self.has_nulls |= other.has_nulls;
        self.reversible &= other.reversible;
        self
    }
}

/// Numbers whose bits can be compared.
trait Number: Pod {
    fn bits(self) -> u64;
}

macro_rules! numbers {
    ($($type:ty: $bits:expr),*) => {
        $(impl Number for $type {
            #[inline(always)]
            fn bits(self) -> u64 {
                $bits(self)
            }
        })*
    };
}

numbers!(
    u8: u64::from, u16: u64::from, u32: u64::from, u64: u64::from,
    i8: |v| v as u64, i16: |v| v as u64, i32: |v| v as u64, i64: |v| v as u64,
    f16: |v: f16| u64::from(v.to_bits()),
    f32: |v: f32| u64::from(v.to_bits()),
    f64: f64::to_bits
);

/// A part of a wide value, the most significant being part 0, in an order of unsigned numbers.
fn wide_code(words: &[u64], part: usize) -> u64 {
    let word = words[words.len() - 1 - part];
    if part == 0 { word ^ SIGN } else { word }
}

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
