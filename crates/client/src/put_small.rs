//! Puts of durable objects of which a lease has several: written into leased memory, and put by
//! one request.
//!
//! ```text
//! carve ─ copy ─► PutDurable ─► the daemon's log ─► the answer
//! ```
//!
//! Once it is written, the object counts as one that this client creates: should the connection
//! break before the answer, the daemon keeps its memory, and the request is sent again. With the
//! answer, whatever it says, the memory is the daemon's.

use std::sync::MutexGuard;

use plasmon_proto::extent::Range;
use plasmon_proto::message::{Failure, PendingObject, Reply, Request};
use plasmon_proto::ring::Submission;
use plasmon_proto::{Code, ObjectId};

use crate::acks::Verdict;
use crate::created::fill;
use crate::error::{Error, Result};
use crate::lease::reserve;
use crate::leases::half_lease_bytes;
use crate::payload::{Payload, Plan};
use crate::process::Process;
use crate::put::{COPY_LOCKED_BYTES, PUTTING};
use crate::session::{Session, WriteState};
use crate::submit::submit;
use crate::suspension::await_resumption;

/// Up to this footprint an object is put so in every store, and up to that of which a lease has two
/// (2 MiB, in a store of 256 MiB and more): it lies in memory that this client has mapped and
/// written before. A larger one would use up a lease each.
const SMALL_BYTES_MIN: u64 = 128 << 10;

/// A put that is under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SmallPut {
    /// The id that it is created with.
    id: ObjectId,
    /// The id that it gets.
    target: ObjectId,
    /// Whether the caller chose that.
    is_chosen: bool,
    /// The request.
    number: u64,
}

impl Process {
    /// Whether an object is put by one request, from leased memory.
    pub(crate) fn is_small_durable(&self, session: &Session, plan: &Plan, strict: bool) -> bool {
        let small_bytes = half_lease_bytes(session.welcome.capacity_bytes).max(SMALL_BYTES_MIN);
        plan.durable
            && session.welcome.durable
            && plan.footprint <= small_bytes
            && self.is_leasable(session, plan, strict)
            // Without an id there is nothing to replace, which is an error.
            && (plan.chosen.is_some() || !plan.replace)
            && !plan.needs_id
            && !plan.chosen.is_some_and(|id| id.is_pooled())
    }

    /// Puts such an object; it is in the log when this returns.
    pub(crate) fn put_small(
        &self,
        session: &Session,
        plan: &Plan,
        payload: Payload<'_>,
    ) -> Result<ObjectId> {
        let begun = self.begin_small(session, plan, payload)?;
        self.end_small(session, begun)
    }

    /// Writes such an object and asks for its put; [`Self::end_small`] gives the outcome.
    pub(crate) fn begin_small(
        &self,
        session: &Session,
        plan: &Plan,
        payload: Payload<'_>,
    ) -> Result<SmallPut> {
        let (id, range) = self.write_small(session, plan, payload)?;
        let target = plan.chosen.unwrap_or(id);
        let (sizes, traits, placement) = (plan.sizes, plan.traits, range.placement());
        let request = Request::PutDurable { id, target, placement, sizes, traits };
        let begun = match self.connection.is_current(session) {
            true => self.connection.begin(PUTTING, request),
            false => Err(Error::forgotten(PUTTING, target)),
        };
        match begun {
            Ok(number) => Ok(SmallPut { id, target, is_chosen: plan.chosen.is_some(), number }),
            Err(error) => {
                let mut writing = session.writing();
                // Unless the daemon has said that it is lost.
                if writing.is_creating(&id) {
                    writing.leases.regain(range);
                }
                writing.clear_creating(&id);
                Err(error.about(target))
            }
        }
    }

    /// Copies such an object into leased memory, and counts it as one that this client creates; its
    /// id until it is put, and where it is.
    fn write_small(
        &self,
        session: &Session,
        plan: &Plan,
        payload: Payload<'_>,
    ) -> Result<(ObjectId, Range)> {
        let named = |error| plan.chosen.into_iter().fold(error, Error::about);
        let mut writing = reserve(&self.connection, session, plan.footprint).map_err(named)?;
        writing.verdicts.take_refusals(PUTTING)?;
        let id = match plan.chosen {
            Some(id) if !plan.replace => {
                writing.check_unannounced(PUTTING, &id)?;
                id
            }
            _ => writing.ids.next(),
        };
        let Some((extent, span)) = writing.leases.front() else {
            return Err(Error::unexpected(PUTTING));
        };
        let range = Range { extent, offset: span.offset(), bytes: plan.footprint };
        if plan.footprint <= COPY_LOCKED_BYTES {
            payload.pieces().for_each(|(at, piece)| span.fill(at, &[piece], 1));
            span.skip(plan.footprint as usize);
        } else {
            let part = span.take(plan.footprint as usize);
            // While it is written, its memory is a part of the leases that the daemon knows.
            writing.leases.opened(range);
            drop(writing);
            if let Some(mut part) = part {
                fill(&mut part, payload, self.copy_threads());
            }
            writing = self.close_written(session, range, id)?;
        }
        if writing.is_creating(&id) {
            // Another thread puts an object of this id.
            writing.leases.regain(range);
            return Err(Error::new(Code::Exists, PUTTING).with_id(id));
        }
        let (sizes, traits) = (plan.sizes, plan.traits);
        writing.set_creating(PendingObject { id, sizes, traits, range, strict: false });
        self.ask_ahead(session, writing, plan.footprint);
        Ok((id, range))
    }

    /// The memory of an object that was written without the lock, which is taken again.
    fn close_written<'a>(
        &self,
        session: &'a Session,
        range: Range,
        id: ObjectId,
    ) -> Result<MutexGuard<'a, WriteState>> {
        let writing = session.writing();
        let resumed = match writing.leases.is_suspended() {
            true => await_resumption(&self.connection, session, writing, None),
            false => Ok(writing),
        };
        match resumed {
            Ok(mut writing) => match writing.leases.closed(&range) {
                true => Ok(writing),
                false => Err(Error::forgotten(PUTTING, id)),
            },
            Err(error) => {
                let mut writing = session.writing();
                if writing.leases.closed(&range) {
                    writing.leases.regain(range);
                }
                Err(error)
            }
        }
    }

    /// Asks for the next lease in good time.
    fn ask_ahead<'a>(
        &self,
        session: &'a Session,
        mut writing: MutexGuard<'a, WriteState>,
        footprint: u64,
    ) {
        let Some((bytes_min, bytes_wanted)) = writing.leases.ask_ahead(footprint) else { return };
        let wanted = [Submission::LeaseWanted { bytes_min, bytes_wanted }];
        let asked = submit(&self.connection, session, writing, &wanted, Verdict::Kept);
        if let Err(error) = asked {
            // A later put asks and waits for the answer.
            tracing::debug!(%error, "a lease cannot be asked for ahead");
        }
    }

    /// The outcome of such a put.
    pub(crate) fn end_small(&self, session: &Session, put: SmallPut) -> Result<ObjectId> {
        let answer = self.connection.answer(PUTTING, put.number, true);
        let mut writing = session.writing();
        let is_held = writing.is_creating(&put.id) && self.connection.is_current(session);
        writing.clear_creating(&put.id);
        drop(writing);
        let answer = answer.map_err(|error| error.about(put.target))?;
        match answer.reply {
            Reply::Done => Ok(put.target),
            Reply::Failed(failure) => put.failed(failure, answer.again, is_held),
            _ => Err(Error::unexpected(PUTTING)),
        }
    }
}

impl SmallPut {
    /// What a refusal means. `again`: the request was sent a second time. `is_held`: the object's
    /// memory was this client's until the daemon answered.
    fn failed(self, failure: Failure, again: bool, is_held: bool) -> Result<ObjectId> {
        let Self { id, target, is_chosen, .. } = self;
        match failure.code {
            // Only this client puts an object of this id, so it did the first time.
            Code::Exists if again && !is_chosen => Ok(target),
            // It may have been this client's put; or the object of another one was there before.
            Code::Exists if again && !is_held => Err(Error::perhaps_put(PUTTING, target)),
            Code::Exists => Err(Error::of_failure(PUTTING, failure).about(target)),
            _ if is_held => Err(Error::of_failure(PUTTING, failure).about(target)),
            // It may have replaced the other one the first time.
            _ if again && id != target => Err(Error::perhaps_put(PUTTING, target)),
            _ => Err(Error::forgotten(PUTTING, target)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A daemon that is killed between the log and its answer has done what its client asks again.
    #[test]
    fn a_refusal_of_a_request_that_was_sent_twice_may_be_no_refusal() {
        let (one, other) = (ObjectId::new([1; 20]), ObjectId::new([2; 20]));
        let outcome = |target, is_chosen, code, again, is_held| {
            let put = SmallPut { id: one, target, is_chosen, number: 1 };
            put.failed(Failure::of(code), again, is_held).map_err(|error| error.code())
        };
        let (exists, full, bad) = (Code::Exists, Code::StoreFull, Code::BadRequest);
        let gone = Err(Code::Disconnected);
        let cases = [
            ("an object of its own id", (one, false, exists, true, false), Ok(one)),
            ("one of a chosen id", (one, true, exists, true, false), gone),
            ("a chosen id that was taken", (one, true, exists, false, true), Err(exists)),
            ("and that was reserved again", (one, true, exists, true, true), Err(exists)),
            ("no room", (one, true, full, true, true), Err(full)),
            ("memory that is lost", (one, true, bad, false, false), gone),
            ("and asked for twice", (one, false, bad, true, false), gone),
            ("a replacement", (other, true, bad, true, false), gone),
            ("a replacement that is refused", (other, true, Code::InUse, false, true), {
                Err(Code::InUse)
            }),
        ];
        for (what, (target, is_chosen, code, again, is_held), expected) in cases {
            assert_eq!(outcome(target, is_chosen, code, again, is_held), expected, "{what}");
        }
    }
}
