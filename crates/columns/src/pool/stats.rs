//! The counters of a pool.

/// The counters of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolStats {
    /// Bytes of buffers that are in use.
    pub allocated_bytes: u64,
    /// The most that it ever was.
    pub allocated_bytes_max: u64,
    /// Bytes ever allocated, growth included.
    pub total_bytes: u64,
    /// Buffers ever allocated.
    pub allocations: u64,
    /// Buffers that grew where they were.
    pub grown_in_place: u64,
    /// Buffers that had to be copied to grow.
    pub moved: u64,
    /// Bytes that were shared in place.
    pub shared_bytes: u64,
    /// Bytes of shared tables that lay elsewhere and were copied.
    pub copied_bytes: u64,
    /// Bytes of the regions that small buffers are carved from.
    pub slab_bytes: u64,
}

impl PoolStats {
    /// Every figure with its name.
    pub fn named(&self) -> [(&'static str, u64); 9] {
        [
            ("allocated_bytes", self.allocated_bytes),
            ("allocated_bytes_max", self.allocated_bytes_max),
            ("total_bytes", self.total_bytes),
            ("allocations", self.allocations),
            ("grown_in_place", self.grown_in_place),
            ("moved", self.moved),
            ("shared_bytes", self.shared_bytes),
            ("copied_bytes", self.copied_bytes),
            ("slab_bytes", self.slab_bytes),
        ]
    }

    pub(super) fn grew(&mut self, before: usize, after: usize) {
        let (before, after) = (before as u64, after as u64);
        self.allocated_bytes = self.allocated_bytes - before + after;
        self.allocated_bytes_max = self.allocated_bytes_max.max(self.allocated_bytes);
        self.total_bytes += after.saturating_sub(before);
    }
}
