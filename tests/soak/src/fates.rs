//! The verifier's knowledge of every object that a worker reported.

use std::collections::HashMap;

use plasmon_client::ObjectId;

use crate::content;
use crate::journal::Entry;

/// What must be true of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Its put or its delete was begun and not acknowledged: it is there whole, or it is not.
    Either,
    /// It was sealed, and it may not have been taken away.
    There,
    /// It was deleted.
    Gone,
}

/// The fates of all objects.
#[derive(Debug, Default)]
pub(crate) struct Fates {
    known: HashMap<ObjectId, Fate>,
    /// Acknowledged seals.
    pub(crate) sealed: u64,
    /// Acknowledged deletes.
    pub(crate) deleted: u64,
}

impl Fates {
    /// Takes one line of a worker in. An object is put once and deleted once, by one thread, so its
    /// lines come in order.
    pub(crate) fn learn(&mut self, entry: &Entry) {
        match entry {
            Entry::Putting(id) | Entry::Deleting(id) => {
                self.known.insert(*id, Fate::Either);
            }
            Entry::Sealed(id) => {
                self.sealed += 1;
                // What may be evicted is there or not, as the store likes.
                let fate = if content::is_cache(id) { Fate::Either } else { Fate::There };
                self.known.insert(*id, fate);
            }
            Entry::Deleted(id) => {
                self.deleted += 1;
                self.known.insert(*id, Fate::Gone);
            }
            Entry::Ready | Entry::Verified(_) | Entry::Refused(_) | Entry::Violation(_) => {}
        }
    }

    /// The fate of an object, `None` when it was never reported.
    pub(crate) fn of(&self, id: &ObjectId) -> Option<Fate> {
        self.known.get(id).copied()
    }

    /// Every object with its fate, in the order of the ids.
    pub(crate) fn all(&self) -> Vec<(ObjectId, Fate)> {
        let mut all: Vec<_> = self.known.iter().map(|(id, fate)| (*id, *fate)).collect();
        all.sort_by_key(|(id, _)| *id);
        all
    }

    /// Forgets an object whose deletion every worker knows of.
    pub(crate) fn forget(&mut self, id: &ObjectId) {
        self.known.remove(id);
    }

    /// Forgets every object: the store is over.
    pub(crate) fn forget_all(&mut self) {
        self.known.clear();
    }

    /// Bytes of data that may lie in the store.
    pub(crate) fn bytes(&self) -> usize {
        let there = self.known.iter().filter(|(_, fate)| **fate != Fate::Gone);
        there.map(|(id, _)| content::bytes(id)).sum()
    }

    /// How many objects have this fate.
    pub(crate) fn count(&self, fate: Fate) -> usize {
        self.known.values().filter(|known| **known == fate).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::{Kind, Origin};

    #[test]
    fn only_what_was_acknowledged_must_be() {
        let mut fates = Fates::default();
        let origin = Origin { worker: 1, thread: 0 };
        let (keep, cache) =
            (content::id(origin, 1, 10, Kind::Plain), content::id(origin, 2, 10, Kind::Cache));
        let steps = [
            (Entry::Putting(keep), Fate::Either),
            (Entry::Sealed(keep), Fate::There),
            (Entry::Deleting(keep), Fate::Either),
            (Entry::Deleted(keep), Fate::Gone),
        ];
        for (entry, fate) in steps {
            fates.learn(&entry);
            assert_eq!(fates.of(&keep), Some(fate), "{entry}");
        }
        fates.learn(&Entry::Sealed(cache));
        assert_eq!(fates.of(&cache), Some(Fate::Either));
        assert_eq!((fates.bytes(), fates.sealed, fates.deleted), (10, 2, 1));
        assert_eq!(fates.all().len(), 2);
        fates.forget(&keep);
        assert_eq!(fates.of(&keep), None);
    }
}
