//! How objects are deleted, and freed after their last reader.

use std::collections::BTreeSet;

use plasmon_proto::limits::REQUEST_IDS_MAX;
use plasmon_proto::message::{Failure, Reply};
use plasmon_proto::{Code, ObjectId, ObjectState};

use super::{Again, FRESH_MAX, too_many_ids};
use crate::event::ClientNo;
use crate::ports::{Directory, Entry, Look};
use crate::store::Store;
use crate::work::PIECE;

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
            let outcome = match self.objects.find(id) {
                Some(entry) if self.objects.holders(entry.record) > 0 => Err(Code::InUse),
                Some(_) if !seen.insert(*id) => Err(Code::Absent),
                Some(_) if self.check_log_for(id).is_err() => Err(Code::Io),
                Some(entry) => {
                    batch.push(entry);
                    Ok(())
                }
                None => self.delete_out_of_memory(client, id),
            };
            outcomes.push(outcome.err());
        }
        self.hide_deleted(batch);
        self.collect_fresh();
        Ok(Reply::Outcomes(outcomes))
    }

    /// Deletes for a record of a ring; the memory is free a little later.
    pub(crate) fn delete_soon(&mut self, client: ClientNo, id: &ObjectId) -> Result<(), Code> {
        let Some(entry) = self.objects.find(id) else {
            return self.delete_out_of_memory(client, id);
        };
        if self.objects.holders(entry.record) > 0 {
            return Err(Code::InUse);
        }
        self.check_log_for(id)?;
        self.hide_deleted(vec![entry]);
        if self.objects.deferred_frees.fresh.len() >= FRESH_MAX {
            self.collect_fresh();
        }
        Ok(())
    }

    /// Deletes what is being created or spilled.
    fn delete_out_of_memory(&mut self, client: ClientNo, id: &ObjectId) -> Result<(), Code> {
        if let Some(creating) = self.objects.pending_objects.get(id) {
            let is_logging = creating.is_logging();
            let aborted = self.abort(client, id);
            // It is not sealed yet, though its creator has no say in that any more.
            return if is_logging { aborted.or(Err(Code::NotSealed)) } else { aborted };
        }
        let spilled = self.objects.tier.get(id).ok_or(Code::Absent)?;
        if spilled.extras.holders > 0 {
            return Err(Code::InUse);
        }
        self.check_log_for(id)?;
        self.drop_spilled(id, ObjectState::Deleted);
        self.collect_fresh();
        Ok(())
    }

    /// Hides objects that are deleted, and notifies the subscribers. Their memory waits to be
    /// collected.
    pub(crate) fn hide_deleted(&mut self, entries: Vec<Entry>) {
        if entries.is_empty() {
            return;
        }
        self.objects.hide(&entries);
        for entry in &entries {
            self.objects.take_off_lists(entry);
            self.objects.deferred_frees.add(entry.record, self.now_ms);
        }
        self.objects.remember_end(&entries, ObjectState::Deleted);
        for entry in &entries {
            self.announce_ended(entry, ObjectState::Deleted);
        }
    }

    /// Frees what was deleted lately and is not pinned, and the members that this lets go; the next
    /// event does so if this one looked through the ledgers already.
    pub(crate) fn collect_fresh(&mut self) {
        self.let_members_go();
        if !self.objects.deferred_frees.fresh.is_empty() && self.work.may_look() {
            self.collect(Again::None, &[], |_, _| {});
        }
        self.schedule_collecting(false);
    }

    /// Looks for everything deleted again, a piece at a time.
    pub(crate) fn collect_deferred_frees(&mut self) {
        if !self.work.may_look() {
            // Whatever is due stays due.
            return;
        }
        match self.collect(Again::From(self.objects.deferred_frees.next), &[], |_, _| {}) {
            Some(next) => {
                self.objects.deferred_frees.go_on_from(next, self.now_ms);
                self.note_collecting();
            }
            None => self.schedule_collecting(true),
        }
    }

    fn schedule_collecting(&mut self, round_is_over: bool) {
        self.note_collecting();
        self.objects.deferred_frees.rest(self.now_ms, round_is_over);
    }

    /// Whether the next event has something to collect.
    pub(crate) fn note_collecting(&mut self) {
        self.work.collect = !self.objects.deferred_frees.fresh.is_empty()
            || !self.objects.detached_members.is_empty();
    }

    /// One look through the ledgers: frees a piece of what was deleted lately with the members that
    /// this lets go, and of what was pinned before. `between` is given how often the serials of
    /// `also` are pinned, before any client is notified. Returns where to go on with what was
    /// pinned before, unless all of that was looked for.
    pub(crate) fn collect(
        &mut self,
        again: Again,
        also: &[u64],
        between: impl FnOnce(&mut Self, &Look),
    ) -> Option<u64> {
        let rest = self.objects.deferred_frees.fresh.len().saturating_sub(PIECE);
        let fresh = self.objects.deferred_frees.fresh.split_off(rest);
        let fresh: Vec<Entry> =
            fresh.into_iter().map(|record| self.objects.entry(record)).collect();
        let followers = self.objects.hide_followers(&fresh, self.now_ms);
        let older = self.objects.deferred_frees.piece(again);
        let mut serials: Vec<u64> = fresh.iter().map(|entry| entry.serial).collect();
        serials.extend(followers.iter().map(|entry| entry.serial));
        serials.extend(&older);
        serials.extend(also);
        let mut look = self.look(&serials);
        let mut pins = std::mem::take(&mut look.pins);
        look.pins = pins.split_off(serials.len() - also.len());
        let (of_fresh, rest) = pins.split_at(fresh.len());
        let (of_followers, of_older) = rest.split_at(followers.len());
        let gone = self.objects.settle_followers(&fresh, of_fresh, &followers, of_followers);
        let detached = self.objects.detached_members.len();
        for (entry, pins) in fresh.iter().zip(of_fresh) {
            self.free_or_keep(entry, *pins);
        }
        self.free_older(&older, of_older);
        between(self, &look);
        self.end_followers(&gone, detached);
        self.let_members_go();
        let next = older.last().map(|serial| serial + 1);
        next.filter(|next| self.objects.deferred_frees.pinned.range(next..).next().is_some())
    }

    pub(crate) fn free_or_keep(&mut self, entry: &Entry, pins: u32) {
        if self.objects.is_free_of_pins(entry, pins) {
            self.objects.free_ended(
                entry,
                &mut self.space,
                &mut self.sessions.clients,
                &mut self.out,
            );
        } else {
            self.objects.deferred_frees.keep(entry.serial, entry.record, self.now_ms);
        }
    }

    /// Frees objects that were pinned before and are not now, a piece of them.
    fn free_older(&mut self, serials: &[u64], pins: &[u32]) {
        let mut freed = 0;
        for (serial, _) in serials.iter().zip(pins).filter(|(_, pins)| **pins == 0) {
            let Some(record) = self.objects.deferred_frees.pinned.get(serial).copied() else {
                continue;
            };
            let entry = self.objects.entry(record);
            if !self.objects.is_free_of_pins(&entry, 0) {
                continue;
            }
            if freed == PIECE {
                // The next event looks for the others first.
                self.objects.deferred_frees.look_again(*serial);
                continue;
            }
            self.objects.deferred_frees.pinned.remove(serial);
            self.objects.deferred_frees.any_freed = true;
            self.objects.free_ended(
                &entry,
                &mut self.space,
                &mut self.sessions.clients,
                &mut self.out,
            );
            freed += 1;
        }
    }

    /// Deletes a piece of what has outlived its time. A member of a composite stays until it is let
    /// go.
    pub(crate) fn expire(&mut self) {
        let mut batch = Vec::new();
        for _ in 0..PIECE {
            let Some((expires_ms, id, serial)) = self.objects.expiries.first().copied() else {
                break;
            };
            if expires_ms > self.now_ms {
                break;
            }
            self.objects.expiries.pop_first();
            if let Some(entry) = self.objects.find(&id).filter(|entry| entry.serial == serial) {
                if self.objects.holders(entry.record) == 0 {
                    batch.push(entry);
                }
            } else if self
                .objects
                .tier
                .get(&id)
                .is_some_and(|it| it.serial == serial && it.extras.holders == 0)
            {
                self.drop_spilled(&id, ObjectState::Deleted);
            }
        }
        if !batch.is_empty() {
            self.hide_deleted(batch);
        }
        if !self.objects.detached_members.is_empty()
            || !self.objects.deferred_frees.fresh.is_empty()
        {
            self.collect_fresh();
        }
    }
}
