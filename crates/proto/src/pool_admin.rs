//! What an operator sees of a pool: its nodes, and how it is as a whole.
//!
//! The command makes these from what etcd says, the pool daemon from what it knows, and programs
//! get them as they are.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::pool::Slot;

/// Whether a node takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeState {
    /// It holds its lease.
    Up,
    /// Its lease is gone; its copies are counted as still there.
    Down,
    /// It was given up, or was drained: its copies are made again elsewhere.
    Out,
    /// It holds its lease, and its copies move to other nodes.
    Draining,
}

impl NodeState {
    /// In one word.
    pub fn key(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Down => "down",
            Self::Out => "out",
            Self::Draining => "draining",
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
}
