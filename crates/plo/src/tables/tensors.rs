//! Arrays: their shapes, their strides and their places in the heap.

use crate::columns::{Lists, Long, Word, word};

/// The tensors, by column.
#[derive(Clone, Debug, Default)]
pub struct Tensors {
    pub(super) kinds: Vec<u8>,
    pub(super) dtypes: Vec<Word>,
    /// The extents; append those of a tensor before it is pushed.
    pub shape: Lists<Long>,
    /// The strides, none for C order; append and end those of every tensor, in order, when their
    /// places are known.
    pub strides: Lists<Long>,
    pub(super) heaps: Vec<Word>,
    pub(super) offsets: Vec<Long>,
}

impl Tensors {
    /// Appends a tensor without a place in the heap and returns its number.
    pub fn push(&mut self, kind: u8, dtype: usize) -> usize {
        self.kinds.push(kind);
        self.dtypes.push(word(dtype));
        self.shape.end();
        self.heaps.push((-1i32).to_le_bytes());
        self.offsets.push([0; 8]);
        self.kinds.len() - 1
    }

    /// Gives a tensor its place in the heap: the entry, and the offset of its first element.
    pub fn place(&mut self, tensor: usize, entry: usize, offset: u64) {
        self.heaps[tensor] = word(entry);
        self.offsets[tensor] = offset.to_le_bytes();
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.kinds.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }
}
