//! The capacity counted in bytes of content.
//!
//! What an object takes of the memory is rounded up: small ones to the alignment, large ones to
//! pages. A store that counts content leaves the rounding out, so that as many bytes of data and
//! metadata fit as the capacity says, to the byte. The memory itself may then take as much again.

use plasmon_proto::object::Sizes;

use crate::jobs::{Job, Purpose};
use crate::ports::Directory;
use crate::store::Store;

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

impl<D: Directory> Store<D> {
    /// An object of this session came into memory, or is being created in it.
    pub(crate) fn hold_content(&mut self, owner: u32, sizes: &Sizes) {
        let bytes = content_bytes(sizes);
        self.content_bytes = self.content_bytes.saturating_add(bytes);
        if let Some(client) = self.clients.sharer_mut(owner) {
            client.content_bytes = client.content_bytes.saturating_add(bytes);
        }
    }

    /// It is gone from there.
    pub(crate) fn drop_content(&mut self, owner: u32, sizes: &Sizes) {
        let bytes = content_bytes(sizes);
        self.content_bytes = self.content_bytes.saturating_sub(bytes);
        if let Some(client) = self.clients.sharer_mut(owner) {
            client.content_bytes = client.content_bytes.saturating_sub(bytes);
        }
    }

    /// How much content must go before that of the request fits; 0 where content is not counted.
    pub(crate) fn content_shortage(&self, job: &Job) -> u64 {
        if !self.config.count_content {
            return 0;
        }
        let coming = match job.purpose {
            // What is being created counts from its beginning.
            Purpose::Create { .. } => 0,
            Purpose::Grow { .. } => job.charge(),
            // Nobody knows yet what a lease will hold.
            Purpose::Lease { .. } => return 0,
            Purpose::Restore { id, .. } => {
                self.tier.get(&id).map_or(0, |spilled| content_bytes(&spilled.sizes))
            }
        };
        self.content_bytes.saturating_add(coming).saturating_sub(self.config.capacity_bytes)
    }
}
