//! Memory at addresses that unbuffered reads and writes take.

use std::ops::{Deref, DerefMut};

use plasmon_shm::PrivateMemory;

/// The alignment of addresses, offsets and lengths.
const ALIGN: usize = 4096;

/// From here on a buffer that is used again and again is made of huge pages.
const HUGE_BYTES_MIN: usize = 256 << 10;

/// Bytes that begin at a multiple of 4 KiB. What is in them after a change of the length is not
/// specified.
#[derive(Debug, Default)]
pub struct AlignedBuffer {
    memory: Memory,
    start: usize,
    length: usize,
    /// Whether huge pages are worth the time that it takes to make them.
    is_reused: bool,
}

/// More than what is used.
#[derive(Debug)]
enum Memory {
    /// By up to the alignment.
    Heap(Vec<u8>),
    /// A disk is given one address for each of these, and not one for every 4 KiB: to write 1 MiB
    /// takes 185 us so, and 290 from usual pages.
    HugePages(PrivateMemory),
}

impl Default for Memory {
    fn default() -> Self {
        Self::Heap(Vec::new())
    }
}

impl Deref for Memory {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Heap(bytes) => bytes,
            Self::HugePages(bytes) => bytes,
        }
    }
}

impl DerefMut for Memory {
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Heap(bytes) => bytes,
            Self::HugePages(bytes) => bytes,
        }
    }
}

impl AlignedBuffer {
    /// So many bytes, all zero.
    pub fn new(length: usize) -> Self {
        let mut buffer = Self::default();
        buffer.set_length(length);
        buffer
    }

    /// No bytes yet, for one that is filled and written again and again.
    pub(crate) fn reused() -> Self {
        Self { is_reused: true, ..Self::default() }
    }

    /// Makes it so long.
    pub fn set_length(&mut self, length: usize) {
        if length > self.memory.len().saturating_sub(self.start) {
            let wants_huge = self.is_reused && length >= HUGE_BYTES_MIN;
            self.memory = match wants_huge.then(|| PrivateMemory::new(length)) {
                Some(Ok(memory)) => Memory::HugePages(memory),
                _ => Memory::Heap(vec![0; length + ALIGN]),
            };
            self.start = self.memory.as_ptr().align_offset(ALIGN);
        }
        self.length = length;
    }
}

impl Deref for AlignedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.length]
    }
}

impl DerefMut for AlignedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_is_aligned() {
        for mut buffer in [AlignedBuffer::default(), AlignedBuffer::reused()] {
            for length in [1, 4096, 4097, HUGE_BYTES_MIN - 1, HUGE_BYTES_MIN, 1 << 20, 5 << 20, 5] {
                buffer.set_length(length);
                assert_eq!(buffer.len(), length);
                assert_eq!(buffer.as_ptr().align_offset(ALIGN), 0, "{length} bytes");
                buffer[length - 1] = 1;
            }
        }
    }

    #[test]
    fn only_what_is_large_and_used_again_is_of_huge_pages() {
        let is_huge = |buffer: &AlignedBuffer| matches!(buffer.memory, Memory::HugePages(_));
        assert!(!is_huge(&AlignedBuffer::new(HUGE_BYTES_MIN)));
        let mut buffer = AlignedBuffer::reused();
        for (length, expected) in [(ALIGN, false), (HUGE_BYTES_MIN, true), (1, true)] {
            buffer.set_length(length);
            assert_eq!(is_huge(&buffer), expected, "{length} bytes");
        }
    }
}
