//! The numbers that are free, the lowest first.
//!
//! Were numbers given again in the order in which they came back, a store whose objects went in
//! any order would walk its records at random from then on, with a trip to memory for each new
//! object. The lowest free one lies beside the one before.
//!
//! Three levels of bits: the lowest has one for each number, the others say which words of the
//! level below have any. So a word of the highest stands for 262,144 numbers.

/// A set of free numbers, each given once until it comes back.
#[derive(Debug, Default)]
pub(crate) struct FreeNumbers {
    levels: [Vec<u64>; 3],
    /// All words of the highest level before this one are 0.
    first: usize,
}

impl FreeNumbers {
    /// Adds the next numbers, `count` of them, a multiple of 64.
    pub(crate) fn extend(&mut self, count: usize) {
        debug_assert_eq!(count % 64, 0, "words are filled whole");
        let words = self.levels[0].len();
        self.levels[0].resize(words + count / 64, u64::MAX);
        for level in 1..self.levels.len() {
            let below = self.levels[level - 1].len();
            self.levels[level].resize(below.div_ceil(64), 0);
        }
        for word in words..self.levels[0].len() {
            self.levels[1][word / 64] |= 1 << (word % 64);
            self.levels[2][word / 4096] |= 1 << (word / 64 % 64);
        }
        self.first = self.first.min(words / 4096);
    }

    /// The lowest number, which is free no more.
    pub(crate) fn take(&mut self) -> Option<u32> {
        let highest = &self.levels[2][self.first..];
        let skipped = highest.iter().position(|word| *word != 0);
        self.first += skipped.unwrap_or(highest.len());
        skipped?;
        let below = |at: usize, level: &Vec<u64>| at * 64 + level[at].trailing_zeros() as usize;
        let number = self.levels.iter().rev().fold(self.first, below) as u32;
        self.remove(number);
        Some(number)
    }

    /// The first number from this one on that is not free, or the first after a long run of free
    /// ones; `None` after the last.
    pub(crate) fn next_taken(&self, number: u32) -> Option<u32> {
        /// Words of free numbers that one search passes.
        const WORDS_MAX: usize = 1024;

        let word = number as usize / 64;
        // What lies before the number in its word does not count.
        let before = (1u64 << (number % 64)) - 1;
        let words = self.levels[0].get(word..)?;
        for (at, bits) in words.iter().take(WORDS_MAX).enumerate() {
            let free = if at == 0 { bits | before } else { *bits };
            if free != u64::MAX {
                return Some(((word + at) * 64) as u32 + free.trailing_ones());
            }
        }
        (words.len() > WORDS_MAX).then(|| ((word + WORDS_MAX) * 64) as u32)
    }

    /// Takes a number out that is free.
    pub(crate) fn remove(&mut self, number: u32) {
        let mut at = number as usize;
        for level in &mut self.levels {
            level[at / 64] &= !(1 << (at % 64));
            if level[at / 64] != 0 {
                break;
            }
            at /= 64;
        }
    }

    /// Puts a number back.
    pub(crate) fn give(&mut self, number: u32) {
        let mut at = number as usize;
        for level in &mut self.levels {
            let others = level[at / 64];
            level[at / 64] |= 1 << (at % 64);
            if others != 0 {
                break;
            }
            at /= 64;
        }
        self.first = self.first.min(number as usize >> 18);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_come_in_order_over_every_level() {
        let mut numbers = FreeNumbers::default();
        assert_eq!(numbers.take(), None);
        numbers.extend(64);
        numbers.extend((1 << 19) - 64);
        for number in 0..1 << 19 {
            assert_eq!(numbers.take(), Some(number));
        }
        assert_eq!(numbers.take(), None);
        for number in [300_000, 4097, 270_000] {
            numbers.give(number);
        }
        assert_eq!(
            [0; 4].map(|_| numbers.take()),
            [Some(4097), Some(270_000), Some(300_000), None]
        );
        numbers.extend(64);
        assert_eq!(numbers.take(), Some(1 << 19));
    }

    #[test]
    fn runs_of_free_numbers_are_passed_at_once() {
        let mut numbers = FreeNumbers::default();
        assert_eq!(numbers.next_taken(0), None);
        numbers.extend(1 << 18);
        for taken in [5, 70, 200_000] {
            numbers.remove(taken);
        }
        let next = [0, 5, 6, 70].map(|from| numbers.next_taken(from));
        assert_eq!(next, [Some(5), Some(5), Some(70), Some(70)]);
        // At most 1024 words at once.
        assert_eq!(numbers.next_taken(71), Some(64 + 65_536));
        assert_eq!(numbers.next_taken(190_000), Some(200_000));
        assert_eq!((numbers.next_taken(200_001), numbers.next_taken(1 << 18)), (None, None));
    }

    proptest! {
        #[test]
        fn it_is_the_lowest_of_a_set(
            steps in proptest::collection::vec((0..4u8, any::<prop::sample::Index>()), 0..400)
        ) {
            let (mut numbers, mut free) = (FreeNumbers::default(), BTreeSet::new());
            let (mut taken, mut count) = (BTreeSet::new(), 0u32);
            for (step, which) in steps {
                match step {
                    0 => {
                        numbers.extend(128);
                        free.extend(count..count + 128);
                        count += 128;
                    }
                    1 if !taken.is_empty() => {
                        let number = *which.get(&taken.iter().copied().collect::<Vec<u32>>());
                        taken.remove(&number);
                        numbers.give(number);
                        free.insert(number);
                    }
                    2 if !free.is_empty() => {
                        let number = *which.get(&free.iter().copied().collect::<Vec<u32>>());
                        free.remove(&number);
                        numbers.remove(number);
                        taken.insert(number);
                    }
                    _ => {
                        let lowest = free.pop_first();
                        prop_assert_eq!(numbers.take(), lowest);
                        taken.extend(lowest);
                    }
                }
            }
        }
    }
}
