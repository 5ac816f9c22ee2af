//! What clients submit through their rings, and what they read lately.

use plasmon_proto::Code;
use plasmon_proto::limits::{OBJECT_ALIGN, SUBMISSIONS};
use plasmon_proto::message::{ExtentId, Range};
use plasmon_proto::object::Level;
use plasmon_proto::ring::{Completion, Record, Submission};
use plasmon_shm::edge::{self, Mutation, Point};
use plasmon_store::{ClientNo, Effect, Event};

use super::Core;
use crate::sessions::SessionNo;

/// Records that are applied together: so few that they and the slots of their objects are still in
/// the nearest cache when their turn comes, and enough to fetch those slots side by side.
const BATCH: usize = 64;

/// After how many records a client that waits for room is woken: when there is as much as it waits
/// for.
const WAKE_EVERY: usize = SUBMISSIONS / 2;

const _: () = assert!(WAKE_EVERY.is_multiple_of(BATCH), "batches end where a client is woken");

impl Core {
    /// Applies everything that anybody has submitted by now.
    pub(super) fn drain_all_rings(&mut self) {
        self.rings.hear(&mut self.store.directory_mut().sessions);
        self.drain_rings();
    }

    /// Applies everything that is now in the rings which the daemon looks at by itself.
    pub(super) fn drain_rings(&mut self) {
        let mut work = std::mem::take(&mut self.ring_work);
        self.rings.collect_work(&self.store.directory().sessions, &mut work);
        if !work.is_empty() {
            self.spinning.worked(edge::now());
        }
        for (session, client) in work.drain(..) {
            self.drain_ring(session, client);
        }
        self.ring_work = work;
    }

    /// Applies what is in one ring now: at most as many records as it has, so that a client that
    /// never stops writing does not keep the others waiting.
    pub(super) fn drain_ring(&mut self, session: SessionNo, client: ClientNo) {
        let mut applied = 0;
        while applied < SUBMISSIONS {
            self.now_ms = self.clock.now_ms();
            let count = self.drain_batch(session, client);
            applied += count;
            // Refusals are in the completion ring by now, so who sees the head sees them.
            self.shared().sessions.advance(session);
            // Early enough that a client that waits for room writes while the rest is applied, and
            // not so often that it is woken for every batch.
            let is_last = count < BATCH;
            if is_last || applied % WAKE_EVERY == 0 {
                // On one core whoever is woken first runs first. Those who waited for what was
                // sealed have waited longer than the client that waits for its record.
                self.flush_all();
                if let Err(error) = self.shared().sessions.wake(session) {
                    tracing::warn!(?client, %error, "a client cannot be woken");
                }
            }
            if is_last {
                break;
            }
        }
    }

    /// Applies the next records of a ring; how many. Less than a whole batch means that there are
    /// no more, or that nothing more of this client is to be applied.
    fn drain_batch(&mut self, session: SessionNo, client: ClientNo) -> usize {
        let mut records = std::mem::take(&mut self.records);
        records.clear();
        let mut drained = self.shared().sessions.drain(session, BATCH, &mut records);
        self.prefetch(&records);
        if edge::is_broken(Mutation::AckBeforePublish) {
            self.shared().sessions.advance(session);
        }
        for (position, record) in &records {
            edge::pause(Point::Effect);
            let misunderstood = match Submission::decode(record) {
                Ok(submission) if is_aligned(&submission) => {
                    self.submit(client, *position, submission);
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
        self.records = records;
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

    fn submit(&mut self, client: ClientNo, position: u64, submission: Submission) {
        let attributes = match &submission {
            Submission::Put { id, .. } if !self.store.directory().index.has_room() => {
                let refused = Completion::Refused { position, code: Code::LimitReached, id: *id };
                self.shared().sessions.complete(client, &refused);
                return;
            }
            Submission::Put { extent, offset, .. }
                if !self.may_publish(client, *extent, *offset) =>
            {
                return;
            }
            Submission::Put { extent, offset, sizes, .. } => {
                self.extents.attributes(*extent, *offset, sizes)
            }
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
        self.feed(Event::Submit(client, position, submission, attributes));
    }

    /// Whether an object may be published there as far as the kernel's protection goes.
    fn may_publish(&mut self, client: ClientNo, extent: ExtentId, offset: u64) -> bool {
        self.config.level != Level::Leased
            || self.is_protected(client, &Range { extent, offset, bytes: 0 })
    }

    /// Whether the client had its last connection to the daemon before this one: it has no bell.
    fn is_of_before(&self, client: ClientNo) -> bool {
        let sessions = &self.store.directory().sessions;
        self.peers.is_expected(client)
            && sessions
                .of_client(client)
                .and_then(|no| sessions.get(no))
                .is_some_and(|session| session.doorbell.is_none())
    }

    /// Ends an object for a client that is expected back. If it is gone already, the daemon before
    /// this one had applied the record and died before it could say so: that is no refusal.
    fn end_again(&mut self, client: ClientNo, position: u64, submission: Submission) {
        let mut effects = Vec::new();
        let event = Event::Submit(client, position, submission, None);
        self.store.step(self.now_ms, event, &mut effects);
        for effect in effects {
            let is_gone = matches!(
                effect,
                Effect::Complete(_, Completion::Refused { code: Code::Absent, .. })
            );
            if !is_gone {
                self.carry_out(effect);
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
    pub(super) fn collect_touches(&mut self, of: Option<ClientNo>) {
        let mut touched = std::mem::take(&mut self.touched);
        touched.clear();
        match of {
            Some(client) => self.shared().sessions.some_touches(client, &mut touched),
            None => {
                self.touched_ms = self.now_ms;
                self.shared().sessions.touches(&mut touched);
            }
        }
        touched.drain(..).for_each(|record| self.feed(Event::Touched(record)));
        self.touched = touched;
    }
}

/// Whether the ranges of a record are made of whole units, as every range is that the store gave
/// out.
fn is_aligned(submission: &Submission) -> bool {
    match submission {
        Submission::Put { offset, .. } => offset.is_multiple_of(OBJECT_ALIGN),
        Submission::LeaseReturn(range) => range_is_aligned(range),
        Submission::Announce { .. }
        | Submission::Abort { .. }
        | Submission::Delete { .. }
        | Submission::LeaseWanted { .. } => true,
    }
}

/// Whether a range is made of whole units.
pub(super) fn range_is_aligned(range: &Range) -> bool {
    range.offset.is_multiple_of(OBJECT_ALIGN) && range.bytes.is_multiple_of(OBJECT_ALIGN)
}
