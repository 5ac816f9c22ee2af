//! Memory of this process for sorted partitions.

use std::fmt;
use std::ops::{Deref, DerefMut};

/// Bytes on the heap that are aligned for every type of a table.
pub struct Heap {
    lines: Vec<[u64; 8]>,
    bytes: usize,
}

impl Heap {
    /// Memory of this many bytes.
    pub fn new(bytes: u64) -> Self {
        let lines = vec![[0; 8]; bytes.div_ceil(64) as usize];
        Self { lines, bytes: bytes as usize }
    }
}

impl Deref for Heap {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.lines)[..self.bytes]
    }
}

impl DerefMut for Heap {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.lines)[..self.bytes]
    }
}

impl fmt::Debug for Heap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Heap").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}
