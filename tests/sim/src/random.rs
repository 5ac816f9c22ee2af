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

    /// One of these.
    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len() as u64) as usize]
    }

    /// Whether something happens that happens this often in a thousand.
    pub(crate) fn permille(&mut self, often: u64) -> bool {
        self.below(1000) < often
    }

    /// The sequence of something that has its own.
    pub(crate) fn fork(&mut self) -> Self {
        Self::new(self.next())
    }
}
