//! The scopes of a process that have not ended.

use std::collections::BTreeMap;

use plasmon_proto::ObjectId;

/// By number.
#[derive(Debug, Default)]
pub(crate) struct Scopes {
    last: u64,
    open: BTreeMap<u64, OpenScope>,
}

#[derive(Debug, Default)]
struct OpenScope {
    ids: Vec<ObjectId>,
    /// Whether it was dropped while there was no daemon to tell.
    is_given_up: bool,
}

impl Scopes {
    /// A new scope; its number.
    pub(crate) fn begin(&mut self) -> u64 {
        self.last += 1;
        self.open.insert(self.last, OpenScope::default());
        self.last
    }

    /// Adds ids to a scope.
    pub(crate) fn add(&mut self, scope: u64, ids: &[ObjectId]) {
        self.open.entry(scope).or_default().ids.extend_from_slice(ids);
    }

    /// The daemon has to be told that this scope ends.
    pub(crate) fn give_up(&mut self, scope: u64) {
        if let Some(open) = self.open.get_mut(&scope) {
            open.is_given_up = true;
        }
    }

    /// The daemon knows that this scope ended.
    pub(crate) fn end(&mut self, scope: u64) {
        self.open.remove(&scope);
    }

    /// The scopes that have not ended, and whether they are given up.
    pub(crate) fn open(&self) -> Vec<(u64, bool)> {
        self.open.iter().map(|(number, open)| (*number, open.is_given_up)).collect()
    }

    /// The ids of a scope.
    pub(crate) fn ids(&self, scope: u64) -> &[ObjectId] {
        self.open.get(&scope).map_or(&[], |open| &open.ids)
    }
}
