//! Applying what is in the rings.

use plasmon_proto::Code;
use plasmon_proto::extent::{Placement, Range};
use plasmon_proto::limits::SUBMISSIONS;
use plasmon_proto::object::Level;
use plasmon_proto::ring::{Completion, Record, Submission};
use plasmon_shm::edge::{self, Mutation, Point};
use plasmon_store::{ClientNo, Effect, Event};

use super::{BATCH, RECORDS_PER_TURN, WAKE_EVERY, is_aligned};
use crate::core::Core;
use crate::rings::Work;
use crate::sessions::SessionNo;

impl Core {
    /// Applies some of what is in the rings. A pass that is over is followed by another one with
    /// the next turn.
    pub(in crate::core) fn drain_rings(&mut self) {
        if !self.passes.is_under_way() {
            self.begin_pass();
        }
        let mut left = RECORDS_PER_TURN;
        while left > 0
            && let Some(mut ring) = self.passes.work.pop_front()
        {
            let count = self.drain_some(&mut ring, left);
            left = left.saturating_sub(count.max(1));
            if ring.left > 0 {
                // Others have their turn before it.
                self.passes.work.push_back(ring);
            }
        }
        if self.passes.work.is_empty() {
            self.passes.done = self.passes.begun;
        }
    }

    fn begin_pass(&mut self) {
        if std::mem::take(&mut self.passes.rang) {
            self.rings.awaken_rung(&mut self.store.directory_mut().sessions);
        }
        self.passes.begun += 1;
        self.rings.collect_work(&self.store.directory().sessions, &mut self.passes.work);
        if !self.passes.work.is_empty() {
            self.spinning.worked(edge::now());
        }
    }

    /// Applies what is in one ring now: at most as many records as it has, so that a client that
    /// never stops writing does not keep the others waiting.
    pub(in crate::core) fn drain_ring(&mut self, session: SessionNo, client: ClientNo) {
        let mut ring = Work { session, client, left: SUBMISSIONS, applied: 0 };
        self.drain_some(&mut ring, SUBMISSIONS);
    }

    /// Applies up to this many records of a ring; returns how many.
    fn drain_some(&mut self, ring: &mut Work, most: usize) -> usize {
        let (session, client) = (ring.session, ring.client);
        let before = ring.applied;
        while ring.left > 0 && ring.applied - before < most {
            self.now_ms = self.clock.now_ms();
            let wanted = BATCH.min(ring.left);
            let count = self.drain_batch(session, client, wanted);
            ring.applied += count;
            ring.left = if count < wanted { 0 } else { ring.left - count };
            // Refusals are in the completion ring by now, so who sees the head sees them.
            self.shared().sessions.advance(session);
            // Early enough that a client that waits for room writes while the rest is applied, and
            // not so often that it is woken for every batch.
            if ring.left == 0 || ring.applied.is_multiple_of(WAKE_EVERY) {
                // On one core the thread that is woken first runs first. Those who waited for the
                // sealed object have waited longer than the client that waits for its record.
                self.flush_all();
                if let Err(error) = self.shared().sessions.wake(session) {
                    tracing::warn!(?client, %error, "a client cannot be woken");
                }
            }
        }
        ring.applied - before
    }

    /// Applies the next records of a ring; returns how many. Less than wanted means that there are
    /// no more, or that nothing more of this client is to be applied.
    fn drain_batch(&mut self, session: SessionNo, client: ClientNo, wanted: usize) -> usize {
        let mut records = std::mem::take(&mut self.reads.records);
        records.clear();
        let mut drained = self.shared().sessions.drain(session, wanted, &mut records);
        self.prefetch(&records);
        if edge::is_broken(Mutation::AckBeforePublish) {
            self.shared().sessions.advance(session);
        }
        for (position, record) in &records {
            edge::pause(Point::Effect);
            let misunderstood = match Submission::decode(record) {
                Ok(submission) if is_aligned(&submission) => {
                    self.apply(session, client, *position, submission);
                    None
                }
                Ok(_) => Some("a ring record whose range starts between two units".to_owned()),
                Err(error) => Some(error.to_string()),
            };
            if let Some(why) = misunderstood {
                self.abandon_ring(client, &why);
                drained = Ok(0);
                break;
            }
            if self.is_dismissed(client) || !self.peers.is_known(client) {
                // It was expelled for what it submitted; the rest means nothing.
                drained = Ok(0);
                break;
            }
        }
        self.reads.records = records;
        edge::pause(Point::Effect);
        drained.unwrap_or_else(|error| {
            self.abandon_ring(client, &error.to_string());
            0
        })
    }

    /// The slots of a batch are fetched side by side: one after the other, each would cost the
    /// time of a trip to memory.
    fn prefetch(&self, records: &[(u64, Record)]) {
        for (_, record) in records {
            // A record without an id fetches some slot in vain.
            self.store.directory().index.prefetch(&Submission::id_in(record));
        }
    }

    /// Applies a record. The daemon after one that dies applies again what the head does not say is
    /// applied. To put what is there already changes nothing; a delete would end what the same
    /// client put under the same id afterwards. So only puts are said to be applied together.
    fn apply(
        &mut self,
        session: SessionNo,
        client: ClientNo,
        position: u64,
        submission: Submission,
    ) {
        let is_put = matches!(submission, Submission::Put(_) | Submission::Announce { .. });
        if is_put {
            return self.submit(client, position, submission);
        }
        self.shared().sessions.advance_to(session, position);
        self.submit(client, position, submission);
        edge::pause(Point::Effect);
        self.shared().sessions.advance_to(session, position.wrapping_add(1));
    }

    fn submit(&mut self, client: ClientNo, position: u64, submission: Submission) {
        let attributes = match &submission {
            Submission::Put(put) if !self.store.directory().index.has_room() => {
                let refused =
                    Completion::Refused { position, code: Code::LimitReached, id: put.id };
                self.shared().sessions.complete(client, &refused);
                return;
            }
            Submission::Put(put) if !self.may_publish(client, put.placement) => return,
            Submission::Put(put) => self.extents.attributes(put.placement, &put.sizes),
            Submission::LeaseWanted { .. } => {
                // It may have to make room, and should know what is in use.
                self.collect_touches(Some(client));
                None
            }
            Submission::Delete { .. } | Submission::Abort { .. } if self.is_of_before(client) => {
                return self.end_again(client, position, submission);
            }
            _ => None,
        };
        self.apply_event(Event::Submit(client, position, submission, attributes));
    }

    /// Whether an object may be published there as far as the kernel's protection goes.
    fn may_publish(&mut self, client: ClientNo, placement: Placement) -> bool {
        let Placement { extent, offset } = placement;
        self.config.level != Level::Leased
            || self.is_protected(client, &Range { extent, offset, bytes: 0 })
    }

    /// Whether the client had its last connection to the daemon before this one: it has no
    /// doorbell.
    fn is_of_before(&self, client: ClientNo) -> bool {
        let sessions = &self.store.directory().sessions;
        self.peers.is_expected(client)
            && sessions
                .of_client(client)
                .and_then(|no| sessions.get(no))
                .is_some_and(|session| session.doorbell.is_none())
    }

    /// Ends an object for a client that is expected back. If it is gone already, the daemon before
    /// this one had applied the record and died before it could say so: that is no refusal. Nor is
    /// one of an abort, which that daemon may have told already: the client took it, and would take
    /// another one for that of a put.
    fn end_again(&mut self, client: ClientNo, position: u64, submission: Submission) {
        let is_abort = matches!(submission, Submission::Abort { .. });
        let mut effects = Vec::new();
        let event = Event::Submit(client, position, submission, None);
        self.store.step(self.now_ms, event, &mut effects);
        for effect in effects {
            let was_reported = matches!(
                effect,
                Effect::Complete(_, Completion::Refused { code, .. })
                    if is_abort || code == Code::Absent
            );
            if !was_reported {
                self.apply_effect(effect);
            }
        }
    }

    /// Ends a client whose ring cannot be understood. The ring is not looked at again.
    fn abandon_ring(&mut self, client: ClientNo, why: &str) {
        let sessions = &mut self.shared().sessions;
        if let Some(session) = sessions.of_client(client).and_then(|no| sessions.get_mut(no))
            && !session.is_deaf
        {
            session.is_deaf = true;
            self.expel(client, 0, why);
        }
    }

    /// Tells the store what clients read lately: all, or this one and others in turn, so that a
    /// request costs the same however many clients there are.
    pub(in crate::core) fn collect_touches(&mut self, of: Option<ClientNo>) {
        let mut touched = std::mem::take(&mut self.reads.touched);
        touched.clear();
        match of {
            Some(client) => self.shared().sessions.some_touches(client, &mut touched),
            None => {
                self.reads.touched_ms = self.now_ms;
                self.shared().sessions.touches(&mut touched);
            }
        }
        touched.drain(..).for_each(|record| self.apply_event(Event::Touched(record)));
        self.reads.touched = touched;
    }
}
