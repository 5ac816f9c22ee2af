//! Segments that no superblock names and that wait to be written.
//!
//! ```text
//! made ahead ────────────────┐
//! removed from the log ──────┴─> spare ──> a segment of the log, under a new number
//!                                  └─────> removed: its room is wanted, or there are enough
//! ```
//!
//! Blocks that were written before take a write and a sync without anything that the file system
//! has to note, and a mapping with its pages takes stores at once. What still lies in a spare never
//! counts: the checksums of all that has a place begin with the number of its segment, and no
//! number is used twice. After a restart spares are removed.

use std::collections::BTreeMap;

/// So many wait at most.
const COUNT_MAX: usize = 3;

/// So many always may: one for the next puts, and the reserve for what frees room.
const COUNT_MIN: usize = 2;

/// A segment that waits to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spare {
    pub(crate) number: u64,
    pub(crate) bytes: u64,
    /// Whether it was part of the log: its blocks were written, and its number was used.
    pub(crate) was_used: bool,
}

/// The spares.
#[derive(Debug, Default)]
pub(crate) struct Spares {
    by_number: BTreeMap<u64, Spare>,
}

impl Spares {
    /// Bytes of all.
    pub(crate) fn bytes(&self) -> u64 {
        self.by_number.values().map(|spare| spare.bytes).sum()
    }

    /// How many there are for a segment of so many bytes.
    pub(crate) fn count(&self, bytes: u64) -> usize {
        self.fitting(bytes).count()
    }

    /// Keeps a segment.
    pub(crate) fn keep(&mut self, spare: Spare) {
        self.by_number.insert(spare.number, spare);
    }

    /// Takes one of those that are more than [`COUNT_MIN`], more than so many bytes or too many:
    /// one that was not used, or the oldest.
    pub(crate) fn take_excess(&mut self, bytes_max: u64) -> Option<Spare> {
        let count = self.by_number.len();
        if count <= COUNT_MIN || (count <= COUNT_MAX && self.bytes() <= bytes_max) {
            return None;
        }
        let spares = self.by_number.values();
        let number = spares.min_by_key(|spare| (spare.was_used, spare.number))?.number;
        self.by_number.remove(&number)
    }

    /// Takes the spare for a segment of so many bytes.
    pub(crate) fn take(&mut self, bytes: u64) -> Option<Spare> {
        // The smallest, one that was used before others.
        let fitting = self.fitting(bytes).min_by_key(|spare| (spare.bytes, !spare.was_used));
        let number = fitting?.number;
        self.by_number.remove(&number)
    }

    /// Takes any.
    pub(crate) fn pop(&mut self) -> Option<Spare> {
        self.by_number.pop_first().map(|(_, spare)| spare)
    }

    /// Those that have so many bytes and not twice as many.
    fn fitting(&self, bytes: u64) -> impl Iterator<Item = &Spare> {
        self.by_number.values().filter(move |it| it.bytes >= bytes && it.bytes / 2 <= bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spare(number: u64, bytes: u64, was_used: bool) -> Spare {
        Spare { number, bytes, was_used }
    }

    #[test]
    fn the_smallest_that_fits_is_taken_and_a_used_one_first() {
        let mut spares = Spares::default();
        assert!(spares.take(1).is_none() && spares.count(1) == 0);
        for it in [spare(1, 400, true), spare(2, 100, false), spare(3, 100, true)] {
            spares.keep(it);
        }
        assert_eq!(spares.bytes(), 600);
        assert_eq!(spares.take(401), None);
        assert_eq!(spares.take(199), None, "400 are twice as many and more");
        assert_eq!(spares.take(90), Some(spare(3, 100, true)));
        assert_eq!(spares.take(90), Some(spare(2, 100, false)));
        assert_eq!(spares.take(90), None);
        assert_eq!((spares.count(200), spares.count(100)), (1, 0));
        assert_eq!(spares.pop(), Some(spare(1, 400, true)));
        assert_eq!((spares.pop(), spares.bytes()), (None, 0));
    }

    #[test]
    fn two_are_kept_and_more_where_they_are_a_small_part() {
        let mut spares = Spares::default();
        assert_eq!(spares.take_excess(0), None);
        spares.keep(spare(1, 100, true));
        assert_eq!(spares.take_excess(0), None, "the first one always");
        spares.keep(spare(7, 100, false));
        assert_eq!(spares.take_excess(0), None, "and the second");
        spares.keep(spare(2, 100, true));
        assert_eq!(spares.take_excess(300), None);
        assert_eq!(spares.take_excess(299), Some(spare(7, 100, false)), "its blocks are new");
        for number in 3..=4 {
            spares.keep(spare(number, 100, true));
        }
        assert_eq!(spares.take_excess(1000), Some(spare(1, 100, true)), "three at most");
        assert_eq!(spares.take_excess(1000), None);
        assert_eq!(spares.take_excess(200), Some(spare(2, 100, true)));
        assert_eq!(spares.take_excess(100), None);
        assert_eq!(spares.bytes(), 200);
    }
}
