//! The object index: a table in a memfd that the daemon writes and clients probe without asking.
//!
//! [`IndexReader`] is a client's read-only view, [`IndexWriter`] the daemon's. A table has a
//! number; the control page says which number is current. When the daemon grows the table it fills
//! a new memfd and changes that number; the old table is never changed again, and a reader who
//! still looks at it finds out when it checks the number behind its pin.

use crate::slot::SlotWords;
#[cfg(not(loom))]
use crate::slot::{HashKey, SLOT_BYTES};
#[cfg(not(loom))]
use crate::sync::{AtomicU64, Ordering};

pub use crate::table::Counts;

#[cfg(not(loom))]
mod mapped;
#[cfg(not(loom))]
pub mod moving;
#[cfg(not(loom))]
mod writing;

#[cfg(not(loom))]
pub use {mapped::IndexReader, writing::IndexWriter};

/// Bytes before the first slot: a magic number, the number of slots, and the key, in as much as a
/// slot takes.
#[cfg(not(loom))]
const HEADER_BYTES: u64 = SLOT_BYTES;

#[cfg(not(loom))]
const MAGIC: u64 = u64::from_le_bytes(*b"PLSMIDX1");

/// The words before the first slot.
#[cfg(not(loom))]
#[derive(Clone, Copy, Debug)]
struct Header<'a>(&'a [AtomicU64]);

#[cfg(not(loom))]
impl Header<'_> {
    /// How many words there are.
    const WORDS: usize = (HEADER_BYTES / 8) as usize;

    fn write(self, slots: u64, key: &HashKey) {
        let words = [slots].into_iter().chain(key.0);
        self.0[1..].iter().zip(words).for_each(|(to, word)| to.store(word, Ordering::Relaxed));
        self.0[0].store(MAGIC, Ordering::Release);
    }

    /// The number of slots and the key; `None` when this is not the start of a table.
    fn read(self) -> Option<(u64, HashKey)> {
        let is_table = self.0[0].load(Ordering::Acquire) == MAGIC;
        let word = |at: usize| self.0[at].load(Ordering::Relaxed);
        is_table.then(|| (word(1), HashKey([2, 3, 4, 5].map(word))))
    }
}

/// What a look into the index ended in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lookup {
    /// The object is there and cannot go until the pin is released.
    Pinned(Pin),
    /// The index does not have it now. Never final: the daemon applies every ring before it says
    /// no.
    Missing,
    /// The daemon moved to another table: fetch it and look again.
    TableChanged,
}

/// A pin in the client's ledger and the object that it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pin {
    /// The ledger entry: what [`crate::ledger::Ledger::release`] wants. As wide as a word, because
    /// a copy that loads half of one and half of the next word waits until both are stored.
    entry: u64,
    /// What the index says about the object.
    pub(crate) words: SlotWords,
}

impl Pin {
    #[inline]
    pub(crate) fn new(entry: u32, words: SlotWords) -> Self {
        Self { entry: entry.into(), words }
    }

    /// The ledger entry.
    #[inline]
    pub(crate) fn entry(&self) -> u32 {
        self.entry as u32
    }
}

#[cfg(not(loom))]
#[cfg(test)]
mod tests;
