//! The look at everything when no client does anything and all nodes are up.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::Result;
use plasmon_client::{Client, Code, Error, Filter, ObjectInfo, Policy, PutOptions};
use plasmon_cluster::limits::ACTING_MAX;
use plasmon_cluster::{Group, NodeState};
use plasmon_etcd::{self as etcd, Options};
use plasmon_membership::{Keys, Snapshot, snapshot};

use super::history::{Expected, NameNo, Token};
use super::homed;
use super::load::{NAMES, Shared, delete, lock, look, name};
use super::machine::{Machine, POLL};

/// How long the pool has to come to rest.
const REST_WITHIN: Duration = Duration::from_secs(60);

/// So often something that takes long is told.
const TELL_EVERY: Duration = Duration::from_secs(15);

/// How long a node has for an object that is there.
const GET_WITHIN: Duration = Duration::from_secs(30);

/// What a store may count beside its objects when it has none.
const USED_BYTES_MAX: u64 = 64 << 10;

/// Looks at the pool with a client on every node.
pub(super) struct Audit<'a> {
    shared: &'a Shared,
    clients: Vec<Client>,
    round: u64,
    findings: Vec<String>,
}

/// Waits until the map has all nodes, none of them is missed, and every group is settled; what is
/// missing otherwise.
pub(super) fn settles(etcd: &Options, nodes: usize) -> Option<String> {
    let look = || -> Result<Snapshot> {
        Ok(snapshot(&mut etcd::Client::new(etcd.clone())?, &Keys::new("default")?)?)
    };
    let missing = || -> Option<String> {
        let found = match look() {
            Ok(found) => found,
            Err(error) => return Some(error.to_string()),
        };
        let Some(map) = found.map else { return Some("there is no map".to_owned()) };
        let state = |state: NodeState| map.nodes().filter(|(_, node)| node.state == state).count();
        // Between two steps of a group all of its nodes are in sync, and may be too few.
        let acting = nodes.min(ACTING_MAX);
        let is_at_goal = |group: &Group| group.is_settled() && group.acting.len() == acting;
        let unsettled = map.groups().filter(|(_, group)| !is_at_goal(group)).count();
        let (up, down) = (state(NodeState::Up), state(NodeState::Down));
        let is_at_rest = up == nodes && down == 0 && unsettled == 0;
        let refused = found.refused.values().cloned().collect::<Vec<_>>().join("; ");
        (!is_at_rest).then(|| {
            let states = map.nodes().map(|(_, node)| {
                let has_lease = found.present.contains(&node.member.uuid);
                let lease = if has_lease { "with" } else { "without" };
                format!("{} {:?} {lease} a lease", node.member.name, node.state)
            });
            let states = states.collect::<Vec<_>>().join(", ");
            format!(
                "{up} nodes are up, {down} down, {unsettled} groups unsettled: {states}; pairs \
                 that do not reach each other {:?}, alarm {:?}, refused: {refused}",
                found.unreached, found.alarm
            )
        })
    };
    until(REST_WITHIN, missing)
}

/// Tries until nothing is missing; what is, when time is over.
fn until(within: Duration, mut missing: impl FnMut() -> Option<String>) -> Option<String> {
    let (begun, mut tell_after) = (Instant::now(), TELL_EVERY);
    loop {
        let missing = missing()?;
        if begun.elapsed() > within {
            return Some(missing);
        }
        if begun.elapsed() > tell_after {
            println!("  for {:.0?}: {missing}", begun.elapsed());
            tell_after += TELL_EVERY;
        }
        std::thread::sleep(POLL);
    }
}

impl<'a> Audit<'a> {
    pub(super) fn new(shared: &'a Shared, machines: &[Machine], round: u64) -> Result<Self> {
        let clients = machines.iter().map(Machine::connect).collect::<Result<_>>()?;
        Ok(Self { shared, clients, round, findings: Vec::new() })
    }

    /// Looks at everything; what is wrong.
    pub(super) fn run(mut self, deletes_all: bool) -> Vec<String> {
        self.nodes_take_part();
        let mut live = BTreeMap::new();
        for number in 0..NAMES {
            let found = self.resolve(number);
            lock(&self.shared.history).settle(number, found);
            if found.is_some() && deletes_all {
                self.delete(number);
            } else if let Some(token) = found {
                live.insert(number, token);
            }
        }
        self.unnamed();
        self.copies(&live);
        self.contents();
        self.logs();
        self.find(until(REST_WITHIN, || self.leak(&live)));
        self.findings
    }

    fn find(&mut self, finding: Option<String>) {
        self.findings.extend(finding);
    }

    /// Puts and deletes an object from every node. A name that was deleted is not free again before
    /// nodes that are away for good count as silent, so each is used once.
    fn nodes_take_part(&mut self) {
        for node in 0..self.clients.len() {
            let client = &self.clients[node];
            let mut tries = 0;
            let finding = until(REST_WITHIN, || {
                tries += 1;
                let text = format!("@joined:{}.{node}.{tries}", self.round);
                let made = plasmon_client::Name::new("", text);
                let options = PutOptions { name: made.ok(), copies: 1, ..PutOptions::default() };
                let made = client.put(b"", &options);
                let id = options.name.as_ref().map(plasmon_client::Name::id)?;
                let deleted = client.delete(&[id]);
                let error = match (made, deleted.as_deref()) {
                    (Ok(_), Ok([None])) => return None,
                    (Err(error), _) => error.to_string(),
                    (_, other) => format!("the delete: {other:?}"),
                };
                Some(format!("node {node} takes no part: {error}"))
            });
            self.find(finding);
        }
    }

    /// What a name has, on all nodes.
    fn resolve(&mut self, number: NameNo) -> Option<Token> {
        let expected = lock(&self.shared.history).expected(number);
        match expected {
            Expected::This(token) => {
                self.is_everywhere(number, token);
                Some(token)
            }
            Expected::Nothing => {
                self.agree("resurrected", number, |found| found.is_none());
                None
            }
            Expected::Either => {
                let token = self.agree("undecided", number, |_| true).flatten()?;
                self.is_everywhere(number, token);
                Some(token)
            }
            Expected::PerhapsLost => self.resolve_perhaps_lost(number),
        }
    }

    fn is_everywhere(&mut self, number: NameNo, token: Token) {
        for node in 0..self.clients.len() {
            let client = &self.clients[node];
            let finding = match look(self.shared, client, number, Some(GET_WITHIN)) {
                Ok(found) if found == token => None,
                Ok(other) => Some(format!("is {other}")),
                Err(error) => Some(error.to_string()),
            };
            let text = |what| format!("lost: @soak:{number}, {token}, on node {node}: {what}");
            self.find(finding.map(text));
        }
    }

    /// What all nodes say of a name, once they say the same. What is not allowed is of this kind.
    fn agree(
        &mut self,
        kind: &str,
        number: NameNo,
        allowed: impl Fn(Option<Token>) -> bool,
    ) -> Option<Option<Token>> {
        let mut agreed = None;
        let finding = until(REST_WITHIN, || {
            let answers: Vec<_> = self
                .clients
                .iter()
                .map(|client| look(self.shared, client, number, None))
                .map(|answer| match answer {
                    Ok(token) => Ok(Some(token)),
                    Err(error) if is_nothing(&error) => Ok(None),
                    Err(error) => Err(error.code()),
                })
                .collect();
            if let Some(Ok(first)) = answers.first().copied()
                && answers.iter().all(|answer| *answer == Ok(first))
                && allowed(first)
            {
                agreed = Some(first);
                return None;
            }
            Some(format!("{kind}: @soak:{number}: the nodes say {answers:?}"))
        });
        self.find(finding);
        agreed
    }

    /// An object of which the last copy may have been lost. It is there, or no longer anywhere;
    /// then what is left of it is deleted.
    fn resolve_perhaps_lost(&mut self, number: NameNo) -> Option<Token> {
        let client = &self.clients[0].clone();
        let found = until(REST_WITHIN, || match look(self.shared, client, number, None) {
            Ok(_) => None,
            Err(error) if is_nothing(&error) || error.code() == Code::Unreachable => None,
            Err(error) => Some(format!("@soak:{number}, perhaps lost: {error}")),
        });
        self.find(found);
        if let Ok(token) = look(self.shared, client, number, Some(Duration::ZERO)) {
            self.is_everywhere(number, token);
            return Some(token);
        }
        self.delete(number);
        self.agree("resurrected", number, |found| found.is_none());
        None
    }

    fn delete(&mut self, number: NameNo) {
        let client = &self.clients[number % self.clients.len()];
        let deleted = until(REST_WITHIN, || {
            let outcome = delete(self.shared, client, number);
            outcome.err().map(|error| format!("@soak:{number} is not deleted: {error}"))
        });
        self.find(deleted);
        lock(&self.shared.history).settle(number, None);
    }

    /// Objects without names are where they are to be, and once they are deleted nowhere.
    fn unnamed(&mut self) {
        let certain = lock(&self.shared.homed).certain();
        for id in certain {
            for (node, client) in self.clients.iter().enumerate() {
                let finding = until(GET_WITHIN, || {
                    let found = homed::look(self.shared, client, &id, Instant::now());
                    found.err().map(|error| format!("lost: {id} on node {node}: {error}"))
                });
                self.findings.extend(finding);
            }
        }
        let finding = until(REST_WITHIN, || {
            let mut ids = lock(&self.shared.homed).ids();
            for (node, client) in self.clients.iter().enumerate() {
                let listed = match homed::listed(client) {
                    Ok(listed) => listed,
                    Err(error) => return Some(error.to_string()),
                };
                if let Some(id) = lock(&self.shared.homed).resurrected(&listed) {
                    return Some(format!("resurrected: {id} on node {node}"));
                }
                ids.extend(listed);
            }
            match self.clients[0].delete(&ids) {
                Ok(outcomes) if outcomes.iter().all(Option::is_none) => None,
                Ok(outcomes) => {
                    let code = outcomes.iter().flatten().next();
                    Some(format!("objects without names are not deleted: {code:?}"))
                }
                Err(error) => Some(error.to_string()),
            }
        });
        self.findings.extend(finding);
        lock(&self.shared.homed).forget();
    }

    /// Each object has a copy that is never evicted on more than one node.
    fn copies(&mut self, live: &BTreeMap<NameNo, Token>) {
        let wanted = |number: &NameNo, token: &Token| {
            lock(&self.shared.history).copies(*number, *token).min(self.clients.len())
        };
        let wanted: BTreeMap<NameNo, usize> =
            live.iter().map(|(number, token)| (*number, wanted(number, token))).collect();
        let finding = until(REST_WITHIN, || {
            let mut found: BTreeMap<_, usize> = BTreeMap::new();
            for client in &self.clients {
                let listed = client.list(&Filter::default()).unwrap_or_default();
                let kept = listed.iter().filter(|info| info.traits.policy == Policy::Keep);
                kept.for_each(|info| *found.entry(info.id).or_default() += 1);
            }
            let mut few = wanted.iter().filter(|(number, wanted)| {
                found.get(&name(**number).id()).is_none_or(|found| found < *wanted)
            });
            few.next().map(|(number, wanted)| {
                let found = found.get(&name(*number).id()).copied().unwrap_or(0);
                format!("@soak:{number} has {found} copies of {wanted}")
            })
        });
        self.find(finding);
    }

    /// No two copies of an object differ, as their nodes have read them.
    fn contents(&mut self) {
        let client = &self.clients[0];
        let finding = until(REST_WITHIN, || match client.pool_compare(REST_WITHIN, |_| ()) {
            Ok(found) if found.is_right() => None,
            Ok(found) => Some(format!("contents differ: {found:?}")),
            Err(error) => Some(error.to_string()),
        });
        self.find(finding);
    }

    /// Each node has a log, which works and has nothing that cannot be read.
    fn logs(&mut self) {
        for (node, client) in self.clients.iter().enumerate() {
            let status = client.status().map(|status| status.log);
            let is_right = status.as_ref().is_ok_and(|log| {
                let right = log.as_ref().map(|log| log.fault.is_empty() && log.damaged == 0);
                right == Some(true)
            });
            if !is_right {
                self.findings.push(format!("torn: the log of node {node}: {status:?}"));
            }
        }
    }

    /// What a store has that no object needs.
    fn leak(&self, live: &BTreeMap<NameNo, Token>) -> Option<String> {
        let ids: BTreeSet<_> = live.keys().map(|number| name(*number).id()).collect();
        self.clients.iter().enumerate().find_map(|(node, client)| {
            let told = |error: Error| Some(format!("node {node}: {error}"));
            let listed = match client.list(&Filter::default()) {
                Ok(listed) => listed,
                Err(error) => return told(error),
            };
            // What is read ahead for a client that has died ends by itself after a minute.
            let is_passing = |info: &ObjectInfo| info.expires_ms.is_some();
            let wrong =
                |info: &&ObjectInfo| info.pins > 0 || !(ids.contains(&info.id) || is_passing(info));
            if let Some(info) = listed.iter().find(wrong) {
                return Some(format!("leak: node {node} has {info:?}"));
            }
            let status = match client.status() {
                Ok(status) => status,
                Err(error) => return told(error),
            };
            let needed: u64 =
                listed.iter().map(|info| info.sizes.total().unwrap_or(0) + 4096).sum();
            let is_clean = status.creating == 0
                && status.lingering == 0
                && status.waits == 0
                && status.used_bytes <= needed + USED_BYTES_MAX
                && status.objects as usize == listed.len();
            (!is_clean).then(|| {
                format!(
                    "leak: node {node} has {} objects of {needed} bytes, {status:?}",
                    listed.len()
                )
            })
        })
    }
}

fn is_nothing(error: &Error) -> bool {
    matches!(error.code(), Code::Absent | Code::Deleted)
}
