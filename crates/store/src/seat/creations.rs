//! The creations that wait until it is known whether objects of their ids exist.

use std::collections::BTreeMap;

use plasmon_proto::ObjectId;

use crate::asker::Asker;
use crate::construction::CreateRequest;

/// Creations that wait at a time. Of one more, the copy here is taken for what exists.
pub(crate) const CREATIONS_MAX: usize = 1024;

/// For so long a creation waits while other puts of its id begin and end.
pub(crate) const CREATION_MS: u64 = 120_000;

/// The creations that wait, by the numbers of their calls.
#[derive(Debug, Default)]
pub(crate) struct Creations {
    waiting: BTreeMap<u64, Creation>,
    /// The number of the last call.
    last: u64,
}

/// A creation that waits.
#[derive(Debug)]
pub(crate) struct Creation {
    pub(super) asker: Asker,
    pub(super) request: u64,
    pub(super) wanted: CreateRequest,
    /// Until when it may wait.
    pub(super) until_ms: u64,
}

impl Creations {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.waiting.len() >= CREATIONS_MAX
    }

    /// Has a creation wait; the number of its call.
    pub(super) fn add(&mut self, creation: Creation) -> u64 {
        self.last += 1;
        self.waiting.insert(self.last, creation);
        self.last
    }

    /// Takes the creations of an id, up to this call.
    pub(super) fn take(&mut self, id: &ObjectId, number: u64) -> Vec<Creation> {
        let of_id = self.waiting.range(..=number).filter(|(_, it)| it.wanted.id == *id);
        let answered: Vec<u64> = of_id.map(|(call, _)| *call).collect();
        answered.iter().filter_map(|call| self.waiting.remove(call)).collect()
    }

    /// The last call for each id.
    pub(super) fn calls(&self) -> BTreeMap<ObjectId, u64> {
        self.waiting.iter().map(|(number, creation)| (creation.wanted.id, *number)).collect()
    }
}
