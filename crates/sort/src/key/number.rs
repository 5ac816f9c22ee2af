//! Numbers as codes: unsigned numbers whose order is the numbers' order, and back.
//!
//! Floats are in the order of IEEE 754 but that -0.0 equals 0.0, and that NaN is greater than any
//! number and equals NaN.

use arrow_schema::DataType;
use bytemuck::Pod;
use half::f16;

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
    pub(super) fn parts(self) -> usize {
        if let Self::Wide(words) = self { words } else { 1 }
    }
}

pub(super) const SIGN: u64 = 1 << 63;

#[inline(always)]
pub(super) fn of_f64(value: f64) -> u64 {
    // Adding zero makes 0.0 of -0.0.
    let bits = if value.is_nan() { f64::NAN.to_bits() } else { (value + 0.0).to_bits() };
    bits ^ (((bits as i64 >> 63) as u64) | SIGN)
}

#[inline(always)]
pub(super) fn to_f64(code: u64) -> f64 {
    f64::from_bits(code ^ (((!code as i64 >> 63) as u64) | SIGN))
}

#[inline(always)]
pub(super) fn of_f32(value: f32) -> u64 {
    let bits = if value.is_nan() { f32::NAN.to_bits() } else { (value + 0.0).to_bits() };
    u64::from(bits ^ (((bits as i32 >> 31) as u32) | (1 << 31)))
}

#[inline(always)]
pub(super) fn to_f32(code: u64) -> f32 {
    let code = code as u32;
    f32::from_bits(code ^ (((!code as i32 >> 31) as u32) | (1 << 31)))
}

#[inline(always)]
pub(super) fn of_f16(value: f16) -> u64 {
    let value = if value == f16::NEG_ZERO { f16::ZERO } else { value };
    let bits = if value.is_nan() { f16::NAN.to_bits() } else { value.to_bits() };
    u64::from(bits ^ (((bits as i16 >> 15) as u16) | (1 << 15)))
}

#[inline(always)]
pub(super) fn to_f16(code: u64) -> f16 {
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

pub(super) use with_kind;

/// Numbers whose bits can be compared.
pub(super) trait Number: Pod {
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
pub(super) fn wide_code(words: &[u64], part: usize) -> u64 {
    let word = words[words.len() - 1 - part];
    if part == 0 { word ^ SIGN } else { word }
}
