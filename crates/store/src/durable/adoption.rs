//! What a store finds in its log: at its start, or when a daemon has taken it over.
//!
//! | in the log, and in memory under the same id | |
//! |---|---|
//! | nothing | the object is in the log alone |
//! | the same object | its record is known again |
//! | another durable object | the daemon ended between the log and the index: the log's counts |
//! | an object under construction | the log's counts |
//! | an object that is not durable, or one that was deleted here since | the record ends |
//!
//! Of an object of a pool the log has a copy. In memory it may be withheld, and another incarnation
//! in memory is the newer one; whether one that the log alone has exists still, the pool says.

use plasmon_proto::object::{ObjectMeta, PoolAttributes, Sizes};
use plasmon_proto::{ObjectId, ObjectState};

use super::seals::is_same;
use super::tombstones::tombstone_of;
use super::{LogRecord, LogState};
use crate::effect::Effect;
use crate::event::{LoggedObject, RecoveredObject};
use crate::extras::Holds;
use crate::ports::{Directory, Entry};
use crate::store::Store;

impl<D: Directory> Store<D> {
    /// Whether the store has a log that is not open yet: what is in it is not known.
    pub fn awaits_log(&self) -> bool {
        self.config.durable && self.objects.durable.state == LogState::Closed
    }

    /// Takes over what the log has, once, after [`Self::recover`] where there is an earlier daemon.
    /// Durable objects can be put and deleted from now on. Returns ids of which another object is
    /// here, so that their records end.
    pub fn adopt_log(
        &mut self,
        now_ms: u64,
        mut found: Vec<LoggedObject>,
        effects: &mut Vec<Effect>,
    ) -> Vec<ObjectId> {
        std::mem::swap(&mut self.out, effects);
        self.now_ms = now_ms.max(self.now_ms);
        self.objects.durable.state = LogState::Open;
        found.sort_unstable_by_key(|object| object.lsn);
        let (mut alone, mut ended) = (Vec::new(), Vec::new());
        let mut copies = Vec::new();
        for object in found {
            let (id, lsn) = (object.id, object.lsn);
            if let Some(tombstone) = tombstone_of(&id, &object.attributes) {
                self.adopt_tombstone(tombstone, lsn);
                continue;
            }
            if id.is_pooled() {
                copies.push(id);
                alone.extend(self.adopt_copy(object));
                continue;
            }
            match self.objects.find(&id) {
                Some(entry) if !self.objects.is_durable(entry.record) => {
                    ended.push(id);
                    self.objects.unlog(id, lsn, &mut self.out);
                }
                Some(entry) if is_same(&entry.meta, &object.meta) => {
                    self.objects.durable.insert(entry.serial, LogRecord { id, lsn });
                }
                Some(entry) => {
                    self.give_way(&entry);
                    alone.push(self.out_of_memory(object));
                }
                None if self.objects.tier.get(&id).is_some() => {
                    ended.push(id);
                    self.objects.unlog(id, lsn, &mut self.out);
                }
                None if self.objects.state(&id) == ObjectState::Deleted => {
                    self.objects.unlog(id, lsn, &mut self.out);
                }
                None => {
                    if self.objects.pending_objects.get(&id).is_some() {
                        self.give_up(&id);
                    }
                    alone.push(self.out_of_memory(object));
                }
            }
        }
        self.take_in(alone);
        self.tell_adopted(&copies);
        std::mem::swap(&mut self.out, effects);
        ended
    }

    fn out_of_memory(&mut self, object: LoggedObject) -> RecoveredObject {
        let LoggedObject { id, lsn, meta, mut attributes } = object;
        attributes.durable = !id.is_pooled();
        let spilled = RecoveredObject::spilled(id, self.serial(), meta, attributes);
        RecoveredObject { lsn: Some(lsn), ..spilled }
    }

    /// Takes over a copy of an object of the pool; what is made of it if the log alone has it.
    fn adopt_copy(&mut self, object: LoggedObject) -> Option<RecoveredObject> {
        let (id, lsn) = (object.id, object.lsn);
        let found = self.objects.find(&id).map(|entry| entry.record);
        let record = found.or_else(|| self.seat.withheld(&id).map(|withheld| withheld.record));
        if let Some(record) = record {
            let entry = self.objects.entry(record);
            let serial = |pool: Option<PoolAttributes>| pool.map_or(0, |pool| pool.serial);
            let is_birth = serial(self.pool_attributes(record)) == serial(object.attributes.pool);
            // The attributes of what was made here are shorter in memory.
            let attributes = object.meta.sizes.attributes;
            let sizes = Sizes { attributes, ..entry.meta.sizes };
            let meta = ObjectMeta { sizes, ..entry.meta };
            if is_same(&meta, &object.meta) && is_birth {
                self.objects.durable.insert(entry.serial, LogRecord { id, lsn });
                self.keep_logged(record);
            } else {
                self.objects.unlog(id, lsn, &mut self.out);
            }
            return None;
        }
        let is_deleted = self.objects.state(&id) == ObjectState::Deleted;
        if is_deleted || self.objects.tier.get(&id).is_some() {
            self.objects.unlog(id, lsn, &mut self.out);
            return None;
        }
        if self.objects.pending_objects.get(&id).is_some() {
            self.give_up(&id);
        }
        Some(self.out_of_memory(object))
    }

    /// The object in memory was replaced in the log: it ends, and whatever holds it holds the other
    /// one.
    fn give_way(&mut self, entry: &Entry) {
        let extras = self.objects.extras_mut(entry.record);
        let holds = Holds {
            holders: std::mem::take(&mut extras.holders),
            spilled: std::mem::take(&mut extras.holders_spilled),
        };
        if holds.holders > 0 {
            self.objects.absent_members.insert(entry.id, holds);
        }
        self.hide_deleted(vec![*entry]);
        self.objects.recent_ends.forget(&entry.id);
    }
}
