//! Random numbers that follow from a seed (SplitMix64).

/// A sequence of numbers.
#[derive(Clone, Debug)]
pub struct Random(u64);

/// The step between states: 2^64 divided by the golden ratio.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Scrambles one word.
pub fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

impl Random {
    /// The sequence of this seed.
    pub fn new(seed: u64) -> Self {
        Self(mix(seed ^ STEP))
    }

    /// The next number.
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }

    /// A number below `end`; 0 where there is none.
    pub fn below(&mut self, end: u64) -> u64 {
        self.word() % end.max(1)
    }

    /// The same for sizes.
    pub fn size_below(&mut self, end: usize) -> usize {
        self.below(end as u64) as usize
    }

    /// An index into something of this length, `None` when it is empty.
    pub fn index(&mut self, length: usize) -> Option<usize> {
        (length > 0).then(|| self.size_below(length))
    }

    /// One of these.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.size_below(from.len())]
    }

    /// Whether an event happens that happens this often in a hundred.
    pub fn percent(&mut self, often: u64) -> bool {
        self.below(100) < often
    }

    /// Whether an event happens that happens this often in a thousand.
    pub fn permille(&mut self, often: u64) -> bool {
        self.below(1000) < often
    }

    /// A sequence of its own, for a part of the test.
    pub fn fork(&mut self) -> Self {
        Self::new(self.word())
    }
}

/// Bytes that differ from place to place and from seed to seed.
pub fn pattern(seed: u64, bytes: usize) -> Vec<u8> {
    let mut random = Random::new(seed);
    let words = std::iter::repeat_with(|| random.word().to_le_bytes());
    let mut data: Vec<u8> = words.take(bytes.div_ceil(8)).flatten().collect();
    data.truncate(bytes);
    data
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_sequence_again_and_another_one_another() {
        let take = |seed| {
            let mut random = Random::new(seed);
            [random.word(), random.word(), random.word()]
        };
        assert_eq!(take(7), take(7));
        assert_ne!(take(7), take(8));
        let mut random = Random::new(1);
        assert!((0..1000).all(|_| random.below(10) < 10));
        assert_eq!(random.index(0), None);
    }
}
