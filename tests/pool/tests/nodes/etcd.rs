//! The double of etcd: leases, the map, and the leader that writes it.

use std::sync::Arc;

use plasmon_cluster::leader::{Activation, Leader, Observation};
use plasmon_cluster::{Map, Member, Reach};
use plasmon_pool::Mono;
use plasmon_pool::limits::ISOLATED_MARGIN_MS;

use super::adoption::AdoptionKeys;
use super::agents::News;
use super::machine::{ISOLATED_SERVE_MS, Machine};
use super::world::{What, World};

/// The time to live of a lease, and how much earlier a node stops to decide.
pub(crate) const TTL_MS: u64 = 3_000;
const FENCE_MS: u64 = 500;
const KEEP_ALIVE_MS: u64 = 500;
const OUT_AFTER_MS: u64 = 2_500;

/// What etcd has.
pub(crate) struct Etcd {
    leader: Leader,
    /// The maps, each with the time when it was made.
    pub(crate) maps: Vec<(Mono, Arc<Map>)>,
    pub(crate) last_map: Mono,
    pub(crate) activations: Vec<Activation>,
    /// What held a lease when the leader looked last, and when it wants to look again.
    seen_members: Vec<(usize, u64)>,
    leader_due: Option<u64>,
    pub(crate) adoptions: AdoptionKeys,
}

impl Etcd {
    pub(crate) fn new() -> Self {
        Self {
            leader: Leader::new(OUT_AFTER_MS).silent_after(ISOLATED_SERVE_MS + ISOLATED_MARGIN_MS),
            maps: vec![(Mono(0), Arc::new(Map::default()))],
            last_map: Mono(0),
            activations: Vec::new(),
            seen_members: Vec::new(),
            leader_due: None,
            adoptions: AdoptionKeys::new(),
        }
    }
}

impl World {
    /// A lease is kept alive, or granted.
    pub(crate) fn keep_alive(&mut self, at: usize) -> Result<(), String> {
        let now = self.now;
        let machine = &mut self.machines[at];
        let Some(agent) = &machine.agent else { return Ok(()) };
        let (incarnation, paused) = (agent.incarnation, agent.paused);
        self.after_ms(KEEP_ALIVE_MS, What::KeepAlive { at, incarnation });
        let machine = &mut self.machines[at];
        if paused || !machine.reaches_etcd {
            return Ok(());
        }
        let lapsed = machine.lease_expires.is_none_or(|expires| expires <= now);
        machine.lease_expires = Some(now.after_ms(TTL_MS));
        if lapsed {
            self.elect();
            self.etcd_tells(at, News::LeaseLost);
        }
        self.etcd_tells(at, News::Lease(now.after_ms(TTL_MS - FENCE_MS)));
        self.send_changes(at);
        if lapsed {
            self.machines[at].maps_sent = self.etcd.maps.len() - 1;
            self.send_maps(at);
        }
        self.serve_adoptions(at);
        Ok(())
    }

    pub(crate) fn etcd_tells(&mut self, at: usize, news: News) {
        let delay_us = self.delay_us();
        let machine = &mut self.machines[at];
        machine.etcd_last = Mono((self.now.0 + delay_us).max(machine.etcd_last.0 + 1));
        let (due, incarnation) = (machine.etcd_last, machine.incarnation);
        self.at(due, What::News { at, incarnation, news });
    }

    fn send_maps(&mut self, at: usize) {
        while self.machines[at].maps_sent < self.etcd.maps.len() {
            let (_, map) = self.etcd.maps[self.machines[at].maps_sent].clone();
            self.machines[at].maps_sent += 1;
            self.etcd_tells(at, News::Map(map));
        }
    }

    /// The leader looks at the leases, and the nodes get the maps that follow.
    pub(crate) fn elect(&mut self) {
        let now = self.now;
        let holds = |machine: &&Machine| machine.lease_expires.is_some_and(|until| until > now);
        let holders: Vec<_> = self.machines.iter().filter(holds).collect();
        let seen_members: Vec<_> = holders.iter().map(|m| (m.index, m.incarnation)).collect();
        let is_due = self.etcd.leader_due.is_some_and(|due| due <= now.0 / 1000);
        let is_new = seen_members != self.etcd.seen_members;
        if is_new || is_due || !self.etcd.activations.is_empty() {
            let members: Vec<_> = holders.into_iter().map(Machine::member).collect();
            self.etcd.seen_members = seen_members;
            self.propose(&members);
        }
        self.lead_adoptions();
        for at in 0..self.machines.len() {
            let machine = &self.machines[at];
            let has_lease = machine.lease_expires.is_some_and(|until| until > now);
            if has_lease && machine.reaches_etcd && machine.agent.is_some() {
                self.send_maps(at);
            }
        }
    }

    fn propose(&mut self, members: &[Member]) {
        let now = self.now;
        let (_, map) = self.etcd.maps[self.etcd.maps.len() - 1].clone();
        let seen = Observation {
            map: &map,
            members,
            activations: &std::mem::take(&mut self.etcd.activations),
            drained: &[],
            commands: &[],
            reach: Reach::default(),
        };
        let decision = self.etcd.leader.step(now.0 / 1000, &seen);
        self.etcd.leader_due = decision.deadline_ms;
        let Some(map) = decision.proposal else { return };
        let states: Vec<_> = map.nodes().map(|(slot, node)| (slot.0, node.state)).collect();
        self.note(|| format!("map {} {states:?}", map.epoch()));
        for id in self.ids.clone() {
            let group = map.group(Map::group_of(&id)).clone();
            if group.in_sync == 0 {
                self.history.wiped.insert(id, now);
            }
            if group.since == map.epoch() {
                self.note(|| format!("{id}: {group:?}"));
            }
        }
        self.etcd.maps.push((now, Arc::new(map)));
        self.etcd.last_map = now;
        self.etcd.leader_due = Some(0);
    }
}
