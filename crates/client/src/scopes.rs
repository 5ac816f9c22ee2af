//! The scopes of a process that have not ended.

use std::collections::{BTreeMap, BTreeSet};

use plasmon_proto::ObjectId;
use plasmon_proto::limits::SCOPE_IDS_MAX;

/// By number.
#[derive(Debug, Default)]
pub(crate) struct Scopes {
    last: u64,
    open: BTreeMap<u64, OpenScope>,
}

#[derive(Debug, Default)]
struct OpenScope {
    ids: BTreeSet<ObjectId>,
    /// Whether it was given up and the daemon is not known to have ended it.
    given_up: Option<Aborted>,
}

/// A scope that was given up without waiting for the daemon.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Aborted {
    /// The number of the request that ends it, if there is one.
    pub(crate) request: Option<u64>,
}

impl Scopes {
    /// A new scope; its number.
    pub(crate) fn begin(&mut self) -> u64 {
        self.last += 1;
        self.open.insert(self.last, OpenScope::default());
        self.last
    }

    /// Adds ids to a scope, all of them or, as an error, the number of ids that would be too many.
    pub(crate) fn add(&mut self, scope: u64, ids: &[ObjectId]) -> Result<(), usize> {
        let count: usize = self.open.values().map(|open| open.ids.len()).sum();
        // One that has ended with its connection stays so: the daemon is not reached either.
        let Some(OpenScope { ids: known, .. }) = self.open.get_mut(&scope) else { return Ok(()) };
        let new: BTreeSet<ObjectId> =
            ids.iter().filter(|id| !known.contains(id)).copied().collect();
        match count + new.len() {
            count if count > SCOPE_IDS_MAX => Err(count),
            _ => {
                known.extend(new);
                Ok(())
            }
        }
    }

    /// The daemon has to be told, or was told with this request, that the scope is given up.
    pub(crate) fn give_up(&mut self, scope: u64, request: Option<u64>) {
        if let Some(open) = self.open.get_mut(&scope) {
            open.given_up = Some(Aborted { request });
        }
    }

    /// The daemon knows that this scope ended and its objects are deleted.
    pub(crate) fn end(&mut self, scope: u64) {
        self.open.remove(&scope);
    }

    /// The daemon knows that this scope was published: its objects stay, whichever scope has them.
    pub(crate) fn publish(&mut self, scope: u64) {
        let Some(published) = self.open.remove(&scope) else { return };
        for open in self.open.values_mut() {
            open.ids.retain(|id| !published.ids.contains(id));
        }
    }

    /// Ends all of them; their numbers.
    pub(crate) fn end_all(&mut self) -> impl Iterator<Item = u64> + use<> {
        std::mem::take(&mut self.open).into_keys()
    }

    /// Whether this scope has not ended.
    pub(crate) fn contains(&self, scope: u64) -> bool {
        self.open.contains_key(&scope)
    }

    /// The scopes that have not ended, and whether they are given up.
    pub(crate) fn open(&self) -> Vec<(u64, Option<Aborted>)> {
        self.open.iter().map(|(number, open)| (*number, open.given_up)).collect()
    }

    /// The ids of a scope.
    pub(crate) fn ids(&self, scope: u64) -> Vec<ObjectId> {
        self.open.get(&scope).map_or_else(Vec::new, |open| open.ids.iter().copied().collect())
    }
}
