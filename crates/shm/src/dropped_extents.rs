//! Extents that were dropped and that other processes still have mapped.
//!
//! At level shared the daemon frees the pages of a dropped extent even while it is mapped. The
//! kernel does not allow that for an extent that is sealed against writers: its pages stay until
//! the last process has let go of it. Such an extent stays here, in sight of the keeper, until the
//! kernel says that no other process has it ([`crate::last_holder`]).
//!
//! ```text
//! dropped ──► looked at once ──(alone)──────────────────────────────────► closed, released
//!                 │ not alone                                               ▲
//!                 └─► clients are woken, looked at after 1, 2, 4 ms .. 1 s ─┤ alone
//!                          └── not alone for a second: the store is told ───┘
//! ```

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use plasmon_proto::extent::ExtentId;

use crate::growing::GrowingMemfd;
use crate::memfd::Memfd;

/// How long requests wait for the memory of an extent that clients are asked to let go.
pub const OVERDUE_AFTER: Duration = Duration::from_secs(1);

/// The time between the first two looks; each later one is twice as long.
const LOOK_FIRST: Duration = Duration::from_millis(1);

/// The longest time between two looks.
const LOOK_LAST: Duration = Duration::from_secs(1);

/// Extents that are looked at in one turn: a few microseconds each.
pub const LOOKS_MAX: usize = 256;

/// What is left of an extent.
#[derive(Clone, Debug)]
pub enum Remains {
    /// An extent of fixed size.
    Fixed(Arc<Memfd>),
    /// One whose size was never fixed, and which its writer keeps the daemon from cutting.
    Growing(Arc<GrowingMemfd>),
}

impl Remains {
    /// Bytes that are physically there.
    pub fn resident_bytes(&self) -> io::Result<u64> {
        match self {
            Self::Fixed(memfd) => memfd.resident_bytes(),
            Self::Growing(memfd) => memfd.resident_bytes(),
        }
    }
}

impl AsFd for Remains {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Fixed(memfd) => memfd.as_fd(),
            Self::Growing(memfd) => memfd.as_fd(),
        }
    }
}

/// An extent on its way.
#[derive(Debug)]
pub struct DroppedExtent<T> {
    /// The extent.
    pub extent: ExtentId,
    /// What is left of it.
    pub remains: Remains,
    /// The clients that know of it and may have it mapped.
    pub recipients: T,
    /// Whether the store was told that it takes long.
    pub is_held: bool,
    since: Instant,
    wait: Duration,
}

impl<T> DroppedExtent<T> {
    /// An extent that is dropped now.
    pub fn new(extent: ExtentId, remains: Remains, recipients: T, now: Instant) -> Self {
        Self { extent, remains, recipients, is_held: false, since: now, wait: LOOK_FIRST }
    }

    /// Whether it is not waited for any longer.
    pub fn is_overdue(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.since) >= OVERDUE_AFTER
    }
}

/// All extents that are on their way.
#[derive(Debug)]
pub struct DroppedExtents<T> {
    by_time: BTreeMap<(Instant, ExtentId), DroppedExtent<T>>,
    /// When each is looked at.
    times: HashMap<ExtentId, Instant>,
    /// Those whose memory is being taken away.
    closing: BTreeMap<ExtentId, Arc<Memfd>>,
}

impl<T> Default for DroppedExtents<T> {
    fn default() -> Self {
        Self { by_time: BTreeMap::new(), times: HashMap::new(), closing: BTreeMap::new() }
    }
}

impl<T> DroppedExtents<T> {
    /// Keeps an extent to be looked at again.
    pub fn keep(&mut self, mut leaving: DroppedExtent<T>, now: Instant) {
        let at = now + leaving.wait;
        leaving.wait = (leaving.wait * 2).min(LOOK_LAST);
        self.times.insert(leaving.extent, at);
        self.by_time.insert((at, leaving.extent), leaving);
    }

    /// The next extent that is to be looked at by this time.
    pub fn pop_due(&mut self, now: Instant) -> Option<DroppedExtent<T>> {
        let entry = self.by_time.first_entry().filter(|entry| entry.key().0 <= now)?;
        let leaving = entry.remove();
        self.times.remove(&leaving.extent);
        Some(leaving)
    }

    /// When the next look is due.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.by_time.first_key_value().map(|((at, _), _)| *at)
    }

    /// A process has ended: some are to be looked at now, the others when they are due.
    pub fn hurry(&mut self, now: Instant) {
        let some: Vec<_> = self.by_time.keys().take(LOOKS_MAX).copied().collect();
        for key in some {
            if let Some(leaving) = self.by_time.remove(&key) {
                let at = now.min(key.0);
                self.times.insert(key.1, at);
                self.by_time.insert((at, key.1), leaving);
            }
        }
    }

    /// The descriptor of an extent, for the keeper.
    pub fn fixed(&self, extent: ExtentId) -> Option<BorrowedFd<'_>> {
        if let Some(memfd) = self.closing.get(&extent) {
            return Some(memfd.as_fd());
        }
        let at = self.times.get(&extent)?;
        match &self.by_time.get(&(*at, extent))?.remains {
            Remains::Fixed(memfd) => Some(memfd.as_fd()),
            // What is not sealed does not outlive its daemon.
            Remains::Growing(_) => None,
        }
    }

    /// The memory of an extent is being taken away.
    pub fn begin_close(&mut self, extent: ExtentId, memfd: &Arc<Memfd>) -> Arc<Memfd> {
        self.closing.insert(extent, Arc::clone(memfd));
        Arc::clone(memfd)
    }

    /// It is gone, or could not be taken away; whether it was being taken away at all.
    pub fn end_close(&mut self, extent: ExtentId) -> bool {
        self.closing.remove(&extent).is_some()
    }

    /// The extents that the keeper is to hold.
    pub fn extents(&self) -> impl Iterator<Item = ExtentId> {
        self.by_time.keys().map(|(_, extent)| *extent).chain(self.closing.keys().copied())
    }

    /// All that are waited for.
    pub fn iter(&self) -> impl Iterator<Item = &DroppedExtent<T>> {
        self.by_time.values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_become_rarer_and_a_process_that_ends_makes_them_due() {
        let (mut dropped, start) = (DroppedExtents::default(), Instant::now());
        let extent = ExtentId::new(1, 1);
        let memfd = Arc::new(Memfd::create("plasmon-test", 4096).unwrap());
        dropped.keep(DroppedExtent::new(extent, Remains::Fixed(memfd), (), start), start);
        let mut now = start;
        let mut waits = Vec::new();
        for _ in 0..12 {
            let due = dropped.next_deadline().unwrap();
            assert!(dropped.pop_due(due - Duration::from_nanos(1)).is_none());
            waits.push((due - now).as_millis());
            now = due;
            let leaving = dropped.pop_due(now).unwrap();
            assert_eq!(leaving.is_overdue(now), now - start >= OVERDUE_AFTER);
            dropped.keep(leaving, now);
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000, 1000]);
        dropped.hurry(now);
        assert!(dropped.pop_due(now).is_some());
        assert!(dropped.next_deadline().is_none());
    }
}
