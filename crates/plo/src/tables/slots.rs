//! Slots: cells of any type.

use crate::codes::slot;
use crate::columns::{Bits, Long, Word, word};

/// The untyped cells.
#[derive(Clone, Debug, Default)]
pub struct Slots {
    pub(super) types: Vec<u8>,
    pub(super) offsets: Vec<Word>,
    pub(super) nulls: usize,
    pub(super) bools: Bits,
    pub(super) ints: Vec<Long>,
    pub(super) floats: Vec<Long>,
    /// The children that are indices, from `str` to `ext`.
    pub(super) indices: [Vec<Word>; slot::COUNT - slot::STR as usize],
}

impl Slots {
    #[inline]
    fn typed(&mut self, kind: u8, offset: usize) {
        self.types.push(kind);
        self.offsets.push(word(offset));
    }

    /// Appends None.
    #[inline]
    pub fn push_null(&mut self) {
        self.typed(slot::NULL, self.nulls);
        self.nulls += 1;
    }

    /// Appends a boolean.
    #[inline]
    pub fn push_bool(&mut self, value: bool) {
        self.typed(slot::BOOL, self.bools.len());
        self.bools.push(value);
    }

    /// Appends an integer.
    #[inline]
    pub fn push_int(&mut self, value: i64) {
        self.typed(slot::INT, self.ints.len());
        self.ints.push(value.to_le_bytes());
    }

    /// Appends a float.
    #[inline]
    pub fn push_float(&mut self, value: f64) {
        self.typed(slot::FLOAT, self.floats.len());
        self.floats.push(value.to_le_bytes());
    }

    /// Appends a reference to an entry of another table; `kind` is one of [`slot`] from `STR` on.
    #[inline]
    pub fn push_index(&mut self, kind: u8, index: usize) {
        let child = usize::from(kind - slot::STR);
        self.typed(kind, self.indices[child].len());
        self.indices[child].push(word(index));
    }

    /// How many there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.types.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.types.is_empty()
    }
}
