//! Records of the log that were found damaged, and what is done about each.
//!
//! ```text
//!   LogDamaged --> in memory --(Relog)--> written again, if the memory is what was logged
//!        |                         `--> it is not: a copy of the pool is said to be damaged
//!        +--> in the log alone --(ReadLog)--> it can be read still: in memory, Relog
//!                                       `--> corrupt: it stays, and is said to be damaged
//! ```
//!
//! Nothing ends here: an object of which the log has nothing right is there, as corrupt, until it
//! is deleted or the pool has another copy of it.

use plasmon_proto::{Code, ObjectId};

use super::{LogRecord, Rewrite};
use crate::effect::{Effect, SpillOrder};
use crate::event::{LogFailure, Lsn, Ticket};
use crate::ports::{Directory, Entry};
use crate::records::{HIDDEN, SPILLING};
use crate::spill::Backing;
use crate::store::Store;

impl<D: Directory> Store<D> {
    /// The record of an object in the log was found damaged.
    pub(crate) fn log_damaged(&mut self, id: &ObjectId, lsn: Lsn) {
        if let Some(spilled) = self.objects.tier.get(id) {
            if spilled.backing == Backing::Log(lsn) && !spilled.corrupt {
                if self.objects.durable.suspects.insert(lsn) {
                    self.objects.durable.damaged_total += 1;
                }
                // Whether it can be read is known then.
                self.start_restore(id);
            }
            return;
        }
        let shown = self.objects.find(id).map(|entry| entry.record);
        let record = shown.or_else(|| self.seat.withheld(id).map(|withheld| withheld.record));
        let Some(record) = record else { return };
        let serial = self.objects.entry(record).serial;
        if self.objects.durable.record_of(serial) == Some(LogRecord { id: *id, lsn }) {
            self.objects.durable.damaged_total += 1;
            self.relog(record);
        }
    }

    /// An object came back from a record that was said to be damaged, and could be read.
    pub(crate) fn relog_suspect(&mut self, lsn: Lsn, record: u32) {
        if self.objects.durable.forget_suspect(lsn) {
            self.relog(record);
        }
    }

    /// Has an object in memory written to the log once more. What is being written, or is about to
    /// be replaced, is looked at when its record is found damaged again.
    fn relog(&mut self, record: u32) {
        let Entry { id, serial, range, meta, .. } = self.objects.entry(record);
        let durable = &self.objects.durable;
        let Some(LogRecord { lsn, .. }) = durable.record_of(serial) else { return };
        let is_busy = self.objects.records.get(record).is(SPILLING) || durable.is_replacing(&id);
        if is_busy || !durable.is_open() {
            return;
        }
        let extras = self.objects.extras_of(record).cloned().unwrap_or_default();
        let (meta, extras) = self.as_logged(&id, meta, extras);
        self.objects.records.unlist(record);
        self.objects.records.get_mut(record).flags |= SPILLING;
        let order = SpillOrder { id, serial, range, meta, attributes: extras.attributes };
        let ticket = self.objects.durable.ticket();
        self.objects.durable.rewriting.insert(ticket, Rewrite { id, serial, record });
        self.out.push(Effect::Relog(ticket, lsn, order));
    }

    /// An object was written once more, or could not be. False: this is about another write.
    pub(super) fn rewritten(&mut self, ticket: Ticket, outcome: &Result<Lsn, LogFailure>) -> bool {
        let Some(rewrite) = self.objects.durable.rewriting.remove(&ticket) else { return false };
        let Rewrite { id, serial, record } = rewrite;
        // The record is still this object's: what is being written is never freed.
        self.objects.records.get_mut(record).flags &= !SPILLING;
        let is_shown = self.objects.find(&id).is_some_and(|entry| entry.serial == serial);
        let is_here =
            is_shown || self.seat.withheld(&id).is_some_and(|withheld| withheld.record == record);
        match outcome {
            Ok(lsn) if is_here => {
                self.objects.durable.insert(serial, LogRecord { id, lsn: *lsn });
                self.objects.durable.repaired_total += 1;
            }
            // It ended meanwhile.
            Ok(lsn) => self.objects.unlog(id, *lsn, &mut self.out),
            Err(failure) => {
                self.note_log_failure(failure);
                if is_here && failure.code == Code::BadRequest {
                    self.call_damaged(&id);
                }
            }
        }
        if is_here && !self.objects.records.get(record).is(HIDDEN) {
            self.objects.enlist(record);
        }
        if !is_here {
            self.objects.deferred_frees.look_again(serial);
            self.collect_fresh();
        }
        self.retry_waiting_for_room();
        true
    }
}
