//! The element types of arrays.

use crate::columns::{ByteStrings, Word, word};

/// The element types.
#[derive(Clone, Debug, Default)]
pub struct Dtypes {
    pub(super) strings: ByteStrings,
    pub(super) itemsizes: Vec<Word>,
}

impl Dtypes {
    /// Appends an element type and returns its number.
    pub fn push(&mut self, text: &[u8], itemsize: usize) -> usize {
        self.strings.push(text);
        self.itemsizes.push(word(itemsize));
        self.itemsizes.len() - 1
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.itemsizes.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.itemsizes.is_empty()
    }
}
