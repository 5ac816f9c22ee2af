//! What a store finds in its log: at its start, or when a daemon has taken it over.
//!
//! | in the log, and in memory under the same id | |
//! |---|---|
//! | nothing | the object is in the log alone |
//! | the same object | its record is known again |
//! | another durable object | the daemon ended between the log and the index: the log's counts |
//! | an object under construction | the log's counts |
//! | an object that is not durable, or one that was deleted here since | the record ends |

use plasmon_proto::{ObjectId, ObjectState};

use super::seals::is_same;
use super::{LogRecord, LogState};
use crate::effect::Effect;
use crate::event::{LoggedObject, RecoveredObject};
use crate::extras::Holds;
use crate::ports::{Directory, Entry};
use crate::store::Store;

impl<D: Directory> Store<D> {
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
        for object in found {
            let (id, lsn) = (object.id, object.lsn);
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
        std::mem::swap(&mut self.out, effects);
        ended
    }

    fn out_of_memory(&mut self, object: LoggedObject) -> RecoveredObject {
        let LoggedObject { id, lsn, meta, mut attributes } = object;
        attributes.durable = true;
        let serial = self.serial();
        let (range, hidden, slot, record) = (None, false, 0, 0);
        let lsn = Some(lsn);
        RecoveredObject { id, serial, range, meta, attributes, hidden, slot, record, lsn }
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
