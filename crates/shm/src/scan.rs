//! Looking through ledgers: which of some serials are pinned.
//!
//! One look goes over every ledger once, however many serials it asks for. A pin on something else
//! costs a load and one bit of a small filter.

use crate::sync::{AtomicU64, Ordering};

/// Bits of the filter for each serial: one pin in sixteen on something else passes it.
const FILTER_BITS: usize = 16;

/// How often each of some serials is pinned, while the ledgers are looked through.
#[derive(Debug)]
pub struct PinCounts {
    /// Sorted, each once.
    serials: Vec<u64>,
    counts: Vec<u32>,
    filter: Vec<u64>,
    digest: u64,
}

impl PinCounts {
    /// Nothing was found yet of these serials, in whatever order.
    pub fn new(serials: &[u64]) -> Self {
        let mut serials = serials.to_vec();
        serials.sort_unstable();
        serials.dedup();
        let counts = vec![0; serials.len()];
        let words = (serials.len() * FILTER_BITS / 64).next_power_of_two();
        let mut filter = vec![0; words];
        for serial in &serials {
            let (word, bit) = place(*serial, words);
            filter[word] |= bit;
        }
        Self { serials, counts, filter, digest: 0 }
    }

    /// How often each of `serials` is pinned, in their order; 0 for those that were not asked for.
    pub fn of(&self, serials: &[u64]) -> Vec<u32> {
        let count = |serial| self.serials.binary_search(serial).map_or(0, |at| self.counts[at]);
        serials.iter().map(count).collect()
    }

    /// So many pins more on each: what may be pinned cannot be seen.
    pub fn add_to_all(&mut self, pins: u32) {
        self.counts.iter_mut().for_each(|count| *count = count.saturating_add(pins));
    }

    /// A number that stays the same while the ledgers hold the same pins, whatever was asked for.
    pub fn digest(&self) -> u64 {
        self.digest
    }

    #[inline]
    fn add(&mut self, pin: u64) {
        // A sum, so that the order does not matter, of numbers that small serials do not make.
        let spread = pin.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.digest = self.digest.wrapping_add(spread ^ (spread >> 32));
        let (word, bit) = place(pin, self.filter.len());
        if self.filter[word] & bit != 0
            && let Ok(at) = self.serials.binary_search(&pin)
        {
            self.counts[at] = self.counts[at].saturating_add(1);
        }
    }
}

/// Where the filter has the bit of a serial. Serials are given in a row, so their low bits differ.
#[inline]
fn place(serial: u64, words: usize) -> (usize, u64) {
    ((serial >> 6) as usize & (words - 1), 1 << (serial & 63))
}

/// The daemon's view of a client's ledger, or of a part of it, of which it believes nothing.
#[derive(Clone, Copy, Debug)]
pub struct LedgerScan<'a> {
    entries: &'a [AtomicU64],
}

impl<'a> LedgerScan<'a> {
    /// What lies below the client's mark.
    pub(crate) fn new(entries: &'a [AtomicU64], high: &AtomicU64) -> Self {
        // This load follows the fence in `hide`; `raise` says the rest about pins. It pairs with
        // the store in `lower`: what was read under pins beyond the mark was read before.
        let high = high.load(Ordering::Acquire);
        let high = usize::try_from(high).unwrap_or(usize::MAX).min(entries.len());
        Self { entries: &entries[..high] }
    }

    /// How many entries there are to look at.
    #[cfg(not(loom))]
    pub(crate) fn len(self) -> usize {
        self.entries.len()
    }

    /// A part of it.
    #[cfg(not(loom))]
    pub(crate) fn part(self, entries: std::ops::Range<usize>) -> Self {
        Self { entries: &self.entries[entries] }
    }

    /// The pinned serials, in the ledger's order; what is no serial of the index is there as well.
    pub fn pins(self) -> impl Iterator<Item = u64> + use<'a> {
        self.entries
            .iter()
            // Pairs with the release in `Ledger::release`.
            .map(|entry| entry.load(Ordering::Acquire))
            .filter(|serial| *serial != 0)
    }

    /// Counts the pins on what is asked for.
    pub fn count(self, counts: &mut PinCounts) {
        self.pins().for_each(|pin| counts.add(pin));
    }
}

#[cfg(not(loom))]
#[cfg(test)]
mod tests {
    use super::*;

    fn ledger(pins: &[u64]) -> Vec<AtomicU64> {
        pins.iter().map(|serial| AtomicU64::new(*serial)).collect()
    }

    #[test]
    fn the_scan_counts_what_is_asked_for() {
        let entries = ledger(&[5, 0, 7, 7, 9, 5 + (1 << 40)]);
        let mut counts = PinCounts::new(&[7, 5, 6, 7]);
        LedgerScan::new(&entries, &AtomicU64::new(6)).count(&mut counts);
        assert_eq!(counts.of(&[7, 5, 6, 7, 9]), [2, 1, 0, 2, 0]);
        assert_eq!(PinCounts::new(&[]).of(&[1]), [0]);
        let digest = |pins: &[u64]| {
            let mut counts = PinCounts::new(&[]);
            LedgerScan::new(&ledger(pins), &AtomicU64::new(9)).count(&mut counts);
            counts.digest()
        };
        assert_eq!(digest(&[1, 2, 0, 2]), digest(&[2, 2, 1]));
        assert_ne!(digest(&[1, 4]), digest(&[2, 3]));
        assert_ne!(digest(&[1, 1]), digest(&[1]));
    }

    #[test]
    fn a_mark_beyond_the_ledger_is_cut_off() {
        let entries = ledger(&[0, 8]);
        let pins = |high| LedgerScan::new(&entries, &AtomicU64::new(high)).pins().count();
        assert_eq!([0, 1, 2, 3, u64::MAX].map(pins), [0, 0, 1, 1, 1]);
    }

    #[test]
    fn the_filter_lets_every_serial_through_that_is_asked_for() {
        let serials: Vec<u64> = (0..5000).map(|k| k * 0x9e37_79b9 + 1).collect();
        let entries = ledger(&serials);
        let mut counts = PinCounts::new(&serials);
        LedgerScan::new(&entries, &AtomicU64::new(u64::MAX)).count(&mut counts);
        assert!(counts.of(&serials).iter().all(|count| *count == 1));
    }
}
