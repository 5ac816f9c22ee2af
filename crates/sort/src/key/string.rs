//! Keys of any length: strings and bytes as they lie, and everything else as rows of bytes whose
//! order is that of the values (`arrow_row`).
//!
//! A chunk of such a key is seven bytes and a code for how many of them there are, so that a string
//! sorts after each of its prefixes:
//!
//! ```text
//!   | 7 bytes, zeros after the end  | code |      code 2 + n: n bytes are left, n <= 7
//!                                                 code 10: more; the next chunk tells
//! ```
//!
//! Bytes that all keys of the sample begin with are skipped. A key without them sorts before
//! ([`BEFORE`]) or after ([`AFTER`]) all that have them, and is compared as a whole.

use std::cmp::Ordering;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BinaryArray, BinaryViewArray, FixedSizeBinaryArray};
use arrow_array::{LargeBinaryArray, LargeStringArray, StringArray, StringViewArray};
use arrow_row::Rows;
use arrow_schema::DataType;

use super::rows::RowKeys;
use crate::column::ColumnLayout;
use crate::error::Result;
use crate::order::SortKey;
use crate::table::Table;

/// Bytes of the key in one chunk.
const CHUNK_BYTES: usize = 7;
const MORE: u64 = 10;
/// Of a missing value that comes first.
const MISSING_FIRST: u64 = 0;
const BEFORE: u64 = 1;
const AFTER: u64 = u64::MAX - 1;
/// Of a missing value that comes last.
const MISSING_LAST: u64 = u64::MAX;

/// The bytes of keys in one batch.
#[derive(Debug)]
enum Source {
    Utf8(StringArray),
    LargeUtf8(LargeStringArray),
    Utf8View(StringViewArray),
    Binary(BinaryArray),
    LargeBinary(LargeBinaryArray),
    BinaryView(BinaryViewArray),
    FixedBinary(FixedSizeBinaryArray),
    Rows(Rows),
}

impl Source {
    fn of(array: &ArrayRef) -> Option<Self> {
        Some(match array.data_type() {
            DataType::Utf8 => Self::Utf8(array.as_string().clone()),
            DataType::LargeUtf8 => Self::LargeUtf8(array.as_string().clone()),
            DataType::Utf8View => Self::Utf8View(array.as_string_view().clone()),
            DataType::Binary => Self::Binary(array.as_binary().clone()),
            DataType::LargeBinary => Self::LargeBinary(array.as_binary().clone()),
            DataType::BinaryView => Self::BinaryView(array.as_binary_view().clone()),
            DataType::FixedSizeBinary(_) => Self::FixedBinary(array.as_fixed_size_binary().clone()),
            _ => return None,
        })
    }

    #[inline]
    fn get(&self, row: usize) -> Option<&[u8]> {
        macro_rules! of {
            ($array:expr) => {
                if $array.is_valid(row) { Some($array.value(row).as_ref()) } else { None }
            };
        }
        match self {
            Self::Utf8(array) => of!(array),
            Self::LargeUtf8(array) => of!(array),
            Self::Utf8View(array) => of!(array),
            Self::Binary(array) => of!(array),
            Self::LargeBinary(array) => of!(array),
            Self::BinaryView(array) => of!(array),
            Self::FixedBinary(array) => of!(array),
            Self::Rows(rows) => Some(rows.row(row).data()),
        }
    }
}

/// Keys of any length, batch by batch.
#[derive(Debug)]
pub(crate) struct StringKeys {
    batches: Vec<Source>,
    /// What all keys of the sample begin with.
    common: Vec<u8>,
    descending: bool,
    nulls_first: bool,
    /// The only column whose strings they are, if none of them is missing.
    column: Option<usize>,
}

impl StringKeys {
    /// One column of strings or bytes, as it lies.
    pub(crate) fn of_column(table: &Table, at: usize, key: &SortKey) -> Option<Self> {
        let arrays = table.column(at);
        let batches = arrays.iter().map(Source::of).collect::<Option<_>>()?;
        let (descending, nulls_first) = (key.descending, key.nulls_first);
        let moves = ColumnLayout::of(table.schema().field(at).data_type());
        let whole = matches!(moves, Some(ColumnLayout::Varlen { .. }))
            && arrays.iter().all(|array| array.null_count() == 0);
        let column = whole.then_some(at);
        Some(Self { batches, common: Vec::new(), descending, nulls_first, column })
    }

    /// The column whose strings these are, all of them.
    pub(crate) fn column(&self) -> Option<usize> {
        self.column
    }

    /// Whether a lone column of this type needs no rows of bytes.
    pub(crate) fn takes(data_type: &DataType) -> bool {
        matches!(
            data_type,
            DataType::Utf8
                | DataType::LargeUtf8
                | DataType::Utf8View
                | DataType::Binary
                | DataType::LargeBinary
                | DataType::BinaryView
                | DataType::FixedSizeBinary(_)
        )
    }

    /// Any columns, made into rows of bytes.
    pub(crate) fn of_rows(
        keys: &[(&SortKey, &DataType)],
        batches: &[Vec<ArrayRef>],
    ) -> Result<Self> {
        let rows_of = RowKeys::new(keys)?;
        let rows = batches.iter().map(|columns| Ok(Source::Rows(rows_of.convert(columns)?)));
        let batches = rows.collect::<Result<_>>()?;
        let common = Vec::new();
        Ok(Self { batches, common, descending: false, nulls_first: false, column: None })
    }

    /// Chooses what to skip, from a sample of rows.
    pub(crate) fn skip_common(&mut self, sample: &[(usize, usize)]) {
        let mut keys = sample.iter().filter_map(|(batch, row)| self.batches[*batch].get(*row));
        let Some(first) = keys.next() else { return };
        let length = keys.fold(first.len(), |length, key| {
            let both = first[..length].iter().zip(key);
            both.take_while(|(one, other)| one == other).count()
        });
        self.common = first[..length].to_vec();
    }

    /// One chunk of a row.
    #[inline]
    pub(crate) fn chunk(&self, batch: usize, row: usize, depth: usize) -> u64 {
        match self.batches[batch].get(row) {
            Some(key) => self.chunk_of(key, depth),
            None if self.nulls_first => MISSING_FIRST,
            None => MISSING_LAST,
        }
    }

    /// One chunk of a key.
    #[inline]
    pub(crate) fn chunk_of(&self, key: &[u8], depth: usize) -> u64 {
        let rest = if self.common.is_empty() { Some(key) } else { key.strip_prefix(&*self.common) };
        let chunk = match rest {
            Some(rest) => chunk_of(rest.get(depth * CHUNK_BYTES..).unwrap_or_default()),
            None if key < self.common.as_slice() => BEFORE,
            None => AFTER,
        };
        if self.descending { !chunk } else { chunk }
    }

    /// Whether equal chunks of this value mean equal keys.
    pub(crate) fn is_last(&self, chunk: u64) -> bool {
        if chunk == MISSING_FIRST || chunk == MISSING_LAST {
            return true;
        }
        let chunk = if self.descending { !chunk } else { chunk };
        (chunk & 0xFF) < MORE && chunk != BEFORE
    }

    /// Whether rows with this chunk must be compared as a whole.
    pub(crate) fn is_outside(&self, chunk: u64) -> bool {
        let chunk = if self.descending { !chunk } else { chunk };
        chunk == BEFORE || chunk == AFTER
    }

    /// The order of two rows, both with a value.
    pub(crate) fn compare(&self, one: (usize, usize), other: (usize, usize)) -> Ordering {
        let key = |(batch, row): (usize, usize)| self.batches[batch].get(row);
        let order = key(one).cmp(&key(other));
        if self.descending { order.reverse() } else { order }
    }

    /// The order of two keys.
    pub(crate) fn compare_strings(&self, one: &[u8], other: &[u8]) -> Ordering {
        let order = one.cmp(other);
        if self.descending { order.reverse() } else { order }
    }
}

/// The chunk that the rest of a key starts with.
#[inline]
fn chunk_of(rest: &[u8]) -> u64 {
    if let Some(eight) = rest.first_chunk::<8>() {
        return u64::from_be_bytes(*eight) & !0xFF | MORE;
    }
    // Three loads that overlap are faster than a copy of any length.
    let count = rest.len();
    let bytes = if let (Some(first), Some(last)) = (rest.first_chunk(), rest.last_chunk()) {
        let (first, last) = (u32::from_be_bytes(*first), u32::from_be_bytes(*last));
        u64::from(first) << 32 | u64::from(last) << (8 * (8 - count))
    } else {
        let byte = |at: usize| rest.get(at).map_or(0, |byte| u64::from(*byte) << (56 - 8 * at));
        byte(0) | byte(1) | byte(2)
    };
    bytes & !0xFF | (2 + count as u64)
}
