//! Memory at addresses that unbuffered reads and writes take.

use std::ops::{Deref, DerefMut};

/// The alignment of addresses, offsets and lengths.
const ALIGN: usize = 4096;

/// Bytes that begin at a multiple of 4 KiB. What is in them after a change of the length is not
/// specified.
#[derive(Debug, Default)]
pub struct AlignedBuffer {
    /// More than what is used, by up to the alignment.
    memory: Vec<u8>,
    start: usize,
    length: usize,
}

impl AlignedBuffer {
    /// So many bytes, all zero.
    pub fn new(length: usize) -> Self {
        let mut buffer = Self::default();
        buffer.set_length(length);
        buffer
    }

    /// Makes it so long.
    pub fn set_length(&mut self, length: usize) {
        if length > self.memory.len().saturating_sub(ALIGN) {
            self.memory = vec![0; length + ALIGN];
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
        let mut buffer = AlignedBuffer::default();
        for length in [1, 4096, 4097, 1 << 20, 5] {
            buffer.set_length(length);
            assert_eq!(buffer.len(), length);
            assert_eq!(buffer.as_ptr().align_offset(ALIGN), 0, "{length} bytes");
        }
    }
}
