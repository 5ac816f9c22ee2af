//! A pool in which every proposal becomes the map, and what must hold then.
//!
//! The model knows more than the leader: which nodes really have all records of a group, and which
//! may believe that they lead it.

use std::collections::{BTreeMap, BTreeSet};

use super::super::*;
use crate::fence::ReachReport;
use crate::fixtures::member;
use crate::map::Group;
use crate::node::NodeUuid;
use crate::suspicion::Suspect;

/// What is true of one group.
#[derive(Clone, Debug, Default)]
struct Fact {
    /// Incarnations that have every record, reachable or not.
    complete: BTreeSet<(Slot, u64)>,
    /// Nodes that led the group and have not been told otherwise.
    leading: BTreeSet<Slot>,
}

/// What is the same for all groups when one map becomes the next.
struct Change {
    /// How many nodes may be given groups.
    fillable: usize,
    /// Nodes whose incarnation of the old map holds a lease.
    alive: BTreeSet<Slot>,
}

#[derive(Clone, Debug)]
pub(super) struct Pool {
    leader: Leader,
    pub(super) now_ms: u64,
    pub(super) map: Map,
    /// What holds a lease.
    pub(super) members: BTreeMap<u16, Member>,
    /// What each node said last.
    last: BTreeMap<u16, Member>,
    facts: Vec<Fact>,
    slots: BTreeMap<Slot, NodeUuid>,
    pub(super) alarm: Option<Alarm>,
    /// Whether draining nodes have copies that are needed.
    pub(super) has_copies: bool,
    /// Pairs of nodes that do not reach each other, and say so.
    pub(super) cuts: BTreeSet<(u16, u16)>,
    /// How often a node was fenced.
    pub(super) fenced: usize,
}

impl Pool {
    /// A pool of these nodes, with this many groups of those that there are.
    pub(super) fn new(nodes: u16, groups: usize) -> Self {
        let mut leader = Leader::new(OUT_AFTER_MS);
        leader.targets = Targets::of_groups(groups);
        let mut map = Map::default();
        map.groups.truncate(groups);
        let last: BTreeMap<u16, Member> =
            (0..nodes).map(|number| (number, member(number))).collect();
        let mut pool = Self {
            leader,
            now_ms: 0,
            map,
            members: last.clone(),
            last,
            facts: vec![Fact::default(); groups],
            slots: BTreeMap::new(),
            alarm: None,
            has_copies: false,
            cuts: BTreeSet::new(),
            fenced: 0,
        };
        pool.settle(&[], &[]);
        pool
    }

    pub(super) fn slot(&self, number: u16) -> Option<Slot> {
        self.map.slot_of(self.last[&number].uuid)
    }

    pub(super) fn state(&self, number: u16) -> Option<NodeState> {
        self.slot(number).and_then(|slot| self.map.node(slot)).map(|node| node.state)
    }

    /// The nodes that a group should be on.
    pub(super) fn target(&self, group: GroupNo) -> Vec<Slot> {
        self.leader.targets.of(group)
    }

    pub(super) fn lose(&mut self, number: u16) {
        self.members.remove(&number);
    }

    pub(super) fn come_back(&mut self, number: u16) {
        self.members.insert(number, self.last[&number].clone());
    }

    pub(super) fn restart(&mut self, number: u16) {
        let member = self.last.get_mut(&number).unwrap();
        member.incarnation += 1;
        for fact in &mut self.facts {
            let slot = self.map.slot_of(member.uuid);
            fact.complete.retain(|(other, _)| Some(*other) != slot);
            fact.leading.retain(|other| Some(*other) != slot);
        }
        self.come_back(number);
    }

    /// The groups that a node leads become active: what their primaries report.
    pub(super) fn activate(&mut self, leads: impl Fn(Slot) -> bool) -> Vec<Activation> {
        let mut activations = Vec::new();
        let incarnations: BTreeMap<NodeUuid, u64> =
            self.members.values().map(|member| (member.uuid, member.incarnation)).collect();
        for ((number, group), fact) in self.map.groups().zip(&mut self.facts) {
            let is_there = |slot: &Slot| {
                let node = self.map.node(*slot).unwrap();
                incarnations.get(&node.member.uuid) == Some(&node.member.incarnation)
            };
            let Some(primary) = group.primary().filter(|slot| leads(*slot)) else { continue };
            if group.is_settled() || !group.acting.iter().chain(&group.prior).all(is_there) {
                continue;
            }
            let all = group.acting.iter().map(|slot| incarnation(&self.map, *slot));
            fact.complete = all.collect();
            fact.leading = BTreeSet::from([primary]);
            activations.push(Activation { primary, group: number, since: group.since });
        }
        activations
    }

    /// Steps until the leader is content, which it soon is. A node that is fenced ends its lease,
    /// and has one again once it is down.
    pub(super) fn settle(&mut self, activations: &[Activation], commands: &[Command]) {
        let mut commands = commands;
        for step in 0.. {
            assert!(step < 16, "the leader does not come to an end");
            let (is_changed, fence) = self.step(activations, std::mem::take(&mut commands));
            let fence: Vec<u16> = fence.iter().map(|slot| self.number(*slot)).collect();
            if fence.is_empty() && !is_changed {
                break;
            }
            fence.iter().for_each(|number| self.lose(*number));
            while !fence.is_empty() && self.step(activations, &[]).0 {}
            self.fenced += fence.len();
            fence.iter().for_each(|number| self.come_back(*number));
        }
    }

    fn number(&self, slot: Slot) -> u16 {
        let uuid = self.map.node(slot).unwrap().member.uuid;
        *self.last.iter().find(|(_, member)| member.uuid == uuid).unwrap().0
    }

    /// What the nodes that hold a lease report.
    fn reports(&self) -> Vec<ReachReport> {
        let start_of = |number: &u16| {
            let member = self.members.get(number)?;
            let slot = self.map.slot_of(member.uuid)?;
            let incarnation = self.map.node(slot)?.member.incarnation;
            (incarnation == member.incarnation).then_some(Suspect { slot, incarnation })
        };
        let report = |number: &u16| {
            let of_pair = |(a, b): &(u16, u16)| match *number {
                n if n == *a => Some(*b),
                n if n == *b => Some(*a),
                _ => None,
            };
            let others = self.cuts.iter().filter_map(of_pair);
            let suspects = others.filter_map(|other| start_of(&other)).collect();
            Some(ReachReport { slot: start_of(number)?.slot, suspects })
        };
        self.members.keys().filter_map(report).collect()
    }

    fn step(&mut self, activations: &[Activation], commands: &[Command]) -> (bool, BTreeSet<Slot>) {
        let reports = self.reports();
        let leader = reports.first().map(|report| report.slot);
        let members: Vec<Member> = self.members.values().cloned().collect();
        let drained: Vec<Slot> =
            self.map.nodes().map(|(slot, _)| slot).filter(|_| !self.has_copies).collect();
        let observation = Observation {
            map: &self.map,
            members: &members,
            activations,
            drained: &drained,
            commands,
            reach: Reach { leader, reports: &reports },
        };
        let decision = self.leader.step(self.now_ms, &observation);
        self.alarm = decision.alarm;
        let fence = decision.fence;
        let Some(next) = decision.proposal else { return (false, fence) };
        let old = std::mem::replace(&mut self.map, next);
        self.check_nodes(&old);
        let change = Change {
            fillable: self.map.nodes().filter(|(_, node)| node.is_assignable()).count(),
            alive: old
                .nodes()
                .filter(|(_, node)| {
                    let Member { uuid, incarnation, .. } = node.member;
                    let mut members = self.members.values();
                    members.any(|member| (member.uuid, member.incarnation) == (uuid, incarnation))
                })
                .map(|(slot, _)| slot)
                .collect(),
        };
        for at in 0..self.map.groups.len() {
            let fact = std::mem::take(&mut self.facts[at]);
            self.facts[at] = self.check_group(&change, &old.groups[at], &self.map.groups[at], fact);
        }
        (true, fence)
    }

    fn check_nodes(&mut self, old: &Map) {
        let new = &self.map;
        assert_eq!(new.epoch.0, old.epoch.0 + 1);
        for (slot, node) in new.nodes() {
            let known = self.slots.entry(slot).or_insert(node.member.uuid);
            assert_eq!(*known, node.member.uuid, "a slot means one node for ever");
        }
        let is_new = |state| {
            let in_old = move |slot| old.node(slot).map(|node| node.state);
            new.nodes()
                .filter(move |(slot, node)| node.state == state && in_old(*slot) != Some(state))
        };
        let given_up = is_new(NodeState::Out)
            .filter(|(slot, _)| old.node(*slot).unwrap().state == NodeState::Down)
            .count();
        if given_up > 0 {
            assert!(self.alarm.is_none());
            let down = new.nodes().filter(|(_, node)| node.state == NodeState::Down).count();
            let counted = new.counted().count() + given_up;
            assert!(down + given_up <= (counted / 4).max(1), "the brake does not hold: {new:?}");
        }
    }

    /// Checks one group of the new map, and says what is true of it from then on.
    fn check_group(&self, change: &Change, before: &Group, group: &Group, fact: Fact) -> Fact {
        let new = &self.map;
        let about = || format!("epoch {}: {before:?} became {group:?}, {fact:?}", new.epoch);
        // What a forgotten node had is given up.
        let known = |entry: &(Slot, u64)| {
            new.node(entry.0).is_some_and(|node| node.member.incarnation == entry.1)
        };
        let complete: BTreeSet<_> = fact.complete.iter().copied().filter(known).collect();
        let live: Vec<Slot> =
            complete.iter().map(|(slot, _)| *slot).filter(|slot| new.is_live(*slot)).collect();
        if !live.is_empty() {
            assert!(group.primary().is_some_and(|slot| live.contains(&slot)), "{}", about());
        }
        let acting_live = live.iter().filter(|slot| before.acting.contains(slot)).count();
        let kept = live.iter().filter(|slot| group.acting.contains(slot)).count();
        assert!(kept >= acting_live.min(2).min(change.fillable), "too few are left; {}", about());
        if before.acting.is_empty() && before.since == Epoch(0) {
            let complete = group.acting.iter().map(|slot| incarnation(new, *slot)).collect();
            return Fact { complete, leading: group.primary().into_iter().collect() };
        }
        for slot in group.in_sync() {
            assert!(complete.contains(&incarnation(new, *slot)), "{slot}; {}", about());
        }
        if group.in_sync == 0 {
            assert!(complete.is_empty(), "records are given up; {}", about());
        }
        let is_moved = group.acting != before.acting;
        assert!(!is_moved || group.since == new.epoch, "{}", about());
        // Led on by a node that has the records, it gets new ones, which only acting nodes have.
        let is_led = group.primary().is_some_and(|slot| live.contains(&slot));
        let is_current = |entry: &(Slot, u64)| !is_led || group.acting.contains(&entry.0);
        let complete = complete.into_iter().filter(is_current).collect();
        let leading = leading(change, before, group, &fact);
        Fact { complete, leading }
    }

    /// What decides about all that can follow, without numbers that only grow.
    pub(super) fn key(&self) -> String {
        let nodes: Vec<_> = self
            .map
            .nodes()
            .map(|(slot, node)| (slot.0, node.member.uuid.0[0], node.state, node.drain))
            .collect();
        let groups: Vec<_> = self
            .map
            .groups
            .iter()
            .map(|group| (&group.acting, group.in_sync, group.prior))
            .zip(&self.facts)
            .map(|(group, fact)| {
                let complete: Vec<_> = fact.complete.iter().map(|(slot, _)| slot.0).collect();
                (group, complete, &fact.leading)
            })
            .collect();
        let leases: Vec<_> = self.members.keys().collect();
        let (brake, fences) =
            (self.leader.brake.key(self.now_ms), self.leader.fences.key(self.now_ms));
        format!("{nodes:?} {groups:?} {leases:?} {brake} {:?} {fences}", self.cuts)
    }
}

/// The nodes that may believe that they lead a group which has changed.
fn leading(change: &Change, before: &Group, group: &Group, fact: &Fact) -> BTreeSet<Slot> {
    let led = fact.leading.iter().copied().chain(before.primary());
    let mut leading: BTreeSet<Slot> = led.filter(|slot| change.alive.contains(slot)).collect();
    leading.retain(|slot| group.primary() != Some(*slot));
    let named: BTreeSet<Slot> = group.prior.into_iter().collect();
    assert!(leading.is_subset(&named), "{leading:?} may lead, too: {before:?}, {group:?}");
    leading.extend(group.primary());
    leading
}

/// A node with the incarnation that the map has.
fn incarnation(map: &Map, slot: Slot) -> (Slot, u64) {
    (slot, map.node(slot).unwrap().member.incarnation)
}
