//! Where a client has mapped which extent.
//!
//! A lookup reads one cache line, the [`Place`] at the extent's index: its identity, the address
//! and the size of the mapping. Identities are never used again, so an address of an earlier extent
//! with the same index is never taken for that of the present one, however late this client learns
//! of the earlier one's end. The table lies in untouched memory and costs as many pages as are
//! used.
//!
//! Unmapping is safe although lookups take no lock: the daemon says that an extent is gone only
//! after every object in it was removed, and it removes no object that a ledger pins. A reader that
//! looks an extent up has pinned an object in it and so keeps it from going.

use std::collections::HashMap;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use plasmon_proto::extent::ExtentId;
use plasmon_proto::limits::EXTENTS_MAX;

use crate::map::{ReadMap, WriteMap};
use crate::mapped_extent::{MappedExtent, Place};

/// The extents that a client has mapped for reading.
#[derive(Debug)]
pub struct ExtentTable {
    places: WriteMap,
    maps: Mutex<HashMap<ExtentId, ReadMap>>,
}

impl ExtentTable {
    /// An empty table.
    pub fn new() -> io::Result<Self> {
        let places = WriteMap::anonymous(EXTENTS_MAX * size_of::<Place>())?;
        Ok(Self { places, maps: Mutex::default() })
    }

    #[inline(always)]
    fn place(&self, extent: ExtentId) -> &Place {
        &self.places.shared(0, EXTENTS_MAX)[extent.index()]
    }

    /// Where the extent is mapped, if it is. What lies there may be read by a caller that pins an
    /// object in it.
    #[inline]
    pub(crate) fn lookup(&self, extent: ExtentId) -> Option<MappedExtent> {
        self.place(extent).lookup(extent)
    }

    /// Keeps a mapping of the extent. Threads may race to map one: a second mapping of the same
    /// extent is dropped again, and so is one of an extent older than that at the same index, which
    /// has gone meanwhile. An error when the same extent is mapped with another size: an extent
    /// never changes its size, so one of the two mappings is not what the daemon says it is.
    pub fn insert(&self, extent: ExtentId, map: ReadMap) -> io::Result<()> {
        let mut maps = self.lock();
        if let Some(known) = maps.get(&extent) {
            if known.bytes() == map.bytes() {
                return Ok(());
            }
            let (known, found) = (known.bytes(), map.bytes());
            let text = format!("an extent of {known} bytes has {found} bytes now");
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        let place = self.place(extent);
        if place.extent().birth() > extent.birth() {
            return Ok(());
        }
        let base = map.base().expose_provenance() as u64;
        place.set(extent, MappedExtent { base, bytes: map.bytes() });
        maps.insert(extent, map);
        Ok(())
    }

    /// How many bytes of the extent are mapped.
    pub fn bytes(&self, extent: ExtentId) -> Option<u64> {
        self.lock().get(&extent).map(ReadMap::bytes)
    }

    /// How many extents are mapped.
    pub fn count(&self) -> usize {
        self.lock().len()
    }

    /// Unmaps an extent that the daemon has dropped.
    pub(crate) fn remove(&self, extent: ExtentId) {
        let mut maps = self.lock();
        let map = maps.remove(&extent);
        self.clear(extent);
        drop(maps);
        drop(map);
    }

    /// Unmaps every extent that is not `kept`, which says whether the daemon still has it.
    pub(crate) fn retain(&self, kept: impl Fn(ExtentId) -> bool) {
        let mut maps = self.lock();
        let gone: Vec<_> = maps.extract_if(|extent, _| !kept(*extent)).collect();
        gone.iter().for_each(|(extent, _)| self.clear(*extent));
        drop(maps);
        drop(gone);
    }

    /// Empties the extent's entry, unless a newer extent with the same index has taken it over. The
    /// caller holds the lock.
    fn clear(&self, extent: ExtentId) {
        let place = self.place(extent);
        if place.extent() == extent {
            place.clear();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ExtentId, ReadMap>> {
        self.maps.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
