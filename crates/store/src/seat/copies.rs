//! The copies of pooled objects that are here.

use plasmon_proto::message::{Failure, Reply};
use plasmon_proto::object::PoolAttributes;
use plasmon_proto::pool::{Birth, Call, Origin, Refusal};
use plasmon_proto::{ObjectId, ObjectState, Policy};

use super::{Reason, Withheld, not_the_agent};
use crate::effect::Effect;
use crate::event::ClientNo;
use crate::ports::{Directory, Entry};
use crate::records::{CACHE, LISTED};
use crate::store::Store;

/// Where a copy is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    Visible(Entry),
    Withheld(u32),
    Tier,
}

impl<D: Directory> Store<D> {
    /// The attributes of a pooled object in memory.
    pub(crate) fn pool_attributes(&self, record: u32) -> Option<PoolAttributes> {
        self.objects.extras_of(record).and_then(|extras| extras.attributes.pool)
    }

    /// Which incarnation of its id an object is. `None` until an agent has said which node this is.
    pub(super) fn birth(&self, id: &ObjectId, pool: Option<PoolAttributes>) -> Option<Birth> {
        birth_here(self.seat.here, id, pool)
    }

    /// The copy of this incarnation.
    pub(super) fn copy(&self, id: &ObjectId, birth: Birth) -> Option<Place> {
        let (place, pool) = if let Some(entry) = self.objects.find(id) {
            (Place::Visible(entry), self.pool_attributes(entry.record))
        } else if let Some(withheld) = self.seat.withheld(id) {
            (Place::Withheld(withheld.record), self.pool_attributes(withheld.record))
        } else {
            (Place::Tier, self.objects.tier.get(id)?.extras.attributes.pool)
        };
        (self.birth(id, pool) == Some(birth)).then_some(place)
    }

    /// What the agent reads and other clients do not see.
    pub(crate) fn find_withheld(&self, client: ClientNo, id: &ObjectId) -> Option<Entry> {
        let withheld = self.seat.withheld(id).filter(|_| self.seat.is_agent(client))?;
        Some(self.objects.entry(withheld.record))
    }

    /// What is here of an incarnation, for the agent.
    pub(crate) fn describe_copy(
        &self,
        client: ClientNo,
        id: &ObjectId,
        birth: Birth,
    ) -> Result<Reply, Failure> {
        if !self.seat.is_agent(client) {
            return Err(not_the_agent());
        }
        let info = match self.copy(id, birth) {
            Some(Place::Visible(entry)) => Some(self.info(&entry, 0)),
            Some(Place::Withheld(record)) => Some(self.info(&self.objects.entry(record), 0)),
            Some(Place::Tier) => self.objects.tier.get(id).map(|it| self.spilled_info(id, it)),
            None => None,
        };
        Ok(Reply::Info(info))
    }

    /// Whether an object of this id was sealed here and is not accepted yet.
    pub(crate) fn is_committing(&self, id: &ObjectId) -> bool {
        let reason = self.seat.withheld(id).map(|withheld| withheld.reason);
        matches!(reason, Some(Reason::Committing { .. }))
    }

    /// The agent wants a copy ended. It is told so in any case.
    pub(super) fn drop_copy(&mut self, id: &ObjectId, birth: Birth) {
        let copy = self.copy(id, birth);
        if copy.is_some() {
            self.end_members_of(id);
        }
        match copy {
            Some(Place::Visible(entry)) => self.hide_deleted(vec![entry]),
            // One that is being committed fails for its creator, who waits.
            Some(Place::Withheld(_)) if self.is_committing(id) => {
                self.end_commit(id, Refusal::Unreachable);
            }
            Some(Place::Withheld(_)) => self.end_withheld(id),
            Some(Place::Tier) => self.drop_spilled(id, ObjectState::Deleted),
            None => {
                self.end_again(id);
                // It is said when the log knows it.
                if !self.objects.durable.waits_for_end(id, birth) {
                    self.call(Call::Ended { id: *id, birth });
                }
            }
        }
    }

    /// The agent wants a copy shown. The pool says so of what it has accepted alone, and of one
    /// that was just made here it may say so before it answers the commit: that is the answer then.
    pub(super) fn publish_copy(&mut self, id: &ObjectId, birth: Birth) {
        match self.copy(id, birth) {
            Some(Place::Withheld(_)) if self.is_committing(id) => {
                self.committed(id, birth.serial, Ok(()));
            }
            Some(Place::Withheld(_)) => self.show_withheld(id),
            Some(Place::Tier) => self.publish_unpublished(id),
            Some(Place::Visible(_)) | None => {}
        }
    }

    /// The agent wants a copy never evicted.
    pub(super) fn keep_copy(&mut self, id: &ObjectId, birth: Birth) {
        match self.copy(id, birth) {
            Some(Place::Visible(entry)) if self.is_kept_by_itself(&entry) => {}
            Some(Place::Visible(Entry { record, .. }) | Place::Withheld(record)) => {
                self.treat(record, Policy::Keep);
            }
            Some(Place::Tier) => {
                if let Some(spilled) = self.objects.tier.get_mut(id) {
                    spilled.extras.pool_policy = Some(Policy::Keep);
                }
            }
            None => return,
        }
        self.recount(id);
        self.call(Call::Kept { id: *id, birth });
    }

    /// The agent lets a copy be evicted.
    pub(super) fn release_copy(&mut self, id: &ObjectId, birth: Birth) {
        self.release_logged(id, birth);
        match self.copy(id, birth) {
            Some(Place::Visible(Entry { record, .. }) | Place::Withheld(record)) => {
                self.treat(record, Policy::Cache);
            }
            Some(Place::Tier) => {
                if let Some(spilled) = self.objects.tier.get_mut(id) {
                    spilled.extras.pool_policy = Some(Policy::Cache);
                }
            }
            None => return,
        }
        self.recount(id);
    }

    /// From now on the pool has this policy for a copy.
    fn treat(&mut self, record: u32, policy: Policy) {
        self.objects.extras_mut(record).pool_policy = Some(policy);
        let is_evictable = self.is_evictable(policy);
        let found = self.objects.records.get(record);
        let (listed, was_evictable) = (found.is(LISTED), found.is(CACHE));
        if is_evictable != was_evictable {
            self.objects.records.unlist(record);
            self.objects.records.get_mut(record).flags ^= CACHE;
            if listed {
                self.objects.records.touch(record);
            }
        }
    }

    /// Whether an object is never evicted because it was put so: nothing has to be remembered.
    fn is_kept_by_itself(&self, entry: &Entry) -> bool {
        let extras = self.objects.extras_of(entry.record);
        entry.meta.traits.policy == Policy::Keep
            && extras.is_none_or(|extras| extras.pool_policy.is_none())
    }

    /// A copy that was just sealed is withheld.
    pub(crate) fn withhold_new(&mut self, id: &ObjectId, record: u32, reason: Reason) {
        self.seat.withheld.insert(*id, Withheld { record, reason });
    }

    /// A copy came back from the tier after the time until which it may be shown.
    pub(crate) fn withhold_restored(&mut self, id: &ObjectId, record: u32, unpublished: bool) {
        let entry = self.objects.entry(record);
        self.forget_name(&entry);
        let reason = if unpublished { Reason::Unpublished } else { Reason::Unvouched };
        self.withhold_new(id, record, reason);
    }

    /// A copy of another node is here: the object is not new, so subscribers are not told.
    pub(crate) fn announce_landed(&mut self, id: &ObjectId, record: u32) {
        self.remember_name(&self.objects.entry(record));
        self.notify_waiters(id, ObjectState::Sealed);
    }

    /// A visible copy is withheld from now on.
    pub(super) fn withhold(&mut self, entries: &[Entry], reason: Reason) {
        self.objects.hide(entries);
        for entry in entries {
            self.objects.take_off_lists(entry);
            self.objects.drop_file(entry.serial, &mut self.out);
            self.forget_name(entry);
            let withheld = Withheld { record: entry.record, reason };
            self.seat.withheld.insert(entry.id, withheld);
        }
    }

    /// A withheld copy is shown, unless it has to be vouched for: then it waits for that.
    pub(super) fn show_withheld(&mut self, id: &ObjectId) {
        if !self.is_vouched(id) {
            if let Some(withheld) = self.seat.withheld.get_mut(id) {
                withheld.reason = Reason::Unvouched;
            }
            return;
        }
        let Some(Withheld { record, .. }) = self.seat.withheld.remove(id) else { return };
        let entry = self.objects.entry(record);
        self.objects.show(&entry);
        self.remember_name(&entry);
        self.notify_waiters(id, ObjectState::Sealed);
    }

    /// A withheld copy ends; its memory is free after its last reader.
    pub(super) fn end_withheld(&mut self, id: &ObjectId) {
        let Some(Withheld { record, .. }) = self.seat.withheld.remove(id) else { return };
        let pool = self.pool_attributes(record);
        let serial = self.objects.entry(record).serial;
        self.objects.drop_record(serial, &mut self.out);
        self.objects.deferred_frees.add(record, self.now_ms);
        self.copy_ended(id, pool);
        self.note_collecting();
    }

    /// A copy is not there any more.
    pub(crate) fn copy_ended(&mut self, id: &ObjectId, pool: Option<PoolAttributes>) {
        if self.seat.uncommitted.remove(id) {
            self.seat.incomplete.remove(id);
            self.settle_ended(id);
        }
        // Also to an agent that is being told what is here: it may have been told of this one.
        if let (Some(agent), Some(birth)) = (self.seat.agent, self.birth(id, pool)) {
            if self.objects.durable.waits_for_end(id, birth) {
                return;
            }
            self.out.push(Effect::Call(agent, Call::Ended { id: *id, birth }));
        }
    }

    /// A copy is shown: it counts in its namespace.
    fn remember_name(&mut self, entry: &Entry) {
        let Some(extras) = self.objects.extras_of(entry.record) else { return };
        if let Some(name) = &extras.attributes.name {
            let bytes = extras.counted_bytes(&entry.meta);
            self.sessions.adoptions.add_object(name, entry.id, bytes);
        }
    }

    fn forget_name(&mut self, entry: &Entry) {
        let extras = self.objects.extras_of(entry.record);
        if let Some(name) = extras.and_then(|extras| extras.attributes.name.clone()) {
            self.sessions.adoptions.remove_object(&name, &entry.id);
        }
    }

    /// What an earlier daemon left: which of the hidden objects were withheld, and which were
    /// deleted, is for the pool daemon to say. Copies of free ids are shown when they are vouched
    /// for again.
    pub(crate) fn recover_copies(&mut self) {
        if !self.config.pool {
            return;
        }
        let unvouched = self.free_copies();
        self.withhold(&unvouched, Reason::Unvouched);
    }

    /// A hidden object of an earlier daemon is withheld, unless it is an older incarnation of what
    /// is there. False when it is not.
    pub(crate) fn recover_hidden(&mut self, id: &ObjectId, serial: u64, record: u32) -> bool {
        if !self.config.pool || !id.is_pooled() {
            return false;
        }
        // At its home an object is shown from the moment at which it is put: it was deleted.
        let is_made_here = self.pool_attributes(record).is_none_or(|pool| pool.origin.is_none());
        if id.home().is_some() && is_made_here {
            return false;
        }
        if let Some(other) = self.seat.withheld.get(id).copied() {
            let other_serial = self.objects.entry(other.record).serial;
            if other_serial > serial {
                return false;
            }
            self.objects.deferred_frees.adopt(other_serial, other.record, self.now_ms);
        }
        if self.objects.find(id).is_some() {
            return false;
        }
        self.seat.withheld.insert(*id, Withheld { record, reason: Reason::Unpublished });
        true
    }
}

/// Which incarnation of its id an object is in a store that is `here`.
pub(super) fn birth_here(
    here: Option<Origin>,
    id: &ObjectId,
    pool: Option<PoolAttributes>,
) -> Option<Birth> {
    let Origin { slot, boot } = here?;
    match pool {
        Some(pool) => Some(pool.birth(Origin { slot, boot })),
        // An id with a home is never made twice.
        None => id.home().map(|_| Birth { slot, boot, serial: 0 }),
    }
}
