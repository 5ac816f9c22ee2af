//! Extensions: values that no other table has a type for.

use crate::columns::{ByteStrings, Lists, Word};

/// The extensions, by column.
#[derive(Clone, Debug, Default)]
pub struct Exts {
    pub(super) kinds: Vec<u8>,
    /// The data; append that of an extension before it is pushed.
    pub data: ByteStrings,
    /// The heap entries; append those of an extension before it is pushed.
    pub heaps: Lists<Word>,
}

impl Exts {
    /// Appends an extension with the data and the heap entries that were appended, and returns its
    /// number.
    #[inline]
    pub fn push(&mut self, kind: u8) -> usize {
        self.kinds.push(kind);
        self.data.end();
        self.heaps.end();
        self.kinds.len() - 1
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
