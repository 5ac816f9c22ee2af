//! How the nodes of one group change from one map to the next.
//!
//! First what must change, because nodes lost what they had; then, when the group is settled, one
//! step toward the nodes that it should be on.
//!
//! ```text
//!  in sync: A B    joining: -    B is down          ->  A          nothing is promoted but A
//!  in sync: A B    joining: -    should be on A C D ->  A B, C     then, reported: A C, D ...
//!  in sync: A      joining: C    A is down          ->  A, C       it waits: C has not everything
//!  in sync: A      joining: C    A is forgotten     ->  -, C       C rebuilds from inventories
//! ```
//!
//! A step replaces one node, and leaves two nodes in sync where there were two.

use std::collections::{BTreeMap, BTreeSet};

use crate::limits::ACTING_MAX;
use crate::map::Group;
use crate::node::{Epoch, Node, Slot};

/// What an acting node is good for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Presence {
    /// It holds its lease and has what it had.
    Live,
    /// It holds no lease and may come back with what it had.
    Away,
    /// What it had is lost: it started again, or is not in the map any more.
    Lost,
}

/// The nodes of the next map, as far as groups depend on them.
#[derive(Debug)]
pub(crate) struct Nodes<'a> {
    /// All of them.
    pub(crate) nodes: &'a BTreeMap<Slot, Node>,
    /// Those with another incarnation than in the map before.
    pub(crate) restarted: &'a BTreeSet<Slot>,
    /// The next map's.
    pub(crate) epoch: Epoch,
}

impl Nodes<'_> {
    /// Whether every acting node in sync is without a lease, so that the group waits for one of
    /// them.
    pub(crate) fn is_dead(&self, group: &Group) -> bool {
        let has = |presence| group.in_sync().iter().any(|slot| self.presence(*slot) == presence);
        has(Presence::Away) && !has(Presence::Live)
    }

    /// The group in the next map; `target` are the nodes that it should be on.
    pub(crate) fn next(&self, group: &Group, target: &[Slot]) -> Group {
        let mut next = self.without_lost(group, target);
        let is_led = next.primary().is_none_or(|slot| self.is_live(slot));
        // On no node there is nothing to wait for, also not until an earlier primary knows.
        if is_led && (next.is_settled() || next.acting.is_empty()) {
            self.step(&mut next, target);
        }
        let has_restarted = |slot| self.restarted.contains(slot) && group.acting.contains(slot);
        let is_changed = next.acting != group.acting || next.in_sync < group.in_sync;
        if is_changed || next.acting.iter().any(has_restarted) {
            next.since = self.epoch;
        }
        let may_still_lead =
            |slot: &Slot| next.primary() != Some(*slot) && self.presence(*slot) == Presence::Live;
        next.prior = [group.primary(), group.prior].into_iter().flatten().find(may_still_lead);
        next
    }

    fn presence(&self, slot: Slot) -> Presence {
        match self.nodes.get(&slot) {
            None => Presence::Lost,
            Some(_) if self.restarted.contains(&slot) => Presence::Lost,
            Some(node) if node.is_live() => Presence::Live,
            Some(_) => Presence::Away,
        }
    }

    fn is_live(&self, slot: Slot) -> bool {
        self.nodes.get(&slot).is_some_and(Node::is_live)
    }

    fn live(&self, slots: &[Slot]) -> Vec<Slot> {
        slots.iter().copied().filter(|slot| self.is_live(*slot)).collect()
    }

    /// The group without the nodes that have lost what they had, and without those that are away
    /// unless it waits for them.
    fn without_lost(&self, group: &Group, target: &[Slot]) -> Group {
        let these = |slots: &[Slot], presence| -> Vec<Slot> {
            slots.iter().copied().filter(|slot| self.presence(*slot) == presence).collect()
        };
        let mut acting = these(group.in_sync(), Presence::Live);
        if acting.is_empty() {
            acting = these(group.in_sync(), Presence::Away);
        }
        if acting.is_empty() && !group.acting.is_empty() {
            return self.without_records(group, target);
        }
        let in_sync = acting.len() as u8;
        acting.extend(these(group.joining(), Presence::Live));
        Group { acting, in_sync, ..group.clone() }
    }

    /// The group when all its records are lost. There is nothing that a node could lose, so nodes
    /// that started again stay.
    fn without_records(&self, group: &Group, target: &[Slot]) -> Group {
        let stay = self.live(&group.acting);
        let acting = if stay.is_empty() { self.live(target) } else { stay };
        Group { acting, in_sync: 0, ..group.clone() }
    }

    /// One step of a settled group toward the nodes that it should be on.
    fn step(&self, group: &mut Group, target: &[Slot]) {
        let live_target = self.live(target);
        if group.acting.is_empty() {
            // A group that never had a node has no records, and all of its nodes have them all.
            let is_new = group.since == Epoch(0);
            group.in_sync = if is_new { live_target.len() as u8 } else { 0 };
            group.acting = live_target;
            return;
        }
        let is_acting = |slot: &Slot| group.acting.contains(slot);
        let mut missing: Vec<Slot> =
            live_target.iter().copied().filter(|slot| !is_acting(slot)).collect();
        if !missing.is_empty() {
            missing.truncate(if group.acting.len() > 1 { 1 } else { ACTING_MAX - 1 });
            let stay = staying(&group.acting, target, ACTING_MAX - missing.len());
            group.in_sync = stay.len() as u8;
            group.acting = [stay, missing].concat();
        } else if live_target.len() == target.len() && !target.is_empty() {
            let is_moved = group.acting.len() > target.len() || group.acting[0] != target[0];
            if is_moved {
                group.in_sync = target.len() as u8;
                group.acting = live_target;
            }
        }
    }
}

/// So many of the acting nodes, in their order: first those that the group should be on.
fn staying(acting: &[Slot], target: &[Slot], room: usize) -> Vec<Slot> {
    let wanted = acting.iter().filter(|slot| target.contains(slot)).count();
    let mut others = room.saturating_sub(wanted);
    let mut stay = acting.to_vec();
    stay.retain(|slot| {
        let is_wanted = target.contains(slot);
        let stays = is_wanted || others > 0;
        others -= usize::from(stays && !is_wanted);
        stays
    });
    stay
}
