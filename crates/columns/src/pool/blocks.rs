//! The buffers of a pool: what lies at each address, and as what it was shared.

use std::collections::BTreeMap;

use plasmon_client::{GrowingObject, ObjectId};

use super::slabs::{Slabs, Spot, rounded};
use super::stats::PoolStats;
use crate::error::Result;

/// Where a buffer is.
#[derive(Debug)]
pub(super) enum Place {
    Small(Spot),
    Own(Box<GrowingObject>),
}

/// A buffer that is in use.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) bytes: usize,
    pub(super) place: Place,
    /// The object that it was shared as.
    pub(super) shared: Option<Member>,
}

/// A buffer as a part of a member.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) id: ObjectId,
    pub(super) offset: u64,
    /// Keeps the composite object, and so the member, until the buffer is freed.
    pub(super) pin: Option<plasmon_client::Buffer>,
}

/// All buffers of a pool, and the regions that the small ones lie in.
#[derive(Debug)]
pub(super) struct State {
    /// By address.
    pub(super) blocks: BTreeMap<usize, Block>,
    pub(super) slabs: Slabs,
    pub(super) stats: PoolStats,
}

impl State {
    /// The buffer in which these bytes lie.
    pub(super) fn block_of(&self, bytes: &[u8]) -> Option<(usize, &Block)> {
        let address = bytes.as_ptr() as usize;
        let (start, block) = self.blocks.range(..=address).next_back()?;
        (address + bytes.len() <= start + block.bytes).then_some((*start, block))
    }

    /// Publishes small buffers: those that lie one after the other as one object.
    pub(super) fn publish(
        &mut self,
        small: &BTreeMap<Spot, (usize, usize)>,
        sealed: &mut Vec<usize>,
    ) -> Result<()> {
        let mut rest = small.iter().peekable();
        while let Some((first, (address, bytes))) = rest.next() {
            let mut run = vec![(*address, 0)];
            self.slabs.clear_padding(*first, *bytes);
            let (mut end, mut length) = (first.offset + rounded(*bytes), *bytes as u64);
            while let Some((spot, (address, bytes))) =
                rest.next_if(|(spot, _)| spot.slab == first.slab && spot.offset == end)
            {
                run.push((*address, spot.offset - first.offset));
                self.slabs.clear_padding(*spot, *bytes);
                length = spot.offset - first.offset + *bytes as u64;
                end += rounded(*bytes);
            }
            let Some(published) = self.slabs.publish(*first, length) else { continue };
            let id = published?;
            for (address, offset) in run {
                if let Some(block) = self.blocks.get_mut(&address) {
                    block.shared = Some(Member { id, offset, pin: None });
                    sealed.push(address);
                }
            }
        }
        Ok(())
    }
}
