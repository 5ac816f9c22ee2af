//! The capacity counted in bytes of content.
//!
//! What an object takes of the memory is rounded up: small ones to the alignment, large ones to
//! pages. A store that counts content leaves the rounding out, so that as many bytes of data and
//! metadata fit as the capacity says, to the byte. The memory itself may then take as much again.

use plasmon_proto::object::Sizes;

/// Bytes of data and metadata.
pub(crate) fn content_bytes(sizes: &Sizes) -> u64 {
    sizes.data.saturating_add(sizes.metadata)
}

/// The memory of a store that counts content, for one that does not: the capacity itself.
pub(crate) fn memory_bytes(capacity_bytes: u64, counts_content: bool) -> u64 {
    const LEAST: u64 = 1 << 20;
    if counts_content {
        capacity_bytes.saturating_mul(2).saturating_add(LEAST)
    } else {
        capacity_bytes
    }
}
