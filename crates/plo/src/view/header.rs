//! The sizes of an object, which its first bytes hold in either form. Everything follows from them.

use crate::codes::limit::ENTRIES_MAX;
use crate::error::{Error, Result, broken};
use crate::layout::{Form, Layout, header_bytes};
use crate::messages::{BATCH_MESSAGE, BODY_AT, SCHEMA_MESSAGE};
use crate::sizes::{self, Sizes, at};
use crate::stream::read_batch_message;
use crate::write::SMALL_MAGIC;

/// How many bytes at the front of `bytes` are an object, without looking further into it; for
/// objects that follow one another.
pub fn object_bytes(bytes: &[u8]) -> Result<u64> {
    read_sizes(bytes).map(|(_, layout, _)| layout.bytes)
}

/// Whether bytes start like an object in one of its forms.
pub fn is_object(bytes: &[u8]) -> bool {
    bytes.starts_with(&SMALL_MAGIC) || bytes.starts_with(SCHEMA_MESSAGE)
}

/// The sizes, the layout, and where the first buffer is.
pub(super) fn read_sizes(bytes: &[u8]) -> Result<(Sizes, Layout, u64)> {
    if bytes.starts_with(&SMALL_MAGIC) {
        return read_small_sizes(bytes);
    }
    let Some(rest) = bytes.strip_prefix(SCHEMA_MESSAGE) else {
        return Err(Error::NotAnObject("start with neither the small form's magic nor its schema"));
    };
    let Some(message) = rest.get(..BATCH_MESSAGE.len()) else {
        return Err(Error::Truncated { wanted: BODY_AT, found: bytes.len() as u64 });
    };
    let (sizes, _) = read_batch_message(message)?;
    Ok((sizes, Layout::of(&sizes, Form::Stream), BODY_AT))
}

fn read_small_sizes(bytes: &[u8]) -> Result<(Sizes, Layout, u64)> {
    let truncated = |wanted| Error::Truncated { wanted, found: bytes.len() as u64 };
    let (fixed, rest) = bytes.split_first_chunk::<16>().ok_or_else(|| truncated(16))?;
    let words = fixed.as_chunks::<4>().0;
    let word = |at: usize| u32::from_le_bytes(words[at]);
    let mut present = u64::from(word(2)) | u64::from(word(3)) << 32;
    if present >> sizes::COUNT != 0 {
        return broken("an unknown size", present.leading_zeros());
    }
    let (count, front) = (present.count_ones() as usize, header_bytes(present));
    let Some(given) = rest.as_chunks::<4>().0.get(..count) else {
        return Err(truncated(16 + 4 * count as u64));
    };
    let mut sizes = Sizes::default();
    for size in given {
        let number = present.trailing_zeros() as usize;
        present &= present - 1;
        let size = u64::from(u32::from_le_bytes(*size));
        if size == 0 || (size > ENTRIES_MAX && number != at::HEAP_BYTES) {
            return broken("a size of 0 that is marked as present, or one past its limit", number);
        }
        sizes.set(number, size);
    }
    let bytes = u64::from(word(1));
    // The tables have to end where the heap begins by this.
    let heap_at = bytes.checked_sub(sizes.get(at::HEAP_BYTES));
    let Some(heap_at) = heap_at else { return broken("a length less than the heap's", word(1)) };
    Ok((sizes, Layout { form: Form::Small, heap_at, bytes }, front))
}
