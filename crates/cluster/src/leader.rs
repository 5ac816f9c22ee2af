//! What the leader of the pool proposes: the next map, from the current one and from what holds a
//! lease.
//!
//! ```text
//!              new uuid                    lease gone                 for out_after_ms
//!   (absent) -----------> Up ----------------------------> Down ----------------------> Out
//!                         ^ | drain                        |  ^        unless the       | ^
//!                         | v            lease gone        |  |        brake holds      | |
//!                      Draining ---------------------------|--+                         | |
//!                         | ^      lease is back           |                            | |
//!                         | +------------------------------+-------- lease is back -----+ |
//!                         +-------- lease gone, and it is drained ------------------------+
//!   forget: from any state without a lease, (absent); the slot is not used again
//! ```
//!
//! The node that leads calls [`Leader::step`] with every change of the map or of the members, and
//! when the deadline that it names has come. The proposal is written by a transaction that fails if
//! the map in etcd is not the one that was seen or the election is lost; then nothing has happened,
//! and the next step sees the new map. So a leader keeps nothing but when nodes were lost: another
//! one that takes over counts from when it first saw them down. *Lease gone* is also a node that
//! holds one and is kept from being live, because others do not reach it ([`crate::fence`]).

use std::collections::{BTreeMap, BTreeSet};

use crate::admission::{Admission, Refusal};
use crate::brake::{Alarm, Brake};
use crate::fence::{self, Fences, Reach, Times};
use crate::map::{GroupNo, Map};
use crate::node::{Epoch, Member, Node, NodeState, Slot};
use crate::regroup::Nodes;
use crate::rendezvous::{Candidate, Targets};
use crate::silence::{SILENT_AFTER_MS, Silence};

/// How long a node is down before it is given up, unless a setting says otherwise.
pub const OUT_AFTER_MS: u64 = 10_000;

/// A primary's report: it leads its group, and all acting nodes have every record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Activation {
    /// The primary.
    pub primary: Slot,
    /// The group.
    pub group: GroupNo,
    /// [`crate::map::Group::since`] of the group that it means; a report about earlier nodes of the
    /// group changes nothing.
    pub since: Epoch,
}

/// What an operator wants of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// It shall become empty.
    Drain(Slot),
    /// It shall take part again.
    Undrain(Slot),
    /// It will not come back: all that only it had is lost.
    Forget(Slot),
}

/// Why a command is not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// No such node.
    #[error("no node of the pool has slot {0}")]
    Unknown(Slot),
    /// A node that is there cannot be forgotten.
    #[error("the node in slot {0} holds its lease; drain it and stop it first")]
    HoldsLease(Slot),
}

impl CommandError {
    /// The slot that the command names.
    pub fn slot(&self) -> Slot {
        let (Self::Unknown(slot) | Self::HoldsLease(slot)) = *self;
        slot
    }
}

/// What the leader sees. All of it may be seen again in the next step, until the map says that it
/// was dealt with.
#[derive(Clone, Copy, Debug)]
pub struct Observation<'a> {
    /// The current map.
    pub map: &'a Map,
    /// What holds a lease, in the order in which the leases were granted.
    pub members: &'a [Member],
    /// What primaries reported.
    pub activations: &'a [Activation],
    /// Draining nodes without a copy that is needed ([`crate::drain::drained`]).
    pub drained: &'a [Slot],
    /// What operators want.
    pub commands: &'a [Command],
    /// Which nodes reach each other.
    pub reach: Reach<'a>,
}

/// What comes of an observation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The next map; `None` if the current one is right.
    pub proposal: Option<Map>,
    /// Members that take no part.
    pub refusals: Vec<Refusal>,
    /// Commands that are not carried out.
    pub command_errors: Vec<CommandError>,
    /// Why no node goes out.
    pub alarm: Option<Alarm>,
    /// Live nodes that have to stop and to end their leases, because others do not reach them.
    pub fence: BTreeSet<Slot>,
    /// When to step again without a change.
    pub deadline_ms: Option<u64>,
}

/// The leader's rules and the little that it remembers.
#[derive(Clone, Debug)]
pub struct Leader {
    out_after_ms: u64,
    brake: Brake,
    silence: Silence,
    fences: Fences,
    targets: Targets,
    /// Nodes that hold their leases and were drained at the last step. What they report goes with
    /// their leases.
    drained: BTreeSet<Slot>,
}

impl Leader {
    /// A leader that gives nodes up when they were down for `out_after_ms`.
    pub fn new(out_after_ms: u64) -> Self {
        let (brake, silence) = (Brake::default(), Silence::new(SILENT_AFTER_MS));
        let (targets, drained) = (Targets::default(), BTreeSet::new());
        Self { out_after_ms, brake, silence, fences: Fences::default(), targets, drained }
    }

    /// One that counts nodes as silent after another time; for simulations, whose nodes have
    /// others.
    pub fn silent_after(mut self, ms: u64) -> Self {
        self.silence = Silence::new(ms);
        self
    }

    /// One that fences nodes by other times; for simulations, too.
    pub fn fence_times(mut self, times: Times) -> Self {
        self.fences = Fences::new(times);
        self
    }

    /// Decides the next map. `now_ms` is of a clock that never runs backwards.
    pub fn step(&mut self, now_ms: u64, seen: &Observation<'_>) -> Decision {
        let mut next = seen.map.clone();
        next.epoch = Epoch(seen.map.epoch.0 + 1);
        let Admission { mut present, restarted, refusals } = Admission::of(&mut next, seen.members);
        let command_errors = carry_out(&mut next, seen.commands, &present);
        let fences = self.fence(now_ms, seen, (&present, &restarted));
        present.retain(|slot| !fences.held.contains(slot));
        set_presence(&mut next, &present, &self.drained);
        self.drained = seen.drained.iter().filter(|slot| present.contains(slot)).copied().collect();
        activate(&mut next, seen.activations);

        let view = Nodes { nodes: &next.nodes, restarted: &restarted, epoch: next.epoch };
        let dead_groups = next.groups.iter().filter(|group| view.is_dead(group)).count();
        self.brake.update(now_ms, &next.nodes, dead_groups);
        let out_ms = self.give_up(now_ms, &mut next);
        let silent_ms = self.silence.step(now_ms, seen.map, &present, &mut next);
        let deadlines = out_ms.into_iter().chain(silent_ms).chain(fences.deadline_ms);
        let deadline_ms = deadlines.min();
        self.regroup(&mut next, &restarted);

        let alarm = self.brake.alarm(&next.nodes, dead_groups);
        let is_same = next.nodes == seen.map.nodes && next.groups == seen.map.groups;
        let proposal = (!is_same).then_some(next);
        let fence = fences.fence;
        Decision { proposal, refusals, command_errors, alarm, fence, deadline_ms }
    }

    /// What follows from which nodes reach each other.
    fn fence(
        &mut self,
        now_ms: u64,
        seen: &Observation<'_>,
        (present, restarted): (&BTreeSet<Slot>, &BTreeSet<Slot>),
    ) -> fence::Outcome {
        let (map, reach) = (seen.map, seen.reach);
        let present = present - restarted;
        let is_lost = |(slot, node): &(Slot, &Node)| node.is_live() && !present.contains(slot);
        let lost = map.nodes().filter(is_lost).count();
        let room = self.brake.room(now_ms, &map.nodes).saturating_sub(lost);
        self.fences.step(now_ms, &fence::Seen { map, present: &present, reach, room })
    }

    /// Nodes that are down for long go out; says when the next one will.
    fn give_up(&self, now_ms: u64, next: &mut Map) -> Option<u64> {
        let mut deadline_ms: Option<u64> = None;
        let epoch = next.epoch;
        for (slot, node) in next.nodes.iter_mut().filter(|(_, node)| node.state == NodeState::Down)
        {
            match self.brake.out_at_ms(*slot, self.out_after_ms) {
                Some(at_ms) if at_ms <= now_ms => set_state(node, NodeState::Out, epoch),
                Some(at_ms) => {
                    deadline_ms = Some(deadline_ms.map_or(at_ms, |other| other.min(at_ms)));
                }
                None => {}
            }
        }
        deadline_ms
    }

    fn regroup(&mut self, next: &mut Map, restarted: &BTreeSet<Slot>) {
        // A node that is down keeps its place: its groups are not filled up before it is out.
        let may_have_groups =
            |node: &Node| matches!(node.state, NodeState::Up | NodeState::Down) && !node.drain;
        let candidates: BTreeMap<Slot, Candidate> = next
            .nodes()
            .filter(|(_, node)| may_have_groups(node) && node.member.weight > 0)
            .map(|(slot, node)| (slot, Candidate::new(slot, &node.member)))
            .collect();
        self.targets.update(candidates);
        let view = Nodes { nodes: &next.nodes, restarted, epoch: next.epoch };
        for (number, group) in GroupNo::all().zip(&mut next.groups) {
            *group = view.next(group, &self.targets.of(number));
        }
    }
}

fn carry_out(next: &mut Map, commands: &[Command], present: &BTreeSet<Slot>) -> Vec<CommandError> {
    let mut errors = Vec::new();
    for command in commands {
        let (Command::Drain(slot) | Command::Undrain(slot) | Command::Forget(slot)) = *command;
        let Some(node) = next.nodes.get_mut(&slot) else {
            errors.push(CommandError::Unknown(slot));
            continue;
        };
        match command {
            Command::Drain(_) => node.drain = true,
            Command::Undrain(_) => node.drain = false,
            Command::Forget(_) if present.contains(&slot) => {
                errors.push(CommandError::HoldsLease(slot));
            }
            Command::Forget(_) => _ = next.nodes.remove(&slot),
        }
    }
    errors
}

/// The states that follow from which nodes hold a lease. A drained node that leaves is not lost:
/// there is nothing to wait for.
fn set_presence(next: &mut Map, present: &BTreeSet<Slot>, drained: &BTreeSet<Slot>) {
    let epoch = next.epoch;
    for (slot, node) in &mut next.nodes {
        let state = match (present.contains(slot), node.state) {
            (true, _) if node.drain => NodeState::Draining,
            (true, _) => NodeState::Up,
            (false, NodeState::Draining) if drained.contains(slot) => NodeState::Out,
            (false, NodeState::Out) => NodeState::Out,
            (false, _) => NodeState::Down,
        };
        set_state(node, state, epoch);
        node.silent &= !present.contains(slot);
    }
}

fn set_state(node: &mut Node, state: NodeState, epoch: Epoch) {
    if node.state != state {
        (node.state, node.since) = (state, epoch);
    }
}

/// Groups whose primary reported that all acting nodes have every record.
fn activate(next: &mut Map, activations: &[Activation]) {
    for Activation { primary, group, since } in activations {
        let group = &mut next.groups[group.index()];
        if group.primary() == Some(*primary) && group.since == *since {
            group.in_sync = group.acting.len() as u8;
            group.prior = None;
        }
    }
}

#[cfg(test)]
mod tests;
