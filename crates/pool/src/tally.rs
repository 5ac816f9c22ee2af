//! What a comparison of the records with the copies found.

use std::collections::{BTreeMap, BTreeSet};

use plasmon_cluster::Slot;
use plasmon_cluster::limits::NODES_MAX;
use serde::{Deserialize, Serialize};

/// What a primary found in the groups that it leads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// The groups.
    pub groups: u32,
    /// Objects that exist.
    pub objects: u64,
    /// Those of them that fewer nodes keep than shall.
    pub short: u64,
    /// Those of them that no live node has.
    pub unreachable: u64,
    /// Objects that existed, and of which no node has a copy.
    pub lost: u64,
    /// By node, each once.
    pub nodes: Vec<NodeTally>,
}

/// What a primary found on one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeTally {
    /// The node.
    pub slot: Slot,
    /// Copies that it keeps.
    pub copies: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Copies that it was to keep, and has not.
    pub missing: u64,
    /// Copies of which there is no record.
    pub unrecorded: u64,
}

impl NodeTally {
    /// Nothing on this node.
    pub(crate) fn of(slot: Slot) -> Self {
        Self { slot, copies: 0, bytes: 0, missing: 0, unrecorded: 0 }
    }
}

impl Tally {
    pub(crate) fn keeps_limits(&self) -> bool {
        self.nodes.len() <= NODES_MAX
    }
}

/// What the whole pool found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// What each node found as a primary.
    pub tallies: BTreeMap<Slot, Tally>,
    /// Nodes that did not answer in time, or were lost meanwhile.
    pub unanswered: BTreeSet<Slot>,
}
