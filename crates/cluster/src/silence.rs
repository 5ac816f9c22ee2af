//! Nodes that have been without their lease for so long that they show no copy any more.
//!
//! A name that was deleted is free again once no client can see the deleted object. A node that
//! cannot be told of the delete shows its copy for some time after it lost its lease, and hides it
//! then, by its own clock. So the primary of a name waits for as long, and for a margin. How long a
//! node has been away is not known to a primary that has just started, and the wait would begin
//! anew with each. The leader waits once, and says in the map that it did.
//!
//! # Why that is sound
//!
//! A node lets its store show copies only while it holds its lease and acts by a map that counts
//! its present start as live, each time for `isolated_serve_ms` from then on. The leader counts
//! from a step in which the *current* map, already written, says that the node is not live, and no
//! member of the node holds a lease in the same view of etcd. Whatever lease the node had under an
//! older map had therefore ended before that step. With a new lease it reads the map after its
//! member is written, and finds that it is not live: it vouches for nothing until the leader has
//! made it live, which takes the mark away. So its last word to its store came before the count
//! began, and the margin is for the rates of the two clocks.
//!
//! All maps while one leader leads are its own, so no other leader made the node live in between;
//! one that takes over counts from its own first step.

use std::collections::{BTreeMap, BTreeSet};

use crate::map::Map;
use crate::node::Slot;

/// After so long without its lease a node shows no copy any more that another could have deleted:
/// the time for which it shows them alone, and a margin for clocks.
pub const SILENT_AFTER_MS: u64 = 65_000;

/// Since when nodes are away.
#[derive(Clone, Debug)]
pub(crate) struct Silence {
    after_ms: u64,
    /// Nodes that the current map has as not live, with the time of the leader's first step after
    /// that.
    away_ms: BTreeMap<Slot, u64>,
}

impl Silence {
    pub(crate) fn new(after_ms: u64) -> Self {
        Self { after_ms, away_ms: BTreeMap::new() }
    }

    /// Marks the nodes of the next map that have been away for long; says when the next one will
    /// be marked. `present` are the nodes that hold a lease.
    pub(crate) fn step(
        &mut self,
        now_ms: u64,
        current: &Map,
        present: &BTreeSet<Slot>,
        next: &mut Map,
    ) -> Option<u64> {
        let is_away = |slot: &Slot| {
            let node = current.node(*slot);
            node.is_some_and(|node| !node.is_live()) && !present.contains(slot)
        };
        self.away_ms.retain(|slot, _| is_away(slot));
        let mut deadline_ms: Option<u64> = None;
        for (slot, node) in &mut next.nodes {
            if node.silent || !is_away(slot) {
                continue;
            }
            let away_ms = *self.away_ms.entry(*slot).or_insert(now_ms);
            let at_ms = away_ms.saturating_add(self.after_ms);
            if at_ms <= now_ms {
                node.silent = true;
            } else {
                deadline_ms = Some(deadline_ms.map_or(at_ms, |other| other.min(at_ms)));
            }
        }
        deadline_ms
    }
}

#[cfg(test)]
mod tests;
