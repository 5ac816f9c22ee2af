//! Where a client has mapped which extent.
//!
//! A lookup is one load: word `index of the extent` of a table holds the base address of the
//! mapping (whose low 12 bits are 0, as it starts at a page) with the extent's 12-bit generation in
//! those bits. So an address of an earlier extent with the same index is never taken for that of
//! the present one. The table lies in untouched memory and costs as many pages as are used.
//!
//! Unmapping is safe although lookups take no lock: the daemon says that an extent is gone only
//! after every object in it was removed, and it removes no object that a ledger pins. Whoever looks
//! an extent up has pinned an object in it and so keeps it from going.

use std::collections::HashMap;
use std::io;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use plasmon_proto::limits::EXTENTS_MAX;
use plasmon_proto::message::ExtentId;

use crate::map::{ReadMap, WriteMap};

const GENERATION_MASK: u64 = (1 << (32 - ExtentId::INDEX_BITS)) - 1;

/// The extents that a client has mapped for reading.
#[derive(Debug)]
pub struct ExtentTable {
    words: WriteMap,
    maps: Mutex<HashMap<ExtentId, ReadMap>>,
}

impl ExtentTable {
    /// An empty table.
    pub fn new() -> io::Result<Self> {
        let words = WriteMap::anonymous(EXTENTS_MAX * size_of::<u64>())?;
        Ok(Self { words, maps: Mutex::default() })
    }

    #[inline(always)]
    fn word(&self, extent: ExtentId) -> &AtomicU64 {
        &self.words.shared(0, EXTENTS_MAX)[extent.index()]
    }

    /// The first byte of the extent, if it is mapped. What lies there may be read by whoever pins
    /// an object in it.
    #[inline]
    pub fn lookup(&self, extent: ExtentId) -> Option<*const u8> {
        // Pairs with the release in `insert`.
        let word = self.word(extent).load(Ordering::Acquire);
        let base = word & !GENERATION_MASK;
        let same = word & GENERATION_MASK == u64::from(extent.generation());
        (same && base != 0).then(|| ptr::with_exposed_provenance(base as usize))
    }

    /// Keeps a mapping of the extent. A second mapping of the same extent is dropped again, so that
    /// threads may race to map one.
    pub fn insert(&self, extent: ExtentId, map: ReadMap) {
        let mut maps = self.lock();
        if maps.contains_key(&extent) {
            return;
        }
        let base = map.base().expose_provenance() as u64;
        assert_eq!(base & GENERATION_MASK, 0, "a mapping starts at a page");
        self.word(extent).store(base | u64::from(extent.generation()), Ordering::Release);
        maps.insert(extent, map);
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
        let map = self.lock().remove(&extent);
        let Some(map) = map else { return };
        // A newer extent with the same index may have taken the word over.
        let word = map.base().addr() as u64 | u64::from(extent.generation());
        let _ = self.word(extent).compare_exchange(word, 0, Ordering::AcqRel, Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ExtentId, ReadMap>> {
        self.maps.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::Populate;
    use crate::memfd::Memfd;

    fn map() -> ReadMap {
        let memfd = Memfd::create("plasmon-test", 4096).unwrap();
        ReadMap::new(&memfd, 4096, Populate::No).unwrap()
    }

    #[test]
    fn an_extent_is_found_while_it_is_mapped() {
        let table = ExtentTable::new().unwrap();
        for extent in [ExtentId::new(0, 0), ExtentId::new(EXTENTS_MAX as u32 - 1, 4095)] {
            assert_eq!(table.lookup(extent), None);
            let map = map();
            let base = map.base();
            table.insert(extent, map);
            assert_eq!(table.lookup(extent), Some(base));
            table.insert(extent, self::map());
            assert_eq!(table.lookup(extent), Some(base), "the first mapping stays");
            assert_eq!(table.bytes(extent), Some(4096));
            table.remove(extent);
            table.remove(extent);
            assert_eq!(table.lookup(extent), None);
        }
        assert_eq!(table.count(), 0);
    }

    #[test]
    fn generations_of_one_index_are_different_extents() {
        let table = ExtentTable::new().unwrap();
        let (old, new) = (ExtentId::new(7, 1), ExtentId::new(7, 2));
        table.insert(old, map());
        assert_eq!(table.lookup(new), None);
        table.insert(new, map());
        assert_eq!(table.lookup(old), None, "the word belongs to the new one");
        assert!(table.lookup(new).is_some());
        table.remove(old);
        assert!(table.lookup(new).is_some(), "removing the old one leaves the new one alone");
    }
}
