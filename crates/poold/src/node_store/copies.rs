//! A copy that is sent from where it lies.

use std::sync::Arc;

use plasmon_pool::Birth;
use plasmon_proto::limits::SEGMENT_BYTES;
use plasmon_proto::message::{Reply, Request};
use plasmon_proto::pool::Origin;
use plasmon_proto::{Attributes, ObjectId};
use plasmon_shm::counted_view::CountedView;

use super::connection::{Purpose, StoreConnection};
use crate::memory::Source;

/// A copy here, pinned. The attributes that travel say where it was made, which those of an object
/// that was made here do not, so they are encoded again.
#[derive(Debug)]
pub(super) struct PinnedCopy {
    view: CountedView<Pin>,
    /// The bytes from the last whole segment of data and metadata on, with the attributes.
    end: Vec<u8>,
    /// Where they begin.
    end_offset: u64,
}

/// Ends the pin that the daemon counts.
#[derive(Debug)]
struct Pin {
    connection: Arc<StoreConnection>,
    serial: u64,
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.connection.send(&Request::Release { serials: vec![self.serial] }, Purpose::Release);
    }
}

impl PinnedCopy {
    /// Pins a copy of this incarnation, if it is here.
    pub(super) fn open(
        connection: &Arc<StoreConnection>,
        id: &ObjectId,
        birth: Birth,
        here: Origin,
    ) -> Option<Self> {
        let (reply, _) = connection.ask(&Request::Get { ids: vec![*id] })?;
        let Reply::Located(located) = reply else { return None };
        let location = located.into_iter().next()?.ok()?;
        let pin = Pin { connection: connection.clone(), serial: location.serial };
        let map = connection.map_to_read(location.range.extent)?;
        let view = CountedView::new(map, location, pin)?;
        let attributes = Attributes::decode(view.attributes()).ok()?;
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

    fn part(&self, offset: u64, bytes: usize) -> &[u8] {
        let (of, start) = match offset.checked_sub(self.end_offset) {
            Some(start) => (self.end.as_slice(), start),
            None => (self.view.content(), offset),
        };
        let start = start as usize;
        start.checked_add(bytes).and_then(|end| of.get(start..end)).unwrap_or_default()
    }
}
