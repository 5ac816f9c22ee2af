//! How requests that wait until the pool has accepted objects are answered.

use std::collections::BTreeMap;

use plasmon_proto::limits::SETTLE_IDS_PER_CLIENT_MAX;
use plasmon_proto::message::{Failure, Reply};
use plasmon_proto::pool::Slot;
use plasmon_proto::{Code, ObjectId, ObjectState};

use super::Reason;
use super::settles::{Outcome, Settle, SettleNo};
use crate::event::ClientNo;
use crate::ports::Directory;
use crate::store::Store;

impl<D: Directory> Store<D> {
    /// A `Settle` request.
    pub(crate) fn await_commits(
        &mut self,
        client: ClientNo,
        request: u64,
        ids: &[ObjectId],
        timeout_ms: Option<u64>,
    ) {
        let Some(asker) = self.sessions.clients.asker(client) else { return };
        let mut outcomes = vec![Some(Code::TimedOut); ids.len()];
        let mut missing = BTreeMap::new();
        for ((at, id), outcome) in ids.iter().enumerate().zip(&mut outcomes) {
            match self.commit_outcome(id) {
                Some(decided) => *outcome = decided,
                None => {
                    self.await_members(id);
                    // A request names fewer ids than that.
                    missing.insert(at as u32, *id);
                }
            }
        }
        if missing.is_empty() || timeout_ms == Some(0) {
            return self.reply(client, request, Reply::Outcomes(outcomes));
        }
        let wanted = self.seat.settles.ids_of(client) + missing.len();
        if wanted > SETTLE_IDS_PER_CLIENT_MAX {
            let failure = Failure::of(Code::LimitReached)
                .with_amounts(wanted as u64, SETTLE_IDS_PER_CLIENT_MAX as u64)
                .with_detail("this client waits for too many objects to be accepted by the pool");
            return self.fail(client, request, failure);
        }
        let deadline_ms = timeout_ms.map(|ms| self.now_ms.saturating_add(ms));
        self.seat.settles.add(Settle { asker, request, outcomes, missing, deadline_ms });
        self.seat.await_agent(self.now_ms);
    }

    /// Whether the pool has accepted an object that was put here. `None` while it has not decided.
    pub(super) fn commit_outcome(&self, id: &ObjectId) -> Option<Outcome> {
        let here = self.seat.here.map(|here| here.slot);
        let is_elsewhere = id.home().is_some_and(|home| here.is_some_and(|it| it != Slot(home)));
        if !id.is_pooled() {
            return Some(Some(Code::BadRequest));
        }
        if let Some(code) = self.seat.settles.refusal_of(id) {
            return Some(Some(code));
        }
        if self.seat.uncommitted.contains(id) || self.is_committing(id) {
            return None;
        }
        let is_here = self.objects.find(id).is_some()
            || self.objects.tier.get(id).is_some()
            || self.seat.withheld(id).is_some_and(|it| it.reason == Reason::Unvouched);
        if is_here {
            return self.outcome_of_members(id);
        }
        if is_elsewhere {
            return Some(Some(Code::BadRequest));
        }
        let creating = self.objects.pending_objects.get(id);
        if creating.is_some_and(|creating| creating.landing.is_none()) {
            return Some(Some(Code::NotSealed));
        }
        let ended = self.objects.recent_ends.state(id).unwrap_or(ObjectState::Absent);
        Some(Some(ended.code().unwrap_or(Code::Absent)))
    }

    /// The pool has refused an object.
    pub(super) fn note_refused(&mut self, id: &ObjectId, code: Code) {
        self.seat.settles.refuse(id, code);
        self.settle_decided(id, Some(code));
    }

    /// An object that was not accepted yet has ended.
    pub(super) fn settle_ended(&mut self, id: &ObjectId) {
        let ended = self.objects.recent_ends.state(id).unwrap_or(ObjectState::Absent);
        self.settle_decided(id, Some(ended.code().unwrap_or(Code::Absent)));
    }

    /// An object was accepted or has ended.
    pub(super) fn settle_decided(&mut self, id: &ObjectId, outcome: Outcome) {
        for no in self.seat.settles.decide(id, outcome) {
            self.answer_settle(no);
        }
        self.member_decided(id);
    }

    /// Answers a request as far as its ids are decided.
    fn answer_settle(&mut self, no: SettleNo) {
        let Some(settle) = self.seat.settles.remove(no) else { return };
        let Settle { asker, request, outcomes, .. } = settle;
        if self.sessions.clients.is_asking(asker) {
            self.reply(asker.client, request, Reply::Outcomes(outcomes));
        }
    }

    /// The client does not wait any longer.
    pub(crate) fn cancel_settle(&mut self, client: ClientNo, request: u64) {
        if let Some(no) = self.seat.settles.find(client, request) {
            self.answer_settle(no);
        }
    }

    /// The time of some requests has passed.
    pub(crate) fn end_settles(&mut self) {
        while let Some(no) = self.seat.settles.overdue(self.now_ms) {
            self.answer_settle(no);
        }
    }

    /// No agent came in time: what waits for its answers ends.
    pub(super) fn end_unanswered_settles(&mut self) {
        for no in self.seat.settles.numbers() {
            self.seat.settles.decide_rest(no, Some(Code::Unreachable));
            self.answer_settle(no);
        }
    }
}
