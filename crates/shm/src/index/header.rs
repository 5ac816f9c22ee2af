//! The header of a table, before its slots.

use std::io;

use crate::slot::{HashKey, SLOT_BYTES};
use crate::sync::{AtomicU64, Ordering};

/// The most slots of a table, so that a slot's index fits 32 bits.
pub(super) const SLOTS_MAX: usize = 1 << 31;

/// Bytes before the first slot: a magic number, the number of slots, and the key, in as much as a
/// slot takes.
pub(super) const HEADER_BYTES: u64 = SLOT_BYTES;

const MAGIC: u64 = u64::from_le_bytes(*b"PLSMIDX1");

/// The words before the first slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header<'a>(pub(super) &'a [AtomicU64]);

impl Header<'_> {
    /// How many words there are.
    pub(super) const WORDS: usize = (HEADER_BYTES / 8) as usize;

    pub(super) fn write(self, slots: u64, key: &HashKey) {
        let words = [slots].into_iter().chain(key.0);
        self.0[1..].iter().zip(words).for_each(|(to, word)| to.store(word, Ordering::Relaxed));
        self.0[0].store(MAGIC, Ordering::Release);
    }

    /// The number of slots and the key; `None` when this is not the start of a table.
    pub(super) fn read(self) -> Option<(u64, HashKey)> {
        let is_table = self.0[0].load(Ordering::Acquire) == MAGIC;
        let word = |at: usize| self.0[at].load(Ordering::Relaxed);
        is_table.then(|| (word(1), HashKey([2, 3, 4, 5].map(word))))
    }
}

/// The number of slots, if a memfd of `bytes` bytes can hold that many.
pub(super) fn slot_count(bytes: u64, slots: u64) -> io::Result<usize> {
    let fits =
        (1..=SLOTS_MAX as u64).contains(&slots) && HEADER_BYTES + slots * SLOT_BYTES <= bytes;
    if fits { Ok(slots as usize) } else { Err(not_a_table(bytes, slots)) }
}

pub(super) fn not_a_table(bytes: u64, slots: u64) -> io::Error {
    let text = format!("a memfd of {bytes} bytes is not an index table of {slots} slots");
    io::Error::new(io::ErrorKind::InvalidData, text)
}
