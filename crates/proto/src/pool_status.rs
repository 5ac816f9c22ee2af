//! What an operator sees of a pool: its nodes, and how it is as a whole.
//!
//! The command makes both from what etcd says, and a pool daemon for programs that ask it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::pool::Slot;

/// Nodes that are named as not reached by one node, and pairs of nodes that do not reach each
/// other.
pub const UNREACHED_MAX: usize = 8;

/// Nodes that are named as those that groups wait for, or whose logs have failed.
pub const WAITED_FOR_MAX: usize = 32;

/// Refused nodes that a pool daemon names.
pub const REFUSED_MAX: usize = 32;

/// Whether a node takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeState {
    /// It holds its lease.
    Up,
    /// Its lease is gone; its copies are counted as still there.
    Down,
    /// It was given up, so its copies are made again elsewhere; or it was drained, and has left.
    Out,
    /// It holds its lease, and its copies move to other nodes.
    Draining,
    /// It holds its lease, and no copy of it is needed: it can be stopped without loss.
    Drained,
}

impl NodeState {
    /// In one word.
    pub fn key(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Down => "down",
            Self::Out => "out",
            Self::Draining => "draining",
            Self::Drained => "drained",
        }
    }
}

impl fmt::Display for NodeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.key())
    }
}

/// A node of a pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolNode {
    /// Its number, which no other node gets.
    pub slot: Slot,
    /// Its name.
    pub name: String,
    /// Whether it takes part.
    pub state: NodeState,
    /// The number of the map in which it got this state, or was started again.
    pub since_epoch: u64,
    /// Whether an operator wants it to be empty.
    pub drain: bool,
    /// Whether it decides about the map.
    pub leads: bool,
    /// The groups of ids that it leads.
    pub groups_led: u32,
    /// The groups of ids that it keeps the records of, or is about to.
    pub groups: u32,
    /// Those of them of which it has every record.
    pub groups_complete: u32,
    /// What fails together with it.
    pub zone: String,
    /// Its share of groups and copies.
    pub weight: u32,
    /// Where the other nodes reach it, the best first.
    pub addresses: Vec<String>,
    /// What is left of a node that drains.
    pub left: Option<DrainLeft>,
    /// The names of the nodes that it and they do not reach, [`UNREACHED_MAX`] at most.
    pub unreached: Vec<String>,
    /// What it encrypts; `None` for nothing.
    pub encryption: Option<NodeEncryption>,
    /// By what others write into its memory; `None` where that was not asked for.
    pub fabric: Option<NodeFabric>,
}

/// The providers of libfabric of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeFabric {
    /// Those in use, separated by commas; empty where all content comes over TCP.
    pub providers: String,
    /// Why others are not used; empty where all of them are.
    pub refused: String,
    /// Endpoints that had to be closed since the start of its pool daemon, because a peer was lost
    /// or did not answer.
    pub closed: u32,
}

/// What a node encrypts: its messages, and perhaps more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeEncryption {
    /// Whether the content of objects is encrypted as well.
    pub data: bool,
    /// The last second of its certificate, since 1970.
    pub not_after: u64,
}

/// What a draining node has that is not elsewhere yet, as far as the other nodes have reported it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrainLeft {
    /// Objects that need the node's copy.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Those of them of which no other live node keeps a copy: they are lost with the node.
    pub last: u64,
    /// Those of them for which the pool has too few other nodes.
    pub few_nodes: u64,
    /// Those for which the other nodes have no room.
    pub no_room: u64,
    /// Those that no live node has: they cannot be copied now.
    pub unreachable: u64,
    /// Groups of ids whose records it still keeps.
    pub groups: u32,
    /// Groups of ids that no live node leads: what is left in them is not known.
    pub groups_unled: u32,
    /// Nodes that have not reported yet what is left.
    pub nodes_unreported: u32,
}

/// A node that holds a lease and takes no part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedNode {
    /// Its identity, as 32 hexadecimal digits.
    pub uuid: String,
    /// Why, with its name.
    pub reason: String,
}

/// A pool as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolStatus {
    /// The number of the map; 0 before the first.
    pub epoch: u64,
    /// The name of the node that decides about the map.
    pub leader: Option<String>,
    /// Nodes that hold their leases, those that drain included.
    pub nodes_live: u32,
    /// Nodes that lost their leases.
    pub nodes_down: u32,
    /// Nodes that were given up, or were drained.
    pub nodes_out: u32,
    /// Those of the live ones that are to become empty.
    pub nodes_draining: u32,
    /// The groups that the ids are divided into.
    pub groups: u32,
    /// Groups of which all nodes that shall have the records have them.
    pub groups_settled: u32,
    /// Groups without a live node that has the records: their objects cannot be found.
    pub groups_dead: u32,
    /// Why no node is given up.
    pub alarm: Option<String>,
    /// Why the map cannot be used.
    pub bad_map: Option<String>,
    /// Nodes that are not let in.
    pub refused: Vec<RefusedNode>,
    /// The names of nodes that do not reach each other, [`UNREACHED_MAX`] pairs at most.
    pub unreached: Vec<(String, String)>,
    /// The nodes without a lease that groups need to be complete, by name, and how many groups need
    /// each; [`WAITED_FOR_MAX`] nodes at most.
    pub waited_for: Vec<(String, u32)>,
    /// The names of nodes whose log for durable objects has failed, [`WAITED_FOR_MAX`] at most.
    pub logs_failed: Vec<String>,
}
