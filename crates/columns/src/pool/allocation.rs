//! A pool allocates, resizes and frees buffers.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use plasmon_client::c_allocator::{Allocator, Figures};
use plasmon_client::{Client, Code, GrowOptions};

use super::blocks::{Block, Place, State};
use super::slabs::{Slabs, rounded};
use super::stats::PoolStats;
use crate::error::Result;

const ALLOCATING: &str = "allocating a buffer";

/// The largest region that small buffers are carved from.
const SLAB_BYTES_MAX: u64 = 32 << 20;

/// The smallest one, for stores with little memory.
const SLAB_BYTES_MIN: u64 = 256 << 10;

/// A region is at most this part of the capacity.
const SLABS_PER_CAPACITY: u64 = 64;

/// A buffer of this part of a region has an object of its own. Where a sealed buffer was in a
/// region is memory for the next region once it is deleted, mapped and warm; a sealed object of its
/// own never grows again, so the next one begins with fresh memory.
const OWN_PER_SLAB: u64 = 2;

/// One that has to move because it grows has its own from a part of that on: what grew once is
/// likely to grow again, and moves no more.
const GROWN_PER_OWN: usize = 16;

/// But not below this: an object of its own costs a request to the daemon.
const GROWN_BYTES_MIN: usize = 64 << 10;

/// Where buffers of no bytes are: an address that is never read, aligned as all are.
const NOWHERE: usize = 64;

/// A pool of buffers in a store. Threads may share it.
#[derive(Debug)]
pub struct Pool {
    pub(super) store: Client,
    own_bytes_min: usize,
    fork: u64,
    pub(super) state: Mutex<State>,
    /// Held while a table is shared, so that two threads do not seal the same buffer.
    pub(super) sharing: Mutex<()>,
}

impl Pool {
    /// A pool in this store. An error at level strict, which seals no memory that is still mapped,
    /// and for clients without a channel.
    pub fn new(store: &Client) -> Result<Self> {
        let share = store.capacity_bytes() / SLABS_PER_CAPACITY;
        let slab_bytes = share.clamp(SLAB_BYTES_MIN, SLAB_BYTES_MAX).next_multiple_of(4096);
        let mut slabs = Slabs::new(slab_bytes);
        // The first region shows at once whether the store can have a pool at all.
        slabs.add(Slabs::lease(store, slab_bytes)?);
        let state = State { blocks: BTreeMap::new(), slabs, stats: PoolStats::default() };
        Ok(Self {
            store: store.clone(),
            own_bytes_min: (slab_bytes / OWN_PER_SLAB) as usize,
            fork: plasmon_client::fork_generation(),
            state: Mutex::new(state),
            sharing: Mutex::new(()),
        })
    }

    /// The store.
    pub fn store(&self) -> &Client {
        &self.store
    }

    /// The counters of the pool so far.
    pub fn stats(&self) -> PoolStats {
        let state = self.lock();
        PoolStats { slab_bytes: state.slabs.bytes(), ..state.stats }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        // Every step leaves the state consistent; a panic in between would be a bug.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_ours(&self) -> bool {
        self.fork == plasmon_client::fork_generation()
    }

    pub(super) fn check_ours(&self, doing: &'static str) -> Result<()> {
        if self.is_ours() {
            return Ok(());
        }
        let detail = "a forked child cannot use its parent's pool: make a new one";
        Err(plasmon_client::Error::new(Code::Forked, doing).with_detail(detail).into())
    }

    /// The address of a new buffer of `bytes` bytes, a multiple of 64.
    pub fn allocate(&self, bytes: usize) -> Result<usize> {
        self.check_ours(ALLOCATING)?;
        if bytes == 0 {
            return Ok(NOWHERE);
        }
        let (address, place) = self.place(bytes)?;
        let mut state = self.lock();
        state.blocks.insert(address, Block { bytes, place, shared: None });
        state.stats.allocations += 1;
        state.stats.grew(0, bytes);
        Ok(address)
    }

    fn place(&self, bytes: usize) -> Result<(usize, Place)> {
        if bytes < self.own_bytes_min {
            self.place_small(bytes)
        } else {
            self.place_own(bytes, false)
        }
    }

    fn place_own(&self, bytes: usize, open_ended: bool) -> Result<(usize, Place)> {
        let bytes_hint = bytes as u64;
        let options = GrowOptions { bytes_hint, open_ended, owned: true, ..Default::default() };
        let mut growing = self.with_room(|| self.store.grow(&options))?;
        growing.ensure_exactly(bytes)?;
        Ok((growing.base() as usize, Place::Own(Box::new(growing))))
    }

    fn place_small(&self, bytes: usize) -> Result<(usize, Place)> {
        loop {
            let slab_bytes = {
                let mut state = self.lock();
                if let Some((spot, address)) = state.slabs.allocate(bytes) {
                    return Ok((address, Place::Small(spot)));
                }
                state.slabs.slab_bytes()
            };
            // Two threads may each lease one; then there is one more than needed for a while.
            let region = match Slabs::lease(&self.store, slab_bytes) {
                Err(error) if error.code() == Code::StoreFull => {
                    Slabs::lease(&self.store, rounded(bytes))?
                }
                outcome => outcome?,
            };
            self.lock().slabs.add(region);
        }
    }

    /// Tries once more without the idle memory of this pool.
    fn with_room<T>(
        &self,
        mut attempt: impl FnMut() -> plasmon_client::Result<T>,
    ) -> plasmon_client::Result<T> {
        match attempt() {
            Err(error) if error.code() == Code::StoreFull && self.release_unused() => attempt(),
            outcome => outcome,
        }
    }

    /// Changes the size of the buffer at `address`, which keeps what it holds; where it is from now
    /// on. After an error it is as before.
    pub fn reallocate(&self, address: usize, bytes: usize) -> Result<usize> {
        self.check_ours(ALLOCATING)?;
        let Some(mut block) = self.lock().blocks.remove(&address) else {
            // A buffer of no bytes.
            return self.allocate(bytes);
        };
        if bytes == 0 {
            self.discard(block);
            return Ok(NOWHERE);
        }
        let before = block.bytes;
        match self.resize_in_place(&mut block, bytes) {
            Ok(true) => {
                let mut state = self.lock();
                block.bytes = bytes;
                state.blocks.insert(address, block);
                state.stats.grown_in_place += u64::from(bytes > before);
                state.stats.grew(before, bytes);
                Ok(address)
            }
            Ok(false) => self.relocate(address, block, bytes),
            Err(error) => {
                self.lock().blocks.insert(address, block);
                Err(error)
            }
        }
    }

    fn resize_in_place(&self, block: &mut Block, bytes: usize) -> Result<bool> {
        if block.shared.is_some() {
            return Ok(false);
        }
        match &mut block.place {
            Place::Small(spot) => {
                let (spot, before) = (*spot, block.bytes);
                let fits = bytes < self.own_bytes_min || bytes <= before;
                Ok(fits && self.lock().slabs.resize(spot, before, bytes))
            }
            // Little in much memory is better moved.
            Place::Own(_) if bytes < self.grown_bytes_min() && bytes < block.bytes => Ok(false),
            Place::Own(growing) => {
                self.with_room(|| growing.ensure_exactly(bytes))?;
                Ok(true)
            }
        }
    }

    fn grown_bytes_min(&self) -> usize {
        (self.own_bytes_min / GROWN_PER_OWN).max(GROWN_BYTES_MIN)
    }

    fn relocate(&self, address: usize, block: Block, bytes: usize) -> Result<usize> {
        let grows = bytes > block.bytes && bytes >= self.grown_bytes_min();
        let placed = if grows { self.place_own(bytes, true) } else { self.place(bytes) };
        let (to, mut place) = match placed {
            Ok(placed) => placed,
            Err(error) => {
                self.lock().blocks.insert(address, block);
                return Err(error);
            }
        };
        let count = bytes.min(block.bytes);
        let mut state = self.lock();
        let copied = match (&block.place, &mut place) {
            (Place::Small(from), Place::Small(to)) => state.slabs.copy(*from, *to, count),
            (Place::Small(from), Place::Own(to)) => {
                let from = state.slabs.bytes_at(*from, count);
                from.map(|from| to[..count].copy_from_slice(from)).is_some()
            }
            (Place::Own(from), Place::Small(to)) => {
                let to = state.slabs.bytes_at_mut(*to, count);
                to.map(|to| to.copy_from_slice(&from[..count])).is_some()
            }
            (Place::Own(from), Place::Own(to)) => {
                to[..count].copy_from_slice(&from[..count]);
                true
            }
        };
        assert!(copied, "both buffers are there, and the new one is the pool's own");
        state.blocks.insert(to, Block { bytes, place, shared: None });
        state.stats.moved += 1;
        state.stats.grew(0, bytes);
        drop(state);
        self.discard(block);
        Ok(to)
    }

    /// The buffer at `address` is not used any more. In a forked child it stays.
    pub fn free(&self, address: usize) {
        if !self.is_ours() {
            return;
        }
        let block = self.lock().blocks.remove(&address);
        if let Some(block) = block {
            self.discard(block);
        }
    }

    fn discard(&self, block: Block) {
        let mut state = self.lock();
        state.stats.allocated_bytes -= block.bytes as u64;
        let region = match block.place {
            Place::Small(spot) => state.slabs.free(spot, block.bytes, block.shared.is_some()),
            Place::Own(_) => None,
        };
        drop(state);
        // Pins, mappings and leases go without the lock.
        drop((region, block));
    }

    /// Gives idle memory back to the store; whether there was any.
    pub fn release_unused(&self) -> bool {
        let regions = self.lock().slabs.release_unused();
        !regions.is_empty()
    }
}

impl Allocator for Pool {
    fn allocate(&self, bytes: usize) -> std::result::Result<usize, i32> {
        Self::allocate(self, bytes).map_err(|error| i32::from(error.code().number()))
    }

    fn reallocate(&self, address: usize, bytes: usize) -> std::result::Result<usize, i32> {
        Self::reallocate(self, address, bytes).map_err(|error| i32::from(error.code().number()))
    }

    fn release(&self, address: usize) {
        self.free(address);
    }

    fn release_unused(&self) {
        Self::release_unused(self);
    }

    fn figures(&self) -> Figures {
        let stats = self.stats();
        Figures {
            allocated_bytes: stats.allocated_bytes as i64,
            allocated_bytes_max: stats.allocated_bytes_max as i64,
            total_bytes: stats.total_bytes as i64,
            allocations: stats.allocations as i64,
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if !self.is_ours() {
            // Everything belongs to the parent, whose locks may be held in this copy of it.
            let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
            std::mem::forget(std::mem::take(&mut state.blocks));
        }
    }
}
