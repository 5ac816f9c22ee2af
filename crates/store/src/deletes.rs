//! Deleting, and waiting for the last reader of what was deleted.
//!
//! Deleting hides an object at once. Its memory is free when no ledger names it any more. Ledgers
//! are looked through for many objects at a time: records of the rings only put theirs into a
//! batch, and what is found pinned is looked for again after a while, and whenever memory is short.
//! The while doubles as long as nothing is found free.

use std::collections::{BTreeMap, BTreeSet};

use plasmon_proto::limits::REQUEST_IDS_MAX;
use plasmon_proto::message::{Failure, Reply};
use plasmon_proto::{Code, ObjectId, ObjectState};

use crate::event::ClientNo;
use crate::ports::{Directory, Entry, Look};
use crate::records::SPILLING;
use crate::store::Store;
use crate::work::{EXAMINED_MAX, PIECE};

/// How long a pinned object is left alone before its pins are counted again, at first.
pub(crate) const RETRY_MS: u64 = 20;

/// How long at most.
pub(crate) const RETRY_MS_MAX: u64 = 640;

/// Objects that may wait to be looked for in the ledgers together.
const FRESH_MAX: usize = PIECE;

/// Deleted objects whose memory is not free yet.
#[derive(Debug, Default)]
pub(crate) struct Lingering {
    /// Records that nobody looked for in the ledgers yet.
    fresh: Vec<u32>,
    /// Records by serial that were pinned when they were looked for.
    pinned: BTreeMap<u64, u32>,
    /// From which serial on the pinned ones are looked for next.
    next: u64,
    /// Whether any came free since the first of them was looked for.
    any_freed: bool,
    /// How long they are left alone, and when to look again.
    retry_ms: u64,
    due_ms: Option<u64>,
}

/// Which of the objects that were found pinned are looked for again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Again {
    /// None.
    None,
    /// Those from this serial on, as many as one event looks for.
    From(u64),
}

impl Lingering {
    pub(crate) fn len(&self) -> usize {
        self.fresh.len() + self.pinned.len()
    }

    pub(crate) fn due_ms(&self) -> Option<u64> {
        self.due_ms
    }

    pub(crate) fn is_due(&self, now_ms: u64) -> bool {
        self.due_ms.is_some_and(|at_ms| at_ms <= now_ms)
    }

    /// Whether a deleted object of this serial waits for its pins.
    pub(crate) fn is_pinned(&self, serial: u64) -> bool {
        self.pinned.contains_key(&serial)
    }

    /// Whether any were not looked for yet.
    pub(crate) fn has_fresh(&self) -> bool {
        !self.fresh.is_empty()
    }

    /// A pin of this serial is gone: it is among the next that are looked for.
    pub(crate) fn look_again(&mut self, serial: u64) {
        if !self.pinned.is_empty()
            && let Some(record) = self.pinned.remove(&serial)
        {
            self.fresh.push(record);
        }
    }

    /// A hidden object of an earlier daemon.
    pub(crate) fn adopt(&mut self, serial: u64, record: u32, now_ms: u64) {
        self.pinned.insert(serial, record);
        self.due_ms = Some(now_ms);
    }

    fn keep(&mut self, serial: u64, record: u32) {
        self.pinned.insert(serial, record);
        self.retry_ms = RETRY_MS;
    }

    /// The serials that are looked for again.
    fn piece(&self, again: Again) -> Vec<u64> {
        match again {
            Again::None => Vec::new(),
            Again::From(serial) => {
                self.pinned.range(serial..).take(EXAMINED_MAX).map(|(serial, _)| *serial).collect()
            }
        }
    }

    /// All that are pinned were looked for, or none were due: when to look again.
    fn rest(&mut self, now_ms: u64, round_is_over: bool) {
        if std::mem::take(&mut self.any_freed) {
            self.retry_ms = RETRY_MS;
        }
        let at_ms = now_ms.saturating_add(self.retry_ms.max(RETRY_MS));
        if round_is_over {
            self.retry_ms = (2 * self.retry_ms).clamp(RETRY_MS, RETRY_MS_MAX);
            self.next = 0;
        }
        self.due_ms = match (self.pinned.is_empty(), self.due_ms) {
            (true, _) => None,
            // What is due later than now stays so.
            (false, Some(due_ms)) if due_ms > now_ms && !round_is_over => Some(due_ms.min(at_ms)),
            (false, _) => Some(at_ms),
        };
    }
}

impl<D: Directory> Store<D> {
    /// Deletes for a request: each id has its outcome.
    pub(crate) fn delete(&mut self, client: ClientNo, ids: &[ObjectId]) -> Result<Reply, Failure> {
        if ids.len() > REQUEST_IDS_MAX {
            return Err(too_many_ids(ids.len()));
        }
        let mut batch = Vec::new();
        let mut seen = BTreeSet::new();
        let mut outcomes = Vec::with_capacity(ids.len());
        for id in ids {
            let outcome = match self.find(id) {
                Some(entry) if self.holders(entry.record) > 0 => Err(Code::InUse),
                Some(_) if !seen.insert(*id) => Err(Code::Absent),
                Some(entry) => {
                    batch.push(entry);
                    Ok(())
                }
                None => self.delete_out_of_memory(client, id),
            };
            outcomes.push(outcome.err());
        }
        self.bury(batch);
        self.collect_fresh();
        Ok(Reply::Outcomes(outcomes))
    }

    /// Deletes for a record of a ring; the memory is free a little later.
    pub(crate) fn delete_soon(&mut self, client: ClientNo, id: &ObjectId) -> Result<(), Code> {
        let Some(entry) = self.find(id) else { return self.delete_out_of_memory(client, id) };
        if self.holders(entry.record) > 0 {
            return Err(Code::InUse);
        }
        self.bury(vec![entry]);
        if self.lingering.fresh.len() >= FRESH_MAX {
            self.collect_fresh();
        }
        Ok(())
    }

    /// Deletes what is being created or spilled.
    fn delete_out_of_memory(&mut self, client: ClientNo, id: &ObjectId) -> Result<(), Code> {
        if self.creatings.get(id).is_some() {
            return self.abort(client, id);
        }
        let spilled = self.tier.get(id).ok_or(Code::Absent)?;
        if spilled.rare.holders > 0 {
            return Err(Code::InUse);
        }
        self.drop_spilled(id, ObjectState::Deleted);
        self.collect_fresh();
        Ok(())
    }

    /// Hides objects that are deleted, and tells everybody. Their memory waits to be collected.
    pub(crate) fn bury(&mut self, entries: Vec<Entry>) {
        if entries.is_empty() {
            return;
        }
        self.hide(&entries);
        for entry in &entries {
            self.take_off_lists(entry);
            self.lingering.fresh.push(entry.record);
        }
        self.remember_end(&entries, ObjectState::Deleted);
        for entry in &entries {
            self.mourn(entry, ObjectState::Deleted);
        }
        self.lingering.due_ms = Some(self.now_ms);
    }

    /// A hidden object neither leaves the memory for another one nor expires.
    pub(crate) fn take_off_lists(&mut self, entry: &Entry) {
        self.records.unlist(entry.record);
        let expires_ms = self.rare_of(entry.record).and_then(|rare| rare.expires_ms);
        if let Some(expires_ms) = expires_ms {
            self.expiries.remove(&(expires_ms, entry.id, entry.serial));
        }
    }

    /// Frees what was deleted lately and is not pinned, and the members that this lets go; the next
    /// event does so if this one looked through the ledgers already.
    pub(crate) fn collect_fresh(&mut self) {
        self.let_members_go();
        if !self.lingering.fresh.is_empty() && self.work.may_look() {
            self.collect(Again::None, &[], |_, _| {});
        }
        self.schedule_collecting(false);
    }

    /// Looks for everything deleted again, a piece at a time.
    pub(crate) fn collect_lingering(&mut self) {
        if !self.work.may_look() {
            // Whatever is due stays due.
            return;
        }
        match self.collect(Again::From(self.lingering.next), &[], |_, _| {}) {
            Some(next) => {
                self.lingering.next = next;
                self.lingering.due_ms = Some(self.now_ms);
                self.note_collecting();
            }
            None => self.schedule_collecting(true),
        }
    }

    fn schedule_collecting(&mut self, round_is_over: bool) {
        self.note_collecting();
        self.lingering.rest(self.now_ms, round_is_over);
    }

    /// Whether the next event has something to collect.
    pub(crate) fn note_collecting(&mut self) {
        self.work.collect = !self.lingering.fresh.is_empty() || !self.unheld.is_empty();
    }

    /// One look through the ledgers: frees a piece of what was deleted lately with the members that
    /// this lets go, and of what was pinned before. `between` hears how often the serials of `also`
    /// are pinned, before anybody is told anything. Returns where to go on with what was pinned
    /// before, unless all of that was looked for.
    pub(crate) fn collect(
        &mut self,
        again: Again,
        also: &[u64],
        between: impl FnOnce(&mut Self, &Look),
    ) -> Option<u64> {
        let rest = self.lingering.fresh.len().saturating_sub(PIECE);
        let fresh = self.lingering.fresh.split_off(rest);
        let fresh: Vec<Entry> = fresh.into_iter().map(|record| self.entry(record)).collect();
        let followers = self.hide_followers(&fresh);
        let older = self.lingering.piece(again);
        let mut serials: Vec<u64> = fresh.iter().map(|entry| entry.serial).collect();
        serials.extend(followers.iter().map(|entry| entry.serial));
        serials.extend(&older);
        serials.extend(also);
        let mut look = self.look(&serials);
        let mut pins = std::mem::take(&mut look.pins);
        look.pins = pins.split_off(serials.len() - also.len());
        let (of_fresh, rest) = pins.split_at(fresh.len());
        let (of_followers, of_older) = rest.split_at(followers.len());
        let gone = self.settle_followers(&fresh, of_fresh, &followers, of_followers);
        let unheld = self.unheld.len();
        for (entry, pins) in fresh.iter().zip(of_fresh) {
            self.free_or_keep(entry, *pins);
        }
        self.free_older(&older, of_older);
        between(self, &look);
        self.end_followers(&gone, unheld);
        self.let_members_go();
        let next = older.last().map(|serial| serial + 1);
        next.filter(|next| self.lingering.pinned.range(next..).next().is_some())
    }

    pub(crate) fn free_or_keep(&mut self, entry: &Entry, pins: u32) {
        if self.is_free_of_pins(entry, pins) {
            self.free_ended(entry);
        } else {
            self.lingering.keep(entry.serial, entry.record);
        }
    }

    /// Whether nobody reads a hidden object. The store itself pins what is being written to the
    /// spill tier.
    pub(crate) fn is_free_of_pins(&self, entry: &Entry, pins: u32) -> bool {
        pins == 0 && !self.records.get(entry.record).is(SPILLING)
    }

    /// Frees objects that were pinned before and are not now, a piece of them.
    fn free_older(&mut self, serials: &[u64], pins: &[u32]) {
        let mut freed = 0;
        for (serial, _) in serials.iter().zip(pins).filter(|(_, pins)| **pins == 0) {
            let Some(record) = self.lingering.pinned.get(serial).copied() else { continue };
            let entry = self.entry(record);
            if !self.is_free_of_pins(&entry, 0) {
                continue;
            }
            if freed == PIECE {
                // The next event looks for the others first.
                self.lingering.look_again(*serial);
                continue;
            }
            self.lingering.pinned.remove(serial);
            self.lingering.any_freed = true;
            self.free_ended(&entry);
            freed += 1;
        }
    }

    /// Deletes a piece of what has outlived its time. A member of a composite stays until it is let
    /// go.
    pub(crate) fn expire(&mut self) {
        let mut batch = Vec::new();
        for _ in 0..PIECE {
            let Some((expires_ms, id, serial)) = self.expiries.first().copied() else { break };
            if expires_ms > self.now_ms {
                break;
            }
            self.expiries.pop_first();
            if let Some(entry) = self.find(&id).filter(|entry| entry.serial == serial) {
                if self.holders(entry.record) == 0 {
                    batch.push(entry);
                }
            } else if self
                .tier
                .get(&id)
                .is_some_and(|it| it.serial == serial && it.rare.holders == 0)
            {
                self.drop_spilled(&id, ObjectState::Deleted);
            }
        }
        if !batch.is_empty() {
            self.bury(batch);
        }
        if !self.unheld.is_empty() || !self.lingering.fresh.is_empty() {
            self.collect_fresh();
        }
    }
}

/// The failure of a request that names too many objects.
pub(crate) fn too_many_ids(found: usize) -> Failure {
    Failure::of(Code::LimitReached)
        .with_amounts(found as u64, REQUEST_IDS_MAX as u64)
        .with_detail("too many object ids in one request")
}
