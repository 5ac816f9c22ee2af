//! The thread that has the lease: it puts the member under it and keeps it alive.
//!
//! ```text
//!  grant ──► member and `joined` in one transaction ──► the newest map, read ──► Event::Map, Lease
//!    ▲                                                                              │
//!    └── the lease is gone ◄── keep-alive, three times in a TTL ◄───────────────────┘
//!                                  not answered until the clock runs out: Event::LeaseLost
//! ```
//!
//! A node with a new lease must not act on a map from before it: others may lead since then. So the
//! map is read after the member is written. The transaction of the leader names the revision of
//! `joined`, so a map that counts this node as gone is either written before that and read here, or
//! is not written at all.

use std::sync::Arc;
use std::time::Duration;

use plasmon_cluster::lease::LeaseClock;
use plasmon_cluster::{Member, NodeLog};
use plasmon_etcd::{Client, Error, LeaseId, Operation};

use super::event::Event;
use super::shared::Shared;
use crate::clock::now_ms;
use crate::identity::Identity;
use plasmon_membership::keys::{Key, Keys, Life};
use plasmon_membership::view::View;

/// Keep-alives in one TTL.
const KEEP_ALIVES_PER_TTL: u64 = 4;

/// The wait after a call that failed.
const PAUSE: Duration = Duration::from_millis(200);

/// What the thread works with.
pub(crate) struct Holder {
    pub(crate) etcd: Client,
    pub(crate) keys: Keys,
    pub(crate) shared: Arc<Shared>,
    pub(crate) identity: Identity,
    pub(crate) member: Member,
    pub(crate) ttl_ms: u64,
}

/// A lease with a member under it.
pub(super) struct Held {
    pub(super) id: LeaseId,
    pub(super) clock: LeaseClock,
}

impl Holder {
    /// Runs until the membership is over. Then it leaves the lease alone, to end by itself, or to
    /// be revoked.
    pub(crate) fn run(mut self) {
        self.revoke_last();
        while !self.shared.is_over() {
            match self.join() {
                Ok(held) => self.keep(held),
                Err(error) => {
                    self.shared.tell(Event::Trouble(format!("joining: {error}")));
                    self.shared.rest(PAUSE);
                }
            }
        }
    }

    /// Ends the lease of the last start of this node, which is not there any more.
    fn revoke_last(&mut self) {
        let Some(lease) = self.identity.last_lease() else { return };
        if let Err(error) = self.etcd.revoke(lease)
            && error != Error::NoLease
        {
            let trouble = format!("ending the lease of the last start: {error}; it ends by itself");
            self.shared.tell(Event::Trouble(trouble));
        }
    }

    pub(super) fn life(&self) -> Life {
        Life { uuid: self.member.uuid, incarnation: self.member.incarnation }
    }

    fn join(&mut self) -> Result<Held, Error> {
        let asked_ms = now_ms();
        let granted = self.etcd.grant(self.ttl_ms.div_ceil(1000))?;
        // A later start must be able to end it before anything is under it.
        if let Err(error) = self.identity.write_lease(granted.id) {
            self.shared.tell(Event::Trouble(error.to_string()));
        }
        let clock = LeaseClock::new(asked_ms, granted.ttl_s.saturating_mul(1000));
        self.look_at_log();
        let member = self.member_under(granted.id);
        let joined = Operation::Put(self.keys.of(Key::Joined), self.life().encode(), None);
        let operations = [member, joined].into_iter().chain(self.report_with(granted.id));
        let operations: Vec<Operation> = operations.collect();
        let revision = self.etcd.transact(&[], &operations)?.revision;
        let newest = self.newest()?;
        self.shared.change(|state| {
            state.lease = Some(granted.id);
            let seen = state.view.as_ref().map_or(0, |view| view.revision);
            state.must_list |= revision < seen;
        });
        self.tell_newest(&newest);
        if let Some(until_ms) = clock.held_until_ms() {
            self.shared.tell(Event::Lease { until_ms });
        }
        Ok(Held { id: granted.id, clock })
    }

    /// The operation that puts the member under a lease.
    fn member_under(&self, lease: LeaseId) -> Operation {
        let value = self.member.encode().unwrap_or_default();
        Operation::Put(self.keys.of(Key::Member(self.life())), value, Some(lease))
    }

    /// Whether the member says that the log has failed.
    pub(super) fn says_that_log_failed(&self) -> bool {
        self.member.log == NodeLog::Failed
    }

    /// Has the member say that the log has failed, once that is known; whether it does so newly.
    fn look_at_log(&mut self) -> bool {
        let has_failed = self.shared.look(|state| state.has_log_failed);
        let is_news = has_failed && !self.says_that_log_failed();
        if is_news {
            self.member.log = NodeLog::Failed;
        }
        is_news
    }

    /// Puts the member under its lease again when the log has failed since; whether that is done.
    fn say_log(&mut self, lease: LeaseId, is_unsaid: bool) -> bool {
        if !self.look_at_log() && !is_unsaid {
            return true;
        }
        let member = self.member_under(lease);
        match self.etcd.transact(&[], &[member]) {
            Ok(_) => true,
            Err(error) => {
                let trouble = format!("saying that the log has failed: {error}; it is tried again");
                self.shared.tell(Event::Trouble(trouble));
                false
            }
        }
    }

    /// What etcd has now.
    fn newest(&mut self) -> Result<View, Error> {
        Ok(View::of(&self.keys, self.etcd.list(self.keys.prefix())?))
    }

    /// The node goes on with what etcd has. The watch says so when the map cannot be read.
    fn tell_newest(&self, newest: &View) {
        self.shared.tell_adoptions(newest);
        if let Some(seen) = &newest.map {
            self.shared.tell_map_again(&seen.map);
        }
    }

    /// Keeps the lease alive until it is gone or all is over.
    fn keep(&mut self, mut held: Held) {
        let pause = Duration::from_millis(self.ttl_ms / KEEP_ALIVES_PER_TTL);
        let mut is_told = true;
        let mut is_log_said = true;
        let mut pending = PAUSE.min(pause);
        while self.rest(pending, held.id) {
            if self.is_fenced(held.id) {
                return self.stop(&held);
            }
            let number = held.clock.send(now_ms());
            match self.etcd.keep_alive(held.id) {
                Ok(ttl_s) => {
                    held.clock.answer(number, ttl_s.saturating_mul(1000));
                    pending = pause;
                }
                Err(error) => {
                    self.shared.tell(Event::Trouble(format!("keeping the lease: {error}")));
                    pending = PAUSE.min(pause);
                }
            }
            is_log_said = self.say_log(held.id, !is_log_said);
            match held.clock.held_until_ms() {
                None => break,
                // From here on nothing is said of the lease.
                Some(_) if self.is_fenced(held.id) => {}
                Some(until_ms) if held.clock.is_held(now_ms()) => {
                    if !is_told {
                        // Nothing was promoted, for the lease was there; the map may be another.
                        let Ok(newest) = self.newest() else { continue };
                        self.tell_newest(&newest);
                    }
                    is_told = true;
                    self.shared.tell(Event::Lease { until_ms });
                }
                Some(_) if is_told => {
                    is_told = false;
                    self.shared.tell(Event::LeaseLost);
                }
                Some(_) => {}
            }
        }
        if !self.shared.is_over() {
            self.shared.change(|state| state.lease = None);
            if is_told {
                self.shared.tell(Event::LeaseLost);
            }
        }
    }
}
