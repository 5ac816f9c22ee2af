//! A group of ids as an acting node keeps it for the primary.

use std::collections::BTreeMap;

use plasmon_cluster::Epoch;
use plasmon_proto::ObjectId;

use crate::record::{Record, Version};

/// A record with the order of its last update.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    pub(super) version: Version,
    pub(super) record: Record,
}

/// The records of a group.
#[derive(Debug)]
pub(super) struct Kept {
    /// Since which map the group has its acting nodes. What a primary of an earlier one sends is
    /// ignored.
    pub(super) since: Epoch,
    pub(super) records: BTreeMap<ObjectId, Stored>,
}

impl Kept {
    pub(super) fn new(since: Epoch) -> Self {
        Self { since, records: BTreeMap::new() }
    }

    /// Keeps an update unless what is here is newer; `None` forgets the record.
    pub(super) fn update(&mut self, id: ObjectId, version: Version, record: Option<Record>) {
        if self.records.get(&id).is_some_and(|stored| stored.version >= version) {
            return;
        }
        match record {
            Some(record) => self.records.insert(id, Stored { version, record }),
            None => self.records.remove(&id),
        };
    }
}
