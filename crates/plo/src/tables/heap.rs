//! The entries of the heap, by their lengths alone.

use crate::columns::Long;
use crate::layout::HEAP_ALIGN;

/// The heap's entries, without their bytes.
#[derive(Clone, Debug, Default)]
pub struct Heap {
    pub(super) offsets: Vec<Long>,
    pub(super) bytes: u64,
}

impl Heap {
    /// Makes room for an entry of `bytes` bytes and returns its number.
    pub fn push(&mut self, bytes: u64) -> usize {
        if self.offsets.is_empty() {
            self.offsets.push([0; 8]);
        }
        self.bytes += bytes.next_multiple_of(HEAP_ALIGN);
        self.offsets.push(self.bytes.to_le_bytes());
        self.offsets.len() - 2
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.offsets.is_empty()
    }
}
