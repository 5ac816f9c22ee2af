//! A group of ids as an acting node keeps it for the primary.

use std::collections::{BTreeMap, BTreeSet};

use plasmon_cluster::{Epoch, Slot};
use plasmon_proto::ObjectId;

#[cfg(test)]
use crate::directory::Directory;
#[cfg(test)]
use crate::record::Birth;
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
    /// Nodes that were out when the records were lost and made again, and have not said since
    /// which copies they have. What such a node brings is not unknown because it was deleted.
    pub(super) unheard: BTreeSet<Slot>,
    /// Orders the updates of `unheard`; `None` if there were none.
    pub(super) unheard_version: Option<Version>,
}

impl Kept {
    pub(super) fn new(since: Epoch) -> Self {
        let (records, unheard) = (BTreeMap::new(), BTreeSet::new());
        Self { since, records, unheard, unheard_version: None }
    }

    /// Keeps the nodes that were not heard, unless what is here is newer.
    pub(super) fn update_unheard(&mut self, version: Version, nodes: Vec<Slot>) {
        if self.unheard_version.is_none_or(|kept| kept < version) {
            self.unheard = nodes.into_iter().collect();
            self.unheard_version = Some(version);
        }
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

#[cfg(test)]
impl Directory {
    /// The holders of an incarnation by the record on this node, with the order of its last update.
    pub(crate) fn holders_of(&self, id: &ObjectId, birth: Birth) -> Option<(Version, Vec<Slot>)> {
        let led = self.led.values().map(|led| &led.kept);
        let stored = led.chain(self.kept.values()).filter_map(|kept| kept.records.get(id));
        let newest = stored.max_by_key(|stored| stored.version)?;
        let is_of = newest.record.birth == birth;
        is_of.then(|| (newest.version, newest.record.holders.clone()))
    }
}
