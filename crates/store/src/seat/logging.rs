//! Copies of durable objects of the pool: the agent says which of them are to be in the log.
//!
//! ```text
//!   sealed or brought here --(Log)--> being written --(Logged)--> in the log: Logged
//!        ^                                  |                         |
//!        |  no room, a fault: NotLogged     |                         | Release: out of it
//!        +----------------------------------+                         | Drop: Ended, once that
//!                                                                     v is in the log, too
//! ```
//!
//! What is written stays as it is for clients: a copy of another node may be shown already, and one
//! that was made here is shown when the pool has accepted it. The log has the attributes of a copy,
//! which say where it was made, so that a later store knows its birth. They are a few bytes longer
//! than those of an object that was made here, which becomes such a copy when it leaves the memory.
//!
//! What a store finds in its log at its start is *unpublished*: whether it exists still, the pool
//! says. It is out of memory then, and clients that ask for it ask the pool.

use plasmon_proto::object::{ObjectMeta, Sizes};
use plasmon_proto::pool::{Birth, Call};
use plasmon_proto::{Attributes, Code, ObjectId, ObjectState, Policy};

use super::agent::content_of;
use super::copies::Place;
use crate::durable::{CopyWrite, LogRecord};
use crate::effect::{Effect, SpillOrder};
use crate::event::{LogFailure, Lsn, Ticket};
use crate::extras::Extras;
use crate::ports::{Directory, Entry};
use crate::records::{CACHE, HIDDEN, LOGGED, SPILLING};
use crate::spill::Backing;
use crate::store::Store;

/// An object as the log has it: sizes and attributes of a copy.
fn as_copy(meta: ObjectMeta, attributes: &Attributes, birth: Birth) -> (ObjectMeta, Attributes) {
    let attributes = attributes.of_copy(birth);
    let sizes = Sizes { attributes: attributes.encode().len() as u64, ..meta.sizes };
    (ObjectMeta { sizes, ..meta }, attributes)
}

impl<D: Directory> Store<D> {
    /// What is known of an object that leaves the memory for the log alone.
    pub(crate) fn as_logged(
        &self,
        id: &ObjectId,
        meta: ObjectMeta,
        mut extras: Extras,
    ) -> (ObjectMeta, Extras) {
        let Some(birth) = self.birth(id, extras.attributes.pool).filter(|_| id.is_pooled()) else {
            return (meta, extras);
        };
        let (meta, attributes) = as_copy(meta, &extras.attributes, birth);
        extras.attributes = attributes;
        (meta, extras)
    }

    /// The agent wants a copy in the log, and never evicted.
    pub(super) fn log_copy(&mut self, id: &ObjectId, birth: Birth) {
        match self.copy(id, birth) {
            Some(Place::Visible(Entry { record, .. }) | Place::Withheld(record)) => {
                self.log_copy_in_memory(id, birth, record);
            }
            Some(Place::Tier) => {
                let Some(spilled) = self.objects.tier.get_mut(id) else { return };
                match spilled.backing {
                    Backing::Log(_) | Backing::Superseded => {
                        spilled.extras.pool_policy = Some(Policy::Keep);
                        self.recount(id);
                        self.call(Call::Logged { id: *id, birth });
                    }
                    // It is written from memory. There may be no room for it for long, so another
                    // node is asked meanwhile.
                    Backing::File => {
                        self.start_restore(id);
                        self.call(Call::NotLogged { id: *id, birth, is_full: true });
                    }
                }
            }
            None => {}
        }
    }

    fn log_copy_in_memory(&mut self, id: &ObjectId, birth: Birth, record: u32) {
        let entry = self.objects.entry(record);
        if self.objects.durable.has(entry.serial) {
            self.keep_logged(record);
            self.recount(id);
            return self.call(Call::Logged { id: *id, birth });
        }
        // On its way to the log, or to the tier. The first is answered, after the second the agent
        // says so again.
        if self.objects.records.get(record).is(SPILLING) {
            return;
        }
        if !self.config.durable || !self.objects.durable.is_open() {
            return self.call(Call::NotLogged { id: *id, birth, is_full: false });
        }
        let Some(extras) = self.objects.extras_of(record) else { return };
        let (meta, attributes) = as_copy(entry.meta, &extras.attributes, birth);
        let Entry { serial, range, .. } = entry;
        self.objects.records.unlist(record);
        self.objects.records.get_mut(record).flags |= SPILLING;
        let order = SpillOrder { id: *id, serial, range, meta, attributes };
        let ticket = self.objects.durable.copy_begins(CopyWrite { id: *id, serial, record, birth });
        self.out.push(Effect::Log(ticket, order));
    }

    /// A copy is in the log, or is not. False: this is about another write.
    pub(crate) fn copy_written(
        &mut self,
        ticket: Ticket,
        outcome: &Result<Lsn, LogFailure>,
    ) -> bool {
        let Some(write) = self.objects.durable.copy_ends(ticket) else { return false };
        let CopyWrite { id, serial, record, birth } = write;
        // The record is still this object's: what is being written is never freed.
        self.objects.records.get_mut(record).flags &= !SPILLING;
        let is_shown = self.objects.find(&id).is_some_and(|entry| entry.serial == serial);
        let is_withheld = self.seat.withheld(&id).is_some_and(|it| it.record == record);
        let is_here = is_shown || is_withheld;
        match outcome {
            Ok(lsn) if is_here => {
                self.objects.durable.insert(serial, LogRecord { id, lsn: *lsn });
                // It comes back from the log alone.
                self.objects.drop_file(serial, &mut self.out);
                self.keep_logged(record);
                self.recount(&id);
                self.call(Call::Logged { id, birth });
            }
            // It ended meanwhile, which is said when that is in the log, too.
            Ok(lsn) => self.objects.unlog(id, *lsn, &mut self.out),
            Err(failure) => {
                self.note_log_failure(failure);
                if is_here {
                    let is_full = failure.code == Code::StoreFull;
                    self.call(Call::NotLogged { id, birth, is_full });
                }
            }
        }
        if is_shown && outcome.is_err() {
            self.objects.enlist(record);
        }
        if !is_here {
            self.objects.deferred_frees.look_again(serial);
            self.collect_fresh();
            self.tell_ends(&id);
        }
        self.retry_waiting_for_room();
        true
    }

    /// A copy in memory is in the log: it is not evicted, and leaves the memory without a write.
    pub(crate) fn keep_logged(&mut self, record: u32) {
        self.objects.extras_mut(record).pool_policy = Some(Policy::Keep);
        let flag = self.list_flag(Policy::Keep, true);
        self.objects.records.unlist(record);
        let found = self.objects.records.get_mut(record);
        found.flags = found.flags & !(CACHE | LOGGED) | flag;
        if !found.is(HIDDEN) && !found.is(SPILLING) {
            self.objects.enlist(record);
        }
    }

    /// The agent lets a copy be evicted: it leaves the log. Of one that is nowhere else nothing is
    /// left.
    pub(super) fn release_logged(&mut self, id: &ObjectId, birth: Birth) {
        match self.copy(id, birth) {
            Some(Place::Visible(Entry { record, .. }) | Place::Withheld(record)) => {
                let serial = self.objects.entry(record).serial;
                if !self.objects.durable.has(serial) {
                    return;
                }
                self.objects.drop_record(serial, &mut self.out);
                self.objects.records.unlist(record);
                self.objects.records.get_mut(record).flags &= !LOGGED;
                if !self.objects.records.get(record).is(HIDDEN) {
                    self.objects.enlist(record);
                }
            }
            Some(Place::Tier) => {
                let backing = self.objects.tier.get(id).map(|it| it.backing);
                if matches!(backing, Some(Backing::Log(_))) {
                    self.drop_spilled(id, ObjectState::Evicted);
                }
            }
            None => {}
        }
    }

    /// A copy that the log alone has is published.
    pub(super) fn publish_unpublished(&mut self, id: &ObjectId) {
        let Some(spilled) = self.objects.tier.get_mut(id).filter(|it| it.unpublished) else {
            return;
        };
        spilled.unpublished = false;
        let bytes = spilled.extras.counted_bytes(&spilled.meta);
        if let Some(name) = spilled.extras.attributes.name.clone() {
            self.sessions.adoptions.add_object(&name, *id, bytes);
        }
        if self.sessions.waits.is_waited_for(id) && self.is_vouched(id) {
            self.start_restore(id);
        }
    }

    /// Says that copies of this id have ended, once nothing of them is in the log or comes there.
    pub(crate) fn tell_ends(&mut self, id: &ObjectId) {
        for birth in self.objects.durable.take_ends(id) {
            if let Some(agent) = self.seat.agent {
                self.out.push(Effect::Call(agent, Call::Ended { id: *id, birth }));
            }
        }
    }

    /// The log was opened after the agent was told what is here: these are in it.
    pub(crate) fn tell_adopted(&mut self, ids: &[ObjectId]) {
        for id in ids {
            let (meta, extras, visible) = if let Some(entry) = self.objects.find(id) {
                (entry.meta, self.objects.extras_of(entry.record), true)
            } else if let Some(withheld) = self.seat.withheld(id) {
                let meta = self.objects.entry(withheld.record).meta;
                (meta, self.objects.extras_of(withheld.record), false)
            } else if let Some(spilled) = self.objects.tier.get(id) {
                (spilled.meta, Some(&spilled.extras), !spilled.unpublished)
            } else {
                continue;
            };
            let pool = extras.and_then(|extras| extras.attributes.pool);
            let Some(birth) = self.birth(id, pool) else { continue };
            let content = content_of(&meta, extras, birth);
            let (kept, logged) = (true, true);
            self.call(Call::Has { id: *id, birth, content, visible, kept, logged });
        }
    }
}
