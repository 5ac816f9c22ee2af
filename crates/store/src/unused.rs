//! Deleting objects as soon as nobody reads them.
//!
//! An ordinary delete takes an object out of sight at once and its memory a little later. This one
//! leaves it as it is, for everybody, until its last pin is gone. Ledgers tell nobody when a pin
//! goes, so the store looks again after a while, and before it answers a question about objects.

use std::collections::BTreeMap;

use plasmon_proto::limits::REQUEST_IDS_MAX;
use plasmon_proto::message::{Failure, Reply, Request};
use plasmon_proto::{Code, ObjectId, ObjectState};

use crate::deletes::{RETRY_MS, RETRY_MS_MAX, too_many_ids};
use crate::ports::{Directory, Entry};
use crate::records::SPILLING;
use crate::store::Store;
use crate::work::PIECE;

/// Objects that go when nobody reads them any more.
#[derive(Debug, Default)]
pub(crate) struct Doomed {
    by_serial: BTreeMap<u64, ObjectId>,
    by_id: BTreeMap<ObjectId, u64>,
    /// From which serial on they are looked for next.
    next: u64,
    /// Whether any went since the first of them was looked for.
    any_went: bool,
    /// How long they are left alone, and when to look again.
    retry_ms: u64,
    due_ms: Option<u64>,
}

impl Doomed {
    pub(crate) fn is_empty(&self) -> bool {
        self.by_serial.is_empty()
    }

    pub(crate) fn due_ms(&self) -> Option<u64> {
        self.due_ms
    }

    pub(crate) fn is_due(&self, now_ms: u64) -> bool {
        self.due_ms.is_some_and(|at_ms| at_ms <= now_ms)
    }

    fn insert(&mut self, serial: u64, id: ObjectId) {
        if let Some(before) = self.by_id.insert(id, serial) {
            self.by_serial.remove(&before);
        }
        self.by_serial.insert(serial, id);
        self.retry_ms = RETRY_MS;
    }

    fn remove(&mut self, serial: u64) {
        if let Some(id) = self.by_serial.remove(&serial)
            && self.by_id.get(&id) == Some(&serial)
        {
            self.by_id.remove(&id);
        }
    }

    /// The object of a serial has another one from now on.
    pub(crate) fn renumber(&mut self, serial: u64, new: u64) {
        if serial != new
            && let Some(id) = self.by_serial.remove(&serial)
        {
            self.by_serial.insert(new, id);
            self.by_id.insert(id, new);
        }
    }

    /// Those of the ids first, then the next ones, a piece in all; and whether that ends a round.
    fn piece(&mut self, ids: &[ObjectId]) -> (BTreeMap<u64, ObjectId>, bool) {
        let asked = ids.iter().filter_map(|id| Some((*self.by_id.get(id)?, *id)));
        let mut piece: BTreeMap<u64, ObjectId> = asked.take(PIECE).collect();
        let mut rest = self.by_serial.range(self.next..);
        while piece.len() < PIECE {
            let Some((serial, id)) = rest.next() else {
                self.next = 0;
                return (piece, true);
            };
            piece.insert(*serial, *id);
            self.next = serial + 1;
        }
        let is_over = rest.next().is_none();
        self.next = if is_over { 0 } else { self.next };
        (piece, is_over)
    }

    /// When to look again.
    fn rest(&mut self, now_ms: u64, round_is_over: bool) {
        if self.is_empty() {
            self.due_ms = None;
        } else if round_is_over {
            let longer = (2 * self.retry_ms).clamp(RETRY_MS, RETRY_MS_MAX);
            let any_went = std::mem::take(&mut self.any_went);
            let retry_ms = if any_went { RETRY_MS } else { self.retry_ms.max(RETRY_MS) };
            self.retry_ms = if any_went { RETRY_MS } else { longer };
            self.due_ms = Some(now_ms.saturating_add(retry_ms));
        } else {
            self.due_ms = Some(now_ms);
        }
    }
}

impl<D: Directory> Store<D> {
    /// Deletes each object now or when its last pin is gone.
    pub(crate) fn delete_unused(&mut self, ids: &[ObjectId]) -> Result<Reply, Failure> {
        if ids.len() > REQUEST_IDS_MAX {
            return Err(too_many_ids(ids.len()));
        }
        let outcomes = ids.iter().map(|id| self.doom(id).err()).collect();
        self.bury_unused(ids);
        Ok(Reply::Outcomes(outcomes))
    }

    fn doom(&mut self, id: &ObjectId) -> Result<(), Code> {
        if let Some(entry) = self.find(id) {
            if self.holders(entry.record) > 0 {
                return Err(Code::InUse);
            }
            self.doomed.insert(entry.serial, *id);
            return Ok(());
        }
        if self.creatings.get(id).is_some() {
            return Err(Code::NotSealed);
        }
        let spilled = self.tier.get(id).ok_or(Code::Absent)?;
        if spilled.rare.holders > 0 {
            return Err(Code::InUse);
        }
        self.drop_spilled(id, ObjectState::Deleted);
        Ok(())
    }

    /// Deletes what nobody reads any more, as far as a question is about it.
    pub(crate) fn bury_unused_of(&mut self, body: &Request) {
        if self.doomed.is_empty() {
            return;
        }
        match body {
            Request::Get { ids } | Request::Wait { ids, .. } | Request::States { ids } => {
                let asked = ids.iter().any(|id| self.doomed.by_id.contains_key(id));
                if asked {
                    self.bury_unused(ids);
                }
            }
            Request::Create { id, .. } | Request::CreateGrowing { id, .. }
                if self.doomed.by_id.contains_key(id) =>
            {
                self.bury_unused(&[*id]);
            }
            Request::Lease { .. } | Request::Evict { .. } | Request::Status => {
                self.bury_unused(&[]);
            }
            _ => {}
        }
    }

    /// Deletes a piece of what nobody reads any more, those of the ids first. The next event does
    /// it if this one looked through the ledgers already.
    pub(crate) fn bury_unused(&mut self, ids: &[ObjectId]) {
        if self.doomed.is_empty() || !self.work.may_look() {
            return;
        }
        let (piece, round_is_over) = self.doomed.piece(ids);
        let mut visible = Vec::new();
        for (serial, id) in piece {
            match self.find(&id).filter(|entry| entry.serial == serial) {
                Some(entry) => visible.push(entry),
                // It gave its memory up meanwhile, so nobody reads it.
                None => match self.tier.get(&id).filter(|it| it.serial == serial) {
                    Some(spilled) if spilled.rare.holders > 0 => {}
                    Some(_) => {
                        self.doomed.remove(serial);
                        self.drop_spilled(&id, ObjectState::Deleted);
                    }
                    None => self.doomed.remove(serial),
                },
            }
        }
        let serials: Vec<u64> = visible.iter().map(|entry| entry.serial).collect();
        let pins = self.look(&serials).pins;
        self.bury_those_unused(visible.into_iter().zip(pins));
        self.doomed.rest(self.now_ms, round_is_over);
        self.collect_fresh();
    }

    /// Deletes those of some objects that are to go when nobody reads them, if nobody does. Who
    /// pins one of them at this moment keeps its memory, as with any delete. Returns the others.
    pub(crate) fn bury_those_unused(
        &mut self,
        looked_at: impl Iterator<Item = (Entry, u32)>,
    ) -> Vec<(Entry, u32)> {
        let is_unused = |(entry, pins): &(Entry, u32)| {
            *pins == 0
                && self.doomed.by_serial.contains_key(&entry.serial)
                && self.holders(entry.record) == 0
                && !self.records.get(entry.record).is(SPILLING)
        };
        let (unused, used): (Vec<_>, Vec<_>) = looked_at.partition(is_unused);
        for (entry, _) in &unused {
            self.doomed.remove(entry.serial);
            self.doomed.any_went = true;
        }
        self.bury(unused.into_iter().map(|(entry, _)| entry).collect());
        used
    }
}
