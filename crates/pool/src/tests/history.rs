//! What clients did and were told, and whether one pool with one memory could have done it.

use std::collections::{BTreeMap, BTreeSet};

use plasmon_proto::ObjectId;
use plasmon_proto::pool::Keeping;

use crate::event::{Fate, Refusal};
use crate::record::{Birth, Content};
use crate::time::Mono;

use super::store::Outcome;

/// The number of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct OperationNo(pub(super) u64);

/// What a client does.
#[derive(Clone, Copy, Debug)]
pub(super) enum Operation {
    Put { id: ObjectId, content: Content, copies: u8, copies_min: u8 },
    Get { id: ObjectId, patient: bool },
    Delete { id: ObjectId },
}

impl Operation {
    pub(super) fn id(&self) -> ObjectId {
        match *self {
            Self::Put { id, .. } | Self::Get { id, .. } | Self::Delete { id } => id,
        }
    }

    /// Whether it puts a durable object.
    pub(super) fn is_durable(&self) -> bool {
        matches!(self, Self::Put { content, .. } if content.durable.is_some())
    }

    /// Whether it puts an object that may be evicted at any time, and ends then.
    fn is_cache(&self) -> bool {
        matches!(self, Self::Put { content, .. } if content.keeping == Keeping::Cache)
    }
}

/// An operation from its begin to its end.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) operation: Operation,
    pub(super) node: usize,
    pub(super) begin: Mono,
    /// The birth that a put made.
    pub(super) birth: Option<Birth>,
    /// `None` while it is under way, and for ever when its machine failed.
    pub(super) end: Option<(Mono, Outcome)>,
    /// The client is gone, with its machine or because it gave up.
    pub(super) left: bool,
}

/// All operations of a run.
#[derive(Debug, Default)]
pub(super) struct History {
    pub(super) entries: BTreeMap<OperationNo, Entry>,
    next: u64,
    /// Ids whose group lost all its records, and when: deletes before that may be forgotten.
    pub(super) wiped: BTreeMap<ObjectId, Mono>,
}

impl History {
    pub(super) fn begin(&mut self, now: Mono, node: usize, operation: Operation) -> OperationNo {
        self.next += 1;
        let no = OperationNo(self.next);
        let entry = Entry { operation, node, begin: now, birth: None, end: None, left: false };
        self.entries.insert(no, entry);
        no
    }

    pub(super) fn of_id(&self, id: ObjectId) -> impl Iterator<Item = &Entry> {
        self.entries.values().filter(move |entry| entry.operation.id() == id)
    }

    /// Whether the records of the group were lost after this put began. A copy that was to be
    /// dropped then looks like one of a put that succeeded; and of an object that clients saw, and
    /// whose put was not answered yet, no more may be left than the origin's copy.
    fn may_be_forgotten(&self, id: ObjectId, put: &Entry) -> bool {
        self.wiped.get(&id).is_some_and(|wiped| put.begin < *wiped)
    }

    pub(super) fn puts(&self, id: ObjectId) -> impl Iterator<Item = (&Entry, Birth)> {
        self.of_id(id).filter_map(|entry| Some((entry, entry.birth?)))
    }

    /// When a birth was first known to exist.
    fn first_seen(&self, id: ObjectId, birth: Birth) -> Option<Mono> {
        let seen = self.of_id(id).filter_map(|entry| match &entry.end {
            Some((end, Outcome::Put(Ok(())))) if entry.birth == Some(birth) => Some(*end),
            Some((end, Outcome::Read(read))) if *read == birth => Some(*end),
            _ => None,
        });
        seen.min()
    }

    /// Whether a delete may have ended what existed at `from`, before `until`.
    pub(super) fn may_be_deleted(&self, id: ObjectId, from: Mono, until: Mono) -> bool {
        self.of_id(id).any(|entry| {
            let ends_after = entry.end.as_ref().is_none_or(|(end, _)| *end >= from);
            matches!(entry.operation, Operation::Delete { .. })
                && entry.begin <= until
                && ends_after
        })
    }

    /// Births that exist at `begin` for certain, and are not deleted before `end`.
    pub(super) fn certain(&self, id: ObjectId, begin: Mono, end: Mono) -> Option<Birth> {
        // An object with a home is seen before it is acknowledged.
        let acknowledged = |entry: &Entry| match &entry.end {
            Some((end, Outcome::Put(Ok(())))) => Some(*end),
            _ => None,
        };
        let certain = |(entry, birth): (&Entry, Birth)| {
            if entry.operation.is_cache() {
                return None;
            }
            let homed = id.home().is_some();
            let seen = if homed { acknowledged(entry) } else { self.first_seen(id, birth) };
            let exists = seen? < begin && !self.may_be_deleted(id, entry.begin, end);
            exists.then_some(birth)
        };
        self.puts(id).find_map(certain)
    }

    /// Checks everything that was answered.
    pub(super) fn check(&self) -> Result<(), String> {
        let ids: BTreeSet<_> = self.entries.values().map(|entry| entry.operation.id()).collect();
        ids.into_iter().try_for_each(|id| self.check_id(id))
    }

    fn check_id(&self, id: ObjectId) -> Result<(), String> {
        let wiped = self.wiped.contains_key(&id);
        for entry in self.of_id(id) {
            let Some((end, outcome)) = &entry.end else { continue };
            let wrong = |what: &str| Err(format!("{what}: {entry:?}"));
            match outcome {
                Outcome::Read(birth) => {
                    let put = self.puts(id).find(|(_, other)| other == birth);
                    let Some((put, _)) = put.filter(|(put, _)| put.begin <= *end) else {
                        return wrong("read what was never put");
                    };
                    if let Some((_, Outcome::Put(Err(refusal)))) = &put.end
                        && *refusal != Refusal::Unreachable
                        && id.home().is_none()
                        && !self.may_be_forgotten(id, put)
                    {
                        return wrong("read an object whose put was refused");
                    }
                    self.check_order(id, entry, *birth)?;
                }
                Outcome::Put(Ok(())) if !wiped => self.check_exclusive(id, entry)?,
                Outcome::Put(Err(Refusal::Exists)) => {
                    let other = self.puts(id).any(|(other, birth)| {
                        Some(birth) != entry.birth
                            && other.begin <= *end
                            && (wiped || !self.is_certainly_over(id, other, entry.begin))
                    });
                    if !other {
                        return wrong("exists, and no other object did");
                    }
                }
                Outcome::Fate(Fate::Deleted) => {
                    let may_be_evicted = self.puts(id).any(|(put, _)| put.operation.is_cache());
                    if !may_be_evicted && !self.may_be_deleted(id, Mono(0), *end) {
                        return wrong("deleted, and no client deleted it");
                    }
                }
                Outcome::Put(_) | Outcome::Fate(_) => {}
                Outcome::Deleted | Outcome::DeleteUnreachable => {}
            }
        }
        Ok(())
    }

    /// Whether an object was deleted for certain before a point in time.
    fn is_certainly_over(&self, id: ObjectId, put: &Entry, before: Mono) -> bool {
        let refused = |outcome: &Outcome| match outcome {
            Outcome::Put(Err(refusal)) => *refusal != Refusal::Unreachable,
            _ => false,
        };
        if put.end.as_ref().is_some_and(|(_, outcome)| refused(outcome)) {
            // A put that will be refused may be pending for as long as it lasts.
            return put.end.as_ref().is_some_and(|(end, _)| *end < before);
        }
        let Some(seen) = put.birth.and_then(|birth| self.first_seen(id, birth)) else {
            return false;
        };
        self.of_id(id).any(|entry| {
            let ended = matches!(&entry.end, Some((end, Outcome::Deleted)) if *end < before);
            matches!(entry.operation, Operation::Delete { .. }) && ended && entry.begin > seen
        })
    }

    /// An object that was replaced is not read again, unless what replaced it was lost with the
    /// records: then no node knows that it was.
    fn check_order(&self, id: ObjectId, entry: &Entry, birth: Birth) -> Result<(), String> {
        let Some(seen) = self.first_seen(id, birth) else { return Ok(()) };
        for (later, other) in self.puts(id).filter(|(_, other)| *other != birth) {
            let replaced = later.begin > seen
                && !self.may_be_forgotten(id, later)
                && self.first_seen(id, other).is_some_and(|other| other < entry.begin);
            if replaced {
                return Err(format!("read what {other:?} had replaced: {entry:?}"));
            }
        }
        Ok(())
    }

    /// Between two puts that succeed lies a delete.
    fn check_exclusive(&self, id: ObjectId, entry: &Entry) -> Result<(), String> {
        for (before, birth) in self.puts(id).filter(|(_, birth)| Some(*birth) != entry.birth) {
            let Some((end, Outcome::Put(Ok(())))) = &before.end else { continue };
            if before.operation.is_cache() {
                continue;
            }
            let Some((own_end, _)) = &entry.end else { continue };
            if *end < entry.begin && !self.may_be_deleted(id, before.begin, *own_end) {
                return Err(format!("put over {birth:?}, which was not deleted: {entry:?}"));
            }
        }
        Ok(())
    }
}
