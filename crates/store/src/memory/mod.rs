//! The memory of a store: extents, the holes in them, and how much of it all may be in use.
//!
//! Two sums are kept. *Charged* bytes are what the capacity counts: leases, objects (whether
//! sealed, hidden or being created) and memory that is being reserved. *Resident* bytes are the
//! pages that the machine really gave. The difference is *warm* memory, whole free pages kept for
//! the next writer, and slop, the free parts of pages that are partly in use. Warm memory is given
//! back before charged and warm bytes together exceed the capacity; slop may take an eighth on top.
//! What was dropped and is still mapped somewhere is charged as well, see [`retained`].
//!
//! ```text
//!                 reserve                   lease, object
//!     cold hole ----------> (being reserved) ------------> in use
//!         ^                                                  | release
//!         |        punch (level shared only)                 v
//!         +--------------------------------------------- warm hole
//! ```
//!
//! An *arena* is an extent that small objects are carved from; it has holes. An *exact* extent
//! holds one object from its first byte; it is in use or idle as a whole. A *growing* extent holds
//! one object whose size is not known yet and becomes an exact one. Which client may be given
//! memory of an extent is its [`Domain`].

mod allocation;
mod budget;
mod domain;
mod extents;
mod growing_extents;
mod holes;
mod leases;
mod page;
mod place;
mod ranges;
mod retained;
mod takeover;

use plasmon_proto::extent::{ExtentId, Range};
use plasmon_proto::limits::{
    ARENA_EXTENT_BYTES, LARGE_OBJECT_BYTES, RESIDENT_SLACK_BYTES_MIN, RESIDENT_SLACK_PER_CAPACITY,
};
use plasmon_proto::object::{Level, Sizes};

pub(crate) use domain::Domain;
pub(crate) use extents::{Extent, Kind};
#[cfg(test)]
pub(crate) use leases::LEASE_PIECES_MAX;
pub(crate) use leases::{LeaseError, Leases};
pub(crate) use page::aligned;
pub(crate) use place::{Ask, Lengths, PlacedRange, Reservation};

use extents::Extents;
use holes::HoleIndex;
use page::PageSize;
use retained::RetainedMemory;

use crate::config::Config;

/// The smallest arena.
const ARENA_BYTES_MIN: u64 = 1 << 20;

/// More than any machine has, and little enough that sums of a few capacities do not overflow.
const CAPACITY_BYTES_MAX: u64 = 1 << 56;

/// Idle exact extents that are kept at most: each costs the daemon descriptors.
const IDLE_EXTENTS_MAX: usize = 64;

/// All memory of a store.
#[derive(Debug)]
pub(crate) struct Memory {
    limits: Limits,
    extents: Extents,
    holes: HoleIndex,
    charged_bytes: u64,
    retained: RetainedMemory,
    /// Bytes of new arenas beyond what is being reserved in them.
    unmade_bytes: u64,
}

/// What the memory is measured by; fixed for a store's life.
#[derive(Clone, Copy, Debug)]
struct Limits {
    level: Level,
    page: PageSize,
    /// The capacity rounded up to pages.
    capacity_bytes: u64,
    /// How far resident pages may exceed the capacity, because pages are partly used.
    slop_bytes_max: u64,
    warm_bytes_max: u64,
    arena_bytes: u64,
    /// From this many bytes on, an object gets an exact extent.
    exact_bytes_min: u64,
}

impl Memory {
    /// No memory yet. It holds `memory_bytes`, of which the configuration says the rest.
    pub(crate) fn new(config: &Config, memory_bytes: u64) -> Self {
        let page = PageSize::of(config.page_bytes);
        let capacity_bytes = page.round_up(memory_bytes.clamp(1, CAPACITY_BYTES_MAX));
        let arena_bytes = (capacity_bytes / 16).clamp(ARENA_BYTES_MIN, ARENA_EXTENT_BYTES);
        let arena_bytes = page.round_up(arena_bytes);
        let limits = Limits {
            level: config.level,
            page,
            capacity_bytes,
            slop_bytes_max: page.round_up(
                (capacity_bytes / RESIDENT_SLACK_PER_CAPACITY).max(RESIDENT_SLACK_BYTES_MIN),
            ),
            warm_bytes_max: config.warm_bytes_max,
            arena_bytes,
            exact_bytes_min: LARGE_OBJECT_BYTES.min(arena_bytes / 4).min(capacity_bytes / 4),
        };
        let extents = Extents::new(config.first_birth);
        Self {
            limits,
            extents,
            holes: HoleIndex::new(page),
            charged_bytes: 0,
            retained: RetainedMemory::default(),
            unmade_bytes: 0,
        }
    }

    /// The capacity rounded up to pages.
    pub(crate) fn capacity_bytes(&self) -> u64 {
        self.limits.capacity_bytes
    }

    /// What may still be charged.
    pub(crate) fn left_bytes(&self) -> u64 {
        self.limits.capacity_bytes.saturating_sub(self.taken_bytes())
    }

    /// What the capacity counts: all that is in use, and all that is not and stays all the same.
    fn taken_bytes(&self) -> u64 {
        let stays = self.retained.bytes().saturating_add(self.extents.surplus_bytes());
        self.charged_bytes.saturating_add(stays)
    }

    /// What stays although nothing is in it.
    pub(crate) fn retained_bytes(&self) -> u64 {
        self.retained.bytes().saturating_add(self.extents.surplus_bytes())
    }

    /// What was dropped and is still there.
    pub(crate) fn retained(&self) -> &RetainedMemory {
        &self.retained
    }

    /// What is in use.
    pub(crate) fn charged_bytes(&self) -> u64 {
        self.charged_bytes
    }

    /// Free bytes that the machine gave and that are unused, in whole pages.
    pub(crate) fn warm_bytes(&self) -> u64 {
        self.holes.warm_bytes() + self.extents.idle_bytes()
    }

    /// Bytes of pages that the machine gave.
    pub(crate) fn resident_bytes(&self) -> u64 {
        let present = self.extents.total_bytes() - self.holes.cold_bytes() - self.unmade_bytes;
        present.saturating_add(self.retained.bytes()).saturating_add(self.extents.surplus_bytes())
    }

    /// How many extents there are.
    pub(crate) fn extents_count(&self) -> usize {
        self.extents.count()
    }

    /// The extent, if it exists.
    pub(crate) fn extent(&self, range: &Range) -> Option<&Extent> {
        self.extents.get(range.extent)
    }

    /// The extents that a session writes.
    pub(crate) fn extents_of(&self, session: u32) -> impl Iterator<Item = ExtentId> {
        self.extents.of_session(session)
    }

    /// All extents.
    #[cfg(any(test, feature = "doubles"))]
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Extent> {
        self.extents.iter()
    }

    /// Whether an object of this footprint gets its own extent.
    pub(crate) fn is_exact(&self, footprint: u64) -> bool {
        footprint >= self.limits.exact_bytes_min
    }

    /// What an object in this place is charged. In an exact extent, attributes are bookkeeping
    /// outside the capacity, so that an object of exactly the capacity fits whatever its name.
    pub(crate) fn charge(&self, range: &Range, sizes: &Sizes) -> u64 {
        match self.extents.get(range.extent) {
            Some(extent) if extent.kind == Kind::Exact => self.exact_charge(sizes),
            _ => range.bytes,
        }
    }

    /// What an object in an exact extent is charged.
    pub(crate) fn exact_charge(&self, sizes: &Sizes) -> u64 {
        self.pages(sizes.data.saturating_add(sizes.metadata).max(1))
    }

    /// `bytes` rounded up to pages.
    pub(crate) fn pages(&self, bytes: u64) -> u64 {
        self.limits.page.round_up(bytes)
    }

    /// The whole pages within a range, as offset and bytes.
    pub(crate) fn whole_pages(&self, offset: u64, bytes: u64) -> (u64, u64) {
        self.limits.page.whole_within(offset, bytes)
    }

    /// Notes the first publication in the extent; true the first time.
    pub(crate) fn publish_first(&mut self, range: &Range) -> bool {
        self.extents.get_mut(range.extent).is_some_and(|extent| {
            let first = !extent.published;
            extent.published = true;
            first
        })
    }
}
