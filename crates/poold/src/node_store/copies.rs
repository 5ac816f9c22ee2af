//! A copy that is sent from where it lies.

use plasmon_pool::Birth;
use plasmon_proto::Attributes;
use plasmon_proto::limits::SEGMENT_BYTES;
use plasmon_shm::counted_view::CountedView;
use plasmon_shm::reader::OwnedView;

use super::connection::{OpenRequest, Pin};
use crate::memory::Source;

/// Where a copy lies, and what pins it.
#[derive(Debug)]
pub(super) enum View {
    /// The store counts the pin.
    Counted(CountedView<Pin>),
    /// The pin is in the ledger of this client.
    Shown(OwnedView),
}

impl View {
    fn content(&self) -> &[u8] {
        match self {
            Self::Counted(view) => view.content(),
            Self::Shown(view) => view.content(),
        }
    }

    fn attributes(&self) -> Option<&[u8]> {
        match self {
            Self::Counted(view) => Some(view.attributes()),
            Self::Shown(view) => view.attributes(),
        }
    }
}

/// A copy here, pinned. The attributes that travel say where it was made, which those of an object
/// that was made here do not, so they are encoded again.
#[derive(Debug)]
pub(super) struct PinnedCopy {
    view: View,
    /// The bytes from the last whole segment of data and metadata on, with the attributes.
    end: Vec<u8>,
    /// Where they begin.
    end_offset: u64,
}

impl PinnedCopy {
    /// A copy that is pinned, if it is the incarnation that is wanted.
    pub(super) fn new(view: View, open: &OpenRequest) -> Option<Self> {
        let OpenRequest { birth, here, .. } = *open;
        let attributes = Attributes::decode(view.attributes()?).ok()?;
        let made_here = Birth { slot: here.slot, boot: here.boot, serial: 0 };
        let found = attributes.pool.map_or(made_here, |pool| pool.birth(here));
        if found != birth {
            return None;
        }
        let content = view.content();
        let end_offset = content.len() as u64 / SEGMENT_BYTES * SEGMENT_BYTES;
        let mut end = content[end_offset as usize..].to_vec();
        end.extend(attributes.of_copy(birth).encode());
        Some(Self { view, end, end_offset })
    }
}

impl Source for PinnedCopy {
    fn bytes(&self) -> u64 {
        self.end_offset + self.end.len() as u64
    }

    fn memory(&self) -> &[u8] {
        &self.view.content()[..self.end_offset as usize]
    }

    fn part(&self, offset: u64, bytes: usize) -> &[u8] {
        let (of, start) = match offset.checked_sub(self.end_offset) {
            Some(start) => (self.end.as_slice(), start),
            None => (self.view.content(), offset),
        };
        let start = start as usize;
        start.checked_add(bytes).and_then(|end| of.get(start..end)).unwrap_or_default()
    }
}
