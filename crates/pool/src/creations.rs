//! What clients of this node create while a copy of the same id is here or on its way.
//!
//! Such a copy may be held for a put that is not decided yet, of another node or of this one. It is
//! decided when the copy is shown or gone; then the directory is asked whether an object exists.

use std::collections::BTreeMap;

use plasmon_proto::ObjectId;

use crate::time::Mono;

/// Clients that create an object of one id.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Creation {
    /// The last call of the store.
    pub(crate) number: u64,
    /// Until when the decision is waited for.
    pub(crate) deadline: Mono,
}

/// The creations that wait for a decision.
#[derive(Debug, Default)]
pub(crate) struct Creations(BTreeMap<ObjectId, Creation>);

impl Creations {
    /// Clients create an object. An answer to a later call is one to all before it.
    pub(crate) fn add(&mut self, id: ObjectId, creation: Creation) {
        let waiting = self.0.entry(id).or_insert(creation);
        if waiting.number < creation.number {
            *waiting = creation;
        }
    }

    /// All of them.
    pub(crate) fn take(&mut self) -> BTreeMap<ObjectId, Creation> {
        std::mem::take(&mut self.0)
    }

    pub(crate) fn next_deadline(&self) -> Option<Mono> {
        self.0.values().map(|creation| creation.deadline).min()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
