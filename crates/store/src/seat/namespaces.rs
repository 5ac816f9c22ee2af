//! What is known of the namespaces of the pool that programs adopt.
//!
//! ```text
//!   Adopt, of a client here ──► asked ──Answer──► held: AdoptedHere ──┐
//!                                                   │ its session ends, │ EndAdoption
//!                                                   ▼                  ▼
//!                                       Orphaned, until the pool says: Ended
//! ```
//!
//! The pool knows which session of which store has adopted a namespace, so a restart of the daemon
//! or of the pool daemon ends nothing: the next pool daemon says what is adopted here, and of a
//! session that is gone it is told so.

use std::collections::{BTreeMap, BTreeSet};

use plasmon_proto::pool_adoption::NamespaceState;

use crate::asker::Asker;

/// How long a client waits for the pool to answer an adoption.
pub(crate) const ADOPTION_MS: u64 = 15_000;

/// How long a session that the store does not know may still come back.
pub(crate) const UNKNOWN_SESSION_MS: u64 = 10_000;

/// A namespace that a session of this store has adopted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) session: u64,
    pub(crate) life: Life,
}

/// What the store knows of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// Its client is there, or away.
    Known,
    /// It is of before this daemon, and may come back until then.
    Unknown { until_ms: u64 },
    /// It has ended, or its client has ended the adoption.
    Over,
}

/// What a client waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    Adopt,
    /// That its adoption has ended.
    End,
}

/// A request that is answered when the pool has answered.
#[derive(Clone, Debug)]
pub(crate) struct AdoptionRequest {
    pub(crate) asker: Asker,
    pub(crate) request: u64,
    pub(crate) namespace: String,
    pub(crate) session: u64,
    pub(crate) wish: Wish,
    /// Of one that adopts; 0 for no limit.
    pub(crate) bytes_max: u64,
    pub(crate) deadline_ms: u64,
}

/// All of it, but for which namespaces have ended: what is sealed asks for those
/// ([`crate::adoption`]).
#[derive(Debug, Default)]
pub(crate) struct Namespaces {
    held: BTreeMap<String, Held>,
    /// By the numbers of their calls.
    requests: BTreeMap<u64, AdoptionRequest>,
    last_number: u64,
    /// What a pool daemon that took the seat has named until its first revision: the rest is over.
    named: Option<BTreeSet<String>>,
    /// Until which revision everything was told.
    pub(crate) seen: u64,
}

impl Namespaces {
    /// Another pool daemon has the seat, and says everything again.
    pub(crate) fn begin(&mut self) {
        self.named = Some(BTreeSet::new());
    }

    /// A client waits; the number of its request.
    pub(crate) fn ask(&mut self, request: AdoptionRequest) -> u64 {
        self.last_number += 1;
        self.requests.insert(self.last_number, request);
        self.last_number
    }

    pub(crate) fn take(&mut self, number: u64) -> Option<AdoptionRequest> {
        self.requests.remove(&number)
    }

    /// The requests that wait, by number.
    pub(crate) fn requests(&self) -> impl Iterator<Item = (u64, &AdoptionRequest)> {
        self.requests.iter().map(|(number, request)| (*number, request))
    }

    pub(crate) fn has_requests(&self) -> bool {
        !self.requests.is_empty()
    }

    /// Those of an ending whose namespace the session does not hold any more.
    pub(crate) fn take_ended(&mut self) -> Vec<AdoptionRequest> {
        let is_held = |it: &AdoptionRequest| {
            self.held.get(&it.namespace).is_some_and(|held| held.session == it.session)
        };
        let over = self.requests().filter(|(_, it)| it.wish == Wish::End && !is_held(it));
        let over = over.map(|(number, _)| number).collect();
        self.take_all(over)
    }

    /// Those whose time is over; all of them where there is no time.
    pub(crate) fn take_overdue(&mut self, now_ms: Option<u64>) -> Vec<AdoptionRequest> {
        let is_due = |it: &AdoptionRequest| now_ms.is_none_or(|now_ms| it.deadline_ms <= now_ms);
        let due = self.requests().filter(|(_, it)| is_due(it));
        let due = due.map(|(number, _)| number).collect();
        self.take_all(due)
    }

    fn take_all(&mut self, numbers: Vec<u64>) -> Vec<AdoptionRequest> {
        numbers.into_iter().filter_map(|number| self.take(number)).collect()
    }

    /// What of this store has adopted a namespace.
    pub(crate) fn holder(&self, namespace: &str) -> Option<Held> {
        self.held.get(namespace).copied()
    }

    /// Whether a session has adopted any.
    pub(crate) fn is_holder(&self, session: u64) -> bool {
        self.count(session) > 0
    }

    /// How many namespaces a session has adopted, or is about to.
    pub(crate) fn count(&self, session: u64) -> usize {
        let is_own = |held: &&Held| held.session == session && held.life != Life::Over;
        let is_asked = |it: &&AdoptionRequest| it.session == session && it.wish == Wish::Adopt;
        self.held.values().filter(is_own).count() + self.requests.values().filter(is_asked).count()
    }

    /// The pool says what a namespace is. Whether a session that is over holds it.
    pub(crate) fn set(&mut self, namespace: &str, state: NamespaceState, life: Life) -> bool {
        if let Some(named) = &mut self.named {
            named.insert(namespace.to_owned());
        }
        let NamespaceState::AdoptedHere(session) = state else {
            self.held.remove(namespace);
            return false;
        };
        let held = self.held.entry(namespace.to_owned()).or_insert(Held { session, life });
        if held.session != session || held.life != Life::Over {
            *held = Held { session, life };
        }
        held.life == Life::Over
    }

    /// Everything is told. What an earlier pool daemon told, and this one did not: it is over.
    pub(crate) fn told_all(&mut self, revision: u64) -> Option<BTreeSet<String>> {
        self.seen = revision;
        let named = self.named.take()?;
        self.held.retain(|namespace, _| named.contains(namespace));
        Some(named)
    }

    /// A session is over: the namespaces that it had adopted.
    pub(crate) fn end_session(&mut self, session: u64) -> Vec<String> {
        let mut ended = Vec::new();
        for (namespace, held) in &mut self.held {
            if held.session == session && held.life != Life::Over {
                held.life = Life::Over;
                ended.push(namespace.clone());
            }
        }
        ended
    }

    /// The session ends its adoption of one. Whether it had adopted it.
    pub(crate) fn end(&mut self, namespace: &str, session: u64) -> bool {
        let held = self.held.get_mut(namespace).filter(|held| held.session == session);
        held.map(|held| held.life = Life::Over).is_some()
    }

    /// A session has come back.
    pub(crate) fn found_session(&mut self, session: u64) {
        for held in self.held.values_mut().filter(|held| held.session == session) {
            if held.life != Life::Over {
                held.life = Life::Known;
            }
        }
    }

    /// Sessions that did not come back in time, each once.
    pub(crate) fn missing_sessions(&self, now_ms: u64) -> BTreeSet<u64> {
        let is_due =
            |held: &&Held| matches!(held.life, Life::Unknown { until_ms } if until_ms <= now_ms);
        self.held.values().filter(is_due).map(|held| held.session).collect()
    }

    pub(crate) fn next_deadline(&self) -> Option<u64> {
        let unknown = self.held.values().filter_map(|held| match held.life {
            Life::Unknown { until_ms } => Some(until_ms),
            Life::Known | Life::Over => None,
        });
        unknown.chain(self.requests.values().map(|request| request.deadline_ms)).min()
    }
}
