//! The spill tier: objects with policy keep that gave their memory up and come back when a client
//! wants to read them.
//!
//! ```text
//!     sealed --(Spill)--> being written --(Spilled)--> hidden, unpinned --> spilled
//!        ^                     | refused, or pinned meanwhile                  |
//!        +---------------------+                                               |
//!        +------------------(Restored)-- being read <--(Restore)-- placed <----+
//! ```
//!
//! While it is written an object stays visible and readable; the store pins it. What comes back is
//! a new incarnation: a serial names bytes at one place. Its file is kept, and then it is not
//! written again, see [`crate::retained_files`]. A composite takes its members along, see
//! [`crate::composite`].
//!
//! An object is corrupt only when its bytes are certainly lost. What a file system refuses for
//! another reason fails the requests that wait for it; the object stays spilled, and the next
//! request tries again.

mod transfer;

use std::collections::BTreeMap;

use plasmon_proto::extent::Range;
use plasmon_proto::object::{ObjectMeta, Sizes};
use plasmon_proto::{ObjectId, ObjectState};

use crate::event::{Lsn, Ticket};
use crate::extras::Extras;

/// Where the bytes of an object are that is out of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Backing {
    /// In the spill tier, in the file of its serial.
    File,
    /// In the log.
    Log(Lsn),
    /// In the log, which has a newer record of its id by now: it is about to be replaced.
    Superseded,
}

/// One object out of memory: in the tier, or in the log.
#[derive(Clone, Debug)]
pub(crate) struct SpilledObject {
    pub(crate) serial: u64,
    pub(crate) backing: Backing,
    pub(crate) meta: ObjectMeta,
    pub(crate) extras: Extras,
    /// The session of its creator.
    pub(crate) owner: u32,
    /// It could not be read back.
    pub(crate) corrupt: bool,
    /// It is on its way back.
    pub(crate) restoring: bool,
    /// The log had it at the start, and the pool has not said yet whether it exists still.
    pub(crate) unpublished: bool,
}

impl SpilledObject {
    pub(crate) fn state(&self) -> ObjectState {
        if self.corrupt { ObjectState::Corrupt } else { ObjectState::Spilled }
    }
}

/// An object that the daemon is writing to the tier.
#[derive(Clone, Copy, Debug)]
struct SpillWrite {
    record: u32,
    id: ObjectId,
    serial: u64,
    bytes: u64,
    charge: u64,
}

/// A place that the daemon is reading an object into.
#[derive(Clone, Copy, Debug)]
struct SpillRead {
    id: ObjectId,
    serial: u64,
    range: Range,
    charge: u64,
}

/// All objects in the tier.
#[derive(Debug, Default)]
pub(crate) struct SpillTier {
    by_id: BTreeMap<ObjectId, SpilledObject>,
    by_serial: BTreeMap<u64, ObjectId>,
    bytes: u64,
    /// How many of them are in the log.
    logged: usize,
    /// How many of these cannot be read.
    corrupt: usize,
    writing: BTreeMap<Ticket, SpillWrite>,
    reading: BTreeMap<Ticket, SpillRead>,
}

impl SpillTier {
    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// How many of them are in the log.
    pub(crate) fn logged(&self) -> usize {
        self.logged
    }

    /// How many of these cannot be read.
    pub(crate) fn corrupt_logged(&self) -> usize {
        self.corrupt
    }

    /// An object cannot be read.
    pub(crate) fn mark_corrupt(&mut self, id: &ObjectId) {
        if let Some(spilled) = self.by_id.get_mut(id) {
            let is_news = !std::mem::replace(&mut spilled.corrupt, true);
            self.corrupt += usize::from(is_news && spilled.backing != Backing::File);
        }
    }

    /// Bytes of all objects in the tier, without the log.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn get(&self, id: &ObjectId) -> Option<&SpilledObject> {
        if self.by_id.is_empty() { None } else { self.by_id.get(id) }
    }

    pub(crate) fn get_mut(&mut self, id: &ObjectId) -> Option<&mut SpilledObject> {
        self.by_id.get_mut(id)
    }

    pub(crate) fn insert(&mut self, id: ObjectId, spilled: SpilledObject) {
        match spilled.backing {
            Backing::File => {
                self.bytes = self.bytes.saturating_add(stored_bytes(&spilled.meta.sizes));
            }
            Backing::Log(_) | Backing::Superseded => self.logged += 1,
        }
        self.by_serial.insert(spilled.serial, id);
        self.by_id.insert(id, spilled);
    }

    /// The record of an object that leaves the memory without being written.
    pub(crate) fn leaving(&self, ticket: Ticket) -> Option<u32> {
        self.writing.get(&ticket).map(|writing| writing.record)
    }

    pub(crate) fn end_leaving(&mut self, ticket: Ticket) {
        self.writing.remove(&ticket);
    }

    fn remove(&mut self, id: &ObjectId) -> Option<SpilledObject> {
        let spilled = self.by_id.remove(id)?;
        self.by_serial.remove(&spilled.serial);
        match spilled.backing {
            Backing::File => {
                self.bytes = self.bytes.saturating_sub(stored_bytes(&spilled.meta.sizes));
            }
            Backing::Log(_) | Backing::Superseded => {
                self.logged -= 1;
                self.corrupt -= usize::from(spilled.corrupt);
            }
        }
        Some(spilled)
    }

    /// Those from a serial on, in the order of their serials.
    pub(crate) fn from(&self, serial: u64) -> impl Iterator<Item = (&ObjectId, &SpilledObject)> {
        self.by_serial.range(serial..).filter_map(|(_, id)| Some((id, self.by_id.get(id)?)))
    }

    /// Bytes in the tier once everything is written.
    fn bytes_coming(&self) -> u64 {
        self.writing.values().fold(self.bytes, |sum, it| sum.saturating_add(it.bytes))
    }

    /// Whether anything is being written.
    pub(crate) fn is_writing(&self) -> bool {
        !self.writing.is_empty()
    }

    /// What will be free once everything is written.
    fn charge_coming(&self) -> u64 {
        self.writing.values().map(|writing| writing.charge).sum()
    }

    /// Places that are being read into, with their charges.
    #[cfg(any(test, feature = "doubles"))]
    pub(crate) fn reading(&self) -> impl Iterator<Item = (Range, u64)> {
        self.reading.values().map(|reading| (reading.range, reading.charge))
    }
}

/// Bytes of an object in the tier.
fn stored_bytes(sizes: &Sizes) -> u64 {
    sizes.total().unwrap_or(u64::MAX)
}
