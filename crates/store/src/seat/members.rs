//! What is kept of the members of composites of the pool. What is done with it is in
//! `composites.rs`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use plasmon_proto::ObjectId;

/// Members of composites that have ended.
#[derive(Debug, Default)]
pub(super) struct Orphans {
    /// Those that are to be deleted.
    pub(super) waiting: VecDeque<ObjectId>,
    /// Those that the pool was asked to delete.
    pub(super) asked: BTreeSet<ObjectId>,
    /// Before that nothing is asked, after a failure.
    pub(super) again_ms: Option<u64>,
}

impl Orphans {
    pub(super) fn next_deadline(&self) -> Option<u64> {
        self.again_ms.filter(|_| !self.waiting.is_empty())
    }

    #[cfg(any(test, feature = "doubles"))]
    pub(super) fn len(&self) -> usize {
        self.waiting.len() + self.asked.len()
    }
}

/// Composites with a home whose members the directory of the pool has not all accepted.
#[derive(Debug, Default)]
pub(super) struct Incomplete {
    /// Those that the directory has not accepted themselves.
    pub(super) uncommitted: BTreeSet<ObjectId>,
    /// Those that it has, by the members that they wait for.
    pub(super) by_member: BTreeMap<ObjectId, BTreeSet<ObjectId>>,
}

impl Incomplete {
    /// A composite was put.
    pub(super) fn add(&mut self, id: ObjectId) {
        self.uncommitted.insert(id);
    }

    /// The directory has answered for the object, or it is gone. Whether it is a composite.
    pub(super) fn remove(&mut self, id: &ObjectId) -> bool {
        !self.uncommitted.is_empty() && self.uncommitted.remove(id)
    }

    #[cfg(any(test, feature = "doubles"))]
    pub(super) fn len(&self) -> usize {
        self.uncommitted.len() + self.by_member.len()
    }
}
