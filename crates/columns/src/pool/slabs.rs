//! Small buffers: carved from leased regions, best fit first.
//!
//! The free ranges are recorded here and not in the memory itself, which all clients read. Every
//! buffer starts at a multiple of 64 and takes a multiple of 64 bytes. A buffer that was published
//! is the store's: its place is never free again, and a region with nothing else left is dropped.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use plasmon_client::{Client, ObjectId, Region, Traits};
use plasmon_proto::limits::OBJECT_ALIGN;

/// Where a small buffer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Spot {
    pub(crate) slab: u32,
    pub(crate) offset: u64,
}

/// One region with its holes.
#[derive(Debug)]
struct Slab {
    region: Region,
    base: usize,
    holes: BTreeMap<u64, u64>,
    /// Buffers in it that are not freed, published or not.
    live: usize,
    /// Whether a part of it was published.
    published: bool,
}

/// All regions of a pool.
#[derive(Debug)]
pub(crate) struct Slabs {
    slab_bytes: u64,
    slabs: HashMap<u32, Slab>,
    next: u32,
    /// All holes by size.
    fits: BTreeSet<(u64, Spot)>,
}

/// The room that a buffer of this many bytes takes.
pub(crate) fn rounded(bytes: usize) -> u64 {
    (bytes.max(1) as u64).next_multiple_of(OBJECT_ALIGN)
}

impl Slabs {
    pub(crate) fn new(slab_bytes: u64) -> Self {
        Self { slab_bytes, slabs: HashMap::new(), next: 0, fits: BTreeSet::new() }
    }

    /// Bytes of all regions.
    pub(crate) fn bytes(&self) -> u64 {
        self.slabs.values().map(|slab| slab.region.bytes()).sum()
    }

    /// A place for a buffer and its address, if a region has one.
    pub(crate) fn allocate(&mut self, bytes: usize) -> Option<(Spot, usize)> {
        let wanted = rounded(bytes);
        let least = (wanted, Spot { slab: 0, offset: 0 });
        let (length, spot) = *self.fits.range(least..).next()?;
        self.take(spot, length, wanted);
        let slab = self.slabs.get_mut(&spot.slab)?;
        slab.live += 1;
        Some((spot, slab.base + spot.offset as usize))
    }

    /// Leases another region.
    pub(crate) fn lease(store: &Client, bytes: u64) -> plasmon_client::Result<Region> {
        store.lease_region(bytes)
    }

    pub(crate) fn slab_bytes(&self) -> u64 {
        self.slab_bytes
    }

    /// Takes a region in.
    pub(crate) fn add(&mut self, mut region: Region) {
        let (number, bytes, base) = (self.next, region.bytes(), region.base() as usize);
        self.next = self.next.wrapping_add(1);
        let holes = BTreeMap::new();
        self.slabs.insert(number, Slab { region, base, holes, live: 0, published: false });
        self.open(Spot { slab: number, offset: 0 }, bytes);
    }

    /// Takes the front of a hole.
    fn take(&mut self, hole: Spot, length: u64, wanted: u64) {
        self.fits.remove(&(length, hole));
        let Some(slab) = self.slabs.get_mut(&hole.slab) else { return };
        slab.holes.remove(&hole.offset);
        if length > wanted {
            let rest = Spot { offset: hole.offset + wanted, ..hole };
            slab.holes.insert(rest.offset, length - wanted);
            self.fits.insert((length - wanted, rest));
        }
    }

    /// Makes a range a hole, one with its neighbours.
    fn open(&mut self, spot: Spot, bytes: u64) {
        let Some(slab) = self.slabs.get_mut(&spot.slab) else { return };
        let (mut start, mut length) = (spot.offset, bytes);
        if let Some((before, bytes)) = slab.holes.range(..start).next_back()
            && before + bytes == start
        {
            (start, length) = (*before, length + bytes);
        }
        if let Some(bytes) = slab.holes.get(&(spot.offset + bytes)) {
            length += bytes;
        }
        let joined = [start, spot.offset + bytes];
        for offset in joined {
            if let Some(bytes) = slab.holes.remove(&offset) {
                self.fits.remove(&(bytes, Spot { offset, ..spot }));
            }
        }
        slab.holes.insert(start, length);
        self.fits.insert((length, Spot { offset: start, ..spot }));
    }

    /// Changes a buffer's size where it is; whether that was possible.
    pub(crate) fn resize(&mut self, spot: Spot, before: usize, after: usize) -> bool {
        let (before, after) = (rounded(before), rounded(after));
        let end = Spot { offset: spot.offset + before, ..spot };
        if after <= before {
            if after < before {
                self.open(Spot { offset: spot.offset + after, ..spot }, before - after);
            }
            return true;
        }
        let next = self.slabs.get(&spot.slab).and_then(|slab| slab.holes.get(&end.offset));
        match next.copied() {
            Some(length) if length >= after - before => {
                self.take(end, length, after - before);
                true
            }
            _ => false,
        }
    }

    /// A buffer is no longer used. Gives back the region when it was the last in one that is not
    /// kept, to be dropped without the pool's lock.
    #[must_use]
    pub(crate) fn free(&mut self, spot: Spot, bytes: usize, published: bool) -> Option<Region> {
        if !published {
            self.open(spot, rounded(bytes));
        }
        let slab = self.slabs.get_mut(&spot.slab)?;
        slab.live -= 1;
        if slab.live > 0 {
            return None;
        }
        // One region without buffers is kept warm for the next ones.
        let kept = !slab.published && self.idle() <= 1;
        if kept { None } else { self.remove(spot.slab) }
    }

    fn idle(&self) -> usize {
        self.slabs.values().filter(|slab| slab.live == 0).count()
    }

    fn remove(&mut self, number: u32) -> Option<Region> {
        let slab = self.slabs.remove(&number)?;
        for (offset, bytes) in &slab.holes {
            self.fits.remove(&(*bytes, Spot { slab: number, offset: *offset }));
        }
        Some(slab.region)
    }

    /// Gives back every region without buffers.
    #[must_use]
    pub(crate) fn release_unused(&mut self) -> Vec<Region> {
        let idle = self.slabs.iter().filter(|(_, slab)| slab.live == 0);
        let idle: Vec<u32> = idle.map(|(number, _)| *number).collect();
        idle.into_iter().filter_map(|number| self.remove(number)).collect()
    }

    /// The bytes of a buffer.
    pub(crate) fn bytes_at(&self, spot: Spot, bytes: usize) -> Option<&[u8]> {
        self.slabs.get(&spot.slab)?.region.slice(spot.offset, bytes as u64)
    }

    /// The bytes of a buffer that is not published.
    pub(crate) fn bytes_at_mut(&mut self, spot: Spot, bytes: usize) -> Option<&mut [u8]> {
        self.slabs.get_mut(&spot.slab)?.region.slice_mut(spot.offset, bytes as u64)
    }

    /// Clears what lies between a buffer that is not published and the next one: it is published
    /// with the buffer, and would hold what an earlier buffer held there.
    pub(crate) fn clear_padding(&mut self, spot: Spot, bytes: usize) {
        let rest = Spot { offset: spot.offset + bytes as u64, ..spot };
        if let Some(padding) = self.bytes_at_mut(rest, rounded(bytes) as usize - bytes) {
            padding.fill(0);
        }
    }

    /// Copies bytes from one buffer to another; false when one of them is not there.
    pub(crate) fn copy(&mut self, from: Spot, to: Spot, bytes: usize) -> bool {
        if from.slab == to.slab {
            let slab = self.slabs.get_mut(&from.slab);
            return slab
                .is_some_and(|slab| slab.region.copy_within(from.offset, to.offset, bytes as u64));
        }
        let Some(source) = self.slabs.remove(&from.slab) else { return false };
        let into = self.slabs.get_mut(&to.slab);
        let into = into.and_then(|slab| slab.region.slice_mut(to.offset, bytes as u64));
        let copied = match (into, source.region.slice(from.offset, bytes as u64)) {
            (Some(into), Some(bytes)) => {
                into.copy_from_slice(bytes);
                true
            }
            _ => false,
        };
        self.slabs.insert(from.slab, source);
        copied
    }

    /// Makes buffers that lie one after the other an object, in place.
    pub(crate) fn publish(
        &mut self,
        spot: Spot,
        bytes: u64,
    ) -> Option<plasmon_client::Result<ObjectId>> {
        let slab = self.slabs.get_mut(&spot.slab)?;
        slab.published = true;
        let traits = Traits { owned: true, ..Traits::default() };
        Some(slab.region.publish(spot.offset, bytes, traits))
    }
}
