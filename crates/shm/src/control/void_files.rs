//! The incarnations whose files in the spill tier count for nothing: a daemon that takes the store
//! over must not bring these objects back. A count, then as many serials.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

use plasmon_proto::limits::VOID_FILES_MAX;

/// The notes, which only the daemon writes and the next one reads.
#[derive(Clone, Copy, Debug)]
pub struct VoidFiles<'a> {
    count: &'a AtomicU64,
    serials: &'a [AtomicU64],
}

impl<'a> VoidFiles<'a> {
    /// Words that the notes take.
    pub(super) const WORDS: usize = 1 + VOID_FILES_MAX;

    /// The notes in these words.
    pub(super) fn new(words: &'a [AtomicU64]) -> Self {
        Self { count: &words[0], serials: &words[1..] }
    }

    /// Writes down that the file of this incarnation counts for nothing, as far as there is room.
    pub fn note(&self, serial: u64) {
        let noted = self.count.load(Ordering::Relaxed);
        if let Some(free) = self.serials.get(noted as usize) {
            free.store(serial, Ordering::Relaxed);
            // A daemon that dies in between leaves the list as it was.
            self.count.store(noted + 1, Ordering::Release);
        }
    }

    /// Writes down that a file of this incarnation counts again.
    pub fn forget(&self, serial: u64) {
        let Self { count, serials } = self;
        let mut noted = count.load(Ordering::Relaxed).min(serials.len() as u64) as usize;
        while let Some(at) =
            serials[..noted].iter().position(|it| it.load(Ordering::Relaxed) == serial)
        {
            noted -= 1;
            // For a moment the last one is there twice, which means the same.
            serials[at].store(serials[noted].load(Ordering::Relaxed), Ordering::Release);
            count.store(noted as u64, Ordering::Release);
        }
    }

    /// Every file that was noted is gone.
    pub fn clear(&self) {
        self.count.store(0, Ordering::Release);
    }

    /// The incarnations.
    pub fn serials(&self) -> BTreeSet<u64> {
        let noted = self.count.load(Ordering::Acquire) as usize;
        self.serials.iter().take(noted).map(|serial| serial.load(Ordering::Relaxed)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_noted_up_to_a_limit_until_they_count_again_or_are_gone() {
        let words: Vec<AtomicU64> = (0..VoidFiles::WORDS).map(|_| AtomicU64::new(0)).collect();
        let files = VoidFiles::new(&words);
        (1..=3).for_each(|serial| files.note(serial));
        files.note(2);
        files.forget(2);
        files.forget(9);
        assert_eq!(files.serials(), BTreeSet::from([1, 3]));
        let most = VOID_FILES_MAX as u64;
        (4..most + 3).for_each(|serial| files.note(serial));
        assert_eq!(files.serials().last(), Some(&(most + 1)), "one did not fit");
        files.clear();
        assert!(files.serials().is_empty());
    }
}
