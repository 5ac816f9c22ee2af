//! Tables whose buffers lie in a pool become objects without a copy.

use std::collections::{BTreeMap, HashSet};
use std::sync::PoisonError;
use std::time::Duration;

use arrow_buffer::Buffer;
use plasmon_client::{GrowingObject, ObjectId, PutOptions};

use super::allocation::Pool;
use super::blocks::{Block, Member, Place};
use super::slabs::Spot;
use crate::composite;
use crate::error::Result;
use crate::ipc_encode::StreamPieces;

const SHARING: &str = "sharing buffers";

/// The outcome of sharing a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShareOutcome {
    /// The object.
    pub id: ObjectId,
    /// Bytes of buffers that lie where they were.
    pub shared_bytes: u64,
    /// Bytes of buffers that lay elsewhere and were copied.
    pub copied_bytes: u64,
}

impl Pool {
    /// Whether a table is better shared than copied: most of it lies in
    /// this pool, and most of the buffers that it lies in belongs to it. A few rows of a large
    /// table are better copied: shared, they would keep all of it.
    pub(crate) fn is_worth_sharing(&self, stream: &StreamPieces) -> bool {
        if !self.is_ours() {
            return false;
        }
        let state = self.lock();
        let (mut inside, mut outside) = (0, 0);
        let mut held: BTreeMap<usize, u64> = BTreeMap::new();
        // Slices of one array name its buffers repeatedly.
        let mut seen = HashSet::new();
        for buffer in stream.buffers().filter(|it| seen.insert((it.as_ptr() as usize, it.len()))) {
            match state.block_of(buffer) {
                Some((address, block)) => {
                    inside += buffer.len() as u64;
                    held.insert(address, block.bytes as u64);
                }
                None => outside += buffer.len() as u64,
            }
        }
        inside > outside && held.values().sum::<u64>() / 2 <= inside
    }

    /// Whether the buffer at this address lies in the pool.
    pub fn holds(&self, address: usize) -> bool {
        if !self.is_ours() {
            return false;
        }
        let state = self.lock();
        let before = state.blocks.range(..=address).next_back();
        before.is_some_and(|(start, block)| address < start + block.bytes)
    }

    /// Makes a composite object of a table: buffers that lie in the pool become members where they
    /// are, the others are copied. `kind` and `text` are the table's original type, see
    /// [`plasmon_proto::value::ValueHeader`].
    pub(crate) fn share(
        &self,
        stream: &StreamPieces,
        kind: u8,
        text: &str,
        options: &PutOptions,
    ) -> Result<ShareOutcome> {
        self.check_ours(SHARING)?;
        composite::check_free(&self.store, options)?;
        let _one_at_a_time = self.sharing.lock().unwrap_or_else(PoisonError::into_inner);
        let buffers: Vec<&Buffer> = stream.buffers().collect();
        let addresses = self.seal(&buffers)?;
        let mut members = Vec::new();
        let mut numbers = BTreeMap::new();
        let state = self.lock();
        let made = composite::scatter(stream, |piece| {
            let (block_at, block) = state.block_of(piece)?;
            let member = block.shared.as_ref()?;
            let number = *numbers.entry(member.id).or_insert_with(|| {
                members.push(member.id);
                members.len() as u32 - 1
            });
            Some((number, member.offset + (piece.as_ptr() as usize - block_at) as u64))
        });
        drop(state);
        let put = composite::put(&self.store, &made.writer, &members, (kind, text), options);
        let id = match put {
            Ok(id) => id,
            Err(error) => {
                self.pin_members(&addresses);
                return Err(error);
            }
        };
        let pin = self.store.get(&id, Some(Duration::ZERO))?;
        let mut state = self.lock();
        for address in addresses {
            if let Some(member) = state.blocks.get_mut(&address).and_then(|it| it.shared.as_mut()) {
                member.pin = Some(pin.clone());
            }
        }
        state.stats.shared_bytes += made.shared_bytes;
        state.stats.copied_bytes += made.copied_bytes;
        Ok(ShareOutcome { id, shared_bytes: made.shared_bytes, copied_bytes: made.copied_bytes })
    }

    /// Seals the buffers that are not sealed yet; the addresses of those that were sealed now.
    fn seal(&self, buffers: &[&Buffer]) -> Result<Vec<usize>> {
        let mut own = Vec::new();
        let mut small: BTreeMap<Spot, (usize, usize)> = BTreeMap::new();
        let mut state = self.lock();
        for buffer in buffers {
            let found = state.block_of(buffer).filter(|(_, block)| block.shared.is_none());
            let Some((address, block)) = found else { continue };
            match &block.place {
                Place::Small(spot) => drop(small.insert(*spot, (address, block.bytes))),
                Place::Own(_) => {
                    // Only this thread knows it while it is sealed, without the lock.
                    own.extend(state.blocks.remove(&address).map(|block| (address, block)));
                }
            }
        }
        let mut sealed = Vec::with_capacity(own.len() + small.len());
        let published = state.publish(&small, &mut sealed);
        drop(state);
        let outcome = published.and_then(|()| seal_own(&mut own));
        let mut state = self.lock();
        for (address, mut block) in own {
            if outcome.is_ok()
                && let Place::Own(growing) = &block.place
            {
                block.shared = Some(Member { id: growing.id(), offset: 0, pin: None });
                sealed.push(address);
            }
            state.blocks.insert(address, block);
        }
        drop(state);
        if outcome.is_err() {
            self.pin_members(&sealed);
        }
        outcome.map(|()| sealed)
    }

    /// Pins members of which no composite was made: their buffers are still in use here.
    fn pin_members(&self, addresses: &[usize]) {
        for address in addresses {
            let id = self.lock().blocks.get(address).and_then(|it| it.shared.as_ref()?.id.into());
            let pin = id.and_then(|id: ObjectId| self.store.get(&id, Some(Duration::ZERO)).ok());
            let mut state = self.lock();
            if let Some(member) = state.blocks.get_mut(address).and_then(|it| it.shared.as_mut()) {
                member.pin = pin;
            }
        }
    }
}

fn seal_own(own: &mut [(usize, Block)]) -> Result<()> {
    let mut growing: Vec<(&mut GrowingObject, usize)> = Vec::with_capacity(own.len());
    for (_, block) in own {
        if let Place::Own(memory) = &mut block.place {
            growing.push((memory, block.bytes));
        }
    }
    Ok(GrowingObject::seal_all_lent(&mut growing)?)
}
