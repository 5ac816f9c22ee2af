//! Extents of the store that are mapped here.
//!
//! What is read is mapped while anything is sent from it. What is written to is kept: at level
//! leased the kernel refuses a second mapping. An extent that is one object's alone is given up
//! with the landing, and of the others one at a time is asked about now and then whether it is
//! still there, because a mapping keeps the memory of an extent that is gone.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};

use plasmon_proto::message::{ExtentId, Grant};
use plasmon_proto::object::Level;
use plasmon_shm::map::{Populate, ReadMap};
use plasmon_shm::writer::{Span, WriteExtent};

use crate::memory::Landing;

#[derive(Debug, Default)]
pub(super) struct Maps {
    read: BTreeMap<ExtentId, Weak<ReadMap>>,
    written: BTreeMap<ExtentId, Arc<WriteExtent>>,
    /// The one that was asked about last.
    checked: Option<ExtentId>,
}

impl Maps {
    /// The mapping of an extent that is read, if there is one.
    pub(super) fn find(&self, extent: ExtentId) -> Option<Arc<ReadMap>> {
        self.read.get(&extent)?.upgrade()
    }

    /// Maps an extent to read from it.
    pub(super) fn map(
        &mut self,
        extent: ExtentId,
        fd: OwnedFd,
        bytes: u64,
    ) -> io::Result<Arc<ReadMap>> {
        let map = Arc::new(ReadMap::new(fd, bytes, Populate::No)?);
        self.read.retain(|_, map| map.strong_count() > 0);
        self.read.insert(extent, Arc::downgrade(&map));
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
pub(super) struct LandedMemory(pub(super) Span);

impl Landing for LandedMemory {
    fn bytes(&mut self) -> &mut [u8] {
        &mut self.0
    }
}
