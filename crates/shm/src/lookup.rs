//! The result of a lookup in the index.

use crate::slot::SlotWords;

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
