//! The shared part of the targets: fuzzed bytes, taken apart piece by piece.

#![forbid(unsafe_code)]

pub mod arrays;
pub mod requests;
pub mod world;

use std::os::fd::BorrowedFd;

/// Bytes that decide what a target does.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    /// All of the fuzzer's bytes.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next byte, 0 at the end.
    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    /// A number below `end`, which is from 1 to 256.
    pub fn below(&mut self, end: usize) -> usize {
        usize::from(self.byte()) % end
    }

    /// A 64-bit number: half of the time a small one or one just below a power of two, where the
    /// borders are, else any.
    pub fn word(&mut self) -> u64 {
        match self.byte() {
            small @ 0..96 => u64::from(small),
            shift @ 96..160 => (1_u64 << (shift - 96)).wrapping_sub(u64::from(self.byte() % 3)),
            negative @ 160..192 => u64::MAX - u64::from(negative - 160),
            _ => u64::from_le_bytes(std::array::from_fn(|_| self.byte())),
        }
    }

    /// The next bytes, at most `count`.
    pub fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }
}

/// Writes one word into memory that the code under test has mapped, as another process would.
pub fn poke(file: BorrowedFd<'_>, offset: u64, word: u64) {
    let written = rustix::io::pwrite(file, &word.to_le_bytes(), offset);
    assert_eq!(written, Ok(8), "a memfd takes every word inside of it");
}
