//! What a look at all values of a key column tells: the least and the greatest of them, whether any
//! is missing, and whether values can be had back from their codes.

use std::ops::Range;

use arrow_array::{Array, ArrayRef};
use arrow_buffer::{Buffer, NullBuffer};
use bytemuck::cast_slice;
use half::f16;
use pulp::Arch;

use super::number::*;

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
    pub(super) parts: Vec<(u64, u64)>,
    pub(super) has_nulls: bool,
    /// Whether every value can be had back from its code.
    pub(super) reversible: bool,
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
