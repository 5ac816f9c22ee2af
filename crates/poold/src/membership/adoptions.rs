//! Namespaces that programs adopt: what this node's store wants of etcd, and what the leader ends.
//!
//! ```text
//!   Adopt ──► the key, made or changed in a transaction ──► every live node has seen it ──► Answer
//!   Orphaned ──► the key says that the adoption has ended
//!   Progress ──► the key `swept` of this node
//!   Usage ──► the key `usage` of this node
//! ```
//!
//! A node that has not seen that a namespace was adopted again would delete its new objects, so an
//! adoption is answered when all live nodes have. One that has ended is adopted again when every
//! node that may have objects of it says that it has none.

use std::time::Duration;

use plasmon_cluster::Map;
use plasmon_cluster::adoption::Adopter;
use plasmon_etcd::{Condition, Error, LeaseId, Operation};
use plasmon_membership::adoption_rules::{Step, forgettable, orphans, step};
use plasmon_membership::adoptions::{self, Adoption};
use plasmon_membership::keys::Key;
use plasmon_membership::view::View;
use plasmon_proto::pool_adoption::AdoptionRefusal;

use super::adoption_wishes::AdoptionAsk;
use super::event::Event;
use super::leadership::Leadership;
use crate::clock::now_ms;

/// Keys that one transaction changes. etcd carries out 128 operations at once.
const KEYS_AT_ONCE: usize = 32;

impl Leadership {
    /// Answers wishes whose time is over. What is tried after that would come as a surprise.
    pub(super) fn end_overdue_adoptions(&self) {
        let now = now_ms();
        let is_due = |ask: &AdoptionAsk| ask.until_ms <= now;
        if !self.shared.look(|state| state.adoptions.asks.iter().any(is_due)) {
            return;
        }
        let overdue: Vec<AdoptionAsk> = self
            .shared
            .change(|state| state.adoptions.asks.extract_if(.., |ask| is_due(ask)).collect());
        let view = self.shared.look(|state| state.view.clone());
        for ask in overdue {
            let map = view.as_ref().and_then(|view| Some((view, view.map.as_ref()?)));
            let refusal = map.map(|(view, seen)| {
                let own = self.adopter(ask.session);
                step(view, &seen.map, &ask.namespace, own, ask.bytes_max)
            });
            let result = match refusal {
                Some(Step::Answer(result)) => result,
                Some(Step::Wait(refusal)) => Err(refusal),
                Some(Step::Write(_)) | None => Err(AdoptionRefusal::Unreachable),
            };
            self.shared.tell(Event::AdoptionAnswered { number: ask.number, result });
        }
    }

    fn adopter(&self, session: u64) -> Adopter {
        Adopter { node: self.life.uuid, boot: self.boot, session }
    }

    /// Writes what the store of this node says of namespaces, and answers it. How long nothing is
    /// to be done.
    pub(super) fn serve_adoptions(
        &mut self,
        view: &View,
        lease: LeaseId,
    ) -> Result<Option<Duration>, Error> {
        self.report_progress(lease)?;
        if self.end_orphaned(view)? {
            return Ok(Some(Duration::ZERO));
        }
        let asks = self.shared.look(|state| state.adoptions.asks.clone());
        let Some(seen) = view.map.as_ref().filter(|_| !asks.is_empty()) else { return Ok(None) };
        for ask in &asks {
            if view.revision < ask.after {
                continue;
            }
            let own = self.adopter(ask.session);
            match step(view, &seen.map, &ask.namespace, own, ask.bytes_max) {
                Step::Wait(_) => {}
                Step::Answer(result) => {
                    let is_this = |it: &AdoptionAsk| it.number == ask.number;
                    self.shared.change(|state| state.adoptions.asks.retain(|it| !is_this(it)));
                    self.shared.tell(Event::AdoptionAnswered { number: ask.number, result });
                }
                Step::Write(revision) => {
                    let key = self.keys.of_namespace(&ask.namespace);
                    let as_seen = [Condition::Written(key.clone(), revision)];
                    let adopted = Adoption::Adopted { by: own, bytes_max: ask.bytes_max };
                    let value = adoptions::encode(&adopted);
                    let put = [Operation::Put(key, value, None)];
                    let revision = self.etcd.transact(&as_seen, &put)?.revision;
                    self.wait_for_view(view, revision);
                    return Ok(Some(Duration::ZERO));
                }
            }
        }
        let left = asks.iter().map(|ask| ask.until_ms.saturating_sub(now_ms())).min();
        Ok(left.map(Duration::from_millis))
    }

    /// Says how far the store of this node is.
    fn report_progress(&mut self, lease: LeaseId) -> Result<(), Error> {
        let Some(progress) = self.shared.look(|state| state.adoptions.progress) else {
            return Ok(());
        };
        if self.progress_reported.is(lease, &progress) {
            return Ok(());
        }
        let key = self.keys.of(Key::Swept(self.life));
        let put = Operation::Put(key, adoptions::encode_progress(progress), Some(lease));
        self.progress_reported.write((lease, progress), || self.etcd.transact(&[], &[put]))
    }

    /// Writes that what sessions of this node had adopted has ended. Whether anything was written.
    fn end_orphaned(&mut self, view: &View) -> Result<bool, Error> {
        let orphaned = self.shared.look(|state| state.adoptions.orphaned.clone());
        let (mut over, mut ended) = (Vec::new(), Vec::new());
        for ((namespace, session), after) in orphaned {
            let own = Some(self.adopter(session));
            match view.adoptions.get(&namespace).filter(|seen| seen.adoption.adopter() == own) {
                Some(seen) => ended.push((namespace, seen.revision)),
                // What its store was told may not be seen here yet.
                None if view.revision >= after => over.push((namespace, session)),
                None => {}
            }
        }
        if !over.is_empty() {
            self.shared.change(|state| {
                state.adoptions.orphaned.retain(|orphan, _| !over.contains(orphan));
            });
        }
        ended.truncate(KEYS_AT_ONCE);
        self.write_ended(view, &ended, Vec::new())
    }

    /// What the leader ends: adoptions of nodes that are gone, and the memory of the oldest ends.
    /// Whether anything was written.
    pub(super) fn end_adoptions(
        &mut self,
        view: &View,
        map: &Map,
        key_revision: i64,
    ) -> Result<bool, Error> {
        let leads = || Condition::Made(self.keys.of(Key::Leader), key_revision);
        let orphans = orphans(view, map, KEYS_AT_ONCE);
        if !orphans.is_empty() {
            return self.write_ended(view, &orphans, vec![leads()]);
        }
        let oldest = forgettable(view, KEYS_AT_ONCE);
        if oldest.is_empty() {
            return Ok(false);
        }
        let mut conditions = vec![leads()];
        let mut operations = Vec::new();
        for (namespace, revision) in oldest {
            let key = self.keys.of_namespace(&namespace);
            conditions.push(Condition::Written(key.clone(), revision));
            operations.push(Operation::Delete(key));
        }
        let revision = self.etcd.transact(&conditions, &operations)?.revision;
        self.wait_for_view(view, revision);
        Ok(true)
    }

    fn write_ended(
        &mut self,
        view: &View,
        ended: &[(String, i64)],
        mut conditions: Vec<Condition>,
    ) -> Result<bool, Error> {
        if ended.is_empty() {
            return Ok(false);
        }
        let mut operations = Vec::new();
        for (namespace, revision) in ended {
            let key = self.keys.of_namespace(namespace);
            conditions.push(Condition::Written(key.clone(), *revision));
            operations.push(Operation::Put(key, adoptions::encode(&Adoption::Ended), None));
        }
        let revision = self.etcd.transact(&conditions, &operations)?.revision;
        self.wait_for_view(view, revision);
        Ok(true)
    }
}
