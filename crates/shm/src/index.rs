//! The object index: a table in a memfd that the daemon writes and clients probe without asking.
//!
//! [`IndexReader`] is a client's read-only view, [`IndexWriter`] the daemon's. A table has a
//! number; the control page says which number is current. When the daemon grows the table it fills
//! a new memfd and changes that number; the old table is never changed again, and a reader who
//! still looks at it finds out when it checks the number behind its pin.

use crate::slot::SlotWords;

pub use crate::table::Counts;

#[cfg(not(loom))]
mod mapped;
#[cfg(not(loom))]
mod writing;

#[cfg(not(loom))]
pub use {mapped::IndexReader, writing::IndexWriter};

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
