//! Extents of the store that are mapped here.
//!
//! A mapping keeps the memory of an extent that is gone, so none is kept for nothing. What is read
//! is mapped while anything is sent from it, and until it was of no use for a second: the next
//! object of an extent is often asked for soon, and to map it takes longer than to send a small
//! one. What is written to is kept: at level leased the kernel refuses a second mapping. An extent
//! that is one object's alone is given up with the landing, and of the others one at a time is
//! asked about now and then whether it is still there.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use plasmon_proto::extent::ExtentId;
use plasmon_proto::message::Grant;
use plasmon_proto::object::Level;
use plasmon_shm::map::{Populate, ReadMap};
use plasmon_shm::writer::{Span, WriteExtent};

use crate::memory::Landing;

#[derive(Debug, Default)]
pub(super) struct Maps {
    read: BTreeMap<ExtentId, Read>,
    written: BTreeMap<ExtentId, Arc<WriteExtent>>,
    /// The one that was asked about last.
    checked: Option<ExtentId>,
}

/// An extent that is read.
#[derive(Debug)]
struct Read {
    map: Arc<ReadMap>,
    /// Whether it was asked for since the last look.
    is_used: bool,
}

impl Maps {
    /// The mapping of an extent that is read, if there is one.
    pub(super) fn find(&mut self, extent: ExtentId) -> Option<Arc<ReadMap>> {
        let read = self.read.get_mut(&extent)?;
        read.is_used = true;
        Some(read.map.clone())
    }

    /// Gives up what was not read since the last call.
    pub(super) fn sweep(&mut self) {
        let is_kept = |_: &ExtentId, read: &mut Read| {
            std::mem::take(&mut read.is_used) || Arc::strong_count(&read.map) > 1
        };
        self.read.retain(is_kept);
    }

    /// Maps an extent to read from it.
    pub(super) fn map(
        &mut self,
        extent: ExtentId,
        fd: OwnedFd,
        bytes: u64,
    ) -> io::Result<Arc<ReadMap>> {
        let map = Arc::new(ReadMap::new(fd, bytes, Populate::No)?);
        self.read.insert(extent, Read { map: map.clone(), is_used: true });
        Ok(map)
    }

    /// The memory of a landing.
    pub(super) fn lease(&mut self, grant: &Grant, fd: OwnedFd, level: Level) -> io::Result<Span> {
        let range = grant.range;
        let map = match self.written.get(&range.extent) {
            Some(map) => map.clone(),
            None => self.map_written(grant, fd, level)?,
        };
        let outside = || io::Error::other("the memory of a landing is not within its extent");
        map.lease(range.offset, range.bytes).ok_or_else(outside)
    }

    fn map_written(
        &mut self,
        grant: &Grant,
        fd: OwnedFd,
        level: Level,
    ) -> io::Result<Arc<WriteExtent>> {
        let map = Arc::new(WriteExtent::new(fd, Populate::No)?);
        // The daemon publishes nothing in memory that is open to new writers.
        if level == Level::Leased {
            map.memfd().seal_future_write()?;
        }
        let is_own = grant.range.bytes == grant.extent_bytes;
        if !is_own && level != Level::Strict {
            self.written.insert(grant.range.extent, map.clone());
        }
        Ok(map)
    }

    /// The next one to ask about.
    pub(super) fn next_to_check(&mut self) -> Option<ExtentId> {
        let after = self.checked.and_then(|last| {
            use std::ops::Bound::{Excluded, Unbounded};
            self.written.range((Excluded(last), Unbounded)).next()
        });
        self.checked = after.or_else(|| self.written.first_key_value()).map(|(extent, _)| *extent);
        self.checked
    }

    /// An extent is gone.
    pub(super) fn forget(&mut self, extent: ExtentId) {
        self.written.remove(&extent);
    }
}

/// Memory in which a copy arrives.
#[derive(Debug)]
pub(super) struct LandedMemory {
    span: Span,
    arrived: BTreeSet<u32>,
}

impl LandedMemory {
    pub(super) fn new(span: Span) -> Self {
        Self { span, arrived: BTreeSet::new() }
    }
}

impl Landing for LandedMemory {
    fn bytes(&mut self) -> &mut [u8] {
        &mut self.span
    }

    fn arrived(&mut self) -> &mut BTreeSet<u32> {
        &mut self.arrived
    }
}
