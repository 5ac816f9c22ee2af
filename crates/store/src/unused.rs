//! Deleting objects as soon as nobody reads them.
//!
//! An ordinary delete takes an object out of sight at once and its memory a little later. This one
//! leaves it as it is, for everybody, until its last pin is gone. Ledgers tell nobody when a pin
//! goes, so the store looks again after a while, and before it answers any question.

use std::collections::BTreeMap;

use plasmon_proto::limits::REQUEST_IDS_MAX;
use plasmon_proto::message::{Failure, Reply};
use plasmon_proto::{Code, ObjectId, ObjectState};

use crate::deletes::too_many_ids;
use crate::ports::{Directory, Entry};
use crate::records::SPILLING;
use crate::store::Store;

/// How long a pinned object is left alone before its pins are counted again.
const RETRY_MS: u64 = 20;

/// Objects that go when nobody reads them any more.
#[derive(Debug, Default)]
pub(crate) struct Doomed {
    by_serial: BTreeMap<u64, ObjectId>,
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
}

impl<D: Directory> Store<D> {
    /// Deletes each object now or when its last pin is gone.
    pub(crate) fn delete_unused(&mut self, ids: &[ObjectId]) -> Result<Reply, Failure> {
        if ids.len() > REQUEST_IDS_MAX {
            return Err(too_many_ids(ids.len()));
        }
        let outcomes = ids.iter().map(|id| self.doom(id).err()).collect();
        self.bury_unused();
        Ok(Reply::Outcomes(outcomes))
    }

    fn doom(&mut self, id: &ObjectId) -> Result<(), Code> {
        if let Some(entry) = self.find(id) {
            if self.holders(entry.record) > 0 {
                return Err(Code::InUse);
            }
            self.doomed.by_serial.insert(entry.serial, *id);
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

    /// Deletes what nobody reads any more.
    pub(crate) fn bury_unused(&mut self) {
        if self.doomed.is_empty() {
            return;
        }
        let (mut visible, mut held) = (Vec::new(), Vec::new());
        for (serial, id) in std::mem::take(&mut self.doomed.by_serial) {
            match self.find(&id).filter(|entry| entry.serial == serial) {
                Some(entry) => visible.push(entry),
                // It gave its memory up meanwhile, so nobody reads it.
                None => match self.tier.get(&id).filter(|it| it.serial == serial) {
                    Some(spilled) if spilled.rare.holders > 0 => held.push((serial, id)),
                    Some(_) => self.drop_spilled(&id, ObjectState::Deleted),
                    None => {}
                },
            }
        }
        let serials: Vec<u64> = visible.iter().map(|entry| entry.serial).collect();
        let pins = self.pins_of(&serials);
        let is_used = |(entry, pins): &(Entry, u32)| {
            *pins > 0
                || self.holders(entry.record) > 0
                || self.records.get(entry.record).is(SPILLING)
        };
        let (used, unused): (Vec<_>, Vec<_>) = visible.into_iter().zip(pins).partition(is_used);
        let used = used.iter().map(|(entry, _)| (entry.serial, entry.id));
        self.doomed.by_serial = used.chain(held).collect();
        // Whoever pins one of them at this moment keeps its memory, as with any delete.
        self.bury(unused.into_iter().map(|(entry, _)| entry).collect());
        let again_ms = self.now_ms.saturating_add(RETRY_MS);
        self.doomed.due_ms = (!self.doomed.is_empty()).then_some(again_ms);
        self.collect_fresh();
    }
}
