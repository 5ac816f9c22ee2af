//! The brake: when many nodes are lost at once, none of them is given up.
//!
//! A node that is down for long goes out, and what it had is copied again elsewhere. When a switch
//! fails, or etcd itself ends every lease, that would copy most of the pool onto the few nodes that
//! are left, for nodes that come back a minute later with all they had. So the leader stops giving
//! nodes up, and shows an alarm until nodes return or an operator forgets some.

use std::collections::BTreeMap;
use std::fmt;

use crate::node::{Node, NodeState, Slot};

/// Losses within so long count as one.
pub const WINDOW_MS: u64 = 30_000;

/// Why no node goes out, and what ends that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alarm {
    /// The nodes that were lost, in the order of their slots.
    pub lost: Vec<Slot>,
    /// How many of them the pool bears.
    pub lost_max: usize,
    /// Groups without a live node that has their records: their objects cannot be found.
    pub dead_groups: usize,
}

impl fmt::Display for Alarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lost, lost_max, dead_groups } = self;
        let slots: Vec<String> = lost.iter().map(Slot::to_string).collect();
        write!(
            f,
            "{} nodes are lost (slots {}) and {dead_groups} groups have no live node; no node is \
             given up until at most {lost_max} are lost and every group has one: start the nodes \
             again, or forget those that will not come back",
            lost.len(),
            slots.join(", "),
        )
    }
}

/// When each node was lost, and whether the brake holds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Brake {
    /// Nodes that are down or went out from there, with the time at which the leader first saw it.
    lost_ms: BTreeMap<Slot, u64>,
    holds: bool,
}

impl Brake {
    /// Looks at the nodes of the next map and decides whether the brake holds.
    pub(crate) fn update(&mut self, now_ms: u64, nodes: &BTreeMap<Slot, Node>, dead_groups: usize) {
        for (slot, _) in nodes.iter().filter(|(_, node)| node.state == NodeState::Down) {
            self.lost_ms.entry(*slot).or_insert(now_ms);
        }
        let holds = self.holds;
        self.lost_ms.retain(|slot, lost_ms| match nodes.get(slot) {
            Some(node) if node.state == NodeState::Out && !holds => *lost_ms + WINDOW_MS > now_ms,
            Some(node) => !node.is_live(),
            None => false,
        });
        let recent = |lost_ms: &&u64| holds || **lost_ms + WINDOW_MS > now_ms;
        let lost = self.lost_ms.values().filter(recent).count();
        self.holds = lost > self.lost_max(nodes) || dead_groups > 0;
        if holds && !self.holds {
            // The nodes that are still lost get as long as if it happened now.
            self.lost_ms.values_mut().for_each(|lost_ms| *lost_ms = now_ms);
        }
    }

    /// When a node that is down goes out; `None` while the brake holds.
    pub(crate) fn out_at_ms(&self, slot: Slot, out_after_ms: u64) -> Option<u64> {
        let lost_ms = self.lost_ms.get(&slot).filter(|_| !self.holds)?;
        Some(lost_ms.saturating_add(out_after_ms))
    }

    /// How many more nodes may be lost before no node goes out.
    pub(crate) fn room(&self, now_ms: u64, nodes: &BTreeMap<Slot, Node>) -> usize {
        let recent = |lost_ms: &&u64| **lost_ms + WINDOW_MS > now_ms;
        let lost = self.lost_ms.values().filter(recent).count();
        if self.holds { 0 } else { self.lost_max(nodes).saturating_sub(lost) }
    }

    /// Whether no node goes out.
    #[cfg(test)]
    pub(crate) fn holds(&self) -> bool {
        self.holds
    }

    /// What to show while the brake holds.
    pub(crate) fn alarm(&self, nodes: &BTreeMap<Slot, Node>, dead_groups: usize) -> Option<Alarm> {
        self.holds.then(|| Alarm {
            lost: self.lost_ms.keys().copied().collect(),
            lost_max: self.lost_max(nodes),
            dead_groups,
        })
    }

    /// A quarter of the nodes, and one in any case.
    fn lost_max(&self, nodes: &BTreeMap<Slot, Node>) -> usize {
        let counts = |(slot, node): &(&Slot, &Node)| {
            node.state != NodeState::Out || self.lost_ms.contains_key(slot)
        };
        (nodes.iter().filter(counts).count() / 4).max(1)
    }
}

#[cfg(test)]
mod tests;
