//! What clients did and were told, and whether one pool with one memory could have done it.

use std::collections::{BTreeMap, BTreeSet};

use plasmon_pool::{Birth, Mono};
use plasmon_proto::object::CopyPlacement;
use plasmon_proto::{Code, ObjectId, ObjectState};

/// The number of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OperationNo(pub(crate) u64);

/// What a client does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operation {
    Put { id: ObjectId, data_bytes: u64, copies: u8, copies_min: u8, placement: CopyPlacement },
    Get { id: ObjectId, timeout_ms: Option<u64> },
    Delete { id: ObjectId },
}

impl Operation {
    pub(crate) fn id(&self) -> ObjectId {
        match *self {
            Self::Put { id, .. } | Self::Get { id, .. } | Self::Delete { id } => id,
        }
    }

    /// Whether it waits for as long as it takes.
    pub(crate) fn is_patient(&self) -> bool {
        matches!(self, Self::Get { timeout_ms: None, .. })
    }
}

/// What a client was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Read(Birth),
    /// There was nothing to read, in this state.
    State(ObjectState),
    /// There was nothing to read in time; what it was last known to be says nothing about now.
    Late(ObjectState),
    /// It could not be read now.
    Failed(Code),
    Put(Result<(), Code>),
    Deleted,
    NotDeleted(Code),
    /// The client gave up what it was making.
    Aborted,
}

/// An operation from its begin to its end.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) operation: Operation,
    pub(crate) node: usize,
    pub(crate) begin: Mono,
    /// The birth that a put made, once it is sealed.
    pub(crate) birth: Option<Birth>,
    /// When the pool accepted an object with a home, which its creator does not wait for.
    pub(crate) accepted: Option<Mono>,
    /// `None` while it is under way, and for ever when its store failed.
    pub(crate) end: Option<(Mono, Outcome)>,
    /// The client is gone, with its store or because it gave up.
    pub(crate) left: bool,
}

/// All operations of a run.
#[derive(Debug, Default)]
pub(crate) struct History {
    pub(crate) records: BTreeMap<OperationNo, Record>,
    next: u64,
    /// Ids whose group lost all its records, and when: deletes before that may be forgotten.
    pub(crate) wiped: BTreeMap<ObjectId, Mono>,
}

impl History {
    pub(crate) fn begin(&mut self, now: Mono, node: usize, operation: Operation) -> OperationNo {
        self.next += 1;
        let no = OperationNo(self.next);
        let (birth, accepted, end, left) = (None, None, None, false);
        self.records.insert(no, Record { operation, node, begin: now, birth, accepted, end, left });
        no
    }

    pub(crate) fn of_id(&self, id: ObjectId) -> impl Iterator<Item = &Record> {
        self.records.values().filter(move |record| record.operation.id() == id)
    }

    /// Whether the records of the group were lost after this put began. A copy that was to be
    /// dropped then looks like one of a put that succeeded; and of an object that clients saw, and
    /// whose put was not answered yet, no more may be left than the origin's copy.
    fn may_be_forgotten(&self, id: ObjectId, put: &Record) -> bool {
        self.wiped.get(&id).is_some_and(|wiped| put.begin < *wiped)
    }

    pub(crate) fn puts(&self, id: ObjectId) -> impl Iterator<Item = (&Record, Birth)> {
        self.of_id(id).filter_map(|record| Some((record, record.birth?)))
    }

    /// The put that made a birth.
    pub(crate) fn put_of(&mut self, id: ObjectId, birth: Birth) -> Option<&mut Record> {
        let is_it =
            |record: &&mut Record| record.operation.id() == id && record.birth == Some(birth);
        self.records.values_mut().find(is_it)
    }

    /// When a birth was first known to exist.
    fn first_seen(&self, id: ObjectId, birth: Birth) -> Option<Mono> {
        let seen = self.of_id(id).filter_map(|record| match &record.end {
            Some((end, Outcome::Put(Ok(())))) if record.birth == Some(birth) => Some(*end),
            Some((end, Outcome::Read(read))) if *read == birth => Some(*end),
            _ => None,
        });
        seen.min()
    }

    /// Whether a delete may have ended what existed at `from`, before `until`.
    pub(crate) fn may_be_deleted(&self, id: ObjectId, from: Mono, until: Mono) -> bool {
        self.of_id(id).any(|record| {
            let ends_after = record.end.as_ref().is_none_or(|(end, _)| *end >= from);
            matches!(record.operation, Operation::Delete { .. })
                && record.begin <= until
                && ends_after
        })
    }

    /// Whether an object with a home may end because there are too few other nodes for it: that is
    /// as if it were deleted.
    fn may_be_refused(&self, id: ObjectId) -> bool {
        let is_spread = |record: &Record| match record.operation {
            Operation::Put { placement, .. } => placement == CopyPlacement::Spread,
            _ => false,
        };
        id.home().is_some() && self.of_id(id).any(is_spread)
    }

    /// Births that exist at `begin` for certain, and are not deleted before `end`.
    pub(crate) fn certain(&self, id: ObjectId, begin: Mono, end: Mono) -> Option<Birth> {
        let certain = |(record, birth): (&Record, Birth)| {
            // An object with a home is seen before the pool has accepted it.
            let homed = id.home().is_some();
            let seen = if homed { record.accepted } else { self.first_seen(id, birth) };
            let exists = seen? < begin && !self.may_be_deleted(id, record.begin, end);
            exists.then_some(birth)
        };
        self.puts(id).find_map(certain)
    }

    /// Checks everything that was answered.
    pub(crate) fn check(&self) -> Result<(), String> {
        let ids: BTreeSet<_> = self.records.values().map(|it| it.operation.id()).collect();
        ids.into_iter().try_for_each(|id| self.check_id(id))
    }

    fn check_id(&self, id: ObjectId) -> Result<(), String> {
        let wiped = self.wiped.contains_key(&id);
        for record in self.of_id(id) {
            let Some((end, outcome)) = &record.end else { continue };
            let wrong = |what: &str| Err(format!("{what}: {record:?}"));
            match outcome {
                Outcome::Read(birth) => self.check_read(id, record, (*end, *birth))?,
                Outcome::Put(Ok(())) if !wiped => self.check_exclusive(id, record)?,
                Outcome::Put(Err(Code::Exists))
                    if record.birth.is_none() && !self.was_taken(id, record, *end) =>
                {
                    return wrong("its creation was refused, and no other object existed");
                }
                Outcome::Put(Err(Code::Exists)) if record.birth.is_some() => {
                    let other = self.puts(id).any(|(other, birth)| {
                        Some(birth) != record.birth
                            && other.begin <= *end
                            && (wiped || !self.is_certainly_over(id, other, record.begin))
                    });
                    if !other {
                        return wrong("exists, and no other object did");
                    }
                }
                Outcome::State(ObjectState::Deleted)
                    if !self.may_be_refused(id) && !self.may_be_deleted(id, Mono(0), *end) =>
                {
                    return wrong("deleted, and no client deleted it");
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Whether a creation that was refused before anything was written met an object that existed
    /// or may have, or what another client of the node was making.
    fn was_taken(&self, id: ObjectId, record: &Record, end: Mono) -> bool {
        let is_made_there = |other: &Record| {
            let lasts = other.end.as_ref().is_none_or(|(ended, _)| *ended >= record.begin);
            matches!(other.operation, Operation::Put { .. })
                && other.node == record.node
                && other.begin != record.begin
                && other.begin <= end
                && lasts
        };
        let exists = |(other, _): (&Record, Birth)| {
            let is_over = self.is_certainly_over(id, other, record.begin);
            other.begin <= end && !is_refused(other) && (self.wiped.contains_key(&id) || !is_over)
        };
        self.of_id(id).any(is_made_there) || self.puts(id).any(exists)
    }

    fn check_read(
        &self,
        id: ObjectId,
        record: &Record,
        (end, birth): (Mono, Birth),
    ) -> Result<(), String> {
        let put = self.puts(id).find(|(_, other)| *other == birth);
        let Some((put, _)) = put.filter(|(put, _)| put.begin <= end) else {
            return Err(format!("read what was never put: {record:?}"));
        };
        if is_refused(put) && id.home().is_none() && !self.may_be_forgotten(id, put) {
            return Err(format!("read an object whose put was refused: {record:?}"));
        }
        self.check_order(id, record, birth)
    }

    /// Whether an object was deleted for certain before a point in time.
    fn is_certainly_over(&self, id: ObjectId, put: &Record, before: Mono) -> bool {
        if is_refused(put) {
            // A put that will be refused may be pending for as long as it lasts.
            return put.end.as_ref().is_some_and(|(end, _)| *end < before);
        }
        let Some(seen) = put.birth.and_then(|birth| self.first_seen(id, birth)) else {
            return false;
        };
        self.of_id(id).any(|record| {
            let ended = matches!(&record.end, Some((end, Outcome::Deleted)) if *end < before);
            matches!(record.operation, Operation::Delete { .. }) && ended && record.begin > seen
        })
    }

    /// An object that was replaced is not read again, unless what replaced it was lost with the
    /// records: then no node knows that it was.
    fn check_order(&self, id: ObjectId, record: &Record, birth: Birth) -> Result<(), String> {
        let Some(seen) = self.first_seen(id, birth) else { return Ok(()) };
        for (later, other) in self.puts(id).filter(|(_, other)| *other != birth) {
            let replaced = later.begin > seen
                && !self.may_be_forgotten(id, later)
                && self.first_seen(id, other).is_some_and(|other| other < record.begin);
            if replaced {
                return Err(format!("read what {other:?} had replaced: {record:?}"));
            }
        }
        Ok(())
    }

    /// Between two puts that succeed lies a delete.
    fn check_exclusive(&self, id: ObjectId, record: &Record) -> Result<(), String> {
        for (before, birth) in self.puts(id).filter(|(_, birth)| Some(*birth) != record.birth) {
            let Some((end, Outcome::Put(Ok(())))) = &before.end else { continue };
            let Some((own_end, _)) = &record.end else { continue };
            if *end < record.begin && !self.may_be_deleted(id, before.begin, *own_end) {
                return Err(format!("put over {birth:?}, which was not deleted: {record:?}"));
            }
        }
        Ok(())
    }
}

/// Whether the pool has said that a put made no object.
fn is_refused(put: &Record) -> bool {
    matches!(
        put.end,
        Some((
            _,
            Outcome::Put(Err(Code::Exists | Code::NotEnoughNodes | Code::StoreFull | Code::InUse))
        ))
    )
}
