//! A log for tests: what is there after a loss of power.

use std::collections::BTreeMap;

use plasmon_proto::ObjectId;
use plasmon_proto::extent::{ExtentId, Range};

use crate::effect::{NoteOrder, SpillOrder};
use crate::event::{LoggedObject, Lsn};

/// Everything that was made durable, in the order in which the store asked for it.
#[derive(Debug, Default)]
pub(crate) struct TestLog {
    last_lsn: Lsn,
    /// The newest live record of each id.
    live: BTreeMap<ObjectId, (Lsn, SpillOrder)>,
}

impl TestLog {
    /// An object is durable; a record of its id before it is superseded.
    pub(crate) fn put(&mut self, order: &SpillOrder) -> Lsn {
        assert!(order.attributes.is_durable(), "only durable objects are logged");
        self.last_lsn += 1;
        self.live.insert(order.id, (self.last_lsn, order.clone()));
        self.last_lsn
    }

    /// A record without content is durable.
    pub(crate) fn note(&mut self, order: &NoteOrder) -> Lsn {
        let NoteOrder { id, meta, attributes } = order.clone();
        let range = Range { extent: ExtentId(0), offset: 0, bytes: 0 };
        self.last_lsn += 1;
        let order = SpillOrder { id, serial: 0, range, meta, attributes };
        self.live.insert(id, (self.last_lsn, order));
        self.last_lsn
    }

    /// A record is dead, and those of its id before it.
    pub(crate) fn dead(&mut self, id: &ObjectId, of: Lsn) {
        if self.live.get(id).is_some_and(|(lsn, _)| *lsn <= of) {
            self.live.remove(id);
        }
    }

    /// The live record of an id.
    pub(crate) fn get(&self, id: &ObjectId) -> Option<&(Lsn, SpillOrder)> {
        self.live.get(id)
    }

    /// Whether this record is live.
    pub(crate) fn has(&self, id: &ObjectId, lsn: Lsn) -> bool {
        self.live.get(id).is_some_and(|(live, _)| *live == lsn)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.live.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&ObjectId, &(Lsn, SpillOrder))> {
        self.live.iter()
    }

    /// What a daemon that starts finds.
    pub(crate) fn found(&self) -> Vec<LoggedObject> {
        let found = |(id, (lsn, order)): (&ObjectId, &(Lsn, SpillOrder))| LoggedObject {
            id: *id,
            lsn: *lsn,
            meta: order.meta,
            attributes: order.attributes.clone(),
        };
        self.live.iter().map(found).collect()
    }
}
