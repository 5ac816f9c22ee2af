//! Random numbers that follow from a seed (SplitMix64).

/// A sequence of numbers.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

/// The step between states: 2^64 divided by the golden ratio.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Scrambles one word.
pub(crate) fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

impl Random {
    /// The sequence of this seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self(mix(seed ^ STEP))
    }

    /// The next number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }

    /// A number below `end`, which is not 0.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// An index into something of this length, `None` when it is empty.
    pub(crate) fn index(&mut self, length: usize) -> Option<usize> {
        (length > 0).then(|| self.below(length as u64) as usize)
    }

    /// Whether something happens that happens this often in a hundred.
    pub(crate) fn percent(&mut self, often: u64) -> bool {
        self.below(100) < often
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_sequence_again_and_another_one_another() {
        let take = |seed| {
            let mut random = Random::new(seed);
            [random.next(), random.next(), random.next()]
        };
        assert_eq!(take(7), take(7));
        assert_ne!(take(7), take(8));
        let mut random = Random::new(1);
        assert!((0..1000).all(|_| random.below(10) < 10));
        assert_eq!(random.index(0), None);
    }
}
