//! Objects read in place by a client without a channel: the daemon itself counts its pins.
//!
//! Such a client has no ledger. It asks for a location over the socket, which pins the object, and
//! later says that it is done. A [`CountedView`] ties the bytes to whatever says so when dropped.

use std::sync::Arc;

use plasmon_proto::message::Location;

use crate::map::ReadMap;

/// A pinned object and the guard that ends the pin.
#[derive(Debug)]
pub struct CountedView<G> {
    map: Arc<ReadMap>,
    location: Location,
    guard: G,
}

impl<G> CountedView<G> {
    /// The object at a location that the daemon pinned for this client, in a mapping of its extent;
    /// `None` when the object does not lie within the mapping.
    ///
    /// The guard stands for the pin: the object must stay pinned until the guard is dropped.
    pub fn new(map: Arc<ReadMap>, location: Location, guard: G) -> Option<Self> {
        let end = location.range.offset.checked_add(location.sizes.total()?)?;
        let within = end <= map.bytes();
        within.then_some(Self { map, location, guard })
    }

    /// The object's data.
    pub fn data(&self) -> &[u8] {
        self.part(0, self.location.sizes.data)
    }

    /// The object's metadata.
    pub fn metadata(&self) -> &[u8] {
        self.part(self.location.sizes.data, self.location.sizes.metadata)
    }

    /// The object's data and metadata, which follow each other.
    pub fn content(&self) -> &[u8] {
        self.part(0, self.location.sizes.data + self.location.sizes.metadata)
    }

    /// The object's encoded attributes.
    pub fn attributes(&self) -> &[u8] {
        let sizes = self.location.sizes;
        self.part(sizes.data + sizes.metadata, sizes.attributes)
    }

    /// What the daemon said about the object.
    pub fn location(&self) -> &Location {
        &self.location
    }

    /// What stands for the pin.
    pub fn guard(&self) -> &G {
        &self.guard
    }

    fn part(&self, at: u64, bytes: u64) -> &[u8] {
        let start = self.map.base().wrapping_add((self.location.range.offset + at) as usize);
        // SAFETY: within the mapping (checked by `new`), which the `Arc` keeps. The object is
        // sealed and pinned as long as the guard, which is as long as `self`, so nothing writes
        // there.
        unsafe { std::slice::from_raw_parts(start, bytes as usize) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::{Populate, WriteMap};
    use crate::memfd::Memfd;
    use plasmon_proto::extent::{ExtentId, Range};
    use plasmon_proto::object::{Sizes, Traits};

    #[test]
    fn the_parts_of_an_object_are_read_where_they_lie() {
        let memfd = Memfd::create("plasmon-test", 4096).unwrap();
        let written = WriteMap::new(&memfd, 4096, Populate::No).unwrap();
        // SAFETY: nine bytes at 4087 end with the page, and nothing else uses the mapping.
        unsafe { crate::copy::copy(b"dataM+att", written.base().add(4087)) };
        let map = Arc::new(ReadMap::new(&memfd, 4096, Populate::No).unwrap());
        let sizes = Sizes { data: 4, metadata: 2, attributes: 3 };
        let location = |offset| Location {
            serial: 1,
            range: Range { extent: ExtentId::new(0, 1), offset, bytes: 64 },
            sizes,
            traits: Traits::default(),
        };
        let view = CountedView::new(map.clone(), location(4087), ()).unwrap();
        assert_eq!((view.data(), view.metadata()), (&b"data"[..], &b"M+"[..]));
        assert_eq!((view.content(), view.attributes()), (&b"dataM+"[..], &b"att"[..]));
        assert!(CountedView::new(map.clone(), location(4088), ()).is_none());
        assert!(CountedView::new(map, location(u64::MAX), ()).is_none());
    }
}
