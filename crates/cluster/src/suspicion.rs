//! Which peers a node does not reach, as it reports in etcd.
//!
//! ```text
//!             expected: live in the map, or waiting for it with a lease
//!   (fresh) ── nothing heard for after_ms, while it is expected ──► suspect
//!      ▲                                                             │
//!      └── heard again, started again, or out and without a lease ◄──┘
//! ```
//!
//! A suspect that loses its lease stays one: the node that leads may have fenced it because of the
//! report ([`crate::fence`]), and lets it come back when the report is withdrawn. A report is
//! written when the set of suspects changes, and not for every beat.
//!
//! A node that stood still itself has heard nothing meanwhile: that time does not count.

use std::collections::BTreeMap;

use crate::map::Map;
use crate::node::{NodeState, Slot};

/// So long a node hears nothing of a peer before it reports it, unless a setting says otherwise:
/// three beats.
pub const SUSPECT_AFTER_MS: u64 = 3_000;

/// How often a node looks which peers it has heard.
pub const LOOK_EVERY_MS: u64 = 500;

/// A node that has not looked for so long stood still.
const STOOD_STILL_MS: u64 = 3 * LOOK_EVERY_MS;

/// A start of a node that another node does not reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Suspect {
    /// The node.
    pub slot: Slot,
    /// The start of it.
    pub incarnation: u64,
}

/// What a node has heard of a peer.
#[derive(Clone, Debug)]
struct Peer {
    incarnation: u64,
    /// When it was last heard, or from when on it could have been.
    heard_ms: u64,
    is_suspect: bool,
}

/// What a node has heard of its peers.
#[derive(Clone, Debug)]
pub struct Suspicion {
    after_ms: u64,
    peers: BTreeMap<Slot, Peer>,
    looked_ms: u64,
}

impl Suspicion {
    /// A node that suspects peers that it has not heard for so long.
    pub fn new(after_ms: u64) -> Self {
        Self { after_ms, peers: BTreeMap::new(), looked_ms: 0 }
    }

    /// What was heard before says nothing any more, as after a lost lease.
    pub fn clear(&mut self) {
        self.peers.clear();
    }

    /// Looks which peers were heard; those that are suspect, in the order of their slots.
    /// `is_waiting` says whether a node holds a lease though it is not live in the map; `heard`
    /// when a peer was last heard over a connection that is up.
    pub fn look(
        &mut self,
        now_ms: u64,
        (map, own): (&Map, Slot),
        is_waiting: impl Fn(Slot) -> bool,
        heard: impl Fn(Slot) -> Option<u64>,
    ) -> Vec<Suspect> {
        let still_ms = now_ms.saturating_sub(self.looked_ms);
        if still_ms > STOOD_STILL_MS {
            let peers = self.peers.values_mut();
            peers.for_each(|peer| peer.heard_ms = peer.heard_ms.saturating_add(still_ms));
        }
        self.looked_ms = now_ms;
        self.peers.retain(|slot, peer| {
            let node = map.node(*slot);
            node.is_some_and(|node| {
                let is_gone = node.state == NodeState::Out && !is_waiting(*slot);
                node.member.incarnation == peer.incarnation && !is_gone
            })
        });
        for (slot, node) in map.nodes().filter(|(slot, _)| *slot != own) {
            let is_expected = node.is_live() || is_waiting(slot);
            if !is_expected && !self.peers.contains_key(&slot) {
                continue;
            }
            let incarnation = node.member.incarnation;
            let fresh = Peer { incarnation, heard_ms: now_ms, is_suspect: false };
            let peer = self.peers.entry(slot).or_insert(fresh);
            if let Some(at_ms) = heard(slot) {
                peer.heard_ms = peer.heard_ms.max(at_ms);
                peer.is_suspect &= at_ms.saturating_add(self.after_ms) <= now_ms;
            }
            if !is_expected && !peer.is_suspect {
                peer.heard_ms = now_ms;
            }
            peer.is_suspect |= peer.heard_ms.saturating_add(self.after_ms) <= now_ms;
        }
        let suspects = self.peers.iter().filter(|(_, peer)| peer.is_suspect);
        suspects
            .map(|(slot, peer)| Suspect { slot: *slot, incarnation: peer.incarnation })
            .collect()
    }
}

#[cfg(test)]
mod tests;
