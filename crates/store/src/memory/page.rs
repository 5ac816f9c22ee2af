//! The sizes that memory comes in.

use plasmon_proto::limits::OBJECT_ALIGN;

/// What memory is reserved and given back in: the machine's pages.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageSize(u64);

impl PageSize {
    /// Pages of this many bytes, which are a power of two.
    pub(super) fn of(bytes: u64) -> Self {
        assert!(bytes.is_power_of_two() && bytes >= OBJECT_ALIGN, "no machine has such pages");
        Self(bytes)
    }

    /// `bytes` rounded up to pages; saturates instead of overflowing.
    pub(super) fn round_up(self, bytes: u64) -> u64 {
        bytes.checked_next_multiple_of(self.0).unwrap_or(u64::MAX - (self.0 - 1))
    }

    /// The whole pages within a range, as offset and bytes.
    pub(super) fn whole_within(self, offset: u64, bytes: u64) -> (u64, u64) {
        let start = offset.next_multiple_of(self.0);
        let end = (offset + bytes) / self.0 * self.0;
        (start, end.saturating_sub(start))
    }
}

/// `bytes` rounded up to the alignment of objects; saturates.
pub(crate) fn aligned(bytes: u64) -> u64 {
    bytes.checked_next_multiple_of(OBJECT_ALIGN).unwrap_or(u64::MAX - (OBJECT_ALIGN - 1))
}
