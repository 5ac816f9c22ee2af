//! Durable objects: those that the daemon has written to its log before any client sees them.
//!
//! ```text
//!  under construction --(seal)--> Log ──► Logged(lsn) --> sealed, in memory and in the log
//!        ^                          │                        │  ^
//!        |  no room, an error       │             memory goes│  │ReadLog ──► Restored
//!        +--------------------------+                        ▼  │
//!                                                       in the log alone
//!  either of the two --(delete, expiry)--> hidden at once, Unlog ──► Unlogged: it is answered
//! ```
//!
//! A small object needs no creation: its client has written it into memory that is leased to it,
//! and asks for all of it at once (`puts`).
//!
//! The record of an object in the log is known by its *lsn*, a number that is never used twice. An
//! object that replaces a durable one is one record more of the same id: the newest record counts,
//! so there is no moment at which the log has neither. A seal that was taken goes on whatever
//! becomes of its client; the object is then one without an owner.
//!
//! A durable object in memory needs no write to leave it, like one whose spill file was kept, and
//! is never evicted. In a store with a spill tier it leaves in its turn among those that are
//! spilled; it is never written to the tier. In one without, the durable objects are a list of
//! their own.
//!
//! Deletes are in the log when they are answered. One of an object whose delete is on its way is
//! answered with that. While the log has failed or is not open yet, durable objects can neither be
//! put nor deleted; reads go on.
//!
//! Copies of objects of a pool are written when they are sealed already, because the pool decides
//! first: `seat/logging.rs`.
//!
//! Deliberately not durable: objects that grow, objects owned by composites, those of a scope that
//! was not published, and for now composites of a pool.

mod adoption;
mod deletes;
mod puts;
mod repair;
mod seals;
mod tombstones;

use std::collections::{BTreeMap, BTreeSet};

use plasmon_proto::ObjectId;
use plasmon_proto::message::Reply;
use plasmon_proto::pool::Birth;

use crate::asker::Asker;
use crate::event::{Lsn, Ticket};

/// The record in the log of an object in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogRecord {
    pub(crate) id: ObjectId,
    pub(crate) lsn: Lsn,
}

/// A copy of an object of the pool that is being written to the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CopyWrite {
    pub(crate) id: ObjectId,
    pub(crate) serial: u64,
    pub(crate) record: u32,
    pub(crate) birth: Birth,
}

/// An object in memory that is written to the log once more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rewrite {
    pub(crate) id: ObjectId,
    pub(crate) serial: u64,
    pub(crate) record: u32,
}

/// A record of the log that is read because the pool daemon asks for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogChecking {
    pub(crate) asker: Asker,
    pub(crate) request: u64,
    pub(crate) id: ObjectId,
    /// Whether the copy is in the log alone.
    pub(crate) away: bool,
}

/// An incarnation of which the log notes that it has ended.
pub(crate) type Tombstone = (ObjectId, Birth);

/// How far a tombstone is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TombstoneState {
    /// On its way to the log.
    Writing,
    /// In the log.
    Noted(Lsn),
    /// On its way out of it.
    Ending,
}

/// What can be done with the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum LogState {
    /// Nothing yet: what is in it is not known.
    #[default]
    Closed,
    /// Everything.
    Open,
    /// It takes nothing any more, for this reason. What is in it can be read.
    Failed(String),
}

/// A reply that waits until deletes are in the log.
#[derive(Clone, Debug)]
struct ParkedReply {
    asker: Asker,
    request: u64,
    /// The ids that the request named, in its order.
    ids: Vec<ObjectId>,
    reply: Reply,
    /// How many deletes it waits for.
    left: usize,
}

/// What is kept of the log.
#[derive(Debug, Default)]
pub(crate) struct Durable {
    state: LogState,
    /// By the incarnation of the object in memory.
    records: BTreeMap<u64, LogRecord>,
    /// Seals that wait: the id under which the object is created, and its incarnation.
    logging: BTreeMap<Ticket, (ObjectId, u64)>,
    /// Copies that are being written.
    copying: BTreeMap<Ticket, CopyWrite>,
    /// Ends that the log notes for the pool.
    tombstones: BTreeMap<Tombstone, TombstoneState>,
    adding: BTreeMap<Ticket, Tombstone>,
    removing: BTreeMap<Ticket, (Tombstone, Lsn)>,
    /// Copies that have ended, and of which that is not in the log yet.
    ends: BTreeMap<ObjectId, BTreeSet<Birth>>,
    /// Ids of which the log did not take the end of a copy, and its record: it may be there again
    /// at the next start.
    stuck: BTreeMap<ObjectId, Lsn>,
    /// Objects that are written once more, because their records are damaged.
    rewriting: BTreeMap<Ticket, Rewrite>,
    /// Records that were found damaged, of objects that are in the log alone and are being read.
    suspects: BTreeSet<Lsn>,
    /// Records that are read for the agent.
    pub(crate) checking: BTreeMap<Ticket, LogChecking>,
    /// Records ever found damaged.
    damaged_total: u64,
    /// Those of them that were written again.
    repaired_total: u64,
    /// Ids of objects that such a seal replaces.
    replacing: BTreeSet<ObjectId>,
    /// Deletes that are on their way, each of a record.
    unlogging: BTreeMap<Ticket, (ObjectId, Lsn)>,
    /// The last of them for each id.
    dying: BTreeMap<ObjectId, Ticket>,
    parked: BTreeMap<u64, ParkedReply>,
    /// Which replies wait for a delete.
    waiting: BTreeMap<Ticket, Vec<u64>>,
    last_number: u64,
}

impl Durable {
    /// Whether puts and deletes are taken.
    pub(crate) fn is_open(&self) -> bool {
        self.state == LogState::Open
    }

    /// Whether it took objects, and takes none any more.
    pub(crate) fn has_failed(&self) -> bool {
        matches!(self.state, LogState::Failed(_))
    }

    /// Why nothing is taken, if it is not.
    pub(crate) fn fault(&self) -> Option<String> {
        match &self.state {
            LogState::Open => None,
            LogState::Closed => Some(
                "the log of durable objects is not open yet: `plasmon status` says why, and the \
                 store tries again"
                    .to_owned(),
            ),
            LogState::Failed(fault) => Some(format!(
                "the log of durable objects takes nothing: {fault}; `plasmon doctor` says what to \
                 do"
            )),
        }
    }

    /// Whether the object of this incarnation is in memory and known to be in the log.
    pub(crate) fn has(&self, serial: u64) -> bool {
        !self.records.is_empty() && self.records.contains_key(&serial)
    }

    /// The object of this incarnation leaves the memory, or ends.
    pub(crate) fn take(&mut self, serial: u64) -> Option<LogRecord> {
        if self.records.is_empty() { None } else { self.records.remove(&serial) }
    }

    /// The object of this incarnation is in memory and in the log.
    pub(crate) fn insert(&mut self, serial: u64, record: LogRecord) {
        self.records.insert(serial, record);
    }

    /// Whether an object that is being logged replaces one of this id.
    pub(crate) fn is_replacing(&self, id: &ObjectId) -> bool {
        !self.replacing.is_empty() && self.replacing.contains(id)
    }

    /// The record of the object of this incarnation in memory.
    pub(crate) fn record_of(&self, serial: u64) -> Option<LogRecord> {
        self.records.get(&serial).copied()
    }

    /// A record that was found damaged can be read, or not, or has ended. Whether it was one.
    pub(crate) fn forget_suspect(&mut self, lsn: Lsn) -> bool {
        !self.suspects.is_empty() && self.suspects.remove(&lsn)
    }

    /// An object that is in the log alone could not be read.
    pub(crate) fn read_damaged(&mut self, lsn: Lsn) {
        // One that was said to be damaged was counted then.
        self.damaged_total += u64::from(!self.suspects.remove(&lsn));
    }

    /// Records ever found damaged, and those of them that were written again.
    pub(crate) fn repairs(&self) -> (u64, u64) {
        (self.damaged_total, self.repaired_total)
    }

    /// How many objects in memory are known to be in the log.
    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    /// How many seals and deletes wait.
    pub(crate) fn waiting_count(&self) -> usize {
        self.logging.len() + self.copying.len() + self.rewriting.len() + self.unlogging.len()
    }

    /// How many deletes wait.
    #[cfg(any(test, feature = "doubles"))]
    pub(crate) fn deletes_count(&self) -> usize {
        self.unlogging.len()
    }

    /// Whether a delete of this id waits.
    #[cfg(test)]
    pub(crate) fn is_dying(&self, id: &ObjectId) -> bool {
        self.dying.contains_key(id)
    }

    /// What a seal that waits is about: the id that the object has so far.
    #[cfg(test)]
    pub(crate) fn logging(&self, ticket: Ticket) -> Option<ObjectId> {
        self.logging.get(&ticket).map(|(id, _)| *id)
    }

    #[cfg(any(test, feature = "doubles"))]
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&u64, &LogRecord)> {
        self.records.iter()
    }

    fn number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    pub(crate) fn ticket(&mut self) -> Ticket {
        Ticket(self.number())
    }

    /// A copy is written from now on.
    pub(crate) fn copy_begins(&mut self, write: CopyWrite) -> Ticket {
        let ticket = self.ticket();
        self.copying.insert(ticket, write);
        ticket
    }

    /// It was written, or could not be.
    pub(crate) fn copy_ends(&mut self, ticket: Ticket) -> Option<CopyWrite> {
        if self.copying.is_empty() { None } else { self.copying.remove(&ticket) }
    }

    /// Whether the log has, or may get, a copy of this id that has ended.
    fn is_ending(&self, id: &ObjectId) -> bool {
        self.dying.contains_key(id)
            || self.stuck.contains_key(id)
            || self.copying.values().any(|write| write.id == *id)
    }

    /// Whether the end of a copy is to be said later, when it is in the log.
    pub(crate) fn waits_for_end(&mut self, id: &ObjectId, birth: Birth) -> bool {
        let waits = self.is_ending(id);
        if waits {
            self.ends.entry(*id).or_default().insert(birth);
        }
        waits
    }

    /// The copies of this id of which the end can be said now.
    pub(crate) fn take_ends(&mut self, id: &ObjectId) -> BTreeSet<Birth> {
        match self.is_ending(id) {
            true => BTreeSet::new(),
            false => self.ends.remove(id).unwrap_or_default(),
        }
    }
}
