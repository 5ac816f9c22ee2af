//! What the store wants of the log of durable objects.

use std::sync::Arc;

use plasmon_proto::Code;
use plasmon_proto::ObjectId;
use plasmon_proto::extent::Range;
use plasmon_proto::message::Failure;
use plasmon_proto::ring::Put;
use plasmon_proto::status::LogFigures;
use plasmon_spill::FileMeta;
use plasmon_store::effect::{NoteOrder, SpillOrder};
use plasmon_store::event::{LogFailure, LoggedObject, Lsn, ReadBack, RecordCheck};
use plasmon_store::{ClientNo, Effect, Event, Ticket};

use super::Core;
use super::durable_log::report_ended;
use super::requests::no_index;
use super::submissions::range_is_aligned;
use crate::workers::{LogCheck, LogJob, LogPut, RecordEnd};

impl Core {
    /// Puts an object that lies in the client's leases; its attributes lie there by now.
    pub(super) fn put_durable(
        &mut self,
        client: ClientNo,
        number: u64,
        put: Put,
        target: ObjectId,
    ) {
        let range = put.range();
        let is_placed = range.is_none_or(|range| {
            range_is_aligned(&range) && range.offset.checked_add(range.bytes).is_some()
        });
        if !is_placed {
            return self.expel(client, 0, "it put an object that no extent can hold");
        }
        if range.is_some_and(|range| !self.is_protected(client, &range)) {
            return;
        }
        let attributes = match self.store.directory().index.has_room() {
            true => {
                let found = self.extents.attributes(put.placement, &put.sizes);
                found.ok_or_else(|| {
                    let detail = "no attributes lie after its metadata";
                    Failure::of(Code::BadRequest).with_detail(detail)
                })
            }
            false => Err(no_index(target)),
        };
        self.apply_event(Event::PutDurable(client, number, put, target, attributes));
    }

    /// The worker of the log said how it is; one that has failed in an idle moment shows it here.
    pub(super) fn log_said(&mut self, figures: LogFigures) {
        let fault = figures.fault.clone();
        self.log.figures = figures;
        if !fault.is_empty() {
            self.apply_event(Event::LogFailed(fault));
        }
    }

    /// An effect on the log.
    pub(super) fn apply_log_effect(&mut self, effect: Effect) {
        match effect {
            Effect::Log(ticket, order) => self.write_log(ticket, order, None),
            Effect::Relog(ticket, lsn, order) => self.write_log(ticket, order, Some(lsn)),
            Effect::CheckLog(ticket, id, lsn, bytes) => self.check_log(ticket, (id, lsn), bytes),
            Effect::Note(ticket, order) => self.note_in_log(ticket, order),
            Effect::Unlog(ticket, id, lsn) => self.unlog(ticket, id, lsn),
            Effect::ReadLog(ticket, id, lsn, range) => self.read_log(ticket, (id, lsn), range),
            other => tracing::error!(?other, "an effect is not one on the log"),
        }
    }

    /// Writes an object; in place of this damaged record, if there is one.
    fn write_log(&mut self, ticket: Ticket, order: SpillOrder, damaged: Option<Lsn>) {
        let job = self.extents.get(order.range.extent).map(|memfd| {
            let object = FileMeta::new(order.id, order.serial, order.meta, order.attributes);
            let content = Some((Arc::clone(memfd), order.range.offset));
            LogJob::Put(LogPut { ticket, content, object: Box::new(object), damaged })
        });
        if !job.is_some_and(|job| self.give_log_job(job)) {
            self.apply_event(Event::Logged(ticket, Err(not_written())));
        }
    }

    fn note_in_log(&mut self, ticket: Ticket, order: NoteOrder) {
        let NoteOrder { id, meta, attributes } = order;
        let object = Box::new(FileMeta::new(id, 0, meta, attributes));
        if !self.give_log_job(LogJob::Put(LogPut { ticket, content: None, object, damaged: None }))
        {
            self.apply_event(Event::Logged(ticket, Err(not_written())));
        }
    }

    fn unlog(&mut self, ticket: Ticket, id: ObjectId, lsn: Lsn) {
        if !self.give_log_job(LogJob::Dead(RecordEnd { ticket, id, lsn })) {
            self.apply_event(Event::Unlogged(ticket, Err(not_written())));
        }
    }

    fn read_log(&mut self, ticket: Ticket, (id, lsn): (ObjectId, Lsn), range: Range) {
        let given = self
            .restore_target(range.extent)
            .and_then(|into| self.workers.log(LogJob::Read { ticket, into, range, id, lsn }));
        if let Err(error) = given {
            tracing::error!(%id, %error, "a durable object cannot be read back");
            self.apply_event(Event::Restored(ticket, ReadBack::Failed));
        }
    }

    fn check_log(&mut self, ticket: Ticket, (id, lsn): (ObjectId, Lsn), bytes: u64) {
        if !self.give_log_job(LogJob::Check(LogCheck::new(ticket, (id, lsn), bytes))) {
            self.apply_event(Event::LogChecked(ticket, RecordCheck::Failed));
        }
    }

    fn give_log_job(&mut self, job: LogJob) -> bool {
        let given = self.workers.log(job);
        if let Err(error) = &given {
            tracing::error!(%error, "the log worker does not accept a job");
        }
        given.is_ok()
    }

    /// The log of a store that was taken over can be used: it could not be before.
    pub(super) fn log_opened(&mut self, found: Vec<LoggedObject>) {
        let mut effects = Vec::new();
        let ended = self.store.adopt_log(self.now_ms, found, &mut effects);
        report_ended(&ended);
        effects.into_iter().for_each(|effect| self.apply_effect(effect));
    }
}

fn not_written() -> LogFailure {
    LogFailure { code: Code::Io, detail: "the log of durable objects has ended".to_owned() }
}
