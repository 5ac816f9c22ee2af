//! Deleting, and waiting for the last reader of what was deleted.
//!
//! Deleting hides an object at once. Its memory is free when no ledger names it any more. Ledgers
//! are looked through for many objects at a time: records of the rings only put theirs into a
//! batch, and what is found pinned is looked at again after a while, and whenever memory is short.

use std::collections::{BTreeMap, BTreeSet};

use plasmon_proto::limits::REQUEST_IDS_MAX;
use plasmon_proto::message::{Failure, Reply};
use plasmon_proto::{Code, ObjectId, ObjectState};

use crate::event::ClientNo;
use crate::ports::{Directory, Entry};
use crate::records::SPILLING;
use crate::store::Store;

/// How long a pinned deleted object is left alone before its pins are counted again.
const RETRY_MS: u64 = 20;

/// Objects that may wait to be looked for in the ledgers together.
const FRESH_MAX: usize = 1024;

/// Deleted objects whose memory is not free yet.
#[derive(Debug, Default)]
pub(crate) struct Lingering {
    /// Records that nobody looked for in the ledgers yet.
    fresh: Vec<u32>,
    /// Records by serial that were pinned when they were looked for.
    pinned: BTreeMap<u64, u32>,
    /// When to look again.
    due_ms: Option<u64>,
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

    /// A hidden object of an earlier daemon.
    pub(crate) fn adopt(&mut self, serial: u64, record: u32, now_ms: u64) {
        self.pinned.insert(serial, record);
        self.due_ms = Some(now_ms);
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
            self.records.unlist(entry.record);
            let expires_ms = self.rare_of(entry.record).and_then(|rare| rare.expires_ms);
            if let Some(expires_ms) = expires_ms {
                self.expiries.remove(&(expires_ms, entry.id, entry.serial));
            }
            self.lingering.fresh.push(entry.record);
        }
        for entry in &entries {
            self.mourn(entry, ObjectState::Deleted);
        }
        self.lingering.due_ms = Some(self.now_ms);
    }

    /// Frees what was deleted lately and is not pinned, and the members that this lets go.
    pub(crate) fn collect_fresh(&mut self) {
        loop {
            let fresh = std::mem::take(&mut self.lingering.fresh);
            self.collect(fresh);
            if !self.let_members_go() && self.lingering.fresh.is_empty() {
                break;
            }
        }
        let again_ms = self.now_ms.saturating_add(RETRY_MS);
        self.lingering.due_ms = (!self.lingering.pinned.is_empty()).then_some(again_ms);
    }

    /// Looks at everything deleted again. Returns whether any memory came free.
    pub(crate) fn collect_lingering(&mut self) -> bool {
        let charged = self.memory.charged_bytes();
        let pinned = std::mem::take(&mut self.lingering.pinned);
        self.lingering.fresh.extend(pinned.into_values());
        self.collect_fresh();
        self.memory.charged_bytes() < charged
    }

    fn collect(&mut self, records: Vec<u32>) {
        if records.is_empty() {
            return;
        }
        let entries = records.into_iter().map(|record| self.entry(record)).collect();
        let (free, pinned) = self.part_by_pins(entries);
        for entry in free {
            // The store itself pins what is being written to the spill tier.
            if self.records.get(entry.record).is(SPILLING) {
                self.lingering.pinned.insert(entry.serial, entry.record);
            } else {
                self.free_ended(&entry);
            }
        }
        for entry in pinned {
            self.lingering.pinned.insert(entry.serial, entry.record);
        }
    }

    /// Deletes what has outlived its time. A member of a composite stays until it is let go.
    pub(crate) fn expire(&mut self) {
        let mut batch = Vec::new();
        while let Some((expires_ms, id, serial)) = self.expiries.first().copied() {
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
