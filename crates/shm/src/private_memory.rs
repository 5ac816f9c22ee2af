//! Memory of this process alone, in huge pages where the system gives them.
//!
//! A device that is written past the page cache is given the addresses of the pages. Of a mebibyte
//! in usual pages these are 256, of one in a huge page one: the write then takes a third less.

use std::io;
use std::ops::{Deref, DerefMut};
use std::slice;

use crate::map::{HUGE_PAGE_BYTES, WriteMap};

/// Zeroed memory that begins at a multiple of 2 MiB, of which only touched pages exist.
#[derive(Debug)]
pub struct PrivateMemory(WriteMap);

impl PrivateMemory {
    /// So many bytes, rounded up to whole huge pages. Where the system gives no huge pages, they
    /// are usual ones.
    pub fn new(bytes: usize) -> io::Result<Self> {
        let whole = bytes.max(1).checked_next_multiple_of(HUGE_PAGE_BYTES as usize);
        let map = WriteMap::anonymous(whole.ok_or(io::ErrorKind::InvalidInput)?)?;
        // A kernel without huge pages refuses the advice, and the memory is as good.
        let _ = map.prefer_huge_pages();
        Ok(Self(map))
    }
}

impl Deref for PrivateMemory {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the mapping is private and this struct's alone: it is written only through
        // `deref_mut`, which borrows the struct.
        unsafe { slice::from_raw_parts(self.0.base(), self.0.bytes() as usize) }
    }
}

impl DerefMut for PrivateMemory {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above.
        unsafe { slice::from_raw_parts_mut(self.0.base(), self.0.bytes() as usize) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_zero_and_aligned_and_whole_huge_pages_long() {
        let page = HUGE_PAGE_BYTES as usize;
        for (bytes, expected) in [(0, page), (1, page), (page, page), (page + 1, 2 * page)] {
            let mut memory = PrivateMemory::new(bytes).unwrap();
            assert_eq!(memory.len(), expected, "{bytes} bytes");
            assert_eq!(memory.as_ptr().align_offset(page), 0, "{bytes} bytes");
            assert_eq!((memory[0], memory[expected - 1]), (0, 0));
            memory[expected - 1] = 7;
            assert_eq!(memory[expected - 1], 7);
        }
        assert!(PrivateMemory::new(usize::MAX).is_err());
    }
}
