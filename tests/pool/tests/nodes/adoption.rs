//! What pool daemons and the leader do about namespaces that programs adopt, with a double of etcd:
//! keys that are changed one after the other, and watches that see every change in order.
//!
//! What is decided is the pool daemon's own (`plasmon_membership::adoption_rules`), and so is what
//! the stores are told. Here is what `plasmon-poold` has in `membership/adoptions.rs`, without its
//! thread: a transaction is done at once, and seen after the time that a message of etcd takes.

use std::collections::BTreeMap;
use std::sync::Arc;

use plasmon_cluster::Map;
use plasmon_cluster::adoption::{Adopter, Progress};
use plasmon_etcd::{Change, KeyValue};
use plasmon_membership::adoption_news::{AdoptionNews, KnownAdoptions};
use plasmon_membership::adoption_rules::{Step, forgettable, orphans, step};
use plasmon_membership::adoptions::{Adoption, encode, encode_progress};
use plasmon_membership::view::{SeenAdoption, SeenMap};
use plasmon_membership::{Key, Keys, Life, View};
use plasmon_pool::Mono;
use plasmon_proto::message::Request;
use plasmon_proto::pool_adoption::{AdoptionCall, AdoptionRefusal, AdoptionTold};

use super::agents::{News, Purpose};
use super::seeds::Mutation;
use super::world::World;

/// How long an adoption is tried.
const WITHIN_MS: u64 = 10_000;

/// Keys that one transaction changes.
const KEYS_AT_ONCE: usize = 32;

/// What etcd has of namespaces.
pub(crate) struct AdoptionKeys {
    keys: Keys,
    pub(crate) view: View,
    /// All changes, in order, with their revisions.
    changes: Vec<(i64, Vec<Change>)>,
    /// The starts of pool daemons that have a key under their lease, by machine.
    swept: BTreeMap<usize, Life>,
}

impl AdoptionKeys {
    pub(crate) fn new() -> Self {
        let mut view = View::default();
        view.revision = 1;
        Self {
            keys: Keys::new("sim").expect("it is a name"),
            view,
            changes: Vec::new(),
            swept: BTreeMap::new(),
        }
    }

    /// A transaction that has no conditions, or whose conditions hold.
    fn change(&mut self, changes: impl FnOnce(&Keys, i64) -> Vec<Change>) -> i64 {
        let revision = self.view.revision + 1;
        let changes = changes(&self.keys, revision);
        changes.iter().for_each(|change| _ = self.view.apply(&self.keys, change));
        self.view.revision = revision;
        self.changes.push((revision, changes));
        revision
    }

    /// Writes what is known of namespaces, if each was last written as was seen; the revision.
    fn write(&mut self, adoption: Adoption, seen: &[(String, i64)]) -> i64 {
        let written = |name: &String| self.view.adoptions.get(name).map_or(0, |it| it.revision);
        if seen.iter().any(|(name, revision)| written(name) != *revision) {
            return self.view.revision;
        }
        self.change(|keys, revision| {
            let put = |(name, _): &(String, i64)| {
                put(keys.of_namespace(name), encode(&adoption), revision)
            };
            seen.iter().map(put).collect()
        })
    }
}

fn put(key: Vec<u8>, value: Vec<u8>, revision: i64) -> Change {
    let (create_revision, mod_revision, lease) = (revision, revision, None);
    Change::Put(KeyValue { key, value, create_revision, mod_revision, lease })
}

/// A client of the store of this machine wants to adopt a namespace.
#[derive(Clone, Debug)]
struct Ask {
    number: u64,
    namespace: String,
    session: u64,
    bytes_max: u64,
    /// What was known in this revision counts: the client may know it.
    after: i64,
    until: Mono,
}

/// What a pool daemon knows and wants of namespaces.
#[derive(Debug, Default)]
pub(crate) struct Adopting {
    view: View,
    news: AdoptionNews,
    told: Option<Arc<BTreeMap<String, SeenAdoption>>>,
    told_revision: i64,
    asks: Vec<Ask>,
    orphaned: BTreeMap<(String, u64), i64>,
    progress: Option<Progress>,
    reported: Option<Progress>,
    /// Nothing more is done until this revision was seen.
    wait_for: i64,
}

impl World {
    /// The store has its seat taken.
    pub(crate) fn begin_adoptions(&mut self, at: usize) {
        let here = (self.machines[at].uuid(), self.machines[at].boot);
        let Some(agent) = &mut self.machines[at].agent else { return };
        let news = agent.adopting.news.begin(here);
        self.tell_adoptions(at, news);
    }

    fn tell_adoptions(&mut self, at: usize, told: Vec<AdoptionTold>) {
        if !told.is_empty() {
            self.note(|| format!("pool daemon {at} tells {told:?}"));
            self.ask_store(at, Request::TellAdoptions { told }, Purpose::Tell);
        }
    }

    /// A map is known to the pool daemon.
    pub(crate) fn see_map(&mut self, at: usize, map: &Arc<Map>) {
        if let Some(agent) = &mut self.machines[at].agent {
            let revision = agent.adopting.view.revision;
            agent.adopting.view.map = Some(SeenMap { map: map.clone(), revision });
        }
        self.serve_adoptions(at);
    }

    /// Changes of etcd are seen.
    pub(crate) fn hear_changes(
        &mut self,
        at: usize,
        revision: i64,
        changes: &[Change],
    ) -> Result<(), String> {
        let here = (self.machines[at].uuid(), self.machines[at].boot);
        let keys = &self.etcd.adoptions.keys;
        let Some(agent) = &mut self.machines[at].agent else { return Ok(()) };
        let Adopting { view, news, told, told_revision, .. } = &mut agent.adopting;
        changes.iter().for_each(|change| _ = view.apply(keys, change));
        view.revision = view.revision.max(revision);
        if told.as_ref().is_none_or(|told| !Arc::ptr_eq(told, &view.adoptions)) {
            *told = Some(view.adoptions.clone());
            *told_revision = view.revision;
            let known = KnownAdoptions { revision, adoptions: view.adoptions.clone() };
            let news = news.know(known, here);
            self.tell_adoptions(at, news);
        }
        self.serve_adoptions(at);
        Ok(())
    }

    /// The store says something about namespaces.
    pub(crate) fn adoption_call(&mut self, at: usize, call: AdoptionCall) -> Result<(), String> {
        let until = self.now.after_ms(WITHIN_MS);
        let is_forgotten = self.breaks(Mutation::ForgetOrphans);
        let Some(agent) = &mut self.machines[at].agent else { return Ok(()) };
        let adopting = &mut agent.adopting;
        let after = adopting.told_revision;
        match call {
            AdoptionCall::Adopt { number, namespace, session } => {
                let bytes_max = 0;
                adopting.asks.push(Ask { number, namespace, session, bytes_max, after, until });
            }
            // No client here limits a namespace.
            AdoptionCall::AdoptWithin { .. } | AdoptionCall::Usage { .. } => {
                return Err(format!("a limit that no client has asked for: {call:?}"));
            }
            AdoptionCall::Orphaned { .. } if is_forgotten => {}
            AdoptionCall::Orphaned { namespace, session } => {
                adopting.orphaned.insert((namespace, session), after);
            }
            AdoptionCall::Progress { seen, swept } => {
                adopting.progress = Some(Progress { seen, swept });
            }
        }
        self.serve_adoptions(at);
        Ok(())
    }

    fn adopter(&self, at: usize, session: u64) -> Adopter {
        Adopter { node: self.machines[at].uuid(), boot: self.machines[at].boot, session }
    }

    /// Does what is to be done now.
    pub(crate) fn serve_adoptions(&mut self, at: usize) {
        self.end_overdue_adoptions(at);
        let now = self.now;
        let machine = &self.machines[at];
        let has_lease = machine.lease_expires.is_some_and(|until| until > now);
        let Some(agent) = machine.agent.as_ref().filter(|agent| !agent.paused) else { return };
        let adopting = &agent.adopting;
        let is_waiting = adopting.view.revision < adopting.wait_for;
        if !has_lease || !machine.reaches_etcd || is_waiting {
            return;
        }
        self.report_progress(at);
        if !self.end_orphaned(at) {
            self.serve_asks(at);
        }
    }

    fn end_overdue_adoptions(&mut self, at: usize) {
        let now = self.now;
        let Some(agent) = self.machines[at].agent.as_mut().filter(|agent| !agent.paused) else {
            return;
        };
        let overdue: Vec<Ask> =
            agent.adopting.asks.extract_if(.., |ask| ask.until <= now).collect();
        for ask in overdue {
            let next = self.next_step(at, &ask);
            let result = match next {
                Some(Step::Answer(result)) => result,
                Some(Step::Wait(refusal)) => Err(refusal),
                Some(Step::Write(_)) | None => Err(AdoptionRefusal::Unreachable),
            };
            let number = ask.number;
            self.tell_adoptions(at, vec![AdoptionTold::Answer { number, result }]);
        }
    }

    fn next_step(&self, at: usize, ask: &Ask) -> Option<Step> {
        let view = &self.machines[at].agent.as_ref()?.adopting.view;
        let map = &view.map.as_ref()?.map;
        Some(step(view, map, &ask.namespace, self.adopter(at, ask.session), ask.bytes_max))
    }

    /// Says how far the store of this machine is.
    fn report_progress(&mut self, at: usize) {
        let machine = &mut self.machines[at];
        let life = Life { uuid: machine.uuid(), incarnation: machine.incarnation };
        let Some(agent) = &mut machine.agent else { return };
        let Some(progress) = agent.adopting.progress else { return };
        let etcd = &mut self.etcd.adoptions;
        if agent.adopting.reported == Some(progress) && etcd.swept.get(&at) == Some(&life) {
            return;
        }
        agent.adopting.reported = Some(progress);
        etcd.swept.insert(at, life);
        etcd.change(|keys, revision| {
            vec![put(keys.of(Key::Swept(life)), encode_progress(progress), revision)]
        });
        self.send_changes_to_all();
    }

    /// Writes that what sessions of this machine had adopted has ended. Whether it did.
    fn end_orphaned(&mut self, at: usize) -> bool {
        let Some(agent) = &self.machines[at].agent else { return false };
        let Adopting { view, orphaned, .. } = &agent.adopting;
        let (mut over, mut ended) = (Vec::new(), Vec::new());
        for ((namespace, session), after) in orphaned {
            let own = Some(self.adopter(at, *session));
            match view.adoptions.get(namespace).filter(|seen| seen.adoption.adopter() == own) {
                Some(seen) => ended.push((namespace.clone(), seen.revision)),
                None if view.revision >= *after => over.push((namespace.clone(), *session)),
                None => {}
            }
        }
        ended.truncate(KEYS_AT_ONCE);
        if let Some(agent) = &mut self.machines[at].agent {
            agent.adopting.orphaned.retain(|orphan, _| !over.contains(orphan));
        }
        if ended.is_empty() {
            return false;
        }
        let revision = self.etcd.adoptions.write(Adoption::Ended, &ended);
        self.wait_for(at, revision);
        true
    }

    fn serve_asks(&mut self, at: usize) {
        let Some(agent) = &self.machines[at].agent else { return };
        let (asks, seen) = (agent.adopting.asks.clone(), agent.adopting.view.revision);
        for ask in asks.into_iter().filter(|ask| ask.after <= seen) {
            let number = ask.number;
            match self.next_step(at, &ask) {
                Some(Step::Wait(_)) | None => {}
                Some(Step::Answer(result)) => {
                    if let Some(agent) = &mut self.machines[at].agent {
                        agent.adopting.asks.retain(|it| it.number != number);
                    }
                    self.tell_adoptions(at, vec![AdoptionTold::Answer { number, result }]);
                }
                Some(Step::Write(revision)) => {
                    let by = self.adopter(at, ask.session);
                    let own = Adoption::Adopted { by, bytes_max: ask.bytes_max };
                    let seen = [(ask.namespace, revision)];
                    let revision = self.etcd.adoptions.write(own, &seen);
                    return self.wait_for(at, revision);
                }
            }
        }
    }

    fn wait_for(&mut self, at: usize, revision: i64) {
        if let Some(agent) = &mut self.machines[at].agent {
            agent.adopting.wait_for = revision;
        }
        self.send_changes_to_all();
    }

    /// What the leader ends: adoptions of nodes that are gone, and the memory of the oldest ends.
    /// And what ends with leases.
    pub(crate) fn lead_adoptions(&mut self) {
        let now = self.now;
        let (_, map) = self.etcd.maps[self.etcd.maps.len() - 1].clone();
        let is_gone = |at: &usize, life: &Life| {
            let machine = &self.machines[*at];
            let has_lease = machine.lease_expires.is_some_and(|until| until > now);
            !has_lease || life.incarnation != machine.incarnation
        };
        let etcd = &mut self.etcd.adoptions;
        let gone: Vec<_> = etcd.swept.iter().filter(|(at, life)| is_gone(at, life)).collect();
        let gone: Vec<_> = gone.into_iter().map(|(at, life)| (*at, *life)).collect();
        for (at, life) in gone {
            etcd.swept.remove(&at);
            etcd.change(|keys, _| vec![Change::Deleted(keys.of(Key::Swept(life)))]);
        }
        let gone = orphans(&etcd.view, &map, KEYS_AT_ONCE);
        if !gone.is_empty() {
            etcd.write(Adoption::Ended, &gone);
            gone.iter().for_each(|(name, _)| self.given_up(name));
        }
        let etcd = &mut self.etcd.adoptions;
        let oldest = forgettable(&etcd.view, KEYS_AT_ONCE);
        if !oldest.is_empty() {
            etcd.change(|keys, _| {
                let delete = |(name, _): &(String, i64)| Change::Deleted(keys.of_namespace(name));
                oldest.iter().map(delete).collect()
            });
        }
        self.send_changes_to_all();
    }

    pub(crate) fn send_changes_to_all(&mut self) {
        (0..self.machines.len()).for_each(|at| self.send_changes(at));
    }

    /// A pool daemon that reaches etcd is told of the changes, before maps that are as new.
    pub(crate) fn send_changes(&mut self, at: usize) {
        while self.machines[at].agent.is_some() && self.machines[at].reaches_etcd {
            let next = self.machines[at].changes_sent;
            let Some((revision, changes)) = self.etcd.adoptions.changes.get(next).cloned() else {
                return;
            };
            self.machines[at].changes_sent += 1;
            self.etcd_tells(at, News::Changes(revision, changes));
        }
    }
}
