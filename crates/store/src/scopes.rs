//! Scopes: objects that are deleted with the client that made them, unless it publishes them
//! before.
//!
//! ```text
//! Scope(ids) ──► the client makes and seals objects of these ids; they are found as ever
//!                   │ EndScope, to publish           │ EndScope, to give up; or the client ends
//!                   ▼                                ▼
//!               they all stay                    those that it made are deleted
//! ```
//!
//! So several objects are there together or not at all, however their maker ends. The ids are
//! named before the objects are made, and nothing that others made under one of them is deleted.
//!
//! A scope is of a session: it outlives a broken connection, but not the daemon. A client that
//! finds a restarted daemon names its scopes again, before it asks anything else. What is there
//! of them has no known maker then, and counts as that client's by its incarnation.

mod end;

use std::collections::{BTreeMap, BTreeSet};

use plasmon_proto::ObjectId;

use crate::asker::Asker;

/// The ids of one scope. An incarnation stands where an earlier daemon knew the maker.
pub(crate) type Scope = BTreeMap<ObjectId, Option<u64>>;

/// What a session made in a scope that was not published: the ids and incarnations of its objects
/// when the scope ended. What is made under one of the ids later is not deleted with them.
#[derive(Debug)]
pub(crate) struct UnpublishedObjects {
    objects: Vec<(ObjectId, u64)>,
    /// The request that is answered when all of them are deleted.
    request: Option<(Asker, u64)>,
}

impl UnpublishedObjects {
    /// Whether all are deleted.
    pub(crate) fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }
}

/// The scopes of one client.
#[derive(Debug, Default)]
pub(crate) struct Scopes {
    by_number: BTreeMap<u64, Scope>,
}

impl Scopes {
    /// How many ids are in them.
    pub(crate) fn len(&self) -> usize {
        self.by_number.values().map(BTreeMap::len).sum()
    }

    /// How many there would be with these in the scope of this number.
    pub(crate) fn len_with(&self, number: u64, ids: &[ObjectId]) -> usize {
        let known = self.by_number.get(&number);
        let is_new = |id: &&ObjectId| known.is_none_or(|known| !known.contains_key(*id));
        self.len() + ids.iter().filter(is_new).collect::<BTreeSet<_>>().len()
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_number.is_empty()
    }

    /// Whether the id is in one of them.
    pub(crate) fn contains(&self, id: &ObjectId) -> bool {
        self.by_number.values().any(|scope| scope.contains_key(id))
    }

    /// The scope of this number, made if there was none.
    pub(crate) fn scope_mut(&mut self, number: u64) -> &mut Scope {
        self.by_number.entry(number).or_default()
    }

    /// Ends a scope: its ids, `None` if there is no such scope.
    pub(crate) fn take(&mut self, number: u64) -> Option<Scope> {
        self.by_number.remove(&number)
    }

    /// Ends all of them.
    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = Scope> {
        std::mem::take(&mut self.by_number).into_values()
    }

    /// These objects stay, whichever scope has them.
    pub(crate) fn release(&mut self, published: &Scope) {
        for scope in self.by_number.values_mut() {
            scope.retain(|id, _| !published.contains_key(id));
        }
    }
}
