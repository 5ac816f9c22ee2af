//! Namespaces that programs adopt: what this node's store wants of etcd, and what the leader ends.
//!
//! ```text
//!   Adopt ──► the key, made or changed in a transaction ──► every live node has seen it ──► Answer
//!   Orphaned ──► the key says that the adoption has ended
//!   Progress ──► the key `swept` of this node
//! ```
//!
//! A node that has not seen that a namespace was adopted again would delete its new objects, so an
//! adoption is answered when all live nodes have. One that has ended is adopted again when every
//! node that may have objects of it says that it has none.

use std::time::Duration;

use plasmon_cluster::adoption::{Adopter, first_unaware, first_unswept};
use plasmon_cluster::{Map, Node};
use plasmon_etcd::{Condition, Error, LeaseId, Operation};
use plasmon_membership::adoptions::{self, Adoption};
use plasmon_membership::keys::Key;
use plasmon_membership::view::{SeenAdoption, View};
use plasmon_proto::limits::POOL_ADOPTIONS_MAX;
use plasmon_proto::pool_adoption::AdoptionRefusal;

use super::adoption_wishes::AdoptionAsk;
use super::event::Event;
use super::leadership::Leadership;
use crate::clock::now_ms;

/// How many namespaces that have ended are remembered, so that a late writer leaves nothing there.
const ENDED_MAX: usize = 1024;

/// Keys that one transaction changes. etcd carries out 128 operations at once.
const KEYS_AT_ONCE: usize = 32;

/// What is to be done for a wish.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    /// Write that it is adopted, in place of what was written in this revision.
    Write(i64),
    /// Others have to do something first.
    Wait(AdoptionRefusal),
    Answer(Result<(), AdoptionRefusal>),
}

/// What is to be done next for a session that wants a namespace.
fn step(view: &View, map: &Map, namespace: &str, own: Adopter) -> Step {
    let progress = view.progress(map);
    match view.adoptions.get(namespace) {
        Some(SeenAdoption { adoption: Adoption::Adopted(other), .. }) if *other != own => {
            Step::Answer(Err(AdoptionRefusal::Exists))
        }
        Some(SeenAdoption { adoption: Adoption::Adopted(_), revision }) => {
            match first_unaware(map, &progress, revision.unsigned_abs()) {
                Some(_) => Step::Wait(AdoptionRefusal::Unreachable),
                None => Step::Answer(Ok(())),
            }
        }
        Some(SeenAdoption { adoption: Adoption::Ended, revision }) => {
            match first_unswept(map, &progress, revision.unsigned_abs()) {
                Some((_, Node { member, .. })) => {
                    Step::Wait(AdoptionRefusal::NotSwept(member.name.clone()))
                }
                None => Step::Write(*revision),
            }
        }
        None => {
            let is_adopted = |seen: &&SeenAdoption| seen.adoption != Adoption::Ended;
            let count = view.adoptions.values().filter(is_adopted).count();
            match count < POOL_ADOPTIONS_MAX {
                true => Step::Write(0),
                false => {
                    Step::Answer(Err(AdoptionRefusal::LimitReached(POOL_ADOPTIONS_MAX as u64)))
                }
            }
        }
    }
}

/// The namespaces whose adopters are gone, each with the revision in which it was written.
fn orphans(view: &View, map: &Map) -> Vec<(String, i64)> {
    let is_orphan = |(namespace, seen): (&String, &SeenAdoption)| match seen.adoption {
        Adoption::Adopted(adopter) if adopter.is_gone(map) => {
            Some((namespace.clone(), seen.revision))
        }
        _ => None,
    };
    view.adoptions.iter().filter_map(is_orphan).take(KEYS_AT_ONCE).collect()
}

/// The namespaces whose end need not be remembered any more: the oldest beyond a number.
fn forgettable(view: &View) -> Vec<(String, i64)> {
    let ended = view.adoptions.iter().filter(|(_, seen)| seen.adoption == Adoption::Ended);
    let mut ended: Vec<(i64, &String)> =
        ended.map(|(namespace, seen)| (seen.revision, namespace)).collect();
    let surplus = ended.len().saturating_sub(ENDED_MAX).min(KEYS_AT_ONCE);
    ended.sort_unstable();
    ended.into_iter().take(surplus).map(|(at, namespace)| (namespace.clone(), at)).collect()
}

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
                step(view, &seen.map, &ask.namespace, self.adopter(ask.session))
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
            match step(view, &seen.map, &ask.namespace, own) {
                Step::Wait(_) => {}
                Step::Answer(result) => {
                    let is_this = |it: &AdoptionAsk| it.number == ask.number;
                    self.shared.change(|state| state.adoptions.asks.retain(|it| !is_this(it)));
                    self.shared.tell(Event::AdoptionAnswered { number: ask.number, result });
                }
                Step::Write(revision) => {
                    let key = self.keys.of_namespace(&ask.namespace);
                    let as_seen = [Condition::Written(key.clone(), revision)];
                    let value = adoptions::encode(&Adoption::Adopted(own));
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
        if self.progress_reported == Some((lease, progress)) {
            return Ok(());
        }
        let key = self.keys.of(Key::Swept(self.life));
        let put = Operation::Put(key, adoptions::encode_progress(progress), Some(lease));
        self.etcd.transact(&[], &[put])?;
        self.progress_reported = Some((lease, progress));
        Ok(())
    }

    /// Writes that what sessions of this node had adopted has ended. Whether anything was written.
    fn end_orphaned(&mut self, view: &View) -> Result<bool, Error> {
        let orphaned = self.shared.look(|state| state.adoptions.orphaned.clone());
        let (mut over, mut ended) = (Vec::new(), Vec::new());
        for ((namespace, session), after) in orphaned {
            let own = Adoption::Adopted(self.adopter(session));
            match view.adoptions.get(&namespace).filter(|seen| seen.adoption == own) {
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
        let orphans = orphans(view, map);
        if !orphans.is_empty() {
            return self.write_ended(view, &orphans, vec![leads()]);
        }
        let oldest = forgettable(view);
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

#[cfg(test)]
mod tests {
    use plasmon_cluster::adoption::Progress;
    use plasmon_cluster::leader::{Leader, OUT_AFTER_MS, Observation};
    use plasmon_cluster::{Member, NodeUuid, ProtocolRange, Reach};
    use plasmon_etcd::{Change, KeyValue};
    use plasmon_membership::keys::{Keys, Life};

    use super::*;

    fn own(session: u64) -> Adopter {
        Adopter { node: life(0).uuid, boot: 1, session }
    }

    fn life(number: u8) -> Life {
        Life { uuid: NodeUuid([number; 16]), incarnation: 1 }
    }

    fn keys() -> Keys {
        Keys::new("p").unwrap()
    }

    /// A map with two nodes, as their leader makes it.
    fn map() -> Map {
        let member = |number| Member {
            uuid: life(number).uuid,
            name: format!("n{number}"),
            incarnation: 1,
            boot: 1,
            addresses: vec!["127.0.0.1:1".to_owned()],
            zone: String::new(),
            weight: 1,
            protocol: ProtocolRange { min: 1, max: 1 },
        };
        let (map, members) = (Map::default(), [member(0), member(1)]);
        let (activations, drained, commands) = (&[], &[], &[]);
        let (map, reach) = (&map, Reach::default());
        let members = &members;
        let seen = Observation { map, members, activations, drained, commands, reach };
        Leader::new(OUT_AFTER_MS).step(0, &seen).proposal.unwrap()
    }

    fn put(view: &mut View, key: Vec<u8>, value: Vec<u8>, revision: i64) {
        let (create_revision, mod_revision, lease) = (revision, revision, None);
        let kv = KeyValue { key, value, create_revision, mod_revision, lease };
        view.apply(&keys(), &Change::Put(kv));
    }

    fn set(view: &mut View, namespace: &str, adoption: Adoption, revision: i64) {
        put(view, keys().of_namespace(namespace), adoptions::encode(&adoption), revision);
    }

    fn progress(view: &mut View, number: u8, seen: u64, swept: u64) {
        let value = adoptions::encode_progress(Progress { seen, swept });
        put(view, keys().of(Key::Swept(life(number))), value, 1);
    }

    #[test]
    fn an_adoption_goes_on_when_others_have_done_their_part() {
        let (mut view, map) = (View::default(), map());
        let next = |view: &View| step(view, &map, "@app", own(5));
        assert_eq!(next(&view), Step::Write(0));
        set(&mut view, "@app", Adoption::Adopted(own(5)), 7);
        progress(&mut view, 0, 7, 7);
        progress(&mut view, 1, 6, 6);
        assert_eq!(next(&view), Step::Wait(AdoptionRefusal::Unreachable));
        progress(&mut view, 1, 7, 0);
        assert_eq!(next(&view), Step::Answer(Ok(())));
        let other = step(&view, &map, "@app", own(6));
        assert_eq!(other, Step::Answer(Err(AdoptionRefusal::Exists)));

        set(&mut view, "@app", Adoption::Ended, 8);
        progress(&mut view, 0, 8, 8);
        progress(&mut view, 1, 8, 7);
        assert_eq!(next(&view), Step::Wait(AdoptionRefusal::NotSwept("n1".to_owned())));
        progress(&mut view, 1, 8, 8);
        assert_eq!(next(&view), Step::Write(8));
    }

    #[test]
    fn so_many_are_adopted_and_so_many_ends_remembered() {
        let (mut view, map) = (View::default(), map());
        for number in 1..POOL_ADOPTIONS_MAX as i64 {
            set(&mut view, &format!("@{number}"), Adoption::Adopted(own(1)), number);
        }
        assert_eq!(step(&view, &map, "@app", own(5)), Step::Write(0));
        set(&mut view, "@last", Adoption::Adopted(own(1)), 5000);
        let limit = AdoptionRefusal::LimitReached(POOL_ADOPTIONS_MAX as u64);
        assert_eq!(step(&view, &map, "@app", own(5)), Step::Answer(Err(limit)));
        assert!(forgettable(&view).is_empty());
        for number in 0..ENDED_MAX as i64 + 2 {
            set(&mut view, &format!("@ended{number}"), Adoption::Ended, 10_000 - number);
        }
        let last = ENDED_MAX as i64 + 1;
        let oldest = [last, last - 1].map(|it| (format!("@ended{it}"), 10_000 - it));
        assert_eq!(forgettable(&view), oldest);
    }

    #[test]
    fn the_leader_ends_what_gone_nodes_had_adopted() {
        let (mut view, map) = (View::default(), map());
        set(&mut view, "@here", Adoption::Adopted(own(1)), 3);
        set(&mut view, "@over", Adoption::Ended, 4);
        assert_eq!(orphans(&view, &map), []);
        set(&mut view, "@gone", Adoption::Adopted(Adopter { boot: 2, ..own(1) }), 5);
        assert_eq!(orphans(&view, &map), [("@gone".to_owned(), 5)]);
    }
}
