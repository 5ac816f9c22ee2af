//! The extents that exist, by number: the one place that holds their descriptors.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::ops::Bound;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Weak};

use plasmon_proto::Attributes;
use plasmon_proto::extent::{ExtentId, Placement, Range};
use plasmon_proto::object::Sizes;
use plasmon_shm::{GrowingMemfd, Memfd, Populate, WriteExtent};
use plasmon_store::Ticket;

use crate::outbox::PassedDescriptor;
use crate::sessions::SessionNo;

/// The sessions that were given a descriptor of an extent; `None` when they are not known any more.
pub(crate) type Recipients = Option<BTreeSet<SessionNo>>;

/// The extents of a store.
#[derive(Debug, Default)]
pub(crate) struct Extents {
    /// In an order that is the same in every run.
    by_id: BTreeMap<ExtentId, Arc<Memfd>>,
    /// Those that the daemon writes to although the kernel refuses new writers.
    mapped: HashMap<ExtentId, Arc<WriteExtent>>,
    /// Their descriptors for reading that are on their way to clients. Clients that do not receive
    /// them share one, so however many they are, there are as many as extents.
    readers: BTreeMap<ExtentId, Weak<OwnedFd>>,
    /// Those whose size is not fixed yet. The keeper does not hold them: what is not sealed does
    /// not outlive its daemon.
    growing: HashMap<ExtentId, Arc<GrowingMemfd>>,
    /// The sessions that were given descriptors of an extent, where that matters.
    recipients: HashMap<ExtentId, BTreeSet<SessionNo>>,
    /// What of each extent was there when it was last looked at; all of it before the first look.
    resident: BTreeMap<ExtentId, u64>,
    resident_sum: u64,
    first_birth: u64,
    /// The last extent that was looked at.
    looked_at: Option<ExtentId>,
    /// Extents that a worker is making, with the ranges of them that are wanted besides.
    making: HashMap<ExtentId, Vec<(Ticket, Range)>>,
}

impl Extents {
    /// Takes an extent in.
    pub(crate) fn insert(&mut self, extent: ExtentId, memfd: Memfd) -> Arc<Memfd> {
        let memfd = Arc::new(memfd);
        self.by_id.insert(extent, Arc::clone(&memfd));
        self.set_resident(extent, Some(memfd.bytes()));
        memfd
    }

    /// Takes an extent in that grows.
    pub(crate) fn insert_growing(&mut self, extent: ExtentId, memfd: GrowingMemfd) {
        self.growing.insert(extent, Arc::new(memfd));
    }

    /// An extent that grows.
    pub(crate) fn growing(&self, extent: ExtentId) -> Option<&Arc<GrowingMemfd>> {
        self.growing.get(&extent)
    }

    /// Lets an extent go that grew, or has got its final size.
    pub(crate) fn remove_growing(&mut self, extent: ExtentId) -> Option<Arc<GrowingMemfd>> {
        self.growing.remove(&extent)
    }

    /// An extent is being made.
    pub(crate) fn begin_making(&mut self, extent: ExtentId) {
        self.making.insert(extent, Vec::new());
    }

    /// Keeps a range for later if its extent is still being made; whether it is.
    pub(crate) fn await_making(&mut self, ticket: Ticket, range: Range) -> bool {
        let waiting = self.making.get_mut(&range.extent);
        waiting.map(|waiting| waiting.push((ticket, range))).is_some()
    }

    /// An extent was made, or could not be. Gives back what waited for it.
    pub(crate) fn end_making(&mut self, extent: ExtentId) -> Vec<(Ticket, Range)> {
        self.making.remove(&extent).unwrap_or_default()
    }

    /// Lets an extent go.
    pub(crate) fn remove(&mut self, extent: ExtentId) -> Option<Arc<Memfd>> {
        self.mapped.remove(&extent);
        self.readers.remove(&extent);
        self.set_resident(extent, None);
        self.by_id.remove(&extent)
    }

    /// A client was given a descriptor of the extent.
    pub(crate) fn note_recipient(&mut self, extent: ExtentId, session: SessionNo) {
        if self.is_tracked(extent) {
            self.recipients.entry(extent).or_default().insert(session);
        }
    }

    /// The sessions that were given a descriptor of an extent that goes; `None` when not known.
    pub(crate) fn take_recipients(&mut self, extent: ExtentId) -> Recipients {
        let is_tracked = self.is_tracked(extent);
        let recipients = self.recipients.remove(&extent);
        is_tracked.then(|| recipients.unwrap_or_default())
    }

    /// Whether all descriptors of the extent were given by this daemon.
    fn is_tracked(&self, extent: ExtentId) -> bool {
        extent.birth() >= self.first_birth
    }

    /// Extents from this birth on are of this daemon's making.
    pub(crate) fn set_first_birth(&mut self, birth: u64) {
        self.first_birth = birth;
    }

    /// How many bytes of all extents are there. Looks at a limited number of extents, in turn: of
    /// the others it knows what was there before.
    pub(crate) fn measure(&mut self, most: usize) -> u64 {
        let after = self.looked_at.map_or(Bound::Unbounded, Bound::Excluded);
        let rest = self.resident.range((after, Bound::Unbounded));
        let around = rest.chain(&self.resident).take(most.min(self.resident.len()));
        let looked_at: Vec<ExtentId> = around.map(|(extent, _)| *extent).collect();
        for extent in looked_at {
            let found = self.by_id.get(&extent).and_then(|memfd| memfd.resident_bytes().ok());
            if let Some(bytes) = found {
                self.set_resident(extent, Some(bytes));
            }
            self.looked_at = Some(extent);
        }
        let growing = self.growing.values().take(most);
        let growing = growing.filter_map(|memfd| memfd.resident_bytes().ok());
        self.resident_sum + growing.sum::<u64>()
    }

    fn set_resident(&mut self, extent: ExtentId, bytes: Option<u64>) {
        let before = match bytes {
            Some(bytes) => self.resident.insert(extent, bytes),
            None => self.resident.remove(&extent),
        };
        self.resident_sum = self.resident_sum + bytes.unwrap_or(0) - before.unwrap_or(0);
    }

    /// A writable mapping of an extent. The first call must come before the extent is protected;
    /// the mapping then stays until the extent goes.
    pub(crate) fn mapped(&mut self, extent: ExtentId) -> io::Result<Arc<WriteExtent>> {
        if let Some(mapped) = self.mapped.get(&extent) {
            return Ok(Arc::clone(mapped));
        }
        let memfd = self.get(extent).ok_or(io::ErrorKind::NotFound)?;
        let mapped = Arc::new(WriteExtent::new(memfd.duplicate()?, Populate::No)?);
        self.mapped.insert(extent, Arc::clone(&mapped));
        Ok(mapped)
    }

    /// An extent.
    pub(crate) fn get(&self, extent: ExtentId) -> Option<&Arc<Memfd>> {
        self.by_id.get(&extent)
    }

    /// All extents.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (ExtentId, &Arc<Memfd>)> {
        self.by_id.iter().map(|(extent, memfd)| (*extent, memfd))
    }

    /// A descriptor of an extent for one client, with the extent's size; `None` when it is gone.
    pub(crate) fn descriptor(
        &mut self,
        extent: ExtentId,
        write: bool,
    ) -> io::Result<Option<(u64, PassedDescriptor)>> {
        let Some(memfd) = self.by_id.get(&extent) else {
            return Ok(None);
        };
        if write {
            return Ok(Some((memfd.bytes(), PassedDescriptor::Made(memfd.writable()?))));
        }
        let in_flight = self.readers.get(&extent).and_then(Weak::upgrade);
        let fd = match in_flight {
            Some(fd) => fd,
            None => {
                let made = Arc::new(memfd.read_only()?);
                self.readers.insert(extent, Arc::downgrade(&made));
                made
            }
        };
        Ok(Some((memfd.bytes(), PassedDescriptor::Shared(fd))))
    }

    /// Reads an object's attributes out of its extent. The bytes are a client's: they are copied
    /// out first and may be anything. `None` when they are not there or are no attributes.
    #[inline]
    pub(crate) fn attributes(&self, placement: Placement, sizes: &Sizes) -> Option<Attributes> {
        let Placement { extent, offset } = placement;
        if sizes.attributes == 0 {
            // Most have none. Whether the range is there is for the store to say: it leased it.
            return Some(Attributes::default());
        }
        let total = sizes.total()?;
        let end = offset.checked_add(total)?;
        let memfd = self.get(extent)?;
        if end > memfd.bytes() {
            return None;
        }
        attributes_before(memfd.as_fd(), end, sizes)
    }

    /// Those of an object that grows, which lies from the first byte of its extent.
    pub(crate) fn attributes_of_growing(
        &self,
        extent: ExtentId,
        sizes: &Sizes,
    ) -> Option<Attributes> {
        if sizes.attributes == 0 {
            return Some(Attributes::default());
        }
        attributes_before(self.growing(extent)?.as_fd(), sizes.total()?, sizes)
    }
}

/// Attributes that end there. A file that is shorter, which its writer can make of it, has none.
fn attributes_before(fd: BorrowedFd<'_>, end: u64, sizes: &Sizes) -> Option<Attributes> {
    let mut bytes = vec![0; usize::try_from(sizes.attributes).ok()?];
    let mut done = 0;
    while done < bytes.len() {
        let at = end - sizes.attributes + done as u64;
        match rustix::io::pread(fd, &mut bytes[done..], at) {
            Ok(0) | Err(_) => return None,
            Ok(count) => done += count,
        }
    }
    Attributes::decode(&bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use plasmon_proto::Name;
    use std::os::fd::{AsFd, AsRawFd};

    fn extents() -> (Extents, ExtentId) {
        let mut extents = Extents::default();
        let id = ExtentId::new(3, 1);
        extents.insert(id, Memfd::create("plasmon-test", 8192).unwrap());
        (extents, id)
    }

    #[test]
    fn attributes_are_read_from_after_data_and_metadata() {
        let (extents, id) = extents();
        let attributes = Attributes { name: Name::new("a", "b").ok(), ..Attributes::default() };
        let bytes = attributes.encode();
        let sizes = Sizes { data: 100, metadata: 20, attributes: bytes.len() as u64 };
        rustix::io::pwrite(&**extents.get(id).unwrap(), &bytes, 64 + 120).unwrap();
        let at = |offset| Placement { extent: id, offset };
        assert_eq!(extents.attributes(at(64), &sizes), Some(attributes));
        assert_eq!(extents.attributes(at(0), &sizes), None, "zeroes are no attributes");
        let elsewhere = Placement { extent: ExtentId::new(3, 2), offset: 64 };
        assert_eq!(extents.attributes(elsewhere, &sizes), None, "another extent");
        for offset in [8192, 8192 - 64, u64::MAX, u64::MAX - 64] {
            assert_eq!(extents.attributes(at(offset), &sizes), None, "{offset}");
        }
        let none = Sizes { data: 100, ..Sizes::default() };
        assert_eq!(extents.attributes(at(0), &none), Some(Attributes::default()));
    }

    #[test]
    fn readers_cannot_write_and_a_missing_extent_is_none() {
        let (mut extents, id) = extents();
        let (bytes, reader) = extents.descriptor(id, false).unwrap().unwrap();
        assert_eq!(bytes, 8192);
        assert!(rustix::io::pwrite(&reader, b"x", 0).is_err());
        let (_, writer) = extents.descriptor(id, true).unwrap().unwrap();
        assert!(rustix::io::pwrite(&writer, b"x", 0).is_ok());
        assert!(extents.descriptor(ExtentId::new(4, 1), false).unwrap().is_none());
    }

    #[test]
    fn readers_that_have_not_been_sent_theirs_share_one_descriptor() {
        // Answers to clients that did not read had a descriptor each, and used up the daemon's.
        let (mut extents, id) = extents();
        let number = |passed: &PassedDescriptor| passed.as_fd().as_raw_fd();
        let (_, one) = extents.descriptor(id, false).unwrap().unwrap();
        let (_, other) = extents.descriptor(id, false).unwrap().unwrap();
        assert_eq!(number(&one), number(&other));
        drop((one, other));
        assert!(extents.readers[&id].upgrade().is_none(), "closed once all are sent");
        assert!(extents.descriptor(id, false).unwrap().is_some());
    }

    #[test]
    fn ranges_wait_for_an_extent_that_is_being_made() {
        // Two clients can be promised memory in one new extent before it is there. The second was
        // told that the machine is full.
        let (mut extents, _) = extents();
        let range = Range { extent: ExtentId::new(9, 1), offset: 4096, bytes: 4096 };
        assert!(!extents.await_making(Ticket(1), range));
        extents.begin_making(range.extent);
        assert!(extents.await_making(Ticket(2), range));
        assert_eq!(extents.end_making(range.extent), [(Ticket(2), range)]);
        assert!(!extents.await_making(Ticket(3), range));
        assert_eq!(extents.end_making(range.extent), []);
    }
}
