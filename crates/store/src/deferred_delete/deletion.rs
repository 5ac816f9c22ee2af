//! Marking objects, and deleting those that nothing reads any more.

use plasmon_proto::limits::REQUEST_IDS_MAX;
use plasmon_proto::message::{Failure, Reply, Request};
use plasmon_proto::{Code, ObjectId, ObjectState};

use crate::deletes::too_many_ids;
use crate::ports::{Directory, Entry};
use crate::records::SPILLING;
use crate::store::Store;

impl<D: Directory> Store<D> {
    /// Deletes each object now or when its last pin is gone.
    pub(crate) fn delete_unused(&mut self, ids: &[ObjectId]) -> Result<Reply, Failure> {
        if ids.len() > REQUEST_IDS_MAX {
            return Err(too_many_ids(ids.len()));
        }
        let outcomes = ids.iter().map(|id| self.mark_unused(id).err()).collect();
        self.collect_unused(ids);
        Ok(Reply::Outcomes(outcomes))
    }

    fn mark_unused(&mut self, id: &ObjectId) -> Result<(), Code> {
        if let Some(entry) = self.objects.find(id) {
            if self.objects.holders(entry.record) > 0 {
                return Err(Code::InUse);
            }
            self.check_log_for(id)?;
            self.objects.deferred_deletes.insert(entry.serial, *id);
            return Ok(());
        }
        if self.objects.pending_objects.get(id).is_some() {
            return Err(Code::NotSealed);
        }
        let spilled = self.objects.tier.get(id).ok_or(Code::Absent)?;
        if spilled.extras.holders > 0 {
            return Err(Code::InUse);
        }
        self.check_log_for(id)?;
        self.drop_spilled(id, ObjectState::Deleted);
        Ok(())
    }

    /// Deletes what has no reader any more, as far as a request concerns it.
    pub(crate) fn collect_unused_for(&mut self, body: &Request) {
        if self.objects.deferred_deletes.is_empty() {
            return;
        }
        match body {
            Request::Get { ids } | Request::Wait { ids, .. } | Request::States { ids } => {
                let asked =
                    ids.iter().any(|id| self.objects.deferred_deletes.by_id.contains_key(id));
                if asked {
                    self.collect_unused(ids);
                }
            }
            Request::Create { id, .. } | Request::CreateGrowing { id, .. }
                if self.objects.deferred_deletes.by_id.contains_key(id) =>
            {
                self.collect_unused(&[*id]);
            }
            Request::Lease { .. } | Request::Evict { .. } | Request::Status => {
                self.collect_unused(&[]);
            }
            _ => {}
        }
    }

    /// Deletes a piece of what has no reader any more, those of the ids first. The next event does
    /// it if this one looked through the ledgers already.
    pub(crate) fn collect_unused(&mut self, ids: &[ObjectId]) {
        if self.objects.deferred_deletes.is_empty() || !self.work.may_look() {
            return;
        }
        let (piece, round_is_over) = self.objects.deferred_deletes.piece(ids);
        let mut visible = Vec::new();
        for (serial, id) in piece {
            match self.objects.find(&id).filter(|entry| entry.serial == serial) {
                Some(entry) => visible.push(entry),
                // It gave its memory up meanwhile, so it has no reader.
                None => match self.objects.tier.get(&id).filter(|it| it.serial == serial) {
                    Some(spilled) if spilled.extras.holders > 0 => {}
                    Some(_) => {
                        self.objects.deferred_deletes.remove(serial);
                        self.drop_spilled(&id, ObjectState::Deleted);
                    }
                    None => self.objects.deferred_deletes.remove(serial),
                },
            }
        }
        let serials: Vec<u64> = visible.iter().map(|entry| entry.serial).collect();
        let pins = self.look(&serials).pins;
        self.collect_unused_among(visible.into_iter().zip(pins));
        self.objects.deferred_deletes.rest(self.now_ms, round_is_over);
        self.collect_fresh();
    }

    /// Deletes those of some objects that are to go with their last reader, if they have none. A
    /// client that pins one of them at this moment keeps its memory, as with any delete. Returns
    /// the others.
    pub(crate) fn collect_unused_among(
        &mut self,
        looked_at: impl Iterator<Item = (Entry, u32)>,
    ) -> Vec<(Entry, u32)> {
        let is_unused = |(entry, pins): &(Entry, u32)| {
            *pins == 0
                && self.objects.deferred_deletes.by_serial.contains_key(&entry.serial)
                && self.objects.holders(entry.record) == 0
                && !self.objects.records.get(entry.record).is(SPILLING)
        };
        let (unused, used): (Vec<_>, Vec<_>) = looked_at.partition(is_unused);
        for (entry, _) in &unused {
            self.objects.deferred_deletes.remove(entry.serial);
            self.objects.deferred_deletes.any_went = true;
        }
        self.hide_deleted(unused.into_iter().map(|(entry, _)| entry).collect());
        used
    }
}
